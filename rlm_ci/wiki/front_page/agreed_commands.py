"""The one command for each purpose on which guide, manifests and CI agree; and one single test."""

from __future__ import annotations

import re

from rlm_ci.text.neutralise import clip, code
from rlm_ci.wiki.facts.commands import is_document
from rlm_ci.wiki.facts.purpose import BUILD, CHECK, RUN, SETUP, TEST, bare, task_of
from rlm_ci.wiki.front_page.project_commands import every_command, go_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    _Rank = tuple[bool, bool, str, int]

    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.front_page.project_commands import PlacedCommand
    from rlm_ci.wiki.pages.module_page import PageSources

_PURPOSES = {SETUP: "set up", BUILD: "build", RUN: "run", TEST: "test", CHECK: "check"}
#: Characters of what a command runs.
_RUNS = 100
#: Who says a command, the first of which is shown as it stands: a guide for people, a file in which
#: it is written, a file with which it usually goes, CI.
_GUIDE, _WRITTEN, _USUAL, _CI = range(4)
#: Programs that are known by two words.
_TWO_WORDS = frozenset((
    "cargo", "go", "npm", "pnpm", "yarn", "bun", "pip", "pip3", "uv", "poetry", "pdm", "hatch",
    "bundle", "composer", "dotnet", "deno", "mvn", "mvnw", "gradle", "gradlew", "pre-commit",
))  # fmt: skip
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
_OF_NODE = {"vitest": "vitest run", "jest": "jest", "mocha": "mocha", "ava": "ava", "tap": "tap"}
_SCRIPTS = frozenset(("JavaScript", "TypeScript", "TSX"))
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
        elif commands:
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

    def rank(group: list[PlacedCommand]) -> tuple[bool, bool, int, int, _Rank]:
        kinds = {_kind(command) for command in group}
        is_own = any(command.command.text.lower() in names for command in group)
        is_part = all(_is_part(command.command.text) for command in group)
        return not is_own, is_part, -len(kinds), min(kinds), min(command.rank for command in group)

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
    notes += ["usual for such a file"] if set(best) <= {_USUAL} else []
    links = [command.link(world, cell=True) for _, command in sorted(best.items())]
    return {"text": f"{text} ({'; '.join(notes)})" if notes else text, "where": ", ".join(links)}


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
    commands = [command for command in single if not command.is_of_ci]
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
    texts = [
        bare(command.command.text.split()) for command in every if command.command.purpose == TEST
    ]
    return texts + [
        bare(command.command.runs.split()) for command in every if command.command.purpose == TEST
    ]


def _of_file(test: FileFacts, texts: Sequence[str]) -> str:
    """How the runner that ``texts`` name runs one test of a file; "" for none of these."""
    path, language = test.path, test.outline.language
    if not re.fullmatch(r"[\w./-]+", path, re.ASCII):
        return ""
    names = (symbol.name.rpartition(".")[2] for symbol in test.outline.symbols)
    name = next((name for name in names if _TEST_NAME.fullmatch(name)), "")
    if language == "Python" and any(text.startswith(("pytest", "py.test")) for text in texts):
        only = f" -k {name}" if name else ""
        return f"python -m pytest {path}{only}"
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
    for runner, words in _OF_NODE.items():
        if language in _SCRIPTS and any(re.search(rf"\b{runner}\b", text) for text in texts):
            return f"npx {words} {path}"
    return ""
