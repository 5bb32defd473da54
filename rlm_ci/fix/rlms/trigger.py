"""The decision whether an analysis runs before a role's turn: by request, or by size of context.

``[loop.rlms]`` says what is asked of it.
"""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.errors import ConfigError
from rlm_ci.git.objects import batches
from rlm_ci.recursion.corpus.eligibility import guess, is_binary
from rlm_ci.source.languages import is_code
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any

    from rlm_ci.fix.roles import RoleBrief
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


_PREFIX = "loop.rlms."


#: The largest that a limit may be.
_MOST = {"max_depth": 8, "max_steps": 10_000, "max_subcalls": 100_000, "timeout_seconds": 86_400}


class RlmsOptions(Value):
    """When an analysis runs, and within which limits; ``roles`` are the switches that are on.

    ``context`` is what is measured and analysed: see ``measure.context_files``.
    """

    enabled: bool
    mode: str
    request_keyword: str
    context: str
    max_lines: int
    max_estimated_tokens: int
    max_files: int
    roles: tuple[str, ...]
    force_on: bool = False
    force_off: bool = False
    max_steps: int = 40
    max_depth: int = 2
    timeout_seconds: int = 240
    max_subcalls: int = 80
    require_citations: bool = True
    fail_mode: str = "warn_and_continue"

    #: Names of the settings in the section, and in each of its parts.
    plain = ("enabled", "mode", "request_keyword", "context")
    thresholds = ("max_lines", "max_estimated_tokens", "max_files")
    limits = ("max_steps", "max_depth", "timeout_seconds", "max_subcalls")
    forces = ("force_on", "force_off")
    switches = ("planner", "implementer", "tester", "reviewer")

    @classmethod
    def of(cls, values: Mapping[str, Any], sources: Mapping[str, str]) -> RlmsOptions:
        """Those of the settings with these values, from these sources.

        Raises ConfigError for settings that contradict each other, or cannot work.
        """
        options = cls(
            **{name: values[f"{_PREFIX}{name}"] for name in cls.plain},
            **{name: values[f"{_PREFIX}auto.{name}"] for name in cls.thresholds},
            **{name: values[f"{_PREFIX}limits.{name}"] for name in cls.limits},
            **{name: values[f"{_PREFIX}policy.{name}"] for name in (*cls.forces, "fail_mode")},
            require_citations=values[f"{_PREFIX}output.require_citations"],
            roles=tuple(name for name in cls.switches if values[f"{_PREFIX}roles.{name}"]),
        )
        if options.force_on and options.force_off:
            raise ConfigError(
                "loop.rlms.policy.force_on and loop.rlms.policy.force_off are both true",
                where=", ".join(
                    dict.fromkeys(sources[f"{_PREFIX}policy.{name}"] for name in cls.forces)
                ),
                hint="remove one of them",
            )
        for name, limit in _MOST.items():
            if getattr(options, name) > limit:
                raise ConfigError(
                    f"{_PREFIX}limits.{name} is {getattr(options, name):,}, more than {limit:,}",
                    where=sources[f"{_PREFIX}limits.{name}"],
                    hint="lower it, or leave it out",
                )
        keyword = options.request_keyword
        if keyword.split() != [keyword]:
            raise ConfigError(
                f"loop.rlms.request_keyword must be one word, not {keyword[:80]!r}",
                where=sources[f"{_PREFIX}request_keyword"],
                hint="use a word that nobody writes by chance, such as RLMS_REQUEST",
            )
        return options

    @property
    def fails_role(self) -> bool:
        """Whether a failed analysis ends the run."""
        return self.fail_mode == "fail_role"
