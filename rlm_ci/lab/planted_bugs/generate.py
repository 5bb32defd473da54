"""Changes of real projects with planted bugs among harmless edits, and honest changes.

A seed decides everything. Each bug has a test that passes at the base and fails at the head, and
all that a change edits besides makes no difference to the probes of the project: both were run.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import random
import sys
from functools import cached_property

from rlm_ci.errors import UnavailableError
from rlm_ci.lab.planted_bugs import edits
from rlm_ci.lab.planted_bugs.projects import PROJECTS
from rlm_ci.system import process
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.lab.planted_bugs.edits import SourceEdit
    from rlm_ci.lab.planted_bugs.projects import Project

#: Bugs of one change at most, harmless edits around them, and modules that it edits.
_BUGS = 2
_HARMLESS = (6, 16)
_MODULES = 4
#: Choices of harmless edits: what looks harmless may not be.
_TRIES = 20
#: Bugs of one kind that are tried in a project.
_TRIED = 4
_SECONDS = 600
_PROGRAM = "rlm_ci.lab.planted_bugs.inside.probes"
#: Outcomes that a test can compare.
_LONGEST = 400


class PlantedBug(Value):
    """A bug at ``line`` of the head's ``path``, and the test that shows it."""

    kind: str
    path: str
    line: int
    test: str


class ReviewCase(Value):
    """A change: the files of a project at the base, and those that differ at the head.

    ``needs`` are the distributions that the project imports.
    """

    id: str
    base: Mapping[str, bytes]
    head: Mapping[str, bytes]
    bugs: tuple[PlantedBug, ...] = ()
    harmless: int = 0
    needs: tuple[str, ...] = ()


class _Source:
    """An installed project: its files, and what its probes give and run."""

    def __init__(self, project: Project, seed: int) -> None:
        self.project = project
        self.seconds = 0.0
        #: The same seed gives the same cases.
        self.chance = random.Random(f"{seed} {project.name}")  # noqa: S311 - it is no secret
        try:
            distribution = importlib.metadata.distribution(project.name)
        except importlib.metadata.PackageNotFoundError:
            raise UnavailableError(
                f"{project.name} is not installed", hint="install rlm-ci with its dependencies"
            ) from None
        self.version = distribution.version
        self.files: dict[str, bytes] = {}
        for file in distribution.files or ():
            path = str(file)
            if path.startswith(f"{project.package}/") and path.endswith(".py"):
                with open(os.fspath(file.locate()), "rb") as stream:
                    self.files[path] = stream.read()
        first, second = self._run([], hash_seed="0"), self._run([], hash_seed="1")
        self.outcomes: list[str] = first["outcomes"]
        #: Probes whose outcome does not depend on the order of a set.
        self._stable = [
            old == new and len(old) <= _LONGEST
            for old, new in zip(self.outcomes, second["outcomes"], strict=True)
        ]
        self.lines: dict[str, list[int]] = first["lines"]
        self.seconds = first["seconds"]
        self.modules = {_module(path): path for path in sorted(self.files)}

    @cached_property
    def pool(self) -> list[_Candidate]:
        """Bugs that can be planted, on lines that the probes run, in chance order."""
        return _pool(self)

    def try_out(self, variants: Sequence[Mapping[str, bytes]]) -> list[list[str] | None]:
        """What the probes give with the edited files of each variant."""
        rows = [
            {_module(path): data.decode() for path, data in variant.items()} for variant in variants
        ]
        outcomes: list[list[str] | None] = self._run(rows) if rows else []
        return outcomes

    def _run(self, variants: Sequence[Mapping[str, str]], hash_seed: str = "0") -> Any:
        project = self.project
        request = {
            "setup": project.setup,
            "probes": project.probes,
            "package": project.package,
            "seconds": self.seconds,
        }
        stdin = json.dumps({**request, "variants": variants}).encode()
        argv = (sys.executable, "-s", "-P", "-m", _PROGRAM)
        env = {"PATH": os.defpath, "PYTHONHASHSEED": hash_seed}
        ended = process.run(argv, env=env, stdin=stdin, timeout=_SECONDS, limit=64 << 20)
        if ended.returncode != 0:
            raise UnavailableError(
                f"the probes of {project.name} {self.version} cannot be run",
                hint=ended.stderr.decode("utf-8", "replace").strip()[-300:],
            )
        return json.loads(ended.stdout)

    def shown_by(self, outcomes: Sequence[str] | None) -> int | None:
        """The first probe that tells an edit, None for none or for a package that is broken."""
        if outcomes is None:
            return None
        rows = enumerate(zip(self._stable, self.outcomes, outcomes, strict=True))
        return next((at for at, (stable, old, new) in rows if stable and old != new), None)

    def test(self, probe: int) -> str:
        """A test that passes with the project as it is."""
        setup = "\n".join(f"    {line}" for line in self.project.setup.split("\n"))
        expected, code = self.outcomes[probe], self.project.probes[probe]
        if expected.startswith("raises "):
            name = expected.removeprefix("raises ")
            check = (
                f"    try:\n        {code}\n    except Exception as error:\n"
                f"        assert type(error).__name__ == {name!r}\n"
                f"    else:\n        raise AssertionError('no {name}')\n"
            )
        else:
            check = f"    assert repr({code}) == {expected!r}\n"
        return f"def test_shows_the_bug():\n{setup}\n{check}"


class _LazySource:
    """A project that is read when its turn comes."""

    def __init__(self, project: Project, seed: int) -> None:
        self._told = project, seed

    @cached_property
    def source(self) -> _Source:
        return _Source(*self._told)


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def cases(
    seed: int, bugs: int, honest: int, projects: Sequence[Project] = PROJECTS
) -> Iterator[ReviewCase]:
    """Changes with ``bugs`` planted bugs in all, then ``honest`` changes without one.

    Raises UnavailableError for a project that is not installed.
    """
    sources = [_LazySource(project, seed) for project in projects]
    used: dict[str, int] = {}
    number = planted = 0
    while planted < bugs:
        before = planted
        for lazy in sources:
            if planted == bugs:
                break
            source = lazy.source
            chosen = _rarest(source.pool, used, min(_BUGS, bugs - planted))
            case = _tried(f"{number:03}", source, chosen) if chosen else None
            if case is None:
                continue
            number += 1
            planted += len(case.bugs)
            for bug in case.bugs:
                used[bug.kind] = used.get(bug.kind, 0) + 1
            yield case
        if planted == before:
            raise UnavailableError(
                f"only {planted} bugs can be planted in the installed projects",
                hint="ask for fewer",
            )
    for at in range(honest):
        case = _tried(f"{number + at:03}", sources[at % len(sources)].source, [])
        if case is None:
            raise UnavailableError("no honest change can be made", hint="report it as a bug")
        yield case


class _Candidate(Value):
    """A bug that a probe shows."""

    path: str
    edit: SourceEdit
    probe: int


def _pool(source: _Source) -> list[_Candidate]:
    pairs = [
        (path, bug)
        for name, path in source.modules.items()
        for bug in edits.bugs(source.files[path])
        if bug.line in source.lines.get(name, ())
    ]
    by_kind: dict[str, list[tuple[str, SourceEdit]]] = {}
    for row in pairs:
        by_kind.setdefault(row[1].kind, []).append(row)
    tried = []
    for rows in by_kind.values():
        source.chance.shuffle(rows)
        tried += rows[:_TRIED]
    variants = [{path: edits.apply(source.files[path], [edit])} for path, edit in tried]
    candidates = []
    for (path, edit), outcomes in zip(tried, source.try_out(variants), strict=True):
        probe = source.shown_by(outcomes)
        if probe is not None:
            candidates.append(_Candidate(path, edit, probe))
    source.chance.shuffle(candidates)
    return candidates


def _rarest(pool: list[_Candidate], used: Mapping[str, int], number: int) -> list[_Candidate]:
    """Takes bugs of the kinds that were used least, each of another kind and place."""
    chosen: list[_Candidate] = []
    for candidate in sorted(pool, key=lambda candidate: used.get(candidate.edit.kind, 0)):
        is_new = all(
            candidate.edit.kind != other.edit.kind
            and (candidate.path != other.path or abs(candidate.edit.line - other.edit.line) > 3)
            for other in chosen
        )
        if is_new and len(chosen) < number:
            chosen.append(candidate)
    for candidate in chosen:
        pool.remove(candidate)
    return chosen


def _tried(name: str, source: _Source, chosen: Sequence[_Candidate]) -> ReviewCase | None:
    """A change with these bugs, by one of several choices of harmless edits."""
    tries = (_case(name, source, chosen) for _ in range(_TRIES))
    return next((case for case in tries if case is not None), None)


def _case(name: str, source: _Source, chosen: Sequence[_Candidate]) -> ReviewCase | None:
    """A change with these bugs; None where harmless edits are not, or bugs hide each other."""
    paths = list(dict.fromkeys(candidate.path for candidate in chosen))
    others = [source.modules[name] for name in source.lines if name in source.modules]
    others = [path for path in others if path not in paths and edits.rewrites(source.files[path])]
    source.chance.shuffle(others)
    paths += others[: max(1, _MODULES - len(paths))]
    rows = [
        (path, rewrite)
        for path in paths
        if b"outcome" not in source.files[path]
        for rewrite in edits.rewrites(source.files[path])
        if not any(path == bug.path and edits.overlap(rewrite, bug.edit) for bug in chosen)
    ]
    source.chance.shuffle(rows)
    rewrites: list[tuple[str, SourceEdit]] = []
    number = source.chance.randint(*_HARMLESS)
    for path, edit in rows:
        free = all(path != at or not edits.overlap(edit, other) for at, other in rewrites)
        if free and len(rewrites) < number:
            rewrites.append((path, edit))
    harmless = _applied(source, rewrites)
    head = _applied(
        source, [*rewrites, *((candidate.path, candidate.edit) for candidate in chosen)]
    )
    without, with_bugs = source.try_out([harmless, head])
    if not rewrites or without != source.outcomes or (chosen and with_bugs is None):
        return None
    if with_bugs is not None and any(
        with_bugs[candidate.probe] == source.outcomes[candidate.probe] for candidate in chosen
    ):
        return None
    bugs = tuple(
        PlantedBug(
            candidate.edit.kind,
            candidate.path,
            _line(candidate, rewrites),
            source.test(candidate.probe),
        )
        for candidate in chosen
    )
    title = f"{name}-{source.project.name}-{source.version}"
    return ReviewCase(title, source.files, head, bugs, len(rewrites), source.project.needs)


def _applied(source: _Source, rows: Iterable[tuple[str, SourceEdit]]) -> dict[str, bytes]:
    by_path: dict[str, list[SourceEdit]] = {}
    for path, edit in rows:
        by_path.setdefault(path, []).append(edit)
    return {path: edits.apply(source.files[path], some) for path, some in by_path.items()}


def _line(bug: _Candidate, others: Iterable[tuple[str, SourceEdit]]) -> int:
    """The line of a bug at the head: edits above it may have added some."""
    return bug.edit.line + sum(
        edit.text.count("\n") for path, edit in others
        if path == bug.path and edit.start < bug.edit.start
    )  # fmt: skip
