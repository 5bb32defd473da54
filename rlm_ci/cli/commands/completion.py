"""``rlm-ci completion``: a script for tab completion, from the table of commands and options."""

from __future__ import annotations

from argparse import ArgumentParser

import shtab

from rlm_ci import checks, cli, errors
from rlm_ci.agents.agent import AGENTS
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.option_help import first_clause
from rlm_ci.config.settings import Settings
from rlm_ci.environments.names import supported_environments
from rlm_ci.errors import UsageError
from rlm_ci.judge.options import output_of
from rlm_ci.lab.frameworks import supported_frameworks
from rlm_ci.report import rules
from rlm_ci.runs.find import LATEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.config.settings import Setting

SUMMARY = "print a script for tab completion, for bash, zsh or fish"
USAGE = "bash | zsh | fish"
TAKES = ("one shell: bash, zsh or fish", 1, 1)
EXAMPLES = (
    "rlm-ci completion bash > ~/.rlm-ci.bash",
    'rlm-ci completion zsh > "${fpath[1]}/_rlm-ci"',
    "rlm-ci completion fish > ~/.config/fish/completions/rlm-ci.fish",
)
FORMS = ("text",)
EXITS = {errors.OK: "the script is printed"}
ROWS = COMMON

_SHELLS = ("bash", "zsh", "fish")
#: Metavars of words that we know; of others a shell completes file names.
#: Ids of runs are not looked up: in a hostile repository their names are the shell's input.
_WORDS = {
    "[CHECK...]": checks.names,
    "RULE": rules.rule_names,
    "RUN": lambda: (LATEST,),
    "REPORT|RUN|RECEIPT": lambda: (LATEST,),
}
#: Options whose values have names that we know, beside others.
_VALUES = {
    "--agent": AGENTS,
    "--environment": supported_environments(),
    "--framework": supported_frameworks(),
}
_LONGEST = 70


def run(arguments: Arguments) -> int:
    shell = arguments.words[0]
    if shell not in _SHELLS:
        raise UsageError(
            f"no completion for the shell {shell[:80]!r}",
            where="rlm-ci completion",
            hint=f"one of {', '.join(_SHELLS)}",
        )
    output = output_of(Settings(ROWS, arguments.flags)).require_text("completion")
    output.emit(shtab.complete(_parser(), shell) + "\n")
    return errors.OK


def _parser() -> ArgumentParser:
    """All commands and their options as argparse has them, which is what the generator reads."""
    parser = ArgumentParser("rlm-ci")
    _add_options(parser, COMMON)
    parser.add_argument("-V", "--version", action="version", help="show the version")
    commands = parser.add_subparsers()
    for name in cli.COMMANDS:
        command = cli.load(name)
        child = commands.add_parser(name, help=_short(command.SUMMARY))
        forms = {form.split()[0]: form for form in command.USAGE.split(" | ")}
        actions = [word for word in forms if word.isalpha() and word.islower()]
        if not actions:
            _add_options(child, cli.options(command, []))
            _add_words(child, _WORDS.get(next(iter(forms))))
            continue
        children = child.add_subparsers()
        for action in actions:
            grandchild = children.add_parser(action, help=_short(forms[action]))
            _add_options(grandchild, cli.options(command, [action]))
            _add_words(grandchild)
    explained = commands.add_parser("help", help="show the help of a command")
    _add_words(explained, lambda: cli.COMMANDS)
    return parser


def _add_words(parser: ArgumentParser, names: Callable[[], Iterable[str]] | None = None) -> None:
    """Add what stands beside the options: words with these names, or files."""
    words = parser.add_argument("words", nargs="*", choices=names and tuple(names()))
    if names is None:
        words.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab reads it


def _add_options(parser: ArgumentParser, rows: Iterable[Setting]) -> None:
    for row in rows:
        if row.flag is None:
            continue
        names = [*((row.short,) if row.short else ()), row.flag]
        if row.kind == "boolean":
            if row.default is not True:
                parser.add_argument(*names, action="store_true", help=_short(row.help))
            if row.default is not False:
                negation = f"--no-{row.flag[2:]}"
                parser.add_argument(negation, action="store_true", help=_short(row.off or row.help))
            continue
        choices = row.choices or _VALUES.get(row.flag)
        option = parser.add_argument(*names, choices=choices, help=_short(row.help))
        if not choices:
            option.complete = shtab.FILE  # type: ignore[attr-defined]


def _short(text: str) -> str:
    """A help text on one short line, with the percent signs that argparse wants."""
    clause = first_clause(text)
    if len(clause) > _LONGEST:
        clause = f"{clause[: _LONGEST - 1]}…"
    return clause.replace("%", "%%")
