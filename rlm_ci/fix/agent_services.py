"""What the built-in agent's tools need of a run: commands, tests, the difference, the start."""

from __future__ import annotations

from functools import partial

from rlm_ci.environments.coding.tools import Services
from rlm_ci.environments.quoting import quoted, visible
from rlm_ci.errors import DamagedError
from rlm_ci.fix.steps import difference
from rlm_ci.git.history import of_lines
from rlm_ci.system.command_line import SHELL, Command
from rlm_ci.system.transcript import transcribe
from rlm_ci.text.printable import printable
from rlm_ci.validators.validator import failure
from rlm_ci.workspace.recorded_change import ended_of, record_of, recorded
from rlm_ci.workspace.sandboxed_commands import Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.fix.options import FixContext
    from rlm_ci.fix.verdict.verdict import ResultJudge
    from rlm_ci.git.repository import Repository

#: Bytes of a command's output that are recorded; a quarter of them from its beginning.
_KEEP = 64 << 10


def services_of(context: FixContext, judge: ResultJudge, repository: Repository) -> Services:
    """The services that the options of the run allow."""
    return Services(
        tests=judge.tests if context.validator else None,
        run=partial(_run, context, judge) if context.options.command_seconds else None,
        diff=partial(difference, context),
        restore=partial(_restore, context),
        variables=tuple(sorted(context.commands.env)),
        history=partial(_history, context, judge, repository)
        if context.commands.workspace.snapshot.head
        else None,
    )


def _run(context: FixContext, judge: ResultJudge, text: str) -> str:
    """Run a line of shell in the copy; how it ended is a fact, with the tree that it left."""
    command = Command(text, (SHELL, "-c", text), (SHELL,), in_shell=True)
    copy = context.commands.workspace
    copy.settled = None

    def produce() -> Mapping[str, Any]:
        seconds = context.seconds_left(context.options.command_seconds)
        ended = context.commands.run(Launch(command.argv, seconds), keep=_KEEP)
        return {"command": text, **record_of(ended)}

    told = recorded(context.fact, copy, ("command", judge.place("command")), {"run": text}, produce)
    copy.settled = None  # the agent goes on
    ended = ended_of(told)
    lines = transcribe(ended.output, context.redactor.text).lines
    head = f"{failure(ended, command) or 'exit code 0'}, {ended.seconds:.1f} s"
    return quoted(f"The command ended: {head}", "\n".join(lines))


def _history(
    context: FixContext,
    judge: ResultJudge,
    repository: Repository,
    path: str,
    lines: tuple[int, int],
) -> str:
    """The commits that changed lines of a file: a fact, as the history may have grown since."""
    commit = context.commands.workspace.snapshot.head
    first, last = lines

    def produce() -> Mapping[str, Any]:
        try:
            text = of_lines(repository, str(commit), path, first, last)
        except DamagedError as error:
            return {"error": str(error), "text": ""}
        return {"error": "", "text": context.redactor.text(text[:_KEEP].decode("utf-8", "replace"))}

    key = {"path": path, "first": first, "last": last, "commit": commit}
    told = context.fact("history", judge.place("history"), key, produce)
    if told["error"]:
        return f"No history: {printable(told['error'])}"
    text = "\n".join(map(visible, told["text"].split("\n")))
    return quoted(f"Commits that changed {path}, lines {first}-{last}", text)


def _restore(context: FixContext, path: str) -> bool:
    """Put a file or a folder back as it was at the start; whether it had changed."""
    copy = context.commands.workspace
    tree = copy.tree()

    def is_wanted(name: str) -> bool:
        return name == path or name.startswith(f"{path}/")

    before = copy.restored(tree, copy.snapshot.tree, is_wanted)
    if before != tree:
        copy.restore(before)
    return before != tree
