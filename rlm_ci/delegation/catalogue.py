"""All tools of the MCP server, by name."""

from __future__ import annotations

from rlm_ci.delegation import control, repository_tools, spawn, status
from rlm_ci.delegation.questions import tools as questions
from rlm_ci.delegation.tool import FULL, QUESTION_ONLY, STATUS_ONLY, Tool

#: In the order in which they are listed. Schemas are in ``schemas/mcp/<name>.schema.json``.
TOOLS: tuple[Tool, ...] = (
    Tool(
        "delegate.status",
        "Show where a run stands: its status, steps, latest events and child runs. Works for "
        "live and ended runs.",
        STATUS_ONLY,
        status.status,
        reads=True,
    ),
    Tool(
        "delegate.spawn",
        "Delegate work to a run of its own: start a pipeline of rlm-ci, and get the run's id and "
        "the paths of its files. Pass start_only: true for long work, and ask delegate.status now "
        "and then; otherwise the call waits for the run's end, and the run ends with this server. "
        "Name task_id <parent task>-<stream>, such as 0951-checkout-review: the delegation guard "
        "counts it for the task 0951-checkout. A run with a parent answers from a long text "
        "(RLM_MODE symbolic); for work that edits files set env: {RLM_MODE: iterative}. Bound it "
        "with RLM_MAX_ITERATIONS and RLM_MAX_MINUTES. If status is spawn_failed, error says why.",
        FULL,
        spawn.spawn,
        blocking=True,
    ),
    Tool(
        "delegate.pause",
        "Pause a run before its next step (paused: true), or let it go on (paused: false). It is "
        "paused when delegate.status says so. With a request_id a repeated call does nothing.",
        FULL,
        control.pause,
        blocking=True,
        repeats=True,
    ),
    Tool(
        "delegate.cancel",
        "Cancel a run; only reviews and wikis can be resumed after that. A person confirms it: "
        "the client asks, or the answer is confirmation_required, with the command for the "
        "person to type. Nothing that you pass confirms it.",
        FULL,
        control.cancel,
        blocking=True,
        destroys=True,
    ),
    Tool(
        "delegate.question.enqueue",
        "Ask the person at the run that delegated this one. This run pauses at its next safe "
        "point until there is an answer, unless auto_pause is false. Get the answer with "
        "delegate.question.poll.",
        QUESTION_ONLY,
        questions.enqueue,
        blocking=True,
    ),
    Tool(
        "delegate.question.poll",
        "Show a question that this run has asked, and its answer once a person has given it; "
        "wait_ms waits for that.",
        QUESTION_ONLY,
        questions.poll,
        blocking=True,
        reads=True,
    ),
    Tool(
        "check",
        "Run all checks on the change as it is in the work tree, or against base: the diff budget, "
        "test-guard, the archive of docs, the delegation guard, scope. Reads only. Look before you "
        "stop; and before you begin, ask scope whether you may touch paths: checks [scope], paths.",
        STATUS_ONLY,
        repository_tools.check,
        blocking=True,
        reads=True,
    ),
    Tool(
        "repo_rlm_start",
        "Start a review or a wiki of a repository in the background, and return its run. Ask for "
        "its status now and then.",
        FULL,
        repository_tools.start,
    ),
    Tool(
        "repo_rlm_review",
        "Start a review of a repository, of a folder, or of a change (base) in the background, "
        "and return its run.",
        FULL,
        repository_tools.review,
    ),
    Tool(
        "repo_rlm_wiki",
        "Start to write a wiki of a repository in the background, and return its run.",
        FULL,
        repository_tools.wiki,
    ),
    Tool(
        "repo_rlm_status",
        "Show where a review or a wiki stands: nodes, depths, active work, spent budgets.",
        STATUS_ONLY,
        repository_tools.status,
        reads=True,
    ),
    Tool(
        "repo_rlm_resume",
        "Continue a review or a wiki that was interrupted or cancelled, or that a budget ended, "
        "then with a higher one.",
        FULL,
        repository_tools.resume,
        blocking=True,
    ),
    Tool(
        "repo_rlm_cancel",
        "End a review or a wiki; it can be resumed.",
        FULL,
        repository_tools.cancel,
        blocking=True,
        repeats=True,
    ),
    Tool(
        "repo_rlm_export",
        "Write a run of any kind, with all that it made, to one tar.gz.",
        STATUS_ONLY,
        repository_tools.export,
        blocking=True,
    ),
)
