"""``rlm-ci view``: a run as one page, to look at in a browser."""

from __future__ import annotations

import os

from rlm_ci import errors
from rlm_ci.config.settings import Settings
from rlm_ci.console.messages import write
from rlm_ci.console.output import STDOUT
from rlm_ci.console.progress import Progress
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines.stored_runs import ONE_RUN, ROWS, StoredRuns
from rlm_ci.runs.checksums import VIEW
from rlm_ci.solve import verify_record
from rlm_ci.system import files
from rlm_ci.text import neutralise
from rlm_ci.text.printable import printable
from rlm_ci.viewer import page, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.config.arguments import Arguments

SUMMARY = "show a run as one HTML page, with every step"
USAGE = "RUN [-o FILE] [OPTION...]"
TAKES = ONE_RUN
EXAMPLES = ("rlm-ci view latest", "rlm-ci view latest -o run.html")
FORMS = ("text", "json")
EXITS = {errors.OK: "the page is written"}


def run(arguments: Arguments) -> int:
    settings = Settings(ROWS, arguments.flags)
    output = output_of(settings).require_text_or_json("view")
    output.require_place()
    runs = StoredRuns(settings)
    entry = runs.locate(arguments.words[0])
    repository = open_repository(settings)
    prompts: Mapping[str, Any] = {}
    lacking = ""
    if entry.manifest is not None:
        with Progress(settings.environ, quiet=settings.quiet, colour=settings.color) as progress:
            prompts, lacking = verify_record.read(
                entry.path, entry.run, repository, settings, progress.step
            )
    text = page.render(read.read(entry, repository, prompts, lacking), runs.redactor.text)
    if settings.output == STDOUT:
        write(text)
        return errors.OK
    target = output.path or os.path.join(entry.path, VIEW)
    data = text.encode("utf-8", "backslashreplace")
    files.write(target, data, 0o600)
    if settings.format == "json":
        write(neutralise.record({"file": target, "run_id": entry.run_id, "bytes": len(data)}))
    elif not settings.quiet:
        write(f"{printable(target)}\n")
    return errors.OK
