"""Deep review: analyzers in every leaf, then a model if there is one; every place is opened.

At the root, what a model claims is shown by something that runs, or is at most medium. The results
depend on ``options``, the texts, the model and what ran alone.
"""

from __future__ import annotations

from collections import Counter

from rlm_ci import __version__
from rlm_ci.errors import ConfigError
from rlm_ci.recursion.nodes import COMPLETED, PARTIAL, PROMPT, NodeResult, TracedFinding
from rlm_ci.report import suppressions, wording
from rlm_ci.report.findings import OLD, Evidence, Finding
from rlm_ci.review.analyzers import from_repository
from rlm_ci.review.analyzers import run as analyzers
from rlm_ci.review.analyzers.programs import Analyzer, configured, configured_ruff
from rlm_ci.review.analyzers.ruff import selected_rules
from rlm_ci.review.analyzers.ruff_settings import within
from rlm_ci.review.change import base_comparison
from rlm_ci.review.change.base_comparison import marked, with_definition
from rlm_ci.review.change.carry_over import CarriedReview
from rlm_ci.review.change.doubts import AUTO, Doubts, doubts, shown
from rlm_ci.review.exploration.explorer import QUICK, NodeQuestions
from rlm_ci.review.guidelines import Guidelines
from rlm_ci.review.model import metered
from rlm_ci.review.model.architecture import DOMAIN as ARCHITECTURE
from rlm_ci.review.model.architecture import draw
from rlm_ci.review.model.describe import WORDS, describe
from rlm_ci.review.model.finder import Finder, FinderResult, accepted_bytes, dropped
from rlm_ci.review.model.metered import MeteredAsk
from rlm_ci.review.model.prove import ProvedClaims, Prover
from rlm_ci.review.results import merge
from rlm_ci.text.printable import clip, count, encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafTask, Node
    from rlm_ci.review.analyzers.from_repository import AnalyzerContext
    from rlm_ci.review.change.base_comparison import Ranges
    from rlm_ci.review.change_prompts.listing import ChangePrompts
    from rlm_ci.review.exploration.explorer import Explorer

    Found = tuple[TracedFinding, ...]

NAME = "review"
DOMAINS = ("security", "quality", "performance", "docs", ARCHITECTURE)
#: Raise it when the same texts give other results.
_VERSION = 4
#: How sure we are that a leaf holds no other faults: of files that no analyzer knows, of those
#: that one does, and of those that a model has read.
_UNREAD, _ANALYZED, _READ = 0.3, 0.6, 0.9
#: Changed lines from which all findings together may say something of the architecture.
_ARCHITECTURE = 2_000
#: Notes that a node keeps of its children's, and characters of a claim in one.
_NOTES, _MESSAGE = 200, 300
#: Bytes that say how many accepted faults are not shown.
_REST = 40


def options(
    *,
    domains: Sequence[str] = DOMAINS,
    analyzers: Sequence[Mapping[str, Any]] = (),
    ruff: str = "auto",
    sandbox: str = "auto",
    extend: Sequence[str] = (),
    refute_level: str = "high",
    repair_level: str = "high",
    changed: Ranges | None = None,
    depth: str = QUICK,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """All that a review depends on besides texts and model, as JSON.

    ``analyzers`` are the rows of the settings, whose programs run in ``sandbox``; ``ruff`` is auto,
    on or off, and ``extend`` names more of its rules. Raises ConfigError for a row that cannot
    work, UnavailableError where ruff is on and not installed.
    """
    unknown = sorted(set(domains) - set(DOMAINS))
    if unknown or not domains:
        raise ConfigError(
            f"unknown domain {unknown[0][:80]!r}" if unknown else "no domain is named",
            where="review.domains",
            hint=f"known are {', '.join(DOMAINS)}",
        )
    rows = [configured(row, number, sandbox) for number, row in enumerate(analyzers, 1)]
    analyzer = None if ruff == "off" else configured_ruff(ruff, extend)
    if analyzer is not None:
        rows.insert(0, analyzer.replace(sandbox=sandbox))
    names = [row.name for row in rows]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"two analyzers have the name {twice[:80]!r}",
            where="review.analyzers",
            hint='name each differently; the built-in ruff is off by review.ruff = "off"',
        )
    return {
        "version": _VERSION,
        "domains": [domain for domain in DOMAINS if domain in domains],
        "analyzers": [row.to_dict() for row in rows],
        "extend": [] if analyzer is None else list(selected_rules(extend, analyzer.rules)),
        "refute_level": refute_level,
        "repair_level": repair_level,
        "depth": depth,
        "notes": list(notes),
        "changed": None
        if changed is None
        else {path: [list(span) for span in changed[path]] for path in sorted(changed)},
    }


def with_own(chosen: Mapping[str, Any], context: AnalyzerContext) -> dict[str, Any]:
    """The options with the repository's own analyzers; those that need a tree run now."""
    rows, notes = from_repository.rows(context)
    added = [row.to_dict() for row in rows]
    return {
        **chosen,
        "analyzers": [*chosen["analyzers"], *added],
        "notes": [*chosen["notes"], *notes],
    }


def with_base(chosen: Mapping[str, Any], change: ChangeSet, limit: int) -> dict[str, Any]:
    """The options with what the analyzers find at the base of ``change``.

    Files of more than ``limit`` bytes are left out. Raises StorageError.
    """
    analyzers = [Analyzer.from_dict(row) for row in chosen["analyzers"]]
    base = base_comparison.at_base(change, analyzers, chosen["domains"], limit)
    return {**chosen, "base": base}


def confined(chosen: Mapping[str, Any], sandbox: str) -> dict[str, Any]:
    """The options with all programs in ``sandbox``: a stored run must not choose another."""
    return {**chosen, "analyzers": [{**row, "sandbox": sandbox} for row in chosen["analyzers"]]}


def without_disk(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The options for a review that writes no file of the change: only ruff, from a pipe.

    The other analyzers are ``left_out``.
    """
    rows = chosen["analyzers"]
    return {
        **chosen,
        "analyzers": [row for row in rows if row["rules"]],
        "left_out": [row for row in rows if not row["rules"]],
        "by_pipe": True,
    }


def asked_for(chosen: Mapping[str, Any], model: str | None) -> str:
    """A hash over the model and what it is asked to look for."""
    import json
    from hashlib import sha256

    names = ("version", "domains", "refute_level", "guidelines", "depth")
    terms = [__version__, model, *(chosen.get(name) for name in names)]
    return sha256(json.dumps(terms).encode()).hexdigest()[:32]


def analyse(task: LeafTask) -> dict[str, Any]:
    """What the analyzers find in a leaf: plain computing, in any process."""
    if task.node.scope.kind == PROMPT:  # other leaves have these files
        return {"findings": [], "counts": (0, 0, 0, 0), "failed": [], "seen": [], "notes": []}
    chosen = [Analyzer.from_dict(row) for row in task.options["analyzers"]]
    by_pipe = bool(task.options.get("by_pipe"))
    done = analyzers.analyse(task, chosen, task.options["domains"], by_pipe=by_pipe)
    settings, named_rules = task.options.get("settings", ()), task.options.get("extend", ())
    sandbox = next((analyzer.sandbox for analyzer in chosen if analyzer.rules), "auto")
    findings, notes = within(
        done.findings, task.texts, settings, named_rules, sandbox=sandbox, by_pipe=by_pipe
    )
    if base := task.options.get("base"):
        findings = base_comparison.compared(findings, task.texts, task.options["changed"], base)
    return {
        "findings": [finding.to_dict() for finding in findings],
        "counts": [*done.counts.to_dict().values()],
        "failed": [list(failure) for failure in done.failed],
        "seen": sorted(done.seen),
        "notes": [*done.notes, *notes],
    }


class ReviewObjective:
    """The objective; ``options`` are what the function of that name gives.

    A model reads a change by ``prompts``, and a repository by its leaves. ``prover`` decides at the
    root what its claims rest on.
    """

    name = NAME
    domain = None
    analyse = staticmethod(analyse)

    def __init__(
        self,
        options: Mapping[str, Any],
        explorer: Explorer | None = None,
        prompts: ChangePrompts | None = None,
        prover: Prover | None = None,
    ) -> None:
        """With ``explorer``, the model may look around before it answers."""
        self.options = options
        self._explorer = explorer
        self._prompts = {prompt.label: prompt for prompt in prompts.prompts} if prompts else {}
        #: What is in no prompt.
        self._missing = prompts.missing if prompts else ()
        self._too_many = prompts.unread if prompts else ()
        self._digest = prompts.digest if prompts else None
        self._prover = prover or Prover()
        self._changed: Ranges | None = options["changed"]
        self._analyzers = [Analyzer.from_dict(row) for row in options["analyzers"]]
        self._guidelines = Guidelines(options.get("guidelines", ()))
        onward = options.get("onward")
        #: The results of an earlier review of the same change, if any.
        self._onward = None if onward is None else CarriedReview.from_dict(onward)
        paths = None if self._onward is None else self._onward.unread_files
        #: The files that a model has yet to read; None for all.
        self._unread = None if paths is None else frozenset(paths)

    # ── leaves ──

    def judge(
        self, node: Node, task: LeafTask, analysis: Mapping[str, Any], ask: Ask | None
    ) -> NodeResult:
        findings = [Finding.from_dict(record) for record in analysis["findings"]]
        if self._changed is None:
            findings = merge.gathered(findings)
        questions = NodeQuestions(self._explorer, node.id)
        way = None if ask is None else MeteredAsk(ask)
        looked = self._look(node, task, way, questions)
        contents = {leaf_text.path: leaf_text.complete for leaf_text in reversed(task.texts)}
        claims = tuple(
            with_definition(finding.finding, contents.get(finding.finding.evidence[0].path, b""))
            for finding in merge.merge(_traced(looked.findings, node))
        )
        carried, checked, mended = self._carried(node, ask, claims)
        both = (marked(finding, self._changed) for finding in (*findings, *claims, *carried))
        spent = {} if way is None else way.spent()
        merged, proved = self._settled(node, merge.apart(_traced(both, node)), ask, spent)
        failed = [
            (path, f"the analyzer {name} gave nothing: {why}")
            for name, path, why in analysis["failed"]
        ]
        missing = self._missing if node.parent is None else ()
        uncovered = tuple(dict.fromkeys((*failed, *missing, *looked.uncovered, *proved.uncovered)))
        seen = frozenset(analysis["seen"])
        lacking = frozenset(path for path, _ in uncovered)
        is_whole = self._changed is None
        # Where no prompt is left, an earlier review has read all.
        is_read = ask is not None and (is_whole or bool(self._prompts) or self._unread is not None)
        is_prompt = node.scope.kind == PROMPT  # other leaves have its files
        # A sliced file counts once.
        files = [
            leaf_text for leaf_text in task.texts if leaf_text.line_start == 1 and not is_prompt
        ]
        paths = {file.path for file in files}
        # What prompts show is looked at if they are read, which the root knows.
        covered = paths if is_read and is_whole else seen - (self._shown() if is_read else set())
        unknown = sorted(paths - covered) if is_read else []
        metrics = {
            "files": len(files),
            "looked": sum(file.path in covered - lacking for file in files)
            + (self._read(unknown, lacking) if node.parent is None else 0),
            "bytes": 0 if is_prompt else sum(len(text.content) for text in task.texts),
            "claims": len(looked.findings),
            "merged": len(findings) + len(claims) + len(carried) - len(merged),
            **questions.metrics,
            **looked.dropped,
            **_sum(spent, proved.metrics),
        }
        return NodeResult(
            node.id,
            PARTIAL if uncovered else COMPLETED,
            _summary(merged, metrics),
            _confidence(task, seen, is_read=is_read),
            merged,
            notes=(*map(_mended, mended), *self._notes(node), *analysis["notes"], *questions.notes),
            uncovered=uncovered,
            counts=Evidence(*analysis["counts"]) + looked.counts + checked,
            metrics=metrics,
            data={
                **self._proof_record(proved, mended),
                "unchecked": self._unchecked(node, looked.unchecked),
                # Files that an analyzer reads without knowing them by their names.
                "scripts": sorted(seen - analyzers.paths_looked_at(self._analyzers, sorted(seen))),
                "unknown": unknown,
                **({} if self._prompts or node.parent else self._described(ask, Counter())),
            },
        )

    def _look(
        self, node: Node, task: LeafTask, ask: Ask | None, questions: NodeQuestions
    ) -> FinderResult:
        """What a model finds in a leaf of a repository, or by a prompt of a change."""
        domains = self._domains_of(node)
        if ask is None or not domains:
            return FinderResult()
        names = [analyzer.name for analyzer in self._analyzers]
        description = shown(self.options.get("description"), accepted_bytes(ask.repair))
        finder = Finder(ask, domains, names, self._guidelines, questions, description=description)
        if self._changed is None:
            return finder.look(task.texts) if task.texts else FinderResult()
        if node.scope.kind != PROMPT:
            return FinderResult()
        prompt = self._prompts[node.scope.path]
        accepted = self._accepted(prompt.paths, accepted_bytes(ask.repair))
        return finder.look_at_change(prompt, task.texts, accepted)

    def _accepted(self, paths: Sequence[str], room: int) -> str:
        """What the maintainers have accepted or settled in the files of a prompt: a line each."""
        accepted = self.options.get("accepted") or {}
        lines = suppressions.lines_about(
            accepted.get("entries", ()), f"{NAME}/", paths, accepted.get("day")
        )
        for claim in () if self._onward is None else self._onward.claims:
            finding, location = claim.finding, claim.finding.evidence[0]
            if location.path in paths and (why := self._prover.accepted(finding)):
                where = f"{encodable(location.path)}:{location.line_start}"
                lines.append(f"{where}: {' '.join(finding.message.split())[:_MESSAGE]} ({why})")
        shown: list[str] = []
        room -= _REST
        for number, line in enumerate(map(printable, lines)):
            room -= len(line.encode()) + 1
            if room < 0:
                shown.append(f"and {len(lines) - number} more")
                break
            shown.append(line)
        return "\n".join(shown)

    def _is_unread(self, path: str) -> bool:
        return self._unread is None or path in self._unread

    def _carried(
        self, node: Node, ask: Ask | None, new: Sequence[Finding]
    ) -> tuple[tuple[Finding, ...], Evidence, tuple[Finding, ...]]:
        """At the root, the earlier claims that still stand, and those that are mended.

        A claim is mended if its own reproduction passes now. Those of ``new`` that are about the
        same lines are decided for themselves: the model has read the file again.
        """
        if self._onward is None or ask is None or node.parent is not None:
            return (), Evidence(), ()
        standing, mended = [], []
        for claim in self._onward.claims:
            # On the same commit it is no fix that makes a reproduction pass.
            if self._onward.is_same or not self._prover.has_passed(claim):
                standing.append(claim.finding)
            elif not any(merge.are_near(claim.finding, other) for other in new):
                mended.append(claim.finding)
        return tuple(standing), self._onward.counts, tuple(mended)

    def _settled(
        self, node: Node, findings: Found, ask: Ask | None, spent: Mapping[str, float]
    ) -> tuple[Found, ProvedClaims]:
        """At the root, decide what the claims rest on; ``spent`` are the calls so far."""
        if node.parent is not None:
            return findings, ProvedClaims()
        limit = metered.limit_of(self._changed, spent)
        earlier = () if self._onward is None else self._onward.claims
        return self._prover.settle(findings, ask, limit, spent, earlier)

    def _proof_record(self, proved: ProvedClaims, mended: Sequence[Finding]) -> dict[str, Any]:
        """What the proofs hold, and the claims where a later review may need them."""
        data = proved.data()
        if self._too_many:
            data["unread"] = list(self._too_many)
        if self._onward is not None:
            data["claims"] = [claim.to_dict() for claim in proved.claims]
            data["mended"] = [wording.position(finding.evidence[0]) for finding in mended]
        return data

    def _unchecked(self, node: Node, paths: Iterable[str]) -> list[str]:
        """A file for each claim that could not be checked; at the root, earlier ones, too."""
        earlier = self._onward.unchecked if self._onward and node.parent is None else ()
        return [*map(encodable, paths), *earlier]

    def _notes(self, node: Node) -> Sequence[str]:
        """At the root, the notes on the repository's own analyzers."""
        return self.options.get("notes", ()) if node.parent is None else ()

    def _domains_of(self, node: Node) -> list[str]:
        """The domains that a model looks for in a leaf: architecture only in the whole."""
        is_whole = node.parent is None or (node.scope.kind == PROMPT and len(self._prompts) == 1)
        return [option for option in self.options["domains"] if option != ARCHITECTURE or is_whole]

    def _shown(self) -> set[str]:
        """The files for which prompts answer."""
        return {path for prompt in self._prompts.values() for path in prompt.paths}

    def _read(self, unknown: Iterable[str], uncovered: Iterable[str]) -> int:
        """How many of some files were in prompts that were read, now or in an earlier review."""
        shown = self._shown()
        lost = {path for path, _ in self._missing}.union(uncovered, self._too_many)
        return sum(path in shown or not self._is_unread(path) for path in set(unknown) - lost)

    # ── nodes that were split ──

    def aggregate(self, node: Node, children: Sequence[NodeResult], ask: Ask | None) -> NodeResult:
        findings = merge.apart(finding for child in children for finding in child.findings)
        metrics: Counter[str] = Counter()
        for child in children:
            metrics.update(child.metrics)
        new = [finding.finding for finding in merge.claims_of(findings)]
        carried, checked, mended = self._carried(node, ask, new)
        counts = sum((child.counts for child in children), checked)
        below = (note for child in children for note in child.notes)
        notes = (*map(_mended, mended), *self._notes(node), *dict.fromkeys(below))
        if carried:
            before = _traced((marked(finding, self._changed) for finding in carried), node)
            findings = merge.apart((*findings, *before))
        findings, proved = self._settled(node, findings, ask, metrics)
        uncovered = proved.uncovered
        metrics.update(proved.metrics)
        is_root = node.parent is None
        words = self._described(ask, metrics) if is_root else {}
        doubted = self._doubted(ask, metrics) if is_root else Doubts()
        if doubted.findings:
            found = _traced(doubted.findings, node)
            findings = merge.merge((*findings, *self._prover.prove(None, found).findings))
        counts += doubted.counts
        notes = (*notes, doubted.note) if doubted.note else notes
        if ask is not None and is_root and self._is_large():
            unread = [
                finding for finding in findings if self._is_unread(finding.finding.evidence[0].path)
            ]
            drawn = draw(ask, unread)
            argued = self._prover.prove(None, drawn.findings)
            metrics.update(argued.metrics)
            findings = merge.merge((*findings, *argued.findings))
            proved = proved.replace(claims=(*proved.claims, *argued.claims))
            counts += drawn.counts
            notes = (*notes, *drawn.notes)
            uncovered += ((".", drawn.uncovered),) if drawn.uncovered else ()
        if len(notes) > _NOTES:
            notes = (*notes[:_NOTES], f"and {len(notes) - _NOTES:,} more notes")
        if is_root:
            lost = (path for child in children for path, _ in child.uncovered)
            metrics["looked"] += self._read(_below(children, "unknown"), lost)
            uncovered = (*uncovered, *self._missing)
        return NodeResult(
            node.id,
            COMPLETED,
            _summary(findings, metrics),
            # The solver takes what its children come to, if that is less.
            1.0 if ask is None or not is_root or self._changed is None else _sureness(metrics),
            findings,
            notes=notes,
            uncovered=uncovered,
            counts=counts,
            metrics=metrics,
            data={
                **self._proof_record(proved, mended),
                "unchecked": self._unchecked(
                    node, (path for result in children for path in result.data.get("unchecked", ()))
                ),
                "scripts": _below(children, "scripts"),
                "unknown": [] if is_root else _below(children, "unknown"),
                **words,
            },
        )

    def _is_large(self) -> bool:
        """Whether architecture is a question of its own: one prompt has asked for it already."""
        if ARCHITECTURE not in self.options["domains"] or len(self._prompts) == 1:
            return False
        return self._changed is None or metered.lines_of(self._changed) >= _ARCHITECTURE

    def _described(self, ask: Ask | None, spent: Counter[str]) -> dict[str, Any]:
        """What the model says that a change does, within the limit; its call is added.

        After a push it says only what an earlier review has not said already.
        """
        carried = self._onward.words if self._onward is not None else None
        is_off = self.options.get("describe") != "auto"
        if is_off or self._digest is None or not (self._prompts or carried):
            return {}
        limit = metered.limit_of(self._changed, spent)
        way = None if ask is None else MeteredAsk(ask, spent, limit)
        words = describe(way, self._digest, carried, may_ask=bool(self._prompts))
        spent.update({name: int(number) for name, number in way.spent().items()} if way else {})
        return {WORDS: words.to_dict()}

    def _doubted(self, ask: Ask | None, spent: Counter[str]) -> Doubts:
        """What the change contradicts of its description, if that is asked; its call is added."""
        terms = self.options.get("description") or {}
        if terms.get("question") != AUTO or self._digest is None or not self._prompts:
            return Doubts()
        if ask is None:
            return Doubts(note="the model was not asked about the description")
        way = MeteredAsk(ask, spent, metered.limit_of(self._changed, spent))
        doubted = doubts(way, self._digest, terms)
        spent.update({name: int(number) for name, number in way.spent().items()})
        return doubted


def _below(children: Sequence[NodeResult], name: str) -> list[str]:
    """The paths that the data of children have under a name."""
    return sorted({path for child in children for path in child.data.get(name, ())})


def _sum(*numbers: Mapping[str, float]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for some in numbers:
        total.update(some)
    return dict(total)


def _traced(findings: Iterable[Finding], node: Node) -> list[TracedFinding]:
    return [TracedFinding(finding, (node.id,)) for finding in findings]


def _mended(claim: Finding) -> str:
    where, message = wording.position(claim.evidence[0]), clip(claim.message, _MESSAGE)
    return printable(f"{where}: mended, its own reproduction passes now: {message}")


def _confidence(task: LeafTask, container: Container[str], *, is_read: bool) -> float:
    """How sure we are that a leaf holds nothing else: the mean over its bytes."""
    total = weighted = 0.0
    for text in task.texts:
        size = len(text.content) + 1
        certainty = _READ if is_read else _ANALYZED if text.path in container else _UNREAD
        total += size
        weighted += size * certainty
    return round(weighted / total, 4) if total else 1.0


def _sureness(metrics: Mapping[str, float]) -> float:
    """How sure we are at most: files that no model has read count half."""
    return _READ * (1 + metrics["looked"] / metrics["files"]) / 2 if metrics["files"] else 1.0


def _summary(findings: Sequence[TracedFinding], metrics: Mapping[str, float]) -> str:
    files, looked = (int(metrics.get(name, 0)) for name in ("files", "looked"))
    open_ones = [finding.finding for finding in findings if finding.finding.suppression is None]
    old = sum(finding.finding.suppression in OLD for finding in findings)
    share = f"{looked:,} of " if looked < files else ""
    text = count(len(open_ones), "finding")
    if files:  # a prompt of a change has none of its own
        text += f" in {share}{count(files, 'file')}"
    worst = max((finding.severity for finding in open_ones), default=None)
    text += f", most severe: {worst.label}" if worst is not None else ""
    text += f"; {old:,} not of this change" if old else ""
    return "; ".join((text, *dropped(metrics)))
