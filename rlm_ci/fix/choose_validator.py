"""The validator of a fix loop: named, or found and tried, or picked by the user."""

from __future__ import annotations

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.fix import validator_candidates
from rlm_ci.fix.sandboxed_commands import search_path
from rlm_ci.system.command_line import finder
from rlm_ci.validators import detect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.fix.options import FixOptions
    from rlm_ci.fix.sandboxed_commands import SandboxedCommands
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.job import PipelineJob


def select(work: PipelineJob) -> detect.Selection:
    """The validator; a person who is there picks another where its program is not."""
    root, ask = work.repository.root, work.ask
    found = detect.detect(detect.RootFolder(root))
    selection = detect.select(work.settings.loop.validator, found, ask)
    find = finder(search_path(work.settings.environ, root), root, root)
    while ask is not None and selection.command is not None and not selection.others:
        missing = [name for name in selection.command.programs if find(name) is None]
        if not missing:
            break
        picked = detect.choose(found, ask, f"{missing[0]} was not found")
        if picked is None:
            break
        selection = picked
    return selection


def tried(
    work: PipelineJob,
    record: Record,
    agreed: FixOptions,
    commands: SandboxedCommands,
    redact: Callable[[str], str],
) -> FixOptions:
    """The terms with the first validator that can run, of those that were found.

    Raises UnavailableError where none can, and no user is there to name another.
    """
    if agreed.validator is None or not agreed.others:
        return agreed
    texts = (agreed.validator, *agreed.others)

    def produce() -> Mapping[str, Any]:
        chosen = validator_candidates.choose(commands, texts, redact)
        why, command = "; ".join(chosen.refused), chosen.command
        if command is None:
            return _picked(work, agreed, why)
        if why:
            work.progress.say(f"{why}; using {validator_candidates.shown(commands, command)}")
        reason = f"{agreed.reason}; {why}" if why else agreed.reason
        return {"validator": command.text, "reason": reason}

    told = record.fact("validator-found", "start", {"tried": list(texts)}, produce)
    agreed = agreed.replace(validator=told["validator"], reason=told["reason"])
    require_an_end(agreed, told["reason"])
    return agreed


def _picked(work: PipelineJob, agreed: FixOptions, why: str) -> Mapping[str, Any]:
    """What a person picks where nothing that was found can run."""
    found = detect.detect(detect.RootFolder(work.repository.root))
    picked = detect.choose(found, work.ask, why) if work.ask else None
    if picked is None:
        raise UnavailableError(
            f"no validator that was found can run: {why}",
            where=agreed.reason,
            hint=validator_candidates.HINT,
        )
    text = picked.command.text if picked.command else None
    return {"validator": text, "reason": picked.reason}


def require_an_end(agreed: FixOptions, where: str) -> None:
    """Raise ConfigError where neither a validator nor a budget would ever end the run."""
    unlimited = agreed.max_iterations is None and agreed.max_minutes is None
    if agreed.validator is None and unlimited:
        raise ConfigError(
            "without a validator, and with no limit, the run would never end",
            where=where,
            hint="set --max-iterations or --max-minutes, or name a validator",
        )
