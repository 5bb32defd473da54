"""A fix loop on the change of a pull request."""

from __future__ import annotations

from rlm_ci.console.progress import Progress
from rlm_ci.errors import RlmCiError
from rlm_ci.pipelines import stored_runs
from rlm_ci.report.findings import Part
from rlm_ci.solve import foreground, pipeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.judge.judge import Judgement
    from rlm_ci.report.findings import Report
    from rlm_ci.runs.run import Run

#: Limits in a job of GitHub Actions.
_IN_ACTIONS = (("loop.max_minutes", 50.0), ("max_calls", 300))


def on_change(judgement: Judgement, held: Run) -> Report:
    """The report of a judgement, with the result of a fix loop: a patch in the run's folder."""
    settings = judgement.settings
    settings.values["loop.apply"] = False
    if settings.sources["loop.allow_no_change"] == "default":
        settings.values["loop.allow_no_change"] = True  # most changes are green as they are
    settings.values["mode"], settings.sources["mode"] = pipeline.ITERATIVE, "rlm-ci pr"
    for key, value in _IN_ACTIONS if settings.github.actions else ():
        if settings.sources[key] == "default":
            settings.values[key] = value
    report = judgement.report
    with Progress(settings.environ, quiet=settings.quiet) as progress:
        try:
            runs = stored_runs.StoredRuns(settings)
            work = pipeline.make(settings, judgement.repository, runs, progress)
            work(held, held.redactor.text(settings.fix))
        except RlmCiError as error:
            return report.replace(parts=(*report.parts, Part.from_error(pipeline.PIPELINE, error)))
        foreground.tell_result(work, held, progress)
    if work.report is None:
        raise AssertionError("a fix loop ends with a report or an error")
    first, *others = work.report.parts
    patch = foreground.patch_of(work.report, held)
    if patch:
        first = first.replace(summary=f"{first.summary}; its patch is `{patch}`")
    parts = (*report.parts, first, *others)
    return report.replace(parts=parts, usage=work.report.usage)
