"""``rlm-ci completion``: a script for tab completion, from the table of commands and options."""

from __future__ import annotations

import re

from rlm_ci import checks, cli, errors
from rlm_ci.agents.agent import AGENTS
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.settings import Settings
from rlm_ci.environments.names import supported_environments
from rlm_ci.errors import UsageError
from rlm_ci.judge.options import output_of
from rlm_ci.lab.frameworks import supported_frameworks
from rlm_ci.report import rule_texts
from rlm_ci.runs.find import LATEST
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.config.settings import Setting

SUMMARY = "print a script for tab completion, for bash, zsh or fish"
USAGE = "bash | zsh | fish"
TAKES = ("one shell: bash, zsh or fish", 1, 1)
EXAMPLES = (
    "rlm-ci completion bash > ~/.rlm-ci.bash",
    "rlm-ci completion zsh > ~/.rlm-ci.zsh",
    "rlm-ci completion fish > ~/.rlm-ci.fish",
)
FORMS = ("text",)
EXITS = {errors.OK: "the script is printed"}
ROWS = COMMON

_HELP = "help"


def _runs() -> tuple[str, ...]:
    return (LATEST,)


#: Metavars of words that we know; of others a shell completes file names.
#: Ids of runs are not looked up: in a hostile repository their names are the shell's input.
_SETS = {
    "[CHECK...]": checks.names,
    "RULE": rule_texts.known,
    "RUN": _runs,
    "REPORT|RUN": _runs,
}
#: Options whose values have names that we know, beside others.
_NAMED = {
    "--agent": AGENTS,
    "--environment": supported_environments(),
    "--framework": supported_frameworks(),
}
_LONGEST = 70


class _Option(Value):
    """An option: its ``names``, whether a value follows, and the ``choices`` of it, if few."""

    names: tuple[str, ...]
    help: str
    takes: bool
    choices: tuple[str, ...] = ()


class _Command(Value):
    """A command, the ``words`` that may follow it, and the options of all that it does."""

    name: str
    help: str
    words: tuple[str, ...]
    options: tuple[_Option, ...]


def run(arguments: Arguments) -> int:
    shells = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    shell = arguments.words[0]
    if shell not in shells:
        raise UsageError(
            f"no completion for the shell {shell[:80]!r}",
            where="rlm-ci completion",
            hint=f"one of {', '.join(shells)}",
        )
    output = output_of(Settings(ROWS, arguments.flags)).require_text("completion")
    output.emit(
        "\n".join(
            (
                f"# Tab completion of rlm-ci for {shell}: source it where the shell starts.",
                *shells[shell](),
            )
        )
        + "\n"
    )
    return errors.OK


# ── what there is ──


def _commands() -> Iterator[_Command]:
    for name in cli.COMMANDS:
        command = cli.load(name)
        firsts = [form.split()[0] for form in command.USAGE.split(" | ")]
        actions = [word for word in firsts if word.isalpha() and word.islower()]
        words = tuple(actions) or tuple(_SETS[firsts[0]]() if firsts[0] in _SETS else ())
        rows: dict[str, Setting] = {}
        for given in [[action] for action in actions] or [[]]:
            rows = {**{row.key: row for row in cli.options(command, given)}, **rows}
        yield _Command(name, command.SUMMARY, words, tuple(_options(rows.values())))


def _options(rows: Iterable[Setting]) -> Iterator[_Option]:
    for row in rows:
        flag, short = row.flag, (row.short,) if row.short else ()
        if flag is None:
            continue
        if row.kind == "boolean":
            if row.default is not True:
                yield _Option((*short, flag), row.help, takes=False)
            if row.default is not False:
                yield _Option((f"--no-{flag[2:]}",), row.off or row.help, takes=False)
        else:
            choices = row.choices or _NAMED.get(flag, ())
            yield _Option((*short, flag), row.help, takes=True, choices=choices)
    yield _Option(("-h", "--help"), "show the help", takes=False)


def _overall() -> tuple[_Option, ...]:
    """The options that may stand before a command."""
    version = _Option(("-V", "--version"), "show the version", takes=False)
    return (*_options(COMMON), version)


def _short(text: str) -> str:
    """A help text on one short line."""
    first = re.split(r"[;:] |\. ", re.sub(r" \((?:default|-).*?\)", "", text))[0]
    if len(first) > _LONGEST:
        first = f"{first[: _LONGEST - 1]}…"
    return first.rpartition(" (")[0] if first.count("(") > first.count(")") else first


def _values(options: Iterable[_Option]) -> list[str]:
    return [name for option in options if option.takes for name in option.names]


def _names(options: Iterable[_Option]) -> str:
    return " ".join(name for option in options for name in option.names)


# ── bash ──


_BASH = """\
_rlm_ci() {
  local cur prev word command="" words="" options="" values="" at
  cur=${COMP_WORDS[COMP_CWORD]}
  prev=${COMP_WORDS[COMP_CWORD - 1]}
  # Readline splits --flag=value into three words.
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  COMPREPLY=()
  for ((at = 1; at < COMP_CWORD; at++)); do
    word=${COMP_WORDS[at]}
    if [[ $word == -- ]]; then
      return
    elif [[ $word == = || " $values @COMMON@ " == *" $word "* ]]; then
      [[ ${COMP_WORDS[at + 1]} == = ]] || ((at++))
    elif [[ $word != -* && -z $command ]]; then
      command=$word
      case $command in
@CASES@
      esac
    fi
  done
  if [[ -z $command ]]; then
    words="@COMMANDS@" options="@OPTIONS@" values="@COMMON@"
  fi
  if [[ " $values " == *" $prev "* ]]; then
    case "$command $prev" in
@CHOICES@
    *) return ;;
    esac
  elif [[ $cur == -* ]]; then
    words=$options
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _rlm_ci rlm-ci"""


def _bash() -> Iterator[str]:
    overall = _overall()
    cases: list[str] = []
    choices: list[str] = []
    for command in _commands():
        cases.append(
            f'      {command.name}) words="{" ".join(command.words)}" '
            f'options="{_names(command.options)}" values="{" ".join(_values(command.options))}" ;;'
        )
        choices += _bash_choices(command.name, command.options)
    cases.append(f'      {_HELP}) words="{" ".join(cli.COMMANDS)}" ;;')
    choices += _bash_choices("", overall)
    filled = {
        "CASES": "\n".join(cases),
        "CHOICES": "\n".join(choices),
        "COMMANDS": " ".join((*cli.COMMANDS, _HELP)),
        "OPTIONS": _names(overall),
        "COMMON": " ".join(_values(overall)),
    }
    yield re.sub(r"@([A-Z]+)@", lambda found: filled[found[1]], _BASH)


def _bash_choices(command: str, options: Iterable[_Option]) -> Iterator[str]:
    for option in options:
        if option.choices:
            given = "|".join(f'"{command} {name}"' for name in option.names)
            yield f'    {given}) words="{" ".join(option.choices)}" ;;'


# ── zsh ──


def _zsh() -> Iterator[str]:
    yield from ("#compdef rlm-ci", "_rlm_ci() {", "  local curcontext=$curcontext state line")
    yield "  local -a commands=("
    for command in _commands():
        yield f"    {_quoted(f'{command.name}:{_short(command.help)}')}"
    yield from (f"    {_quoted(f'{_HELP}:show the help of a command')}", "  )")
    yield "  _arguments -C \\"
    yield from (f"    {spec} \\" for spec in _zsh_options(_overall()))
    # Three colons: the options that follow are those of the command.
    yield from ("    '1:command:->command' '*:::word:->words'", "  case $state in")
    yield "    command) _describe command commands ;;"
    yield from ("    words)", '      words=($line[1] "${words[@]}")', "      ((CURRENT += 1))")
    yield "      case $line[1] in"
    for command in _commands():
        yield f"        {command.name}) _arguments \\"
        yield from (f"          {spec} \\" for spec in _zsh_options(command.options))
        words = f"({' '.join(command.words)})" if command.words else "_files"
        yield f"          {_quoted(f'*:word:{words}')} ;;"
    yield f"        {_HELP}) _describe command commands ;;"
    yield from ("      esac ;;", "  esac", "}")
    # As a file of $fpath it is the function itself; else it is read by source.
    yield 'if [[ $funcstack[1] == _rlm-ci ]]; then _rlm_ci "$@"; else compdef _rlm_ci rlm-ci; fi'


def _zsh_options(options: Iterable[_Option]) -> Iterator[str]:
    for option in options:
        told = re.sub(r"([\[\]:\\])", r"\\\1", _short(option.help))
        values = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files"
        for name in option.names:
            sign = "=" if option.takes and name.startswith("--") else ""
            others = f"({' '.join(option.names)})" if len(option.names) > 1 else ""
            yield _quoted(f"{others}{name}{sign}[{told}]{values if option.takes else ''}")


# ── fish ──


def _fish() -> Iterator[str]:
    start = "complete -c rlm-ci"
    first = f"{start} -n __fish_use_subcommand"
    yield from (f"{first} {spec}" for spec in _fish_options(_overall()))
    for command in _commands():
        yield f"{first} -f -a {command.name} -d {_quoted(_short(command.help))}"
        within = f"{start} -n {_quoted(f'__fish_seen_subcommand_from {command.name}')}"
        if command.words:
            yield f"{within} -f -a {_quoted(' '.join(command.words))}"
        yield from (f"{within} {spec}" for spec in _fish_options(command.options))
    yield f"{first} -f -a {_HELP} -d 'show the help of a command'"
    listed = _quoted(" ".join(cli.COMMANDS))
    yield f"{start} -n {_quoted(f'__fish_seen_subcommand_from {_HELP}')} -f -a {listed}"


def _fish_options(options: Iterable[_Option]) -> Iterator[str]:
    for option in options:
        names = [
            f"-l {name[2:]}" if name[:2] == "--" else f"-s {name[1:]}" for name in option.names
        ]
        value = ["-r"] if option.takes else []
        if option.choices:
            value = ["-x", f"-a {_quoted(' '.join(option.choices))}"]
        yield " ".join((*names, *value, f"-d {_quoted(_short(option.help))}"))


def _quoted(text: str) -> str:
    """A word for zsh or fish, to the letter."""
    return "'" + text.replace("'", "’") + "'"
