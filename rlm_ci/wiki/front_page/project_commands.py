"""How a project is set up, built, run, tested and checked: the commands, each with its place."""

from __future__ import annotations

from rlm_ci.text.neutralise import clip, code
from rlm_ci.validators.detect import LOCKS
from rlm_ci.values import Value
from rlm_ci.wiki.facts.commands import ProjectCommand, is_document, is_workflow
from rlm_ci.wiki.facts.purpose import BUILD, CHECK, DOCS, OTHER, RUN, SETUP, TEST
from rlm_ci.wiki.pages.paths import folder_of, is_aside, is_beside, is_test

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.module_page import PageSources

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
            "commands": ", ".join(
                " ".join(_other(placed_command, world).values()) for placed_command in every
            ),
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
    if text:
        line = entry.line_start if entry is not None else 1
        yield PlacedCommand(facts.path, ProjectCommand(RUN, text, line, is_usual=True))


def go_folder(path: str) -> str:
    """The package of a file, as the command ``go`` wants it."""
    folder = folder_of(path)
    return f"./{folder}" if folder else "."


def _is_plain(folder: str) -> bool:
    return folder.isascii() and all(char.isalnum() or char in "-_./" for char in folder)
