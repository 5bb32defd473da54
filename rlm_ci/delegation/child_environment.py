"""The variables of a delegated run: those of the server, and a few that a model may set."""

from __future__ import annotations

import os

from rlm_ci.config.options import CONTEXT, EPISODE, LOOP, RECURSION, SYMBOLIC
from rlm_ci.delegation.tool import FULL, QUESTION_ONLY, STATUS_ONLY, ToolError
from rlm_ci.text.printable import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.delegation.tool import ServerContext
    from rlm_ci.pipelines.stored_runs import StoredRuns

#: What is true of the run above alone: with its id, its end would end the child.
_OF_A_RUN = frozenset((
    "RLM_CI_TASK", "MCP_RUNNER_TASK_ID", "TASK", "RLM_GOAL",
    "CODEX_DELEGATION_PARENT_MANIFEST_PATH",
    *(f"CODEX_ORCHESTRATOR_{name}" for name in (
        "TASK_ID", "RUN_ID", "PIPELINE_ID", "MANIFEST_PATH", "RUN_DIR", "ROOT", "PACKAGE_ROOT",
    )),
))  # fmt: skip
#: A path, which must be in the roots.
_CONTEXT = "RLM_CONTEXT_PATH"
#: Numbers, choices and switches that a file of the repository may set, or that are options of a
#: question or an episode: no commands, paths, addresses or secrets, no money, and nothing that
#: turns the sandbox off.
_KINDS = ("integer", "number", "cap", "choice", "boolean")
#: They decide what passes.
_VERDICT = ("loop.allow_no_change", "loop.trust_exit_code", "loop.canary_minutes")
_ALLOWED = {
    name: row.variables
    for row in (*LOOP, *EPISODE, *SYMBOLIC, *CONTEXT, *RECURSION)
    for name in row.variables
    if name == _CONTEXT
    or (
        (row.file or row in (*EPISODE, *SYMBOLIC))
        and row.kind in _KINDS
        and row.key not in _VERDICT
    )
}
_SHOWN = ("RLM_MODE", "RLM_MAX_ITERATIONS", "RLM_MAX_MINUTES", _CONTEXT)
#: Levels of delegation where a delegated run may delegate.
_DEEPEST = 3


def child_environment(
    server: ServerContext,
    runs: StoredRuns,
    requested: Mapping[str, str],
    *,
    mode: str | None,
    parent: str | None,
) -> dict[str, str]:
    """The environment of one of ``runs`` that ``server`` delegates.

    ``requested`` comes from a model; ``parent`` is the manifest of the run that delegates. Raises
    ToolError for what it may not set, and for too deep a delegation.
    """
    options = runs.settings.delegate
    nested = options.allow_nested
    if options.depth >= (_DEEPEST if nested else 1):
        raise ToolError(
            "nesting_not_permitted",
            f"{options.depth} runs above this one have delegated it: it may not delegate",
            hint="do the work in this run"
            if nested
            else "a person can allow three levels: RLM_CI_DELEGATE_ALLOW_NESTED=1",
        )
    for name, value in requested.items():
        _require(server, name, value)
    plain = {name: encodable(value) for name, value in requested.items()}
    context = {_CONTEXT: server.confine(requested[_CONTEXT])} if _CONTEXT in requested else {}
    return {**plain, **context, **inherited(server, runs, parent, mode)}


def inherited(
    server: ServerContext, runs: StoredRuns, parent: str | None, mode: str | None = None
) -> dict[str, str]:
    """The environment of one of ``runs`` that ``server`` delegates or resumes."""
    options = runs.settings.delegate
    if mode != STATUS_ONLY:
        mode = FULL if mode == FULL and options.allow_nested else QUESTION_ONLY
    run_variables = {
        "RLM_CI_DELEGATE_DEPTH": str(options.depth + 1),
        "RLM_CI_DELEGATE_MODE": mode,
        "CODEX_DELEGATE_MODE": mode,
        "CODEX_ORCHESTRATOR_RUNS_DIR": os.path.abspath(runs.store.root),
    }
    if parent is not None:
        run_variables["CODEX_DELEGATION_PARENT_MANIFEST_PATH"] = parent
    variables = {name: value for name, value in server.environ.items() if name not in _OF_A_RUN}
    return {**variables, **run_variables}


def _require(server: ServerContext, name: str, value: str) -> None:
    shown = printable(name)[:80]
    if name not in _ALLOWED:
        raise ToolError(
            "env_not_permitted",
            f"env may not set {shown}",
            hint=f"set numbers, choices and switches of a run, such as {', '.join(_SHOWN)}",
        )
    if server.environ.keys() & _ALLOWED[name]:  # also under another name
        raise ToolError(
            "env_not_permitted",
            f"env may not set {shown}: the environment of the server does",
            hint="leave it out",
        )
    if "\0" in value:
        raise ToolError("invalid_arguments", f"the value of {shown} has a null byte")
