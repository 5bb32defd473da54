"""Command lines, read by the rows of the settings table."""

from __future__ import annotations

from rlm_ci.config.settings import nearest
from rlm_ci.errors import UsageError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.config.settings import Setting


class Arguments(Value):
    """A command line: flags by setting key, positionals, and paths after ``--``."""

    flags: dict[str, Any]
    positionals: tuple[str, ...]
    trailing_paths: tuple[str, ...]
    help: bool = False
    version: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.positionals, *self.trailing_paths)


#: Similarity from which on an unknown option counts as misspelt.
_ALIKE = 0.8
#: Options of every command that are no settings.
_ALWAYS = ("-h", "--help", "-V", "--version")


def split_command(argv: Sequence[str], rows: Iterable[Setting]) -> tuple[str | None, list[str]]:
    """The command and the other arguments; common flags may be on both sides of it.

    Raises UsageError for an option before the command that is not in ``rows``.
    """
    options = _options(rows)
    position = 0
    while position < len(argv):
        word = argv[position]
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            return word, [*argv[:position], *argv[position + 1 :]]
        name, equals, _ = word.partition("=")
        row = options.get(name, (None, False))[0]
        if row is None and name not in _ALWAYS:
            is_early = any(not word.startswith("-") for word in argv[position:])
            hint = _hint(name, options, "rlm-ci")
            if is_early and not hint.startswith("did you mean"):
                hint += "; put the options of a command after it"
            raise UsageError(f"unknown option {name[:80]!r}", where="rlm-ci", hint=hint)
        position += 2 if row is not None and row.kind != "boolean" and not equals else 1
    return None, list(argv)


def parse(argv: Sequence[str], rows: Iterable[Setting], usage: str) -> Arguments:
    """Read ``argv``. Raises UsageError, which names the word that is wrong."""
    options = _options(rows)
    flags: dict[str, Any] = {}
    positionals: list[str] = []
    words = iter(argv)
    for word in words:
        if word == "--":
            return Arguments(flags, tuple(positionals), tuple(words))
        if word in _ALWAYS:
            is_version = word in ("-V", "--version")
            return Arguments(flags, tuple(positionals), (), help=not is_version, version=is_version)
        if not word.startswith("-") or word == "-":
            positionals.append(word)
            continue
        name, equals, value = word.partition("=")
        row, negated = options.get(name, (None, False))
        if row is None:
            hint = _hint(name, options, usage)
            raise UsageError(f"unknown option {name[:80]!r}", where=usage, hint=hint)
        if row.kind == "boolean":
            if equals:
                raise UsageError(f"{name} takes no value", where=usage, hint=f"write {name}")
            flags[row.key] = not negated
            continue
        if not equals:
            value = next(words, "")
            if value in options or value == "--":
                value = ""
        if not value:
            raise UsageError(f"{name} needs a value", where=usage, hint=f"{name} {row.metavar}")
        if row.kind == "list" and row.key in flags:  # given once more
            value = f"{flags[row.key]},{value}"
        flags[row.key] = value
    return Arguments(flags, tuple(positionals), ())


def _hint(name: str, options: Mapping[str, tuple[Setting, bool]], usage: str) -> str:
    """The option that is meant, or where all of them are listed."""
    form = options.get("--format")
    if form and name[2:] in form[0].choices:
        return f"did you mean --format {name[2:]}?"
    close = nearest(name, list(options), cutoff=_ALIKE)
    return close if close.startswith("did you mean") else f"{usage} --help lists the options"


def _options(rows: Iterable[Setting]) -> dict[str, tuple[Setting, bool]]:
    options: dict[str, tuple[Setting, bool]] = {}
    for row in rows:
        if row.flag:
            options[row.flag] = (row, False)
            if row.kind == "boolean":
                options[f"--no-{row.flag[2:]}"] = (row, True)
        if row.short:
            options[row.short] = (row, False)
    return options
