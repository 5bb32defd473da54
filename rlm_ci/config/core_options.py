"""The rows of the table of settings that each check has: all that a hook reads."""

from __future__ import annotations

import os

from rlm_ci.config.settings import Setting

#: The formats of a report: the modules of ``report/formats``, in alphabetical order.
_FORMATS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "report", "formats")
FORMATS = tuple(
    sorted(name[:-3] for name in os.listdir(_FORMATS) if name.endswith(".py") and name[0] != "_")
)
SEVERITIES = ("info", "low", "medium", "high", "critical")
#: Characters of the name of a run.
LONGEST_NAME = 80


def machine(key: str, variable: str, help_text: str, kind: str = "text") -> Setting:
    """A row for a variable of the environment."""
    return Setting(key, help_text, kind=kind, env=(variable,), own_env=False, file=False)


COMMON: tuple[Setting, ...] = (
    Setting("repo", "the repository (default: the git top level of the current folder)",
            env=("CODEX_ORCHESTRATOR_ROOT",), flag="--repo", short="-C", metavar="DIR", file=False,
            input="working-directory"),
    Setting("config", "config file to use instead of rlm-ci.toml or [tool.rlm-ci] in "
            "pyproject.toml", flag="--config", metavar="FILE", file=False, input="config"),
    Setting("task", "task id that the run belongs to",
            env=("MCP_RUNNER_TASK_ID", "TASK", "CODEX_ORCHESTRATOR_TASK_ID"),
            flag="--task", metavar="ID", file=False, input="task-id"),
    Setting("format", "format of the result", "text", "choice", flag="--format", metavar="NAME",
            choices=FORMATS, file=False),
    Setting("output", "write the result to a file instead of standard output (-)",
            flag="--output", short="-o", metavar="FILE", file=False),
    Setting("quiet", "print problems only", default=False, kind="boolean",
            flag="--quiet", short="-q", file=False),
    Setting("verbose", "print more details", default=False, kind="boolean",
            flag="--verbose", short="-v", file=False),
    Setting("color", "use colour on a terminal (NO_COLOR turns it off too)", default=True,
            kind="boolean", flag="--color", file=False, off="no colour"),
    Setting("interactive", "allow prompts on a terminal", default=True, kind="boolean",
            flag="--interactive", file=False, off="never prompt"),
    Setting("runs_dir", "folder of the runs, relative to the repository", ".runs",
            env=("CODEX_ORCHESTRATOR_RUNS_DIR",), metavar="DIR", file=False),
)  # fmt: skip
CHANGE: tuple[Setting, ...] = (
    Setting("base", "compare with the merge base of this ref", flag="--base", metavar="REF",
            file=False, input="base"),
    Setting("head", "check this ref (default: HEAD)", flag="--head", metavar="REF", file=False,
            input="head"),
    Setting("event", "GitHub event payload that names the change", flag="--event", metavar="FILE",
            file=False),
)  # fmt: skip
LOCAL_CHANGE: tuple[Setting, ...] = (
    Setting("commit", "check one commit against its first parent", flag="--commit",
            metavar="REF", file=False),
    Setting("staged", "check what is staged", default=False, kind="boolean",
            flag="--staged", file=False),
    Setting("hook", "run as this Git hook; read what git passes on standard input",
            kind="choice", flag="--hook", metavar="STAGE", choices=("pre-commit", "pre-push"),
            file=False),
    Setting("dry_run", "report findings, but exit with 0", default=False, kind="boolean",
            flag="--dry-run", file=False),
)  # fmt: skip
PATHS: tuple[Setting, ...] = (
    Setting("paths", "check only these files, in checks that work on files", (), "list",
            own_env=False, file=False, metavar="PATH"),
)  # fmt: skip
REPORT: tuple[Setting, ...] = (
    Setting("checks", "checks to run (default: all; the delegation guard only if it applies)", (),
            "list", metavar="CHECK", input="checks"),
    Setting("fail_level", "lowest severity that fails the run", "high", "choice",
            flag="--fail-level", metavar="LEVEL", choices=SEVERITIES, input="fail-level"),
    Setting("suppressions", "accepted findings; they are reported and never fail the run", (),
            "table", columns=(
                Setting("rule", "rule id, or a check's id for all of its rules", required=True),
                Setting("path", "path pattern (default: every path)"),
                Setting("fingerprint", "fingerprint of the finding, as in report.json; it holds "
                        "while the lines stay (default: every finding)"),
                Setting("claim", "what a model's claim is about, as rlm-ci suppress writes it; it "
                        "accepts a claim on the same lines by another rule, if no worse"),
                Setting("reason", "why the finding is accepted", required=True),
                Setting("until", "last day of the suppression, YYYY-MM-DD"),
            )),
)  # fmt: skip
TESTS: tuple[Setting, ...] = (
    Setting("loop.setup", "command that installs what tests need, with network: in the fresh copy "
            "for the last verdict, and in a copy of the base for test-bite and reproductions"),
)  # fmt: skip
OUT: tuple[Setting, ...] = (
    Setting("out", "folder for report.json, comment.md, report.sarif, report.html (default: the "
            "run directory)", flag="--out", metavar="DIR", file=False, input="out"),
)  # fmt: skip
MACHINE: tuple[Setting, ...] = (
    machine("ci", "CI", "set in CI", "boolean"),
    Setting("non_interactive", "never prompt", kind="boolean", own_env=False, file=False,
            env=("CODEX_NON_INTERACTIVE", "CODEX_NONINTERACTIVE", "CODEX_NO_INTERACTIVE")),
    machine("no_color", "NO_COLOR", "no colour, whatever its value"),
    machine("term", "TERM", "type of terminal; a dumb one gets no colour"),
    machine("base_sha", "BASE_SHA", "base of the change, if nothing else names it"),
    machine("github.actions", "GITHUB_ACTIONS", "set in GitHub Actions", "boolean"),
    machine("github.event_name", "GITHUB_EVENT_NAME", "event that started the workflow"),
    machine("github.event_path", "GITHUB_EVENT_PATH", "file with the event's payload"),
    machine("github.repository", "GITHUB_REPOSITORY", "owner/name"),
    machine("github.workflow_ref", "GITHUB_WORKFLOW_REF", "file and ref of the workflow"),
    machine("github.server_url", "GITHUB_SERVER_URL", "web address of GitHub"),
    machine("github.output", "GITHUB_OUTPUT", "file for the outputs of the step"),
    machine("github.step_summary", "GITHUB_STEP_SUMMARY", "file for the job summary"),
    machine("pre_commit.runs", "PRE_COMMIT", "set by pre-commit"),
    machine("pre_commit.from_ref", "PRE_COMMIT_FROM_REF", "commit that the remote has"),
    machine("pre_commit.to_ref", "PRE_COMMIT_TO_REF", "commit that is pushed"),
    machine("pre_commit.remote_name", "PRE_COMMIT_REMOTE_NAME", "remote that is pushed to"),
    machine("pre_commit.local_branch", "PRE_COMMIT_LOCAL_BRANCH", "branch that is pushed"),
    machine("pre_commit.remote_branch", "PRE_COMMIT_REMOTE_BRANCH", "remote branch that is "
        "pushed to"),
)  # fmt: skip
#: What every judging command may need; a hook has no time to look at more.
CORE = (*COMMON, *CHANGE, *LOCAL_CHANGE, *PATHS, *REPORT, *TESTS, *OUT, *MACHINE)
