"""``rlm-ci config``: the effective settings, each with its source."""

from __future__ import annotations

from rlm_ci import checks, errors
from rlm_ci.change import change_set, trigger
from rlm_ci.config.core_options import CHANGE, COMMON
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import Settings
from rlm_ci.console.messages import warn
from rlm_ci.judge import config_file
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import change_choice, output_of
from rlm_ci.text import neutralise
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.config.arguments import Arguments

SUMMARY = "show every setting, its value, and where the value comes from"
USAGE = "[OPTION...]"
TAKES = ("no arguments", 0, 0)
EXAMPLES = (
    "rlm-ci config",
    "rlm-ci config --format json",
)
FORMS = ("text", "json")
EXITS = {errors.OK: "done", errors.CONFIG: "the configuration is invalid"}
ROWS = (*COMMON, *CHANGE)


def run(arguments: Arguments) -> int:
    table = (*PROGRAM, *checks.rows(checks.names()))
    settings = Settings(table, arguments.flags)
    output = output_of(settings).require_text_or_json("config")
    repository = open_repository(settings)
    changes = trigger.select(
        change_choice(settings),
        repository,
        lambda repository: change_set.from_local(repository, "worktree"),
    )
    for change in changes[:1]:
        for doubt in config_file.apply(settings, change):
            warn(doubt)
    output.emit(_json(settings) if settings.format == "json" else _text(settings))
    return errors.OK


def _json(settings: Settings) -> str:
    shown = {row.key: {"value": value, "source": source} for row, value, source in settings.items()}
    return neutralise.record(shown)


def _text(settings: Settings) -> str:
    shown = [
        (row.key, _value(value), source)
        for row, value, source in settings.items()
        if settings.verbose or row.file or source != "default"
    ]
    widths = [max(len(line[column]) for line in shown) for column in (0, 1)]
    lines = [
        f"{key:<{widths[0]}}  {value:<{min(widths[1], 30)}}  {printable(source)}"
        for key, value, source in shown
    ]
    return "".join(f"{neutralise.log(line)}\n" for line in lines)


def _value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(printable(str(item)) for item in value) or "-"
    return printable(str(value))
