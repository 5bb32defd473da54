"""``rlm-ci check``: the checks alone, as hooks run them."""

from __future__ import annotations

import os
import sys

from rlm_ci import checks, errors
from rlm_ci.change import change_set
from rlm_ci.config.core_options import CHANGE, COMMON, LOCAL_CHANGE, REPORT
from rlm_ci.console import output
from rlm_ci.errors import UsageError
from rlm_ci.judge.judge import judge, read_templates
from rlm_ci.judge.options import output_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.config.settings import Setting

SUMMARY = "run the checks on a change, the index or the working tree"
USAGE = "[CHECK...] [OPTION...] [-- PATH...]"
TAKES = ("checks, and paths after --", 0, sys.maxsize)
EXAMPLES = (
    "rlm-ci check",
    "rlm-ci check diff-budget --staged --max-lines 400",
)
EXITS = {**errors.REPORT_EXITS, errors.OK: f"{errors.REPORT_EXITS[errors.OK]}; or `--dry-run`"}

#: The formats that show what changes; hooks and terminals do not wait for it.
_WITH_OVERVIEW = ("html", "json", "markdown", "summary")


def rows(argv: Sequence[str]) -> tuple[Setting, ...]:
    """The options of the checks that ``argv`` names, or of all."""
    names = checks.names()
    words = argv[: argv.index("--")] if "--" in argv else argv
    leading = next((at for at, word in enumerate(words) if word not in names), len(words))
    chosen = words[:leading]
    if any(word in names for word in words[leading:]):
        chosen = ()  # it may be another check, or the value of an option
    if not chosen and "--hook" in words[:-1]:
        chosen = checks.names(words[words.index("--hook") + 1])
    return (*COMMON, *CHANGE, *LOCAL_CHANGE, *REPORT, *checks.rows(chosen or names))


def run(arguments: Arguments) -> int:
    _refuse_paths_and_refs(arguments)
    names = checks.require(arguments.positionals, "rlm-ci check", usage=True)
    flags = dict(arguments.flags)
    if arguments.trailing_paths:
        flags["paths"] = tuple(arguments.trailing_paths)
    judgement = judge(
        flags,
        names,
        lambda repository: change_set.from_local(repository, "worktree"),
        read_stdin=_read_stdin,
    )
    settings, report = judgement.settings, judgement.report
    if settings.format in _WITH_OVERVIEW and not settings.hook and judgement.changes:
        from rlm_ci.overview.overview import attached

        report = attached(report, judgement.changes[0], settings.environ)
    templates = None if settings.format in ("text", "json") else read_templates(judgement)
    output_of(settings).show(report, templates)
    output.explain_parts(report)
    return errors.OK if settings.dry_run else report.exit_code()


def _refuse_paths_and_refs(arguments: Arguments) -> None:
    """Raise UsageError for a word that is no check, but a file or a ref."""
    for word in set(arguments.positionals) - set(checks.names()):
        import shlex

        from rlm_ci.cli import folder_argument  # a hook names no word

        suggestion = f"-- {shlex.quote(word)}" if os.path.exists(word) else ""
        if not suggestion:
            common = {row.key for row in COMMON}
            flags = {key: flag for key, flag in arguments.flags.items() if key in common}
            suggestion = folder_argument.of_change(word, flags)
        if suggestion:
            raise UsageError(
                f"unknown check {word[:80]!r}",
                where="rlm-ci check",
                hint=f"did you mean rlm-ci check {suggestion}?",
            )


def _read_stdin() -> bytes:
    return b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
