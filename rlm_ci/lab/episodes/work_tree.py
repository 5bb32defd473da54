"""A copy of the work tree for the episodes of a run, and the way of its changes back."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from functools import partial

from rlm_ci.environments.coding.environment import CodingEnvironment
from rlm_ci.environments.coding.file_references import LazyFileContext
from rlm_ci.environments.coding.tools import Services
from rlm_ci.environments.coding.workspace_services import WorkspaceServices
from rlm_ci.system import files
from rlm_ci.system.command_line import Command
from rlm_ci.validators.validator import Validator
from rlm_ci.values import Value
from rlm_ci.workspace.sandboxed_commands import SandboxedCommands
from rlm_ci.workspace.stored_trees import PATCH
from rlm_ci.workspace.tree_diff import differing
from rlm_ci.workspace.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from rlm_ci.environments.generic import GenericServices
    from rlm_ci.environments.turn_loop import Environment
    from rlm_ci.git.repository import Repository
    from rlm_ci.lab.episodes.episode import EpisodeOptions
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.runs import Fact
    from rlm_ci.sandbox.job import Sandbox

#: The kind of the fact that the changes were applied, or not.
APPLIED = "applied"


class WorkTreeContext(Value):
    """What a work tree needs of its run. ``seconds`` are those that a command may take."""

    options: EpisodeOptions
    repository: Repository
    sandbox: Sandbox
    environ: Mapping[str, str]
    skipped: tuple[str, ...]
    redactor: Redactor
    fact: Fact
    path_of: Callable[..., str]
    seconds: Callable[[], float]
    replay: bool = False


class WorkTree:
    """The copy at ``rlm/work``: all episodes of a run act on it, one after the other."""

    def __init__(self, context: WorkTreeContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._workspace = Workspace(
            context.path_of("rlm"),
            context.repository,
            context.environ,
            isolated=context.sandbox.isolated,
            skipped=context.skipped,
        )

    def environment(self, generic: GenericServices, name: str, step: str) -> CodingEnvironment:
        """The environment of the episode at ``step``."""
        return self._environment(self._workspace, generic, name, step)

    @contextmanager
    def scratch(self, generic: GenericServices, name: str, step: str) -> Iterator[Environment]:
        """The same on a copy of what there is now, which is thrown away."""
        with files.scratch("rlm-ci-branch-") as folder:
            with self._lock:  # branches are side by side, and look at the same copy
                copy = self._workspace.branch(folder)
            yield self._environment(copy, generic, name, step)

    def _environment(
        self, copy: Workspace, generic: GenericServices, name: str, step: str
    ) -> CodingEnvironment:
        context = self._context
        root = context.repository.root
        commands = SandboxedCommands(context.sandbox, copy, root, context.environ)
        numbers: Counter[str] = Counter()

        def place_of(kind: str) -> str:
            numbers[kind] += 1
            return f"{step}/{kind}-{numbers[kind]}"

        services = WorkspaceServices(
            commands, context.fact, context.redactor, path_of=place_of, seconds=context.seconds
        )
        has_commits = copy.snapshot.head
        tools = Services(
            run=services.run,
            diff=services.diff,
            restore=services.restore,
            variables=tuple(sorted(commands.env)),
            history=partial(services.history, context.repository) if has_commits else None,
        )
        validator = self._validator(commands)
        execute = generic.execute or services.python
        return CodingEnvironment(
            commands.root,
            tools,
            generic.replace(execute=execute, files=LazyFileContext(commands.root)),
            tests=None if validator is None else partial(services.tests, validator),
            name=name,
        )

    def _validator(self, commands: SandboxedCommands) -> Validator | None:
        options = self._context.options
        if options.validator is None:
            return None
        command, redact = Command.parse(options.validator), self._context.redactor.text
        find = (lambda program: program) if self._context.replay else commands.find
        return Validator.over(commands, command, redact, find=find, mark=options.mark)

    def conclude(self, *, apply: bool) -> dict[str, Any]:
        """Write the patch, and ``apply`` the changes to the user's work tree, once.

        Returns figures for the report. Raises StorageError.
        """
        context, workspace = self._context, self._workspace
        tree, base = workspace.tree(), workspace.snapshot.tree
        changed = differing(workspace.entries(base), workspace.entries(tree))
        _, patch = workspace.account(tree)
        text = context.redactor.without_known(patch.decode("utf-8", "surrogateescape"))
        files.write(context.path_of("rlm", PATCH), text.encode("utf-8", "surrogateescape"), 0o600)
        workspace.keep(tree)

        def produce() -> Mapping[str, Any]:
            if not (apply and changed):
                return {"done": False, "reason": ""}
            landed = workspace.apply_to(context.repository, tree)
            return {"done": landed.done, "reason": context.redactor.text(landed.reason)}

        # Whether it is wanted differs in CI, where a run may be replayed.
        applied = context.fact(APPLIED, "end", {"tree": tree}, produce)
        return {
            "files": len(changed),
            "patch": f"rlm/{PATCH}" if changed else None,
            "applied": applied["done"],
            "not_applied": applied["reason"],
        }

    def close(self) -> None:
        """Remove the copy."""
        self._workspace.discard()
