"""The decision whether an analysis runs before a role's turn: by request, or by size of context."""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.git.objects import batches
from rlm_ci.recursion.corpus.eligibility import guess, is_binary
from rlm_ci.source.languages import is_code
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from rlm_ci.fix.rlms.options import RlmsOptions
    from rlm_ci.fix.role_prompts import RoleBrief
    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.git.repository import Repository


#: The roles of each mode in the order of their turns, and the switch that each has.
SWITCHES: Mapping[str, Mapping[str, str]] = {
    "single": {"single": "implementer"},
    "triad": {"planner": "planner", "reviser": "implementer", "critic": "reviewer"},
    "superloop": {name: name for name in ("planner", "implementer", "tester", "reviewer")},
}


class ContextFigures(Value):
    """The size of a role's context, measured in full."""

    lines: int
    bytes: int
    files: int

    @property
    def estimated_tokens(self) -> int:
        return -(-self.bytes // 4)


class Decision(Value):
    """Whether an analysis runs, why, and the figures that it rests on."""

    run: bool
    reason: str
    figures: ContextFigures


def decide(
    options: RlmsOptions, switch: str, figures: ContextFigures, *, requested: bool
) -> Decision:
    """The decision for a role with this ``switch``."""
    run, reason = _decide(options, switch, figures, requested=requested)
    return Decision(run, reason, figures)


def _decide(
    options: RlmsOptions, switch: str, figures: ContextFigures, *, requested: bool
) -> tuple[bool, str]:
    if not options.enabled:
        return False, "disabled"
    if switch not in options.roles:
        return False, "role_disabled"
    if options.force_off:
        return False, "force_off"
    if options.force_on:
        return True, "force_on"
    is_large = (
        figures.lines > options.max_lines
        or figures.estimated_tokens > options.max_estimated_tokens
        or figures.files > options.max_files
    )
    if options.mode == "auto":
        return is_large, "auto_threshold" if is_large else "auto_not_met"
    if options.mode != "hybrid":
        return requested, "requested_keyword" if requested else "request_not_found"
    if requested:
        return True, "hybrid_requested"
    return is_large, "hybrid_auto" if is_large else "hybrid_not_met"


#: Settings of a context.
RELEVANT, CHANGED, ALL = "relevant", "changed", "all"
#: Bytes of files in memory at a time.
_ROOM = 16 << 20
#: What stands around a path in prose.
_AROUND = "()[]{}<>'\"`*,;:!?"


def context_files(
    entries: Mapping[str, TreeEntry], changed: Collection[str], brief: RoleBrief, context: str
) -> list[str]:
    """The paths of the files of a context, by the setting ``context``.

    ``all``, those changed and those that the goal names (``changed``), or what a role is about to
    read (``relevant``): these, and those that the last failures name; while there are none, the
    repository's own sources.
    """
    paths = sorted(path for path, entry in entries.items() if entry.is_file)
    if context == ALL:
        return paths
    feedback = brief.feedback if context == RELEVANT else ""
    some = {*changed, *paths_named(f"{brief.goal}\n{feedback}", paths)}
    matches = [path for path in paths if path in some]
    if matches or context != RELEVANT:
        return matches
    sources = [path for path in paths if guess(path, dense=False) is None]
    return [path for path in sources if is_code(path)] or sources


def paths_named(text: str, paths: Collection[str]) -> set[str]:
    """The paths that a text names: in full, or by a name with a dot that only one file has."""
    words, tails = set(), set()
    for word in text.split():
        bare = word.strip(_AROUND).rstrip("." + _AROUND).removeprefix("./")
        path = bare.partition(":")[0]  # a line or a test may follow
        words |= {bare, path}
        if path.startswith("/"):  # of the copy in which the validator ran
            tails |= {path[at + 1 :] for at, char in enumerate(path) if char == "/"}
    names = Counter(path.rpartition("/")[2] for path in paths)
    return {
        path
        for path in paths
        if path in words
        or path in tails
        or ("." in (name := path.rpartition("/")[2]) and name in words and names[name] == 1)
    }


def measure(
    paths: Iterable[str],
    entries: Mapping[str, TreeEntry],
    sizes: Callable[[list[str]], Iterable[int]],
    read: Callable[[list[str]], Iterable[bytes | None]],
    measured: dict[str, tuple[int, int, int]] | None = None,
) -> ContextFigures:
    """The figures of all text among ``paths``; nothing is cut.

    ``read`` gives blobs by their id; ``measured`` keeps the figures of those that were measured.
    """
    measured = {} if measured is None else measured
    oids = [entries[path].oid for path in paths]
    new = sorted({oid for oid in oids if oid not in measured})
    for batch in batches(zip(new, sizes(new) if new else (), strict=True), _ROOM):
        for oid, data in zip(batch, read(batch), strict=True):
            measured[oid] = _figures(data)
    columns = zip(*(measured[oid] for oid in oids), strict=True) if oids else ((0,), (0,), (0,))
    return ContextFigures(*map(sum, columns))


def _figures(data: bytes | None) -> tuple[int, int, int]:
    """Lines, bytes, and one file; nothing for what is no text."""
    if data is None or is_binary(data):
        return 0, 0, 0
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data)), len(data), 1


#: The label of a pull request that asks for all roles.
LABEL = "rlms-request"
_TRAILER = "--format=%(trailers:key=RLMS-Request,valueonly)"


class Requests(Value):
    """Who may ask. ``standing`` is whether label or trailer ask for all roles of the run."""

    keyword: str
    standing: bool

    @classmethod
    def of(cls, keyword: str, repository: Repository, labels: Collection[str]) -> Requests:
        """Those of the run that begins now."""
        return cls(keyword, LABEL in labels or _in_trailer(keyword, repository))

    def is_requested(self, text: str) -> bool:
        """Whether ``text``, which the role said last, has a request.

        Its keyword counts at the beginning of a line, alone or before a colon: an agent's output
        may hold whatever the agent has read, such as a page that explains the keyword.
        """
        pattern = rf"^[ \t]*{re.escape(self.keyword)}[ \t]*(:.*)?\r?$"
        return self.standing or re.search(pattern, text, re.MULTILINE) is not None


def _in_trailer(keyword: str, repository: Repository) -> bool:
    head = repository.head_commit() if repository.git_dir else None
    if head is None:
        return False
    values = repository.run("log", "-1", "--no-show-signature", _TRAILER, head).decode(
        "utf-8", "replace"
    )
    return keyword in (line.strip() for line in values.split("\n"))
