"""How a project is set up, built, run, tested and checked: the commands, each with its place.

The first page has the one for each purpose on which guide, manifests and CI agree.
"""

from __future__ import annotations

import re

from rlm_ci.text.neutralise import clip, code
from rlm_ci.validators.detect import LOCKS
from rlm_ci.values import Value
from rlm_ci.wiki.facts.commands import (
    BUILD,
    CHECK,
    DOCS,
    OTHER,
    RUN,
    SETUP,
    TEST,
    ProjectCommand,
    bare,
    by_command,
    is_document,
    is_workflow,
    task_of,
)
from rlm_ci.wiki.pages.paths import folder_of, is_aside, is_beside, is_test

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.module_page import PageSources

    _Rank = tuple[bool, bool, str, int]


#: What a reader wants to do, in the order of the page.
_HEADINGS = {
    SETUP: "set up", BUILD: "build", RUN: "run", TEST: "test", CHECK: "check", DOCS: "write docs",
}  # fmt: skip
#: Rows of one purpose; of those that only CI runs, where there are others; other tasks.
_ROWS, _FROM_CI, _OTHERS = 6, 2, 16
#: Folders with a manifest of their own; what is shown of each, one command of a kind.
_FOLDERS, _OF_FOLDER = 16, (BUILD, RUN, TEST)
#: Characters of what a command runs.
_RUNS = 100
#: What stands for a usual command where uv has locked the project.
_UV = {
    "python -m pip install -e .": "uv sync",
    "python -m build": "uv build",
    "python -m pytest": "uv run pytest",
}


class PlacedCommand(Value):
    """A command and the file that says it."""

    path: str
    command: ProjectCommand

    @property
    def is_of_ci(self) -> bool:
        return is_workflow(self.path)

    def link(self, world: PageSources, *, cell: bool = False) -> str:
        """Where it stands."""
        line = self.command.line
        return world.register.link(self.path, line, line, cell=cell)

    @property
    def rank(self) -> tuple[bool, bool, str, int]:
        """What a person types first: no step of CI, what is spelled out, not in a text."""
        is_late = self.command.is_usual or is_document(self.path)
        return self.is_of_ci, is_late, self.path, self.command.line


def project_commands(world: PageSources) -> list[PlacedCommand]:
    """The commands of the project as a whole, the best of each purpose first, each text once."""
    by_text: dict[str, PlacedCommand] = {}
    for command in sorted(every_command(world), key=lambda command: command.rank):
        by_text.setdefault(command.command.text, command)
    return list(by_text.values())


def command_table(world: PageSources) -> tuple[list[dict[str, str]], list[dict[str, str]], int]:
    """The rows of the table, other tasks, and how many commands are in neither."""
    every = project_commands(world)
    rows, left = [], 0
    for purpose, heading in _HEADINGS.items():
        commands = [command for command in every if command.command.purpose == purpose]
        shown = _chosen(commands)
        left += len(commands) - len(shown)
        rows += [{"to": heading, **_row(command, world)} for command in shown]
    others = [command for command in every if command.command.purpose == OTHER]
    left += max(0, len(others) - _OTHERS)
    return rows, [_other(command, world) for command in others[:_OTHERS]], left


def folder_commands(world: PageSources) -> tuple[list[dict[str, str]], int]:
    """How each package below the top is built, run and tested, and how many are not shown."""
    top, locks = _top(world)
    by_folder: dict[str, list[PlacedCommand]] = {}
    for path, file in world.files.items():
        folder = folder_of(path)
        is_other = is_workflow(path) or is_document(path) or is_beside(path) or is_test(path)
        if folder != top and not is_other and not is_aside(path):
            by_folder.setdefault(folder, []).extend(
                PlacedCommand(path, _for_manager(command, path, locks)) for command in file.commands
            )
    rows = {folder: _of_each_kind(every) for folder, every in sorted(by_folder.items())}
    folders = [(folder, every) for folder, every in rows.items() if every]
    return [
        {
            "folder": code(folder),
            "commands": ", ".join(" ".join(_other(row, world).values()) for row in every),
        }
        for folder, every in folders[:_FOLDERS]
    ], max(0, len(folders) - _FOLDERS)


def _of_each_kind(every: list[PlacedCommand]) -> list[PlacedCommand]:
    """The best command of each kind that a folder shows."""
    best: dict[str, PlacedCommand] = {}
    for command in sorted(every, key=lambda command: command.rank):
        best.setdefault(command.command.purpose, command)
    return [best[purpose] for purpose in _OF_FOLDER if purpose in best]


def _chosen(commands: Sequence[PlacedCommand]) -> list[PlacedCommand]:
    typed = [command for command in commands if not command.is_of_ci][:_ROWS]
    of_ci = [command for command in commands if command.is_of_ci]
    return [*typed, *of_ci[: min(_FROM_CI if typed else _ROWS, _ROWS - len(typed))]]


def _row(placed_command: PlacedCommand, world: PageSources) -> dict[str, str]:
    command = placed_command.command
    runs = code(clip(command.runs, _RUNS), cell=True) if command.runs.strip() else ""
    if command.is_usual:
        runs = f"“usual”, with {runs}" if runs else "“usual”"
    return {
        "text": code(command.text, cell=True),
        "runs": runs,
        "link": placed_command.link(world, cell=True),
    }


def _other(command: PlacedCommand, world: PageSources) -> dict[str, str]:
    return {"text": code(command.command.text), "link": command.link(world)}


def every_command(world: PageSources) -> Iterator[PlacedCommand]:
    """Each command of the project as a whole, in each place that says it."""
    top, locks = _top(world)
    for path, file in world.files.items():
        if folder_of(path) == top or is_workflow(path) or (is_document(path) and not top):
            for command in file.commands:
                yield PlacedCommand(path, _for_manager(command, path, locks))
    for file in world.program:
        yield from _started(file)


def _top(world: PageSources) -> tuple[str, set[str]]:
    """The folder at whose top a person works, and the names of the files in it."""
    top = world.outside.under if world.outside is not None else ""
    paths = [*world.files, *(path for path, _ in world.omitted)]
    return top, {path.rpartition("/")[2] for path in paths if folder_of(path) == top}


def _for_manager(command: ProjectCommand, path: str, locks: Collection[str]) -> ProjectCommand:
    """The command for the package manager whose lock file is there."""
    if path.endswith("package.json") and command.text.startswith("npm "):
        manager = next((name for lock, name in LOCKS if lock in locks), "npm")
        return command.replace(text=f"{manager}{command.text.removeprefix('npm')}")
    if command.is_usual and "uv.lock" in locks:
        return command.replace(text=_UV.get(command.text, command.text))
    return command


def _started(facts: FileFacts) -> Iterator[PlacedCommand]:
    """How a program of a repository is started by its file."""
    folder, _, name = facts.path.rpartition("/")
    entry = next((entry for entry in facts.outline.entries if entry.kind == "main"), None)
    text = ""
    if name == "__main__.py" and facts.outline.lines:
        parts = folder.removeprefix("src/").removeprefix("lib/").split("/")
        text = f"python -m {'.'.join(parts)}" if all(map(str.isidentifier, parts)) else ""
    elif entry is not None and facts.outline.language == "Go" and _is_plain(folder):
        text = f"go run {go_folder(facts.path)}"
    elif entry is not None and facts.path == "src/main.rs":
        text = "cargo run"
    line = entry.line_start if entry is not None else 1
    if text:
        yield PlacedCommand(facts.path, ProjectCommand(RUN, text, line, is_usual=True))
    elif entry is not None and _RUNS_TESTS.fullmatch(facts.path):
        text = f"python {facts.path}"
        yield PlacedCommand(facts.path, ProjectCommand(TEST, text, line, is_usual=True))


def go_folder(path: str) -> str:
    """The package of a file, as the command ``go`` wants it."""
    folder = folder_of(path)
    return f"./{folder}" if folder else "."


def _is_plain(folder: str) -> bool:
    return folder.isascii() and all(char.isalnum() or char in "-_./" for char in folder)


_PURPOSES = {SETUP: "set up", BUILD: "build", RUN: "run", TEST: "test", CHECK: "check"}
#: Who says a command, the first of which is shown as it stands: a guide for people, a file in which
#: it is written, a file with which it usually goes, CI.
_GUIDE, _WRITTEN, _USUAL, _CI = range(4)
#: Programs that are known by two words.
_TWO_WORDS = frozenset((
    "cargo", "go", "npm", "pnpm", "yarn", "bun", "pip", "pip3", "uv", "poetry", "pdm", "hatch",
    "bundle", "composer", "dotnet", "deno", "mvn", "mvnw", "gradle", "gradlew", "pre-commit",
))  # fmt: skip
#: Tools of one language, or of a container around all of the program.
_TOOLS = {
    **dict.fromkeys(
        ("npm", "pnpm", "yarn", "npx", "bun", "eslint", "vitest", "jest"), "JavaScript"
    ),
    **dict.fromkeys(("pip", "pip3", "uv", "poetry", "hatch", "tox", "nox", "pytest"), "Python"),
    **dict.fromkeys(("bundle", "gem", "rake", "rspec"), "Ruby"),
    "cargo": "Rust",
    "docker": "Docker",
    "go": "Go",
}
_SAME = {
    "npm ci": "npm install",
    "npm i": "npm install",
    "tox run": "tox",
    "pip3 install": "pip install",
}
#: The languages of a manifest's program, and the part of all lines, as a divisor, that make one.
_MANIFESTS = {
    "package.json": ("JavaScript", "TypeScript", "TSX"),
    **dict.fromkeys(("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"), ("Python",)),
    "Gemfile": ("Ruby",),
}  # fmt: skip
_MUCH = 20
#: Tasks of one kind of tests.
_KINDS = frozenset(("integration", "e2e", "coverage", "cov", "doctest", "smoke", "functional"))
#: What runs one test, or the tests of one file.
_SINGLE = re.compile(
    r"\s-k\b|::|\s-(?:test\.)?run[ =]|\s--test[ =]|\s--tests?\s|-Dtest=|\s-n\s*/"
    r"|\b(?:jest|vitest|bun)\b.*\s-t\s"
    r"|\b(?:tests?|spec|src|__tests__)/\S*\.(?:py|[cm]?[jt]sx?|rb|php)\b"
)
#: All tests of one target of cargo.
_TARGET = re.compile(r"\bcargo\b.*\s--test[ =][a-z]")
_OF_NODE = {"vitest": "vitest run", "jest": "jest", "mocha": "mocha", "ava": "ava", "tap": "tap"}
_NODE_TEST = re.compile(r"\bnode\b[^&|;]*?\s--test\b(?!-)[^&|;]*")
#: What of such a command names files: a pattern, a path, a folder of tests.
_OF_FILES = re.compile(r"['\"]?[\w./@-]*(?:\*|\.[cm]?[jt]sx?['\"]?$)|\.?/?tests?/?$")
_SCRIPTS = frozenset(("JavaScript", "TypeScript", "TSX"))
#: A program at the top that runs the tests.
_RUNS_TESTS = re.compile(r"(?:run_?)?tests?\.py")
_JVM = re.compile(r"(?:\./)?(?:mvnw?|gradlew?)\b")
_TEST_NAME = re.compile(r"test_\w+|Test[A-Z]\w*")


def agreed_commands(world: PageSources, tests: Sequence[FileFacts]) -> list[dict[str, str]]:
    """A row for each purpose that has a command; that of a test is there in any case.

    ``tests`` are files of tests, the first of which is the example of a single one.
    """
    every = [command for command in every_command(world) if _is_of_program(command, world)]
    names = {file.project.lower() for file in world.files.values() if file.project}
    rows = []
    for purpose, heading in _PURPOSES.items():
        commands = [command for command in every if command.command.purpose == purpose]
        if purpose == TEST:
            single = [command for command in commands if _SINGLE.search(command.command.text)]
            commands = [command for command in commands if command not in single] or commands
            rows += [{"to": heading, **_agreed(commands, names, world)}]
            rows += (
                [{"to": "one test", **_single(single, commands, tests, world)}] if commands else []
            )
        elif purpose == RUN:
            # What serves the documentation, or builds again and again, runs no program.
            commands = [
                command
                for command in commands
                if by_command(command.command.runs) in ("", OTHER, RUN)
            ]
        if purpose != TEST and commands:
            rows.append({"to": heading, **_agreed(commands, names, world)})
    return rows if every else []


def _agreed(
    commands: Sequence[PlacedCommand], names: set[str], world: PageSources
) -> dict[str, str]:
    """The command that most kinds of files say, and a link to one of each kind."""
    groups: dict[str, list[PlacedCommand]] = {}
    for command in commands:
        groups.setdefault(_meaning(command.command.text), []).append(command)
    if not groups:
        return {"text": "not found", "where": ""}

    languages = _main_languages(world)

    def rank(group: list[PlacedCommand]) -> tuple[bool, bool, bool, int, int, _Rank]:
        kinds = {_kind(command) for command in group}
        is_own = any(command.command.text.lower() in names for command in group)
        is_part = all(_is_part(command.command.text) for command in group)
        is_foreign = _for_language(group[0].command.text) not in ("", *languages)
        return (
            not is_own,
            is_foreign,
            is_part,
            -len(kinds),
            min(kinds),
            min(command.rank for command in group),
        )

    group = min(groups.values(), key=rank)
    best: dict[int, PlacedCommand] = {}
    for command in sorted(group, key=lambda command: (len(command.command.text), command.rank)):
        best.setdefault(_kind(command), command)
    first = best[min(best)]
    text = code(first.command.text, cell=True)
    runs = next(
        (command.command.runs for _, command in sorted(best.items()) if command.command.runs), ""
    )
    notes = [f"runs {code(clip(runs, _RUNS), cell=True)}"] if runs.strip() else []
    language = _for_language(first.command.text)
    notes += [f"for {language}"] if language not in ("", *languages) else []
    notes += ["usual for such a file"] if set(best) <= {_USUAL} else []
    links = [command.link(world, cell=True) for _, command in sorted(best.items())]
    return {"text": f"{text} ({'; '.join(notes)})" if notes else text, "where": ", ".join(links)}


def _main_languages(world: PageSources) -> tuple[str, ...]:
    """The languages of at least a third of the program, all of JavaScript as one."""
    lines: dict[str, int] = {}
    for file in world.program:
        language = file.outline.language
        language = "JavaScript" if language in _SCRIPTS else language
        lines[language] = lines.get(language, 0) + file.outline.lines
    total = sum(lines.values())
    return tuple(language for language in lines if 3 * lines[language] >= total)


def _for_language(text: str) -> str:
    """The language, or the container, whose tool a command runs; "" for a tool of many."""
    return _TOOLS.get(next(iter(bare(text.split()).split()), ""), "")


def _is_part(text: str) -> bool:
    """Whether a named task does only a part: its name is of several words, or names a kind."""
    task = task_of(bare(text.split()))
    return bool(re.search(r"[-_:.]", task)) or task in _KINDS or "$" in text


def _is_of_program(command: PlacedCommand, world: PageSources) -> bool:
    """Whether a usual command is of a language that the program has, and not of its tools."""
    languages = _MANIFESTS.get(command.path.rpartition("/")[2])
    if languages is None or not command.command.is_usual:
        return True
    files = world.program
    total = sum(file.outline.lines for file in files)
    lines = sum(file.outline.lines for file in files if file.outline.language in languages)
    return _MUCH * lines >= total


def _kind(command: PlacedCommand) -> int:
    if command.is_of_ci:
        return _CI
    if is_document(command.path):
        return _GUIDE
    return _USUAL if command.command.is_usual else _WRITTEN


def _meaning(text: str) -> str:
    """What two spellings of a command have in common: the program, and its task."""
    words = bare(text.split()).split()
    task = task_of(" ".join(words))
    if task:
        return f"task {task}"
    head = " ".join(words[: 1 + (words[:1] != [] and words[0] in _TWO_WORDS)])
    return _SAME.get(head, head)


def _single(
    single: Sequence[PlacedCommand], every: Sequence[PlacedCommand], tests: Sequence[FileFacts],
    world: PageSources,
) -> dict[str, str]:  # fmt: skip
    """How one test is run: as a guide says it, else as its runner usually has it."""
    commands = [
        command
        for command in single
        if not command.is_of_ci and not _TARGET.search(command.command.text)
    ]
    if commands:
        best = min(
            commands, key=lambda command: (_kind(command), len(command.command.text), command.rank)
        )
        text = code(best.command.text, cell=True)
        return {"text": text, "where": best.link(world, cell=True)}
    texts = _runners(every)
    for test in tests:
        usual = _of_file(test, texts)
        if usual:
            link = world.register.file(test.path, cell=True)
            return {"text": f"{code(usual, cell=True)} (usual)", "where": link}
    of_cargo = (command for command in every if command.command.text.startswith("cargo test"))
    cargo = next(of_cargo, None)
    if cargo is not None:  # its tests stand beside the code
        return {"text": "`cargo test NAME` (usual)", "where": cargo.link(world, cell=True)}
    return {"text": "not found", "where": ""}


def _runners(every: Sequence[PlacedCommand]) -> list[str]:
    """What the commands of tests run, without what only starts that."""
    tests = [row.command for row in every if row.command.purpose == TEST]
    texts = [command.text for command in tests] + [command.runs for command in tests]
    return [bare(text.split()) for text in texts]


def _of_python(test: FileFacts, name: str, texts: Sequence[str]) -> str:
    modules = {line.module for line in test.outline.imports}
    if "pytest" in modules or any(text.startswith(("pytest", "py.test")) for text in texts):
        return f"python -m pytest {test.path}" + (f" -k {name}" if name else "")
    if "unittest" in modules:
        return f"python -m unittest {test.path.removesuffix('.py').replace('/', '.')}"
    return ""


def _of_file(test: FileFacts, texts: Sequence[str]) -> str:
    """How the runner that ``texts`` name runs one test of a file; "" for none of these."""
    path, language = test.path, test.outline.language
    if not re.fullmatch(r"[\w./@-]+", path, re.ASCII):
        return ""
    names = (symbol.name.rpartition(".")[2] for symbol in test.outline.symbols)
    name = next((name for name in names if _TEST_NAME.fullmatch(name)), "")
    if language == "Python":
        return _of_python(test, name, texts)
    if language == "Go" and any(text.startswith("go test") for text in texts):
        only = f" -run {name}" if name else ""
        return f"go test {go_folder(path)}{only}"
    folder, _, file = path.rpartition("/")
    if language == "Rust" and folder == "tests" and any(text.startswith("cargo") for text in texts):
        return f"cargo test --test {file.removesuffix('.rs')}"
    name = file.partition(".")[0]
    if language == "Java" and (text := next((text for text in texts if _JVM.match(text)), "")):
        runner = text.split()[0]
        return f"{runner} test {'--tests ' if 'gradle' in runner else '-Dtest='}{name}"
    if language == "Ruby" and any("rspec" in text or text == "rake spec" for text in texts):
        return f"bundle exec rspec {path}"
    if language == "Ruby" and any(text.startswith("rake test") for text in texts):
        return f"rake test TEST={path}"
    if language not in _SCRIPTS:
        return ""
    for runner, words in _OF_NODE.items():
        if any(re.search(rf"\b{runner}\b", text) for text in texts):
            return f"npx {words} {path}"
    for match in filter(None, map(_NODE_TEST.search, texts)):
        # With its options, and this file in place of all.
        options = [word for word in match[0].split() if not _OF_FILES.match(word)]
        return " ".join([*options, path])
    return ""
