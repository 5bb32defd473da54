"""Write ``rlm_ci/redaction/published_tokens.py`` from the rules of gitleaks.

    python docs/refresh_secret_forms.py PATH/TO/gitleaks.toml COMMIT

What is taken are facts: how a token begins, which characters follow, and how many at least. A
rule whose tokens have no beginning of their own is left out: it needs a word such as ``adafruit``
nearby, and is wrong too often where a match is taken away instead of shown to a person.
"""

from __future__ import annotations

import re
import string
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]  # no parser is public
from typing import Any

from rlm_ci.redaction.token_forms import OWN_FORMS

TARGET = Path(__file__).parent.parent / "rlm_ci" / "redaction" / "published_tokens.py"
#: Go's syntax that Python lacks. Case is dropped: all letters are taken where one case was.
_GO = (("[[:alnum:]]", "[A-Za-z0-9]"), (r"\z", r"\Z"), (r"\x60", "`"))
_FLAGS = re.compile(r"\(\?-?i\)|(?<=\(\?)-?[is](?=:)")
#: "A word, then an assignment, then": what stands before the token in rules that need a word.
_ASSIGNED = r"""[\x60'"\s=]{0,5}"""
_TOKEN_CHARACTERS = frozenset(string.ascii_letters + string.digits + "+/=_.~%-:|")
#: A shorter beginning, or one of letters and digits alone with little behind it, is in any text.
_SHORTEST, _LETTERS_ONLY, _MUCH = 3, 5, 30
#: No more than so many beginnings are made of one rule.
_MOST = 64

HEADER = '''\
"""How published tokens begin, which characters follow, and how many at least.

Written by docs/refresh_secret_forms.py on {date} from the rules of gitleaks,
https://github.com/gitleaks/gitleaks, config/gitleaks.toml
at commit {commit},
Copyright (c) 2019 Zachary Rice, MIT licence. Do not edit.
"""

from __future__ import annotations

#: Of {count} rules those whose tokens have a beginning of their own, but for ``OWN_FORMS``.
FORMS = (
'''

Form = tuple[str, frozenset[str], int]


def main(argv: list[str]) -> int:
    if len(argv) != 2:
        print("usage: python docs/refresh_secret_forms.py gitleaks.toml COMMIT", file=sys.stderr)
        return 2
    rules = tomllib.loads(Path(argv[0]).read_text("utf-8"))["rules"]
    header = HEADER.format(date=datetime.now(UTC).date(), commit=argv[1], count=len(rules))
    own = {beginning for beginning, _, _ in OWN_FORMS}
    rows = [
        f'    ("{beginning}", r"{_class(alphabet)}", {least}),\n'
        for beginning, (alphabet, least) in sorted(table(rules).items())
        if beginning not in own
    ]
    TARGET.write_text(header + "".join(rows) + ")\n", "utf-8")
    print(f"{len(rows)} beginnings of {len(rules)} rules")
    return 0


def table(rules: list[dict[str, Any]]) -> dict[str, tuple[frozenset[str], int]]:
    """What follows each beginning: all characters, and the least number, of its rules."""
    found: dict[str, tuple[frozenset[str], int]] = {}
    for rule in rules:
        if "regex" not in rule or "pub" in rule["id"]:
            continue
        for beginning, alphabet, least in forms(rule["regex"]):
            others, fewest = found.get(beginning, (alphabet, least))
            found[beginning] = (others | alphabet, min(fewest, least))
    # https://hooks.example/ says no more than hooks.example/
    return {
        one: rest
        for one, rest in found.items()
        if not any(one != other and one.endswith("/" + other) for other in found)
    }


def forms(expression: str) -> list[Form]:
    """What the tokens that ``expression`` finds look like; none if they have no beginning."""
    token = expression.rpartition(_ASSIGNED)[2]
    is_caseless = "(?i" in expression
    for go, python in _GO:
        token = token.replace(go, python)
    parsed = _parser.parse(_FLAGS.sub("", token).replace("()", ""))
    made = _walk([("", frozenset(), 0)], list(parsed))
    result = []
    for beginning, alphabet, least in made:
        letters = {other for one in alphabet for other in (one.lower(), one.upper())}
        wide = frozenset(letters) if is_caseless else alphabet
        if _is_telling(beginning, wide, least):
            result.append((beginning, wide, least))
    return result


def _is_telling(beginning: str, alphabet: frozenset[str], least: int) -> bool:
    if len(beginning) < _SHORTEST or not alphabet <= _TOKEN_CHARACTERS or not alphabet:
        return False
    if set(beginning) <= set(string.hexdigits):  # so does many a hash begin
        return False
    is_word = beginning.isalnum() and len(alphabet) > len(string.hexdigits)
    return not (is_word and len(beginning) < _LETTERS_ONLY and least < _MUCH)


def _walk(made: list[Form], items: list[Any]) -> list[Form]:
    """Each of ``made`` continued by ``items`` of a parsed expression."""
    for code, argument in items:
        if code in (_constants.AT, _constants.ASSERT, _constants.ASSERT_NOT):
            continue
        if code is _constants.SUBPATTERN:
            inner = list(argument[3])
            if _is_end(inner):
                continue
            made = _walk(made, inner)
        elif code is _constants.BRANCH:
            made = [one for branch in argument[1] for one in _walk(made, list(branch))]
        elif code in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            made = _repeated(made, *argument)
        else:
            characters = _characters(code, argument)
            made = [one for form in made for one in _joined(form, characters)]
        if len(made) > _MOST:
            return []
    return made


def _is_end(items: list[Any]) -> bool:
    """Whether it is what gitleaks wants behind a token: a quote, white space, or the end."""
    return len(items) == 1 and items[0][0] is _constants.BRANCH and "AT_END" in str(items)


def _repeated(made: list[Form], least: int, most: int, items: Any) -> list[Form]:
    inner = list(items)
    if (least, most) == (0, 1):
        return made + _walk(made, inner)
    [(_, alphabet, each)] = _walk([("", frozenset("\0"), 0)], inner)[:1] or [("", frozenset(), 0)]
    alphabet -= {"\0"}
    return [(begun, known | alphabet, count + each * least) for begun, known, count in made]


def _joined(form: Form, characters: frozenset[str]) -> list[Form]:
    """A beginning goes on while there are few ways to; from then on characters are counted."""
    beginning, alphabet, least = form
    if not alphabet and 0 < len(characters) <= 4:
        return [(beginning + one, alphabet, least) for one in sorted(characters)]
    return [(beginning, alphabet | characters, least + 1)]


def _characters(code: Any, argument: Any) -> frozenset[str]:
    """The characters that one item of a parsed expression stands for; NUL for many others."""
    if code is _constants.ANY:  # that of a host name, not escaped
        return frozenset(".")
    if code is _constants.LITERAL:
        return frozenset(chr(argument))
    if code is _constants.RANGE:
        return frozenset(map(chr, range(argument[0], argument[1] + 1)))
    if code is _constants.CATEGORY and argument is _constants.CATEGORY_DIGIT:
        return frozenset(string.digits)
    if code is _constants.CATEGORY and argument is _constants.CATEGORY_WORD:
        return frozenset(string.ascii_letters + string.digits + "_")
    if code is _constants.IN and argument[0][0] is not _constants.NEGATE:
        return frozenset().union(*(_characters(*one) for one in argument))
    return frozenset("\0")


def _class(alphabet: frozenset[str]) -> str:
    """``alphabet`` as what stands between the brackets of an expression."""
    ranges = (string.ascii_uppercase, string.ascii_lowercase, string.digits)
    text = "".join(f"{one[0]}-{one[-1]}" for one in ranges if alphabet.issuperset(one))
    covered = {one for group in ranges if alphabet.issuperset(group) for one in group}
    return text + "".join(map(re.escape, sorted(alphabet - covered)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
