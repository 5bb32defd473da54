"""Options as ``--help`` shows them: a line each, or with all that they say."""

from __future__ import annotations

from textwrap import fill, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rlm_ci.config.settings import Setting

#: The column where the help of an option begins.
_COLUMN = 28


def describe(rows: Iterable[Setting], width: int) -> str:
    """The options as ``--help`` lists them, wrapped at ``width`` columns."""
    lines = []
    for row in rows:
        if not row.flag:
            continue
        flag = f"{row.flag} {row.metavar}"
        if row.kind == "boolean":
            prefix = {True: "--no-", None: "--[no-]"}.get(row.default, "--")
            flag = f"{prefix}{row.flag[2:]}"
        name = f"{row.short}, {flag}" if row.short else f"    {flag}"
        text = row.off if row.kind == "boolean" and row.default is True else row.help
        if row.kind == "choice":
            text = with_choices(text, row.choices)
        if row.kind not in ("boolean", "list", "table") and row.default is not None:
            default = f"{row.default:g}" if isinstance(row.default, float) else row.default
            text += f" (default: {default})"
        wrapped = wrap(text, width - _COLUMN)
        first = f"  {name}"
        if len(first) > _COLUMN - 2:
            lines.append(first)
            first = ""
        lines.append(f"{first:<{_COLUMN}}{wrapped[0]}")
        lines += [" " * _COLUMN + line for line in wrapped[1:]]
    return "\n".join(lines)


def outline(
    rows: Iterable[Setting],
    common: Collection[str],
    width: int,
    folded: Mapping[str, str] | None = None,
) -> str:
    """The options as ``--help`` lists them, a line each.

    Those with keys of ``common`` are named together in the end, but for ``--format``, and so are
    those of the sections ``folded``, with the command that describes them.
    """
    lines, names = [], []
    elsewhere: dict[str, list[str]] = {}
    for row in rows:
        if not row.flag:
            continue
        command = (folded or {}).get(row.key.partition(".")[0])
        if command:
            elsewhere.setdefault(command, []).append(shown_flag(row))
        elif row.key in common and row.key != "format":
            names.append(row.short or shown_flag(row))
        else:
            value = "" if row.kind == "boolean" else f" {row.metavar}"
            short = f"{row.short}, " if row.short else ""
            name = f"  {short}{shown_flag(row)}{value}"
            room = width - max(_COLUMN, len(name) + 2)
            lines.append(f"{name:<{_COLUMN - 2}}  {_brief(row, room)}")
    paragraphs = [
        f"as for rlm-ci {command}: {', '.join(flags)}" for command, flags in elsewhere.items()
    ]
    paragraphs.append(f"as for every command: {', '.join((*names, '-V', '-h'))}")
    folds = [
        fill(
            text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False,
            break_long_words=False,
        )
        for text in paragraphs
    ]  # fmt: skip
    return "\n".join((*lines, *folds))


def shown_flag(row: Setting) -> str:
    prefix = {True: "--no-", None: "--[no-]"}.get(row.default, "--")
    return f"{prefix}{str(row.flag)[2:]}" if row.kind == "boolean" else str(row.flag)


def _brief(row: Setting, room: int) -> str:
    """What an option does, on one line: as much of it as there is room for."""
    text = row.off if row.kind == "boolean" and row.default is True else row.help
    clause = first_clause(text)
    choices = ", ".join(row.choices) if row.kind == "choice" else ""
    default = ""
    if row.kind not in ("boolean", "list", "table") and row.default is not None:
        value = f"{row.default:g}" if isinstance(row.default, float) else row.default
        default = f" (default: {value})"
    listed = (
        [f"{beginning}: {choices}" for beginning in (text, clause)] + [choices] if choices else []
    )
    forms = [*listed, text, clause, clause.partition(", ")[0]]
    fitting = [form + end for form in forms for end in (default, "") if len(form + end) <= room]
    return fitting[0] if fitting else f"{clause[: room - 1].rstrip()}…"


def with_choices(text: str, choices: Iterable[str]) -> str:
    """The help of an option with its choices, unless it explains each: ``deep (longer)``."""
    explained = all(f"({one})" in text or f"{one} (" in text for one in choices)
    return text if explained else f"{text}: {', '.join(choices)}"


def first_clause(text: str) -> str:
    """The beginning of a help text, up to its first explanation."""
    clause = text
    for mark in (" (", "; ", ": ", ". "):
        clause = clause.partition(mark)[0]
    return clause
