"""Changes claims in JavaScript: reversed, reworded, or failing in their place."""

from __future__ import annotations

from rlm_ci.canary.forms import JUDGES, halves, token
from rlm_ci.canary.javascript import literals
from rlm_ci.canary.javascript.alterations import expression as expression_of
from rlm_ci.canary.javascript.claims import (
    ASSERT,
    BODY,
    CHAI,
    EXPECT,
    INNER,
    OPPOSITE,
    OTHER,
    REQUEST,
    RETURNED,
    SNAPSHOT,
    STATEMENT,
    TAP,
)
from rlm_ci.canary.javascript.syntax import FUNCTIONS, SCOPES
from rlm_ci.canary.splicing import Edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from random import Random

    from rlm_ci.canary.javascript.alterations import AlteredClaim
    from rlm_ci.canary.javascript.claims import JavaScriptClaim
    from rlm_ci.canary.javascript.syntax import JavaScriptSource, SyntaxNode

#: Methods whose expected value can be one that nothing equals.
_EQUAL = {
    EXPECT: frozenset({"toBe", "toEqual", "toStrictEqual"}),
    ASSERT: frozenset({"equal", "strictEqual", "deepEqual", "deepStrictEqual"}),
}
#: Parts of ``switch`` and ``try``, and what runs one of its parts.
_CASES = frozenset(("switch_case", "switch_default", "catch_clause"))
_CHOICES = frozenset(("if_statement", "ternary_expression"))
_CANNOT = "class", "spread_element"


def thrown(word: str) -> str:
    return f'throw new Error("{word}");'


class ClaimForms:
    def __init__(self, source: JavaScriptSource, chance: Random, *, plain: bool) -> None:
        self._source, self._chance, self._plain = source, chance, plain

    def inverted(self, claim: JavaScriptClaim, word: str) -> tuple[Edit, str]:
        """The reversed claim, and what it throws if the claim is true."""
        if claim.kind == REQUEST and (other := literals.altered(self._source, claim, self._chance)):
            return other
        reversed_ = self._negated(claim, word)
        expression = self._source.text(expression_of(claim), reversed_ or ())
        wait = "await " if claim.is_promise and not claim.is_awaited else ""
        if reversed_ is None:
            flag = token(self._chance)
            steps = (f"let {flag} = false; try {{ {wait}{expression}; {flag} = true; }} catch {{}}"
                     f" if ({flag}) {thrown(word)}")  # fmt: skip
        else:
            steps = f"try {{ {wait}{expression}; }} catch {{ {thrown(word)} }}"
        return self._edit(claim, self._placed(claim, steps)), word

    def reached(self, claim: JavaScriptClaim, word: str) -> Edit:
        wait = "await " if claim.is_promise and not claim.is_awaited else ""
        expression = self._source.text(expression_of(claim))
        start, end = halves(word, on_branch=self._is_on_branch(claim.statement))
        failing = thrown(f'{start}" + "{end}')
        return self._edit(claim, self._placed(claim, f"{failing} {wait}{expression};"))

    def _is_on_branch(self, node: SyntaxNode) -> bool:
        """Whether it runs only under a condition, or for an error."""
        for above in node.up():
            if above.kind in _CASES or (above.kind in _CHOICES and node.field != "condition"):
                return True
            if above.kind == "call_expression" and node.field == "arguments":
                links = self._source.chain(above)[1]
                if len(links) > 1 and links[-2].name == "catch":
                    return True
            node = above
        return False

    def altered(self, altered: AlteredClaim, name: str, form: str) -> tuple[Edit, dict[str, str]]:
        """Note in the array ``name`` what is accepted, or judged, and the kinds by their words."""
        claim, kinds, steps = altered.claim, {}, []
        names = {node: token(self._chance) for node in altered.bound}
        for alteration in altered.alterations:
            word = token(self._chance)
            kinds[word] = alteration.kind
            start, end = halves(word, on_branch=False)
            noted = f'(globalThis.{name} ??= []).push("{start}" + "{end}");'
            if form == JUDGES:
                same, other = alteration.judged or ("", "")
                noted = f'{noted} console.log("{start}" + "{end}");'
                if same:
                    steps.append(
                        f"try {{ {same}; try {{ {other}; }} catch {{ {noted} }} }} catch {{}}"
                    )
                continue
            edits = [Edit(node.start, node.end, new) for node, new in names.items()]
            text = self._source.text(expression_of(claim), [*edits, *alteration.edits])
            steps.append(f"try {{ {text}; {noted} }} catch {{}}")
        bound = [f"const {new} = {self._source.text(node)};" for node, new in names.items()]
        ends = " return;" if claim.site == RETURNED else ""
        steps = [*(bound if form != JUDGES else []), *steps]
        # The body of an arrow has to stay an expression.
        placed = claim.replace(site=INNER) if claim.site == BODY else claim
        return self._edit(claim, self._placed(placed, " ".join(steps) + ends)), kinds

    def reworded(self, claim: JavaScriptClaim) -> list[Edit]:
        """The same claim, with names for what it compares and constants in between."""
        if claim.kind == SNAPSHOT:
            return []
        if claim.site == INNER or claim.kind == REQUEST:
            nodes = claim.arguments if claim.kind == REQUEST else claim.arguments[-1:]
            return self._rewritten(nodes) if _takes_value(claim) else []
        edits, parts = [], []
        for node in self._operands(claim) if not self._plain else ():
            name = token(self._chance)
            value = self._source.text(node, self._rewritten((node,)))
            parts += [f"const {name} = {value};", self.constant()]
            edits.append(Edit(node.start, node.end, name))
        expression = self._source.text(expression_of(claim), edits)
        back = "" if claim.site == STATEMENT else "return "
        steps = " ".join([*(parts or [self.constant()]), f"{back}{expression};"])
        return [self._edit(claim, f"{{ {steps} }}")]

    def constant(self) -> str:
        """A statement of no effect."""
        number, name = self._chance.randrange(1, 10**6), token(self._chance)
        ways = (f"void {number};", f'void "{name}";', f"const {name} = {number}; void {name};")
        return self._chance.choice(ways)

    def _rewritten(self, nodes: tuple[SyntaxNode, ...]) -> list[Edit]:
        syntax_nodes = literals.literals(self._source, nodes)
        self._chance.shuffle(syntax_nodes)
        for node in syntax_nodes:
            text = literals.same(self._source, node, self._chance)
            if text is not None:
                return [Edit(node.start, node.end, text)]
        return []

    def _operands(self, claim: JavaScriptClaim) -> list[SyntaxNode]:
        """The operands of a claim that can get names, in the order of evaluation."""
        if claim.kind in (ASSERT, TAP):
            count = 1 if claim.method in ("ok", "true", "false", "truthy", "falsy", "notOk") else 2
            nodes = list(claim.arguments[:count])
        else:
            nodes = list(claim.subject[:1])
            nodes += claim.arguments[:1] if _takes_value(claim) else ()
        syntax_nodes: list[SyntaxNode] = []
        for node in nodes:
            if node.kind in FUNCTIONS or node.kind in _CANNOT:
                break  # the operands after it must stay after it
            syntax_nodes.append(node)
        if len(syntax_nodes) > 1 and self._chance.random() < 1 / 3:
            syntax_nodes.pop()
        return syntax_nodes

    def _negated(self, claim: JavaScriptClaim, word: str) -> list[Edit] | None:
        """The edits that reverse a claim with its own library; None if it has no way."""
        if any(node.kind == "spread_element" for node in (*claim.subject, *claim.arguments)):
            return None
        if (
            claim.kind == EXPECT
            and claim.is_promise
            and not claim.names() & {"resolves", "rejects"}
        ):
            # It may be repeated until it is true: ``not`` would be true at once.
            other = literals.altered(self._source, claim, self._chance)
            return [other[0]] if other else None
        has_not = next((link.node for link in claim.links if link.name == "not"), None)
        softly = [_removed(link.node) for link in claim.links if link.name == "soft"]
        is_random = not self._plain and has_not is None and self._chance.random() < 1 / 3
        if is_random and claim.method in _EQUAL.get(claim.kind, ()):
            return softly + _other_value(claim, word)
        if claim.kind in (EXPECT, CHAI):
            at = next(link.node for link in claim.links if link.name in ("", "should")).end
            if claim.kind == EXPECT:
                at = next(link.node for link in reversed(claim.links) if link.name).parts[0].end
            return [*softly, _removed(has_not) if has_not else Edit(at, at, ".not")]
        if claim.kind in (ASSERT, TAP):
            return _opposed(claim, word)
        return None

    def _placed(self, claim: JavaScriptClaim, steps: str) -> str:
        block, is_open = f"{{ {steps} }}", claim.is_promise and not claim.is_awaited
        if claim.site == STATEMENT or (claim.site in (RETURNED, BODY) and not is_open):
            return block
        if is_open:
            call = f"(async () => {block})()"
            return f"return {call};" if claim.site == RETURNED else call
        return f"(await (async () => {block})())" if claim.is_awaited else f"((() => {block})())"

    def _edit(self, claim: JavaScriptClaim, text: str) -> Edit:
        node = claim.statement
        if claim.site == INNER and _begins_statement(node):
            text = f"0, {text}"  # a bracket would call the value before it
        lost = self._source.text(node).count("\n") - text.count("\n")
        return Edit(node.start, node.end, text + "\n" * lost)


def is_changeable(source: JavaScriptSource, claim: JavaScriptClaim) -> bool:
    """Whether a claim can be reversed in its place."""
    if claim.kind == REQUEST:
        return bool(literals.literals(source, claim.arguments))
    if claim.site == INNER:
        return not any(node.kind == "yield_expression" for node in claim.statement.below(SCOPES))
    return True


def _takes_value(claim: JavaScriptClaim) -> bool:
    """Whether the last call gets the expected value."""
    if not claim.arguments or claim.kind in (OTHER, SNAPSHOT):
        return False
    if claim.kind == CHAI:
        return bool(claim.subject)
    return claim.kind != EXPECT or claim.method in _EQUAL[EXPECT]


def _removed(member: SyntaxNode) -> Edit:
    return Edit(member.parts[0].end, member.end, "")


def _other_value(claim: JavaScriptClaim, word: str) -> list[Edit]:
    at = 1 if claim.kind == ASSERT else 0
    return [
        Edit(node.start, node.end, f'Symbol("{word}")') for node in claim.arguments[at : at + 1]
    ]


def _opposed(claim: JavaScriptClaim, word: str) -> list[Edit] | None:
    if not claim.arguments:
        return None
    first, last = claim.arguments[0], claim.arguments[-1]
    if claim.kind == ASSERT and claim.method == "ok":
        return [Edit(first.start, first.start, "!("), Edit(first.end, first.end, ")")]
    called = next(
        (link.node.part("property") for link in claim.links if link.name == claim.method), None
    )
    if called is None:  # imported by its name: its opposite may not be
        if claim.method in _EQUAL[ASSERT]:
            return _other_value(claim, word) or None
        return None
    edits = [Edit(called.start, called.end, OPPOSITE[claim.kind][claim.method])]
    if claim.method in ("throws", "rejects", "throwsAsync"):
        edits.append(Edit(first.end, last.end, ""))
    return edits


def _begins_statement(node: SyntaxNode) -> bool:
    return any(
        syntax_node.kind == "expression_statement" and syntax_node.start == node.start
        for syntax_node in node.up()
    )
