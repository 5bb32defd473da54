"""The prompts of a stored run: its record has only their hashes, so they are made once more.

The run takes its turns again, in a folder of its own, with the answers of its record. No model is
asked and no command run. The record has an answer only for the very same request, so a prompt that
is found here is the one that was sent.
"""

from __future__ import annotations

import os

from rlm_ci.ask.compute import FOLDER
from rlm_ci.ask.context_use import PLANNER
from rlm_ci.errors import RlmCiError
from rlm_ci.models.record.index import COMPLETION
from rlm_ci.runs import request
from rlm_ci.runs.journal.journal import replay
from rlm_ci.runs.request import RunRequest
from rlm_ci.solve import registry
from rlm_ci.solve.pipeline import CALLS, PIPELINE
from rlm_ci.solve.verify_record import begin_alike, repetition, rests_on_of, settings_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.config.settings import Settings
    from rlm_ci.git.repository import Repository
    from rlm_ci.models import ModelRequest
    from rlm_ci.runs.manifest import Manifest


def read(
    folder: str,
    run: Manifest,
    repository: Repository,
    today: Settings,
    on_step: Callable[[str], None],
) -> tuple[dict[str, ModelRequest], str]:
    """The requests by their places, and why some are missing, "" if none are.

    A question keeps its prompts as files.
    """
    requests: dict[str, ModelRequest] = {}

    def keep(model_request: ModelRequest, step: str) -> None:
        requests[step] = model_request

    job_type = registry.job_type(run.pipeline_id)
    names = (PLANNER, os.path.basename(FOLDER)) if run.pipeline_id == PIPELINE else ()
    is_kept = any(os.path.isdir(os.path.join(folder, "rlm", name)) for name in names)
    if job_type is None or is_kept or not (request.is_kept(folder) and _has_calls(folder)):
        return requests, ""
    try:
        rests_on = rests_on_of(folder)
        if rests_on is None:
            return requests, "" if run.has_ended else "that needs a run that has ended"
        on_step("repeating the run without a model, for its prompts")
        settings = settings_of(rests_on, today.environ, repository.root)
        with repetition(run, settings, repository) as (rerun, progress, skipped):
            begin_alike(folder, rerun)
            goal = RunRequest.read(folder, run.pipeline_id).goal
            calls = os.path.join(folder, CALLS)
            work = job_type(settings, repository, progress, skipped=skipped, replay=calls)
            work.on_answer = keep
            work(rerun, goal)
    except RlmCiError as error:
        return requests, "" if error.code == run.exit_code else error.what
    return requests, ""


def _has_calls(folder: str) -> bool:
    """Whether the run has asked a model."""
    try:
        return any(
            call.get("kind") == COMPLETION
            for call in replay(os.path.join(folder, CALLS), live=True)
        )
    except RlmCiError:  # the page says so
        return False
