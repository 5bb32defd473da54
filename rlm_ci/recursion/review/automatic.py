"""The repository's own analyzers: those that its base sets up, and that this machine has.

One that judges single files is a row like any other, and brings the base's settings with it. One
that needs the whole tree looks at that of the head and that of the base before the leaves begin;
its row holds what it says of the files that a review is about.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from shutil import which

from rlm_ci import files
from rlm_ci.globs import matcher
from rlm_ci.recursion.review import checkouts, confinement, formats
from rlm_ci.recursion.review.confinement import BrokenError, UnableError
from rlm_ci.recursion.review.programs import Analyzer, search_path
from rlm_ci.recursion.review.sarif import SarifError
from rlm_ci.recursion.review.scratch import mark
from rlm_ci.recursion.review.tools import TOOLS, Tool
from rlm_ci.sandbox import Limits, Mount
from rlm_ci.texts import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.recursion.review.checkouts import Tree
    from rlm_ci.recursion.review.confinement import Printed
    from rlm_ci.recursion.review.sarif import Printout, Result

#: What the setting says for them.
AUTO = "auto"
#: The built-in one has the plain name.
_NAMES = {"ruff": "repository-ruff"}
#: Whatever a tool calls an error, a run has not shown it; a formatter's taste is less than that.
_MOST = {"ruff": "low"}
_SECONDS = 900.0
#: Bytes of the settings that one takes along.
_SETTINGS = 1 << 20
#: Characters of a reason, or of a result in a note.
_SAID = 200


class Place(Value):
    """Where the trees lie, and what is around them. ``policy`` has the settings that count.

    ``base`` is None, and so is ``paths``, where it is no change that is reviewed; ``paths`` are
    the changed ones. ``dependencies`` are folders below ``root`` that git ignores, as
    ``node_modules``.
    """

    root: str
    policy: Tree
    head: Tree
    base: Tree | None = None
    paths: Collection[str] | None = None
    dependencies: tuple[str, ...] = ()
    sandbox: str = "auto"


class _Seen(Value):
    """What a tool says of a tree: results by path, why it failed if it did."""

    by_path: Mapping[str, Sequence[Result]] = {}
    why: str = ""
    is_unable: bool = False


def rows(place: Place) -> tuple[list[Analyzer], list[str]]:
    """A row for each tool, and what is told of those that cannot look."""
    trees = [place.head] + ([place.base] if place.base else [])
    untracked = [one for one in place.dependencies if not any(map(_holds(one), trees))]
    place = place.replace(dependencies=tuple(untracked))
    path = os.pathsep.join([*_folders_of_programs(place), search_path()])
    found: list[Analyzer] = []
    notes: list[str] = []
    for tool in TOOLS:
        if not tool.is_set_up(place.policy.modes, place.policy.read):
            continue
        program = which(tool.starts, path=path)
        if program is None:
            notes.append(f"{tool.name} is set up here and not installed")
        elif tool.is_whole:
            row, told = _whole(tool, program, place)
            found += [row] if row else []
            notes += told
        else:
            found.append(_single(tool, program, place))
    return found, notes


def _holds(folder: str) -> Callable[[Tree], bool]:
    return lambda tree: any(path == folder or path.startswith(f"{folder}/") for path in tree.modes)


def _folders_of_programs(place: Place) -> Iterator[str]:
    for name in place.dependencies:
        inner = {"node_modules": ".bin", ".venv": "bin", "venv": "bin"}.get(name)
        if inner:
            yield os.path.join(place.root, name, inner)


def _row(tool: Tool, place: Place, **more: Any) -> Analyzer:
    fields: dict[str, Any] = {
        "name": _NAMES.get(tool.name, tool.name),
        "command": (),
        "files": tool.files,
        "domain": "quality",
        "max_severity": _MOST.get(tool.name, "medium"),
        "format": tool.name if tool.name != "ruff" else formats.SARIF,
        "sandbox": place.sandbox,
    }
    return Analyzer(**{**fields, **more})


# ── tools that judge single files ──


def _single(tool: Tool, program: str, place: Place) -> Analyzer:
    known = matcher([*tool.configs, *(path for path, _ in tool.sections)])
    settings: list[tuple[str, str]] = []
    room = _SETTINGS
    for path, content in place.policy.read(sorted(filter(known, place.policy.modes))).items():
        room -= len(content)
        if room >= 0:
            settings.append((path, content.decode("utf-8", "replace")))
    command = (program, *tool.command[1:])
    if tool.name == "actionlint":  # it knows its settings by a .git beside them
        for path, _ in settings[:1]:
            command = (program, "-config-file", f"{{folder}}/{path}", *tool.command[1:])
    return _row(tool, place, command=command, settings=tuple(settings))


# ── tools that look at a tree as a whole ──


def _whole(tool: Tool, program: str, place: Place) -> tuple[Analyzer | None, list[str]]:
    head = _look(tool, program, place, place.head)
    base = None if place.base is None else _look(tool, program, place, place.base)
    if head.is_unable:
        return _row(tool, place, results={}, failed=head.why), []
    if head.why and (base is None or base.why):
        return None, [f"{tool.name} is set up here and could not look: {head.why}"]
    if head.why:
        return _row(tool, place, results={}, failed=head.why), []
    results = _recorded(head, place.head, place)
    notes = []
    if base is not None and base.why:
        notes.append(f"{tool.name} could not look at the base: {base.why}")
    elif base is not None and place.base is not None:
        results |= _recorded(base, place.base, place)
        notes += _elsewhere(tool, head, base, place.paths or ())
    return _row(tool, place, results=results), notes


def _look(tool: Tool, program: str, place: Place, tree: Tree) -> _Seen:
    """Run a tool over a tree, with the settings that count."""
    with tempfile.TemporaryDirectory(prefix="rlm-ci-") as scratch:
        top = os.path.realpath(scratch)
        folder, out = os.path.join(top, "tree"), os.path.join(top, "out")
        os.mkdir(folder, 0o700)
        os.mkdir(out, 0o700)
        try:
            checkouts.lay(tree, place.policy, folder)
            printout = _printout(tool, program, place, tree, folder, out)
        except (BrokenError, SarifError) as error:
            return _Seen({}, printable(str(error))[:_SAID], isinstance(error, UnableError))
        finally:
            files.clear(folder)
    paths = [path for path in tree.modes if matcher(tool.files)(path)]
    by_path: dict[str, list[Result]] = {path: [] for path in paths}
    for one in printout.results:
        by_path[paths[one.spots[0].text]].append(one)
    return _Seen(by_path)


def _printout(  # noqa: PLR0917 - where, and what of it
    tool: Tool, program: str, place: Place, tree: Tree, folder: str, out: str
) -> Printout:
    matches = matcher(tool.files)
    numbers = {path: at for at, path in enumerate(filter(matches, tree.modes))}

    def find(address: str) -> int | None:
        for top in (place.root, folder):
            path = os.path.relpath(os.path.join(top, address.removeprefix("file://")), top)
            if path in numbers:
                return numbers[path]
        return None

    printed = _run(tool, tool.command, program, place, folder, out)
    if tool.second and not printed.data.strip():
        printed = _run(tool, tool.second, program, place, folder, out)
    printout = formats.read(tool.name, printed.data, find) if printed.data.strip() else None
    fine = (0, 101) if tool.name == "clippy" else (0, 1)
    is_fine = printed.returncode in fine and (printout is not None or printed.returncode == 0)
    if not is_fine:
        words = [one.message for one in printout.placeless] if printout else []
        said = printed.said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise BrokenError(next(iter(words), "") or said or f"it ended with {printed.returncode}")
    return printout or formats.read(tool.name, b"{}", find)


def _run(  # noqa: PLR0917 - where, and what of it
    tool: Tool, command: Sequence[str], program: str, place: Place, folder: str, out: str
) -> Printed:
    is_isolated = confinement.available(place.sandbox) != "none"
    mounts = [Mount(folder, place.root if is_isolated else folder, writable=True)]
    for name in place.dependencies:
        source, inside = os.path.join(place.root, name), os.path.join(folder, name)
        if is_isolated:
            os.makedirs(inside, exist_ok=True)
            mounts.append(Mount(source, source))
        elif not os.path.lexists(inside):
            os.makedirs(os.path.dirname(inside), exist_ok=True)
            os.symlink(source, inside)
    first = program if tool.program == "" else os.path.join(os.path.dirname(program), command[0])
    return confinement.run(
        (first, *command[1:]),
        place.sandbox,
        cwd=place.root if is_isolated else folder,
        out=out,
        mounts=tuple(mounts),
        network=False,
        seconds=_SECONDS,
        limits=Limits(wall=_SECONDS),
    )


def _recorded(seen: _Seen, tree: Tree, place: Place) -> dict[str, list[list[object]]]:
    """The results in JSON, by a key for each file that the tool has seen, as it has seen it."""
    paths = [path for path in seen.by_path if place.paths is None or path in place.paths]
    laid = {path for path in paths if checkouts.is_setting(path)}
    contents = tree.read(path for path in paths if path not in laid)
    return {
        mark(path, content): [
            [*tuple(one.spots[0])[1:], one.rule, one.level, one.message, one.help]
            for one in seen.by_path[path]
        ]
        for path, content in contents.items()
    }


def _elsewhere(tool: Tool, head: _Seen, base: _Seen, paths: Collection[str]) -> list[str]:
    """What is told of new results in files that the change leaves alone."""
    counts = [
        Counter(
            (path, one.rule, one.message)
            for path, some in seen.by_path.items()
            if path not in paths
            for one in some
        )
        for seen in (head, base)
    ]
    new = list((counts[0] - counts[1]).elements())
    if not new:
        return []
    path, _, message = new[0]
    told = f"{count(len(new), 'new result')} of {tool.name} in files that this change leaves alone"
    return [f"{told}, such as {printable(path)}: {message}"[: 2 * _SAID]]
