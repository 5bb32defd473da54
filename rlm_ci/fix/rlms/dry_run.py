"""``rlm-ci rlm --dry-run``: the decisions of the first iteration, with what was measured."""

from __future__ import annotations

import json
import os
from tempfile import TemporaryDirectory

from rlm_ci.fix.rlms.results import figures_of
from rlm_ci.fix.rlms.trigger import (
    ALL,
    CHANGED,
    RELEVANT,
    SWITCHES,
    Requests,
    RlmsOptions,
    context_files,
    decide,
    measure,
)
from rlm_ci.fix.roles import RoleBrief
from rlm_ci.text.printable import count
from rlm_ci.values import Value
from rlm_ci.workspace import snapshot
from rlm_ci.workspace.snapshot import PrivateGit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from rlm_ci.fix.rlms.trigger import ContextFigures, Decision
    from rlm_ci.pipelines.attempt import PipelineJob


class Decisions(Value):
    """The decision for each role; ``setting`` is what differs from the settings of the run."""

    roles: Mapping[str, Decision]
    setting: str = ""

    @property
    def figures(self) -> ContextFigures:
        """Those of the context, which are the same for all."""
        return next(iter(self.roles.values())).figures


def decisions(job: PipelineJob, goal: str, labels: Collection[str]) -> list[Decisions]:
    """The decisions of ``job``, whose settings are complete, then those of other settings.

    Of other settings, those are told that change something. Raises ConfigError for settings that
    cannot work, or a work tree that cannot be read.
    """
    options = RlmsOptions.of(job.settings.values, job.settings.sources)
    requested = Requests.of(options.request_keyword, job.repository, labels).is_requested("")
    figures = _measured(job, goal)

    def decided(options: RlmsOptions, setting: str = "") -> Decisions:
        roles = {
            role: decide(options, switch, figures[options.context], requested=requested)
            for role, switch in SWITCHES[job.settings.loop.roles].items()
        }
        return Decisions(roles, setting)

    others: list[tuple[str, Any, str]] = [
        ("enabled", True, "true"),
        ("policy.force_on", True, "true"),
    ]
    others += [("context", figure, f'"{figure}"') for figure in figures]
    variants = [decided(options)]
    needed = ""
    for name, value, written in others:
        other = options.replace(**{"enabled": True, name.rpartition(".")[2]: value})
        variant = decided(other, f"{needed}loop.rlms.{name} = {written}")
        if all(variant.roles != other.roles for other in variants):
            variants.append(variant)
        needed = "" if options.enabled else "loop.rlms.enabled = true and "
    return variants


def _measured(job: PipelineJob, goal: str) -> dict[str, ContextFigures]:
    """The figures of the snapshot that a run would take, by the setting: nothing has changed."""
    with TemporaryDirectory(prefix="rlm-ci-") as folder:
        private = PrivateGit(os.path.join(folder, "git"), job.settings.environ)
        taken = snapshot.take(private, job.repository, snapshot.SnapshotLimits(), job.skipped)
        git = private.objects
        entries = git.tree(taken.tree)
        figures: dict[str, tuple[int, int, int]] = {}
        brief = RoleBrief(goal, 1)
        return {
            mode: measure(
                context_files(entries, (), brief, mode), entries, git.sizes,
                lambda oids: git.read(*oids), figures,
            )
            for mode in (RELEVANT, CHANGED, ALL)
        }  # fmt: skip


def as_json(decisions: Sequence[Decisions]) -> str:
    base, *others = decisions
    more = [{"setting": other.setting, "decisions": _rows(other)} for other in others]
    return json.dumps({"decisions": _rows(base), "with": more}, indent=2) + "\n"


def _rows(decisions: Decisions) -> list[dict[str, Any]]:
    return [
        {
            "role": role,
            "iteration": 1,
            "decision": "run" if decision.run else "skip",
            "reason": decision.reason,
            "figures": figures_of(decision.figures),
        }
        for role, decision in decisions.roles.items()
    ]


def as_text(decisions: Sequence[Decisions]) -> str:
    """A line for the context and for each role, then one for each other setting."""
    base, *others = decisions
    rows = [f"Context: {_size(base.figures)}"]
    rows += [f"{role}: {_as_words(decision)}" for role, decision in base.roles.items()]
    for other in others:
        changed: dict[str, list[str]] = {}
        for role, decision in other.roles.items():
            if decision.run != base.roles[role].run:
                changed.setdefault(_as_words(decision), []).append(role)
        clauses = [f"{', '.join(roles)}: {how}" for how, roles in changed.items()]
        clauses = clauses or ["the same roles"]
        if other.figures != base.figures:
            clauses.insert(0, _size(other.figures))
        rows.append(f"With {other.setting}: {'; '.join(clauses)}")
    return "\n".join(rows) + "\n"


def _as_words(decision: Decision) -> str:
    return f"{'run' if decision.run else 'skip'} ({decision.reason})"


def _size(figures: ContextFigures) -> str:
    return (
        f"{count(figures.files, 'file')}, {count(figures.lines, 'line')}, about"
        f" {count(figures.estimated_tokens, 'token')}"
    )
