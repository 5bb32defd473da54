"""What ``[loop.gates]`` asks for, as a run keeps it."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress

from rlm_ci.checks._shown_markdown import items
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.judge.options import models_of
from rlm_ci.models.gateway import require_endpoint
from rlm_ci.pipelines import load
from rlm_ci.system import files
from rlm_ci.system.command_line import Command
from rlm_ci.text.printable import printable
from rlm_ci.values import Value
from rlm_ci.workspace.snapshot import is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.pipelines.attempt import PipelineJob

_PREFIX = "loop.gates."
PROMISE, TESTS, VALIDATION = "promise.text", "tests.command", "validation.commands"
CHECKLISTS, EVIDENCE, APPROVAL = "checklists.paths", "evidence.enabled", "approval.file"
REVIEW, STUCK = "review.enabled", "stuck.turns"
#: Bytes of a checklist.
_LIMIT = 1 << 20


class GateOptions(Value):
    """The gates of a run; those that are empty are off.

    ``checklists`` are pairs of a path and the items that were in the file.
    """

    promise: str = ""
    tests: str = ""
    validation: tuple[str, ...] = ()
    checklists: tuple[tuple[str, tuple[str, ...]], ...] = ()
    review: bool = False
    evidence: bool = False
    approval: str = ""
    stuck_turns: int = 0

    def _require(self) -> None:
        if self.approval and not is_inside(self.approval):
            raise ValueError("the file of the approval is not below the top level")

    @property
    def commands(self) -> tuple[str, ...]:
        """All commands: what they run must not be edited."""
        return (*([self.tests] if self.tests else []), *self.validation)

    def of_people(self, root: str) -> list[str]:
        """What people write below ``root``, and is no part of what an agent works on."""
        return [os.path.join(root, self.approval)] if self.approval else []

    @property
    def decide(self) -> bool:
        """Whether they can decide without a validator: more than the agent's word is asked."""
        return bool(self.commands or self.approval)

    @property
    def required(self) -> bool:
        """Whether there is a gate that a result must pass."""
        switches = (self.promise, self.checklists, self.review, self.evidence)
        return bool(self.decide or any(switches))

    @classmethod
    def of(
        cls,
        values: Mapping[str, Any],
        sources: Mapping[str, str],
        read: Callable[[str], Sequence[bytes]],
        *,
        validated: bool,
        isolated: bool,
        modelled: bool = False,
    ) -> GateOptions:
        """Those of the settings with these values, from these sources.

        ``read`` gives a file as it is now, and as it is at the base of a pull request, where it is
        there; a review is on by default where the agent is ``modelled``. Raises ConfigError for
        gates that cannot work.
        """
        texts = {name: values[f"{_PREFIX}{name}"] for name in (PROMISE, TESTS, APPROVAL)}
        where = {key.removeprefix(_PREFIX): source for key, source in sources.items()}
        review = values[f"{_PREFIX}{REVIEW}"]
        options = cls(
            promise=" ".join((texts[PROMISE] or "").split()),
            tests=(texts[TESTS] or "").strip(),
            validation=tuple(values[f"{_PREFIX}{VALIDATION}"]),
            checklists=tuple(
                (path, _items(path, read, where[CHECKLISTS]))
                for path in dict.fromkeys(values[f"{_PREFIX}{CHECKLISTS}"])
            ),
            evidence=values[f"{_PREFIX}{EVIDENCE}"],
            approval=texts[APPROVAL] or "",
            stuck_turns=values[f"{_PREFIX}{STUCK}"],
        )
        if review is None:  # it decides nothing alone
            review = modelled and (validated or options.decide)
        options = options.replace(review=review)
        for text in options.commands:
            _require_command(text, where[TESTS if text == options.tests else VALIDATION])
        if "<" in options.promise:
            raise ConfigError(
                f"{_PREFIX}{PROMISE} must not have a <, because it stands in a tag",
                where=where[PROMISE],
                hint="use plain words, such as ALL TESTS PASS",
            )
        if options.approval:
            options.require_approvable(where[APPROVAL], isolated=isolated)
        if options.required and not (validated or options.decide):
            raise ConfigError(
                "without a validator, these gates would take the agent's word for everything",
                where=f"[{_PREFIX[:-1]}]",
                hint=f"name a validator, or set {_PREFIX}{TESTS}, {VALIDATION} or {APPROVAL}",
            )
        return options

    def require_approvable(self, where: str, *, isolated: bool) -> None:
        if not is_inside(self.approval):
            raise ConfigError(
                f"{_PREFIX}{APPROVAL} must be a path below the top level, not"
                f" '{printable(self.approval[:200])}'",
                where=where,
                hint="write it as .rlm-ci/approval.json",
            )
        if not isolated:
            raise ConfigError(
                f"{_PREFIX}{APPROVAL} needs a sandbox: without one the agent could write the"
                " approval itself",
                where=where,
                hint="remove the setting, or use bubblewrap (rlm-ci doctor says what it needs)",
            )


def _require_command(text: str, where: str) -> None:
    try:
        Command.parse(text)
    except UsageError as error:
        raise ConfigError(
            f"a gate's command cannot be run: {error.what.rpartition(': ')[2]}",
            where=where,
            hint=f'write it as {_PREFIX}{TESTS} = "python -m pytest -q tests"',
        ) from None


def agreed_gates(
    job: PipelineJob, agent: str, validator: str | None, *, isolated: bool
) -> GateOptions:
    """Those of the job's settings. Raises ConfigError for gates that cannot work."""
    settings, repository = job.settings, job.repository

    def read(path: str) -> list[bytes]:
        commits = [change_set.policy_commit for change_set in load.changes_of(settings, repository)]
        contents = [repository.read(f"{commit}:{path}")[0] for commit in commits if commit]
        with suppress(files.UnreadableError):
            contents.append(files.read_inside(repository.root, path, _LIMIT))
        return [content for content in contents if content is not None]

    is_ours, validated = agent == "openai", validator is not None
    options = GateOptions.of(
        settings.values, settings.sources, read,
        validated=validated, isolated=isolated, modelled=is_ours,
    )  # fmt: skip
    if options.review and not is_ours:
        require_endpoint(models_of(settings), f"set one of them, or {_PREFIX}{REVIEW} = false")
    return options


def _items(path: str, read: Callable[[str], Sequence[bytes]], where: str) -> tuple[str, ...]:
    """The items of a checklist, at the start or at the base: none of either may go."""
    counts = [Counter(text for text, _ in items(data)) for data in read(path)]
    needed = Counter[str]()
    for count in counts:
        needed |= count
    if not needed:
        raise ConfigError(
            f"{printable(path[:200])} has no item like '- [ ] …'"
            if counts
            else f"there is no checklist {printable(path[:200])}",
            where=f"{_PREFIX}{CHECKLISTS}, {where}",
            hint="name a regular file with a list of tasks, or remove it from the setting",
        )
    return tuple(needed.elements())
