"""``rlm-ci rlm --dry-run``: the decisions of the first iteration, with what was measured."""

from __future__ import annotations

import json
import os
from tempfile import TemporaryDirectory

from rlm_ci.fix.rlms.measure import context_files, measure
from rlm_ci.fix.rlms.options import RlmsOptions
from rlm_ci.fix.rlms.requests import Requests
from rlm_ci.fix.rlms.trigger import SWITCHES, decide
from rlm_ci.text.printable import count
from rlm_ci.workspace import snapshot
from rlm_ci.workspace.private_git import PrivateGit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from rlm_ci.fix.rlms.trigger import ContextFigures, Decision
    from rlm_ci.pipelines.job import PipelineJob


def decisions(job: PipelineJob, goal: str, labels: Collection[str]) -> dict[str, Decision]:
    """The decision for each role of ``job``, whose settings are complete.

    Raises ConfigError for settings that cannot work, or a work tree that cannot be read.
    """
    options = RlmsOptions.of(job.settings.values, job.settings.sources)
    figures = _measured(job, options, goal)
    requested = Requests.of(options.request_keyword, job.repository, labels).made("")
    return {
        role: decide(options, switch, figures, requested=requested)
        for role, switch in SWITCHES[job.settings.loop.roles].items()
    }


def _measured(job: PipelineJob, options: RlmsOptions, goal: str) -> ContextFigures:
    """The figures of the snapshot that a run would take: nothing has changed since."""
    with TemporaryDirectory(prefix="rlm-ci-") as folder:
        private = PrivateGit(os.path.join(folder, "git"), job.settings.environ)
        taken = snapshot.take(private, job.repository, snapshot.SnapshotLimits(), job.skipped)
        git = private.objects
        entries = git.tree(taken.tree)
        paths = context_files(entries, (), goal, options.context)
        return measure(paths, entries, git.sizes, lambda oids: git.read(*oids))


def as_json(found: dict[str, Decision]) -> str:
    rows = [
        {
            "role": role,
            "iteration": 1,
            "decision": "run" if one.run else "skip",
            "reason": one.reason,
            "figures": {
                "lines": one.figures.lines,
                "estimated_tokens": one.figures.estimated_tokens,
                "files": one.figures.files,
            },
        }
        for role, one in found.items()
    ]
    return json.dumps({"decisions": rows}, indent=2) + "\n"


def as_text(found: dict[str, Decision]) -> str:
    """A line for each role, and one with the figures, which are the same for all."""
    figures = next(iter(found.values())).figures
    size = (
        f"{count(figures.files, 'file')}, {count(figures.lines, 'line')}, about"
        f" {count(figures.estimated_tokens, 'token')}"
    )
    rows = [f"{role}: {'run' if one.run else 'skip'} ({one.reason})" for role, one in found.items()]
    return "\n".join([f"Context: {size}", *rows]) + "\n"
