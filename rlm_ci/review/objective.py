"""Deep review: analyzers in every leaf, then a model if there is one; every place is opened.

The results depend on ``options``, the texts and the model alone.
"""

from __future__ import annotations

from collections import Counter

from rlm_ci import __version__
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.recursion.nodes import COMPLETED, PARTIAL, NodeResult, TracedFinding
from rlm_ci.report.findings import OLD, Evidence, Finding, Severity
from rlm_ci.review.analyzers import from_repository, programs
from rlm_ci.review.analyzers import run as analyzers
from rlm_ci.review.analyzers.programs import Analyzer
from rlm_ci.review.analyzers.ruff import named
from rlm_ci.review.analyzers.ruff_settings import within
from rlm_ci.review.change import base_comparison
from rlm_ci.review.change.carry_over import CarriedReview
from rlm_ci.review.change.changed_lines import marked
from rlm_ci.review.model import refute
from rlm_ci.review.model.architecture import DOMAIN as ARCHITECTURE
from rlm_ci.review.model.architecture import draw
from rlm_ci.review.model.finder import FinderResult, look
from rlm_ci.review.results import merge
from rlm_ci.system import installation
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafTask, Node
    from rlm_ci.review.analyzers.from_repository import AnalyzerContext
    from rlm_ci.review.change.changed_lines import Ranges

NAME = "review"
DOMAINS = ("security", "quality", "performance", "docs", ARCHITECTURE)
#: Raise it when the same texts give other results.
_VERSION = 2
#: How sure we are that a leaf holds no other faults: of files that no analyzer knows, of those
#: that one does, and of those that a model has read.
_UNREAD, _ANALYZED, _READ = 0.3, 0.6, 0.9
#: Notes that a node keeps of its children's.
_NOTES = 200


def options(
    *,
    domains: Sequence[str] = DOMAINS,
    analyzers: Sequence[Mapping[str, Any]] = (),
    ruff: str = "auto",
    sandbox: str = "auto",
    extend: Sequence[str] = (),
    refute_level: str = "high",
    changed: Ranges | None = None,
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
    rows = [_configured(row, number, sandbox) for number, row in enumerate(analyzers, 1)]
    builtin = None if ruff == "off" else _builtin(ruff, extend)
    if builtin is not None:
        rows.insert(0, builtin)
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
        "domains": [one for one in DOMAINS if one in domains],
        "analyzers": [row.to_dict() for row in rows],
        "extend": [] if builtin is None else list(named(extend, builtin.rules)),
        "refute_level": refute_level,
        "changed": None
        if changed is None
        else {path: [list(one) for one in changed[path]] for path in sorted(changed)},
    }


def with_own(chosen: Mapping[str, Any], place: AnalyzerContext) -> dict[str, Any]:
    """The options with the repository's own analyzers; those that need a tree run now."""
    rows, notes = from_repository.rows(place)
    added = [row.to_dict() for row in rows]
    return {**chosen, "analyzers": [*chosen["analyzers"], *added], "notes": notes}


def with_base(chosen: Mapping[str, Any], change: ChangeSet, most: int) -> dict[str, Any]:
    """The options with what the analyzers find at the base of ``change``.

    Files of more than ``most`` bytes are left out. Raises StorageError.
    """
    analyzers = [Analyzer.from_dict(row) for row in chosen["analyzers"]]
    found = base_comparison.at_base(change, analyzers, chosen["domains"], most)
    return {**chosen, "base": found}


def confined(chosen: Mapping[str, Any], sandbox: str) -> dict[str, Any]:
    """The options with all programs in ``sandbox``: a stored run must not choose another."""
    rows = [row if row["rules"] else {**row, "sandbox": sandbox} for row in chosen["analyzers"]]
    return {**chosen, "analyzers": rows}


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

    asked = [__version__, chosen["version"], model, chosen["domains"], chosen["refute_level"]]
    return sha256(json.dumps(asked).encode()).hexdigest()[:32]


def _builtin(ruff: str, extend: Sequence[str]) -> Analyzer | None:
    try:
        found = programs.builtin(extend)
    except ValueError as error:
        raise ConfigError(
            f"no rule of the ruff that is installed is called {str(error)[:80]!r}",
            where="review.ruff.extend",
            hint="write codes as ruff does: D103, or D for all that begin with it",
        ) from None
    if found is None and ruff == "on":
        raise UnavailableError(
            "ruff is not installed",
            where="review.ruff",
            hint=f'{installation.command("review")}; or let it be: review.ruff = "auto"',
        )
    return found


def _configured(row: Mapping[str, Any], number: int, sandbox: str) -> Analyzer:
    place = f"[[review.analyzers]] number {number}"
    name, command = row["name"], tuple(row.get("command") or ())
    plain = name.replace("-", "").replace("_", "")
    if not (plain.isascii() and plain.isalnum() and name == name.casefold() and len(name) <= 40):
        raise ConfigError(
            f"an analyzer cannot be called {name[:80]!r}",
            where=place,
            hint="use small letters, digits and hyphens",
        )
    if not command or not all(isinstance(word, str) and word for word in command):
        raise ConfigError(
            f"the analyzer {name} has no command",
            where=place,
            hint='say what to run: command = ["tool", "--format", "sarif", "{files}"]',
        )
    if not any(word == "{files}" or "{folder}" in word for word in command):
        raise ConfigError(
            f"the command of the analyzer {name} names no files",
            where=place,
            hint="put {files}, as a word of its own, or {folder} where it takes them",
        )
    return Analyzer(
        name,
        command,
        tuple(row.get("files") or ()),
        row.get("domain") or "quality",
        row.get("max_severity") or "high",
        network=bool(row.get("network")),
        sandbox=sandbox,
    )


def analyse(task: LeafTask) -> dict[str, Any]:
    """What the analyzers find in a leaf: plain computing, in any process."""
    chosen = [Analyzer.from_dict(row) for row in task.options["analyzers"]]
    by_pipe = bool(task.options.get("by_pipe"))
    done = analyzers.analyse(task, chosen, task.options["domains"], by_pipe=by_pipe)
    settings, named_rules = task.options.get("settings", ()), task.options.get("extend", ())
    found, notes = within(done.findings, task.texts, settings, named_rules, by_pipe=by_pipe)
    if base := task.options.get("base"):
        found = base_comparison.compared(found, task.texts, task.options["changed"], base)
    return {
        "findings": [one.to_dict() for one in found],
        "counts": [*done.counts.to_dict().values()],
        "failed": [list(one) for one in done.failed],
        "seen": sorted(done.seen),
        "notes": [*done.notes, *notes],
    }


class ReviewObjective:
    """The objective; ``options`` are what the function of that name gives."""

    name = NAME
    domain = None
    analyse = staticmethod(analyse)

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self._changed: Ranges | None = options["changed"]
        label = options["refute_level"]
        self._level = None if label == "off" else Severity.from_label(label)
        self._analyzers = [Analyzer.from_dict(row) for row in options["analyzers"]]
        onward = options.get("onward")
        #: The results of an earlier review of the same change, if any.
        self._onward = None if onward is None else CarriedReview.from_dict(onward)
        asked = None if self._onward is None else self._onward.asked
        #: The files that a model has yet to read; None for all.
        self._unread = None if asked is None else frozenset(asked)

    # ── leaves ──

    def judge(
        self, node: Node, task: LeafTask, analysis: Mapping[str, Any], ask: Ask | None
    ) -> NodeResult:
        found, elsewhere = self._analyzed(analysis)
        looked, verdicts = FinderResult(), dict.fromkeys(refute.VERDICTS, 0.0)
        claims: tuple[Finding, ...] = ()
        notes: tuple[str, ...] = ()
        doubted: tuple[tuple[str, str], ...] = ()
        domains = self._asked(node)
        texts = tuple(text for text in task.texts if self._is_unread(text.path))
        if ask is not None and domains and texts:
            names = [one.name for one in self._analyzers]
            looked = look(ask, texts, domains, self._changed, names)
            claims = tuple(one.finding for one in merge.merge(_traced(looked.findings, node)))
            weighed = refute.weigh(ask, claims, task.texts, self._level)
            claims, verdicts = weighed.findings, dict(weighed.verdicts)
            notes, doubted = weighed.notes, weighed.uncovered
        carried, checked = self._carried(node, ask)
        both = (marked(one, self._changed) for one in (*found, *claims, *carried))
        merged = merge.merge(_traced(both, node))
        failed = [
            (path, f"the analyzer {name} gave nothing: {why}")
            for name, path, why in analysis["failed"]
        ]
        uncovered = tuple(dict.fromkeys((*failed, *looked.uncovered, *doubted)))
        known = frozenset(analysis["seen"])
        lacking = frozenset(path for path, _ in uncovered)
        metrics = {
            "files": sum(text.line_start == 1 for text in task.texts),  # a sliced one counts once
            "looked": sum(
                text.line_start == 1
                and (ask is not None or text.path in known)
                and text.path not in lacking
                for text in task.texts
            ),
            "bytes": sum(len(text.content) for text in task.texts),
            "claims": len(looked.findings),
            "merged": len(found) + len(claims) + len(carried) - len(merged),
            "elsewhere": elsewhere,
            **verdicts,
        }
        return NodeResult(
            node.id,
            PARTIAL if uncovered else COMPLETED,
            _summary(merged, metrics),
            _confidence(task, known, is_read=ask is not None),
            merged,
            notes=(*self._notes(node), *analysis["notes"], *looked.notes, *notes),
            uncovered=uncovered,
            counts=Evidence(*analysis["counts"]) + looked.counts + checked,
            metrics=metrics,
            data={
                **self._kept((*claims, *carried)),
                # Files that an analyzer reads without knowing them by their names.
                "scripts": sorted(known - analyzers.known(self._analyzers, sorted(known))),
            },
        )

    def _analyzed(self, analysis: Mapping[str, Any]) -> tuple[list[Finding], int]:
        """What the analyzers found, and how many more in files that the change leaves alone."""
        found = [Finding.from_dict(one) for one in analysis["findings"]]
        if self._changed is None:
            return merge.gathered(found), 0
        news = [one for one in found if one.evidence[0].path in self._changed]
        return news, len(found) - len(news)

    def _is_unread(self, path: str) -> bool:
        return self._unread is None or path in self._unread

    def _carried(self, node: Node, ask: Ask | None) -> tuple[tuple[Finding, ...], Evidence]:
        """At the root, the model's earlier claims on files that it is not shown again."""
        if self._onward is None or ask is None or node.parent is not None:
            return (), Evidence()
        return self._onward.claims, self._onward.counts

    def _kept(self, claims: Sequence[Finding]) -> dict[str, Any]:
        """The model's claims, where a later review of this change may need them."""
        return {} if self._onward is None else {"claims": [one.to_dict() for one in claims]}

    def _notes(self, node: Node) -> Sequence[str]:
        """At the root, the notes on the repository's own analyzers."""
        return self.options.get("notes", ()) if node.parent is None else ()

    def _asked(self, node: Node) -> list[str]:
        """The domains that a model looks for in a leaf: architecture only at the root."""
        return [
            one for one in self.options["domains"] if one != ARCHITECTURE or node.parent is None
        ]

    # ── nodes that were split ──

    def aggregate(self, node: Node, children: Sequence[NodeResult], ask: Ask | None) -> NodeResult:
        found = merge.merge(one for child in children for one in child.findings)
        carried, checked = self._carried(node, ask)
        counts = sum((child.counts for child in children), checked)
        claims = [one for child in children for one in child.data.get("claims", ())]
        below = (note for child in children for note in child.notes)
        notes = (*self._notes(node), *dict.fromkeys(below))
        uncovered: tuple[tuple[str, str], ...] = ()
        if ask is not None and node.parent is None and ARCHITECTURE in self.options["domains"]:
            drawn = draw(
                ask, [one for one in found if self._is_unread(one.finding.evidence[0].path)]
            )
            found = merge.merge((*found, *drawn.found))
            claims += [one.finding.to_dict() for one in drawn.found]
            counts += drawn.counts
            notes = (*notes, *drawn.notes)
            uncovered = ((".", drawn.uncovered),) if drawn.uncovered else ()
        if carried:
            before = _traced((marked(one, self._changed) for one in carried), node)
            found = merge.merge((*found, *before))
        if len(notes) > _NOTES:
            notes = (*notes[:_NOTES], f"and {len(notes) - _NOTES:,} more notes")
        metrics: Counter[str] = Counter()
        for child in children:
            metrics.update(child.metrics)
        return NodeResult(
            node.id,
            COMPLETED,
            _summary(found, metrics),
            1.0,  # the solver takes what its children come to, if that is less
            found,
            notes=notes,
            uncovered=uncovered,
            counts=counts,
            metrics=metrics,
            data={
                **self._kept([*map(Finding.from_dict, claims), *carried]),
                "scripts": sorted(
                    {path for child in children for path in child.data.get("scripts", ())}
                ),
            },
        )


def _traced(found: Iterable[Finding], node: Node) -> list[TracedFinding]:
    return [TracedFinding(one, (node.id,)) for one in found]


def _confidence(task: LeafTask, known: Container[str], *, is_read: bool) -> float:
    """How sure we are that a leaf holds nothing else: the mean over its bytes."""
    total = weighted = 0.0
    for text in task.texts:
        size = len(text.content) + 1
        sure = _READ if is_read else _ANALYZED if text.path in known else _UNREAD
        total += size
        weighted += size * sure
    return round(weighted / total, 4) if total else 1.0


def _summary(found: Sequence[TracedFinding], metrics: Mapping[str, float]) -> str:
    files, looked = (int(metrics.get(name, 0)) for name in ("files", "looked"))
    open_ones = [one.finding for one in found if one.finding.suppression is None]
    old = sum(one.finding.suppression in OLD for one in found)
    share = f"{looked:,} of " if looked < files else ""
    told = f"{count(len(open_ones), 'finding')} in {share}{count(files, 'file')}"
    worst = max((one.severity for one in open_ones), default=None)
    told += f", most severe: {worst.label}" if worst is not None else ""
    return f"{told}; {old:,} not of this change" if old else told
