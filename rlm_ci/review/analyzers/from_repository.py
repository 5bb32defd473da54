"""The repository's own analyzers: set up by its base, and installed on this machine.

A table says how each is recognised, run and read. One for single files is a row like any other,
with the base's settings. One for whole trees runs over head and base before the leaves begin; its
row has the results for the reviewed files.

Files that configure tools are the base's: a change must not relax its judge.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from shutil import which
from urllib.parse import unquote

from rlm_ci.recursion.process_pool import cores
from rlm_ci.review.analyzer_output import json_formats
from rlm_ci.review.analyzer_output.json_formats import SARIF
from rlm_ci.review.analyzer_output.sarif import AnalyzerOutput, SarifError
from rlm_ci.review.analyzers import sandboxed
from rlm_ci.review.analyzers.programs import Analyzer, search_path
from rlm_ci.review.analyzers.sandboxed import (
    AnalyzerError,
    AnalyzerUnavailableError,
    ScratchInput,
    by_halves,
    configures,
    mark,
)
from rlm_ci.sandbox import JobLimits
from rlm_ci.system import files
from rlm_ci.text.globs import matcher
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value
from rlm_ci.workspace import tree
from rlm_ci.workspace.tree import ShownTree, make_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.review.analyzer_output.sarif import AnalyzerResult
    from rlm_ci.review.analyzers.sandboxed import ProgramOutput
    from rlm_ci.workspace.tree import Tree

    #: The contents of files of a tree by path, for those that are there.
    Read = Callable[[Iterable[str]], Mapping[str, bytes]]


class KnownTool(Value):
    """``configs`` are files at the top of a repository that set a tool up, ``sections`` pairs of
    such a file and the beginning of a line in it.

    ``is_whole``: it runs on a tree. ``second`` is the command for other versions of it.
    ``python`` is its option for the interpreter with the packages, ``unseen`` are rules about
    missing packages.
    """

    name: str
    command: tuple[str, ...]
    files: tuple[str, ...]
    configs: tuple[str, ...]
    sections: tuple[tuple[str, str], ...] = ()
    second: tuple[str, ...] = ()
    is_whole: bool = False
    program: str = ""
    python: str = ""
    unseen: tuple[str, ...] = ()

    @property
    def format(self) -> str:
        """How what it prints is read."""
        return SARIF if self.name == "ruff" else self.name

    @property
    def starts(self) -> str:
        """The program that has to be there."""
        return self.program or self.command[0]

    def is_set_up(self, paths: Iterable[str], read: Read) -> bool:
        """Whether a repository that has ``paths`` uses it."""
        top = [path for path in paths if "/" not in path or path.startswith(".github/")]
        if any(fnmatchcase(path, config) for path in top for config in self.configs):
            return True
        hook = rf"\s*-?\s*id:\s*['\"]?(cargo-)?{re.escape(self.name)}(-check|-docker|-full)?\b"
        patterns = (*self.sections, (".pre-commit-config.yaml", hook))
        contents = read({path for path, _ in patterns})
        return any(
            re.search(rf"^{pattern}", contents[path].decode("utf-8", "replace"), re.MULTILINE)
            for path, pattern in patterns
            if path in contents
        )


_PYTHON = ("*.py", "*.pyi")
_GO = ("*.go",)
_SCRIPTS = ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.ts", "*.tsx", "*.mts", "*.cts", "*.vue")

TOOLS: tuple[KnownTool, ...] = (
    KnownTool(
        "ruff",
        ("ruff", "check", "--quiet", "--no-cache", "--exit-zero", "--output-format", "sarif", "."),
        (*_PYTHON, "*.pyw"),
        ("ruff.toml", ".ruff.toml"),
        (("pyproject.toml", r"\[tool\.ruff[.\]]"),),
        is_whole=True,
    ),
    KnownTool(
        "shellcheck",
        ("shellcheck", "--format", "json1", "--", "{files}"),
        ("*.sh", "*.bash", "*.ksh", "*.bats"),
        (".shellcheckrc",),
    ),
    KnownTool(
        "actionlint",
        ("actionlint", "-no-color", "-format", "{{json .}}", "{files}"),
        (".github/workflows/*.yml", ".github/workflows/*.yaml"),
        (".github/actionlint.yaml", ".github/actionlint.yml"),
    ),
    KnownTool(
        "hadolint",
        ("hadolint", "--no-fail", "--format", "json", "--", "{files}"),
        ("Dockerfile", "Dockerfile.*", "*.Dockerfile", "Containerfile"),
        (".hadolint.yaml", ".hadolint.yml", "hadolint.yaml", "hadolint.yml"),
    ),
    KnownTool(
        "mypy",
        ("mypy", "--output", "json", "--no-error-summary", "--cache-dir", "/dev/null"),
        _PYTHON,
        ("mypy.ini", ".mypy.ini"),
        (("pyproject.toml", r"\[tool\.mypy\]"), ("setup.cfg", r"\[mypy\]")),
        second=("mypy", "--output", "json", "--no-error-summary", "--cache-dir", "/dev/null", "."),
        is_whole=True,
        python="--python-executable",
        unseen=("import-not-found", "import-untyped"),
    ),
    KnownTool(
        "pyright",
        ("pyright", "--outputjson"),
        _PYTHON,
        ("pyrightconfig.json",),
        (("pyproject.toml", r"\[tool\.pyright[.\]]"),),
        is_whole=True,
        python="--pythonpath",
        unseen=("reportMissingImports", "reportMissingModuleSource", "reportMissingTypeStubs"),
    ),
    KnownTool(
        "eslint",
        ("eslint", "--format", "json", "."),
        _SCRIPTS,
        ("eslint.config.*", ".eslintrc*"),
        (("package.json", r'\s*"eslintConfig"'),),
        is_whole=True,
    ),
    KnownTool(
        "clippy",
        ("cargo", "clippy", "--quiet", "--offline", "--all-targets", "--message-format", "json"),
        ("*.rs",),
        ("clippy.toml", ".clippy.toml"),
        (("Cargo.toml", r"\[(workspace\.)?lints\.clippy\]"),),
        is_whole=True,
        program="cargo-clippy",
    ),
    KnownTool(
        "golangci-lint",
        ("golangci-lint", "run", "--output.json.path", "stdout", "--show-stats=false"),
        _GO,
        (".golangci.y*ml", ".golangci.toml", ".golangci.json"),
        second=("golangci-lint", "run", "--out-format", "json"),
        is_whole=True,
    ),
    KnownTool(
        "staticcheck",
        ("staticcheck", "-f", "json", "./..."),
        _GO,
        ("staticcheck.conf",),
        is_whole=True,
    ),
)  # fmt: skip


#: They define what is built, so they must fit the code.
_BUILDS = frozenset(("Cargo.toml", "build.rs", "package-lock.json"))


def lay(
    judged: Tree,
    policy: Tree,
    folder: str,
    left_out: Collection[str] = (),
    instead: Tree | None = None,
) -> None:
    """Write ``judged`` below ``folder``, with the files of ``policy`` that configure tools.

    Of those ``left_out`` it has what ``instead`` holds. ``folder`` is a real path.
    """
    layers = [policy.only(is_setting)]
    if instead is not None:
        layers.append(instead.only(lambda path: path in left_out and not is_setting(path)))
    layers.append(judged.only(lambda path: path not in left_out and not is_setting(path)))
    tree.lay(folder, *layers)


def is_setting(path: str) -> bool:
    """Whether the base's version of the file counts."""
    return configures(path) and path.rpartition("/")[2] not in _BUILDS


#: The value of the setting.
AUTO = "auto"
#: The built-in ruff has the plain name.
_NAMES = {"ruff": "repository-ruff"}
#: Severities of tools below "medium", the highest for all of them.
_MOST = {"ruff": "low"}
_SECONDS = 900.0
#: Bytes of the settings for one tool.
_SETTINGS = 1 << 20
#: Characters of a reason, or of a result in a note.
_SAID = 200


class AnalyzerContext(Value):
    """The trees and what is around them. ``policy`` has the settings that count.

    ``paths`` are the changed ones; like ``base``, None for the review of a repository.
    ``dependencies`` are folders below ``root`` that git ignores, such as ``node_modules``.
    """

    root: str
    policy: Tree
    head: Tree
    base: Tree | None = None
    paths: Collection[str] | None = None
    dependencies: tuple[str, ...] = ()
    sandbox: str = "auto"


class _TreeResults(Value):
    """What a tool says of a tree: results by path, or why it failed.

    ``failed`` are files that it fails on, with the reasons.
    """

    by_path: Mapping[str, Sequence[AnalyzerResult]] = {}
    why: str = ""
    is_unable: bool = False
    failed: Mapping[str, str] = {}


def rows(context: AnalyzerContext) -> tuple[list[Analyzer], list[str]]:
    """A row for each tool, and notes on those that cannot run."""
    tracked = [*context.head.modes, *(context.base.modes if context.base else ())]
    untracked = tuple(
        dependency
        for dependency in context.dependencies
        if not any(path == dependency or path.startswith(f"{dependency}/") for path in tracked)
    )
    context = context.replace(dependencies=untracked)
    path = os.pathsep.join([*_folders_of_programs(context), search_path()])

    def row(tool: KnownTool) -> tuple[Analyzer | None, list[str]]:
        if context.paths is not None and not any(map(matcher(tool.files), context.paths)):
            return None, []
        program = which(tool.starts, path=path)
        if program is None:
            return None, [f"{tool.name} is set up here and not installed"]
        if tool.is_whole:
            return _whole_project(tool, program, context)
        return _single(tool, program, context), []

    with ThreadPoolExecutor(cores()) as pool:
        pairs = list(pool.map(row, _set_up(context.policy)))
    return [analyzer for analyzer, _ in pairs if analyzer], [
        note for _, notes in pairs for note in notes
    ]


def not_asked(policy: Tree) -> list[Analyzer]:
    """A row for each tool that is set up, where none of them may run."""
    return [_row(tool, "auto", results={}) for tool in _set_up(policy)]


def _set_up(policy: Tree) -> list[KnownTool]:
    return [tool for tool in TOOLS if tool.is_set_up(policy.modes, policy.read)]


def _folders_of_programs(context: AnalyzerContext) -> Iterator[str]:
    for name in context.dependencies:
        inner = {"node_modules": ".bin", ".venv": "bin", "venv": "bin"}.get(name)
        if inner:
            yield os.path.join(context.root, name, inner)


def _row(tool: KnownTool, sandbox: str, **more: Any) -> Analyzer:
    fields: dict[str, Any] = {
        "name": _NAMES.get(tool.name, tool.name),
        "command": (),
        "files": tool.files,
        "domain": "quality",
        "max_severity": _MOST.get(tool.name, "medium"),
        "format": tool.format,
        "sandbox": sandbox,
    }
    return Analyzer(**{**fields, **more})


# ── tools that judge single files ──


def _single(tool: KnownTool, program: str, context: AnalyzerContext) -> Analyzer:
    matches = matcher([*tool.configs, *(path for path, _ in tool.sections)])
    settings: list[tuple[str, str]] = []
    room = _SETTINGS
    for path, content in context.policy.read(sorted(filter(matches, context.policy.modes))).items():
        room -= len(content)
        if room >= 0:
            settings.append((path, content.decode("utf-8", "replace")))
    command = (program, *tool.command[1:])
    if tool.name == "actionlint":  # it knows its settings by a .git beside them
        for path, _ in settings[:1]:
            command = (program, "-config-file", f"{{folder}}/{path}", *tool.command[1:])
    return _row(tool, context.sandbox, command=command, settings=tuple(settings))


# ── tools that look at a tree as a whole ──


def _whole_project(
    tool: KnownTool, program: str, context: AnalyzerContext
) -> tuple[Analyzer | None, list[str]]:
    head = _look(tool, program, context, context.head)
    base = None if context.base is None else _look(tool, program, context, context.base)
    if base is not None and head.why and not head.is_unable:
        if base.why:
            return None, [f"{tool.name} is set up here and could not look: {head.why}"]
        head = _without_culprits(tool, program, context, head.why)
    notes = []
    results_of_base = (
        result for some in (base.by_path if base else {}).values() for result in some
    )
    lacking = next((result.message for result in results_of_base if result.rule in tool.unseen), "")
    if lacking:  # not installed here, so it is unknown what the head lacks
        notes.append(f"{tool.name} does not see all that the base needs: {lacking[:_SAID]}")
        by_path = {
            path: [result for result in some if result.rule not in tool.unseen]
            for path, some in head.by_path.items()
        }
        head = head.replace(by_path=by_path)
    results = _recorded(tool, head, context.head, context)
    if base is not None and context.base is not None and not head.why:
        if base.why:
            notes.append(f"{tool.name} could not look at the base: {base.why}")
        else:
            results = {**_recorded(tool, base, context.base, context), **results}
            notes += _elsewhere(tool, head, base, context.paths or ())
    return _row(tool, context.sandbox, results=results), notes


def _without_culprits(
    tool: KnownTool, program: str, context: AnalyzerContext, why: str
) -> _TreeResults:
    """What a tool says of the head with the base's version of the files that it fails on."""
    matches, modes = matcher(tool.files), context.head.modes
    changed = [path for path in sorted(context.paths or ()) if path in modes and matches(path)]

    def run(some: Sequence[ScratchInput], seconds: float) -> AnalyzerOutput:
        shown = {scratch_input.path for scratch_input in some if scratch_input.content}
        left_out = frozenset(changed) - shown
        seen = _look(tool, program, context, context.head, left_out, seconds)
        if seen.why:
            raise AnalyzerError(seen.why)
        return AnalyzerOutput((), 0)

    inputs = [ScratchInput(at, path, b"changed") for at, path in enumerate(changed)]
    broken = by_halves(inputs, run)[1] if len(inputs) > 1 else [(inputs, why)]
    failed = {scratch_input.path: reason for some, reason in broken for scratch_input in some}
    if not failed or len(failed) == len(changed):  # together they fail, or each by itself
        return _TreeResults({}, why)
    seen = _look(tool, program, context, context.head, frozenset(failed))
    return seen.replace(failed=failed) if not seen.why else seen


def _look(  # noqa: PLR0917 - where, and what of it
    tool: KnownTool,
    program: str,
    context: AnalyzerContext,
    tree: Tree,
    left_out: Collection[str] = (),
    seconds: float = _SECONDS,
) -> _TreeResults:
    """Run a tool over a tree, with the settings that count; ``left_out`` are as in the base."""
    try:
        with files.scratch_folders("tree", "out") as (folder, out):
            lay(tree, context.policy, folder, left_out, context.base)
            printout = _printout(tool, program, context, tree, _TreePlace(folder, out, seconds))
    except (AnalyzerError, SarifError) as error:
        return _TreeResults(
            {}, printable(str(error))[:_SAID], isinstance(error, AnalyzerUnavailableError)
        )
    paths = [*filter(matcher(tool.files), tree.modes)]
    by_path: dict[str, list[AnalyzerResult]] = {path: [] for path in paths}
    for result in printout.results:
        by_path[paths[result.spots[0].text]].append(result)
    return _TreeResults({path: some for path, some in by_path.items() if path not in left_out})


class _TreePlace(Value):
    """A tree on the disk, the folder for output, and the seconds that a run may take."""

    folder: str
    out: str
    seconds: float


def _printout(
    tool: KnownTool, program: str, context: AnalyzerContext, tree: Tree, site: _TreePlace
) -> AnalyzerOutput:
    numbers = {path: at for at, path in enumerate(filter(matcher(tool.files), tree.modes))}

    def find(address: str) -> int | None:
        if address.startswith("file://"):
            address = unquote(address.removeprefix("file://"), errors="surrogateescape")
        for top in (context.root, site.folder):
            path = os.path.relpath(os.path.join(top, address), top)
            if path in numbers:
                return numbers[path]
        return None

    printed = _run(tool, tool.command, program, context, site)
    if tool.second and printed.returncode and not printed.data.strip():
        printed = _run(tool, tool.second, program, context, site)
    printout = json_formats.read(tool.format, printed.data, find) if printed.data.strip() else None
    fine = (0, 101) if tool.name == "clippy" else (0, 1)
    if printed.returncode == 0 and printout is None:
        return AnalyzerOutput((), 0)
    if printout is None or printed.returncode not in fine:
        words = (
            [result.message for result in (*printout.placeless, *printout.results)]
            if printout
            else []
        )
        tail = printed.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise AnalyzerError(next(iter(words), "") or tail or f"it ended with {printed.returncode}")
    return printout


def _run(
    tool: KnownTool,
    command: Sequence[str],
    program: str,
    context: AnalyzerContext,
    site: _TreePlace,
) -> ProgramOutput:
    is_isolated = sandboxed.available(context.sandbox) != "none"
    beside = {name: os.path.join(context.root, name) for name in context.dependencies}
    make_room(site.folder, beside, isolated=is_isolated)
    root = context.root if is_isolated else site.folder
    tree = ShownTree(site.folder, root, writable=True)
    first = os.path.join(os.path.dirname(program), command[0]) if tool.program else program
    words = list(command[1:])
    if tool.python:
        paths = (os.path.join(context.root, name, "bin", "python") for name in context.dependencies)
        words[:0] = [f"{tool.python}={path}" for path in paths if os.path.isfile(path)][:1]
    return sandboxed.run(
        (first, *words),
        context.sandbox,
        tree.with_beside(beside) if is_isolated else tree,
        out=site.out,
        network=False,
        seconds=site.seconds,
        limits=JobLimits(wall=site.seconds),
        root=context.root,
    )


def _recorded(
    tool: KnownTool, seen: _TreeResults, tree: Tree, context: AnalyzerContext
) -> dict[str, list[list[object]] | str]:
    """The results in JSON by a mark of each file, or why the tool failed."""
    every = filter(matcher(tool.files), tree.modes) if seen.why else (*seen.by_path, *seen.failed)
    paths = [path for path in every if context.paths is None or path in context.paths]
    contents = tree.read(path for path in paths if not is_setting(path))
    return {
        mark(path, content): seen.why
        or seen.failed.get(path)
        or [
            [*tuple(result.spots[0])[1:], result.rule, result.level, result.message, result.help]
            for result in seen.by_path[path]
        ]
        for path, content in contents.items()
    }


def _elsewhere(
    tool: KnownTool, head: _TreeResults, base: _TreeResults, paths: Collection[str]
) -> list[str]:
    """A note on new results in files that the change leaves alone."""
    counts = [
        Counter(
            (path, result.rule, result.message)
            for path, some in seen.by_path.items()
            if path not in paths
            for result in some
        )
        for seen in (head, base)
    ]
    new = list((counts[0] - counts[1]).elements())
    if not new:
        return []
    path, _, message = new[0]
    text = f"{count(len(new), 'new result')} of {tool.name} in files that this change leaves alone"
    return [f"{text}, such as {printable(path)}: {message}"[: 2 * _SAID]]
