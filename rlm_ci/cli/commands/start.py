"""``rlm-ci start``: start a pipeline in the background, and say how to watch it."""

from __future__ import annotations

from rlm_ci import errors
from rlm_ci.cli import folder_argument, load, options
from rlm_ci.config.arguments import split_command
from rlm_ci.config.core_options import CORE
from rlm_ci.config.options import PIPELINES, REVIEW_DRY_RUN, RLMS_DRY_RUN, WIKI_CHECK
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.errors import StorageError, UsageError
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import background, definition, stored_runs
from rlm_ci.runs import manifest
from rlm_ci.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.runs.manifest import Manifest

SUMMARY = "start a pipeline in the background"
USAGE = (
    "rlm --goal G [OPTION...] | run --goal TASK [OPTION...] | review [OPTION...] | wiki [OPTION...]"
    " | PIPELINE [OPTION...] | PIPELINE --help"
)
TAKES = ("one pipeline", 1, 1)
EXAMPLES = ('rlm-ci start rlm --goal "make the tests pass"',)
FORMS = ("text", "json")
EXITS = {errors.OK: "the run has started; `rlm-ci wait` has its code"}
#: What only looks, and starts no run.
_NO_RUN = {row.key for row in (*REVIEW_DRY_RUN, *RLMS_DRY_RUN, *WIKI_CHECK)}
_OWN = (*background.ROWS, *stored_runs.SANDBOX, *stored_runs.ROWS)


def rows(argv: Sequence[str]) -> tuple[Setting, ...]:
    """Our own options, and those of the command that runs the pipeline in the foreground."""
    keys = {row.key for row in _OWN}
    return (*_OWN, *(row for row in _of_pipeline(argv) if row.key not in keys))


def _of_pipeline(argv: Sequence[str]) -> tuple[Setting, ...]:
    try:
        name, words = split_command(argv, _OWN)
    except UsageError:  # an option of the pipeline before its name; parsing complains
        return ()
    settings = options(load(name), words) if name in definition.BUILT_IN else ()
    return tuple(row for row in settings if row.key not in _NO_RUN)


def run(arguments: Arguments) -> int:
    name = arguments.words[0]
    arguments = arguments.replace(flags=folder_argument.placed(arguments.flags))
    settings = Settings((*CORE, *PIPELINES, *rows((name,))), arguments.flags)
    output = output_of(settings).require_text_or_json("start")
    begun, _ = background.start(settings, name, arguments.flags)
    try:
        output.emit(_text(begun, settings))
    except StorageError as error:  # the run continues, and its id must be known
        follow = f"the run has started; follow it with: rlm-ci status {begun.run_id} --watch"
        raise StorageError(error.what, where=error.where, hint=follow) from None
    return errors.OK


def _text(begun: Manifest, settings: Settings) -> str:
    path = f"{begun.artifact_root}/{manifest.NAME}"
    if settings.format == "json":
        facts = {"run_id": begun.run_id, "task_id": begun.task_id, "status": begun.status}
        facts |= {"pipeline_id": begun.pipeline_id, "artifact_root": begun.artifact_root}
        facts |= {"manifest": path, "log_path": begun.log_path}
        return neutralise.record(facts | {"summary": begun.summary})
    if settings.quiet:
        return f"{begun.run_id}\n"
    lines = [
        f"run        {begun.run_id}",
        f"task       {begun.task_id}",
        f"manifest   {path}",
        f"log        {begun.log_path}",
        f"status     {begun.status}",
        f"follow it with: rlm-ci status {begun.run_id} --watch",
    ]
    return "".join(f"{line}\n" for line in lines)
