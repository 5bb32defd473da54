"""The table of all settings: one row each, from which everything else about it is read.

Flags, environment names, the config file's keys, its schema, the reference page and the
inputs of the action are all views of these rows.
"""

from __future__ import annotations

from rlm_ci.settings import Setting

SEVERITIES = ("info", "low", "medium", "high", "critical")
_DOMAINS = ("security", "quality", "performance", "docs", "architecture")


def _machine(key: str, variable: str, help_text: str, kind: str = "text") -> Setting:
    """A row for what the surroundings tell: read from one variable, nowhere else."""
    return Setting(key, help_text, kind=kind, env=(variable,), own_env=False, file=False)


COMMON: tuple[Setting, ...] = (
    Setting("repo", "repository to look at (default: the git top level of the current folder)",
            env=("CODEX_ORCHESTRATOR_ROOT",), flag="--repo", short="-C", metavar="DIR", file=False,
            input="working-directory"),
    Setting("config", "config file in place of rlm-ci.toml or [tool.rlm-ci] in pyproject.toml",
            flag="--config", metavar="FILE", file=False, input="config"),
    Setting("task", "task id that the run belongs to",
            env=("MCP_RUNNER_TASK_ID", "TASK", "CODEX_ORCHESTRATOR_TASK_ID"),
            flag="--task", metavar="ID", file=False, input="task-id"),
    Setting("format", "form of the result", "text", "choice", flag="--format", metavar="NAME",
            choices=("text", "json", "markdown", "sarif", "github", "html"), file=False),
    Setting("output", "write the result to a file instead of standard output (-)",
            flag="--output", short="-o", metavar="FILE", file=False),
    Setting("quiet", "say only what is wrong", default=False, kind="boolean",
            flag="--quiet", short="-q", file=False),
    Setting("verbose", "say more", default=False, kind="boolean",
            flag="--verbose", short="-v", file=False),
    Setting("color", "colour on a terminal (NO_COLOR turns it off too)", default=True,
            kind="boolean", flag="--color", file=False, off="no colour"),
    Setting("interactive", "may prompt on a terminal", default=True, kind="boolean",
            flag="--interactive", file=False, off="never prompt"),
    Setting("runs_dir", "folder of the runs, relative to the repository", ".runs",
            env=("CODEX_ORCHESTRATOR_RUNS_DIR",), metavar="DIR", file=False),
)  # fmt: skip
CHANGE: tuple[Setting, ...] = (
    Setting("base", "compare with the merge base of this ref", flag="--base", metavar="REF",
            file=False, input="base"),
    Setting("head", "judge this ref (default: HEAD)", flag="--head", metavar="REF", file=False,
            input="head"),
    Setting("event", "GitHub event payload that tells the change", flag="--event", metavar="FILE",
            file=False),
)  # fmt: skip
LOCAL_CHANGE: tuple[Setting, ...] = (
    Setting("commit", "judge one commit against its first parent", flag="--commit",
            metavar="REF", file=False),
    Setting("staged", "judge what is staged", default=False, kind="boolean",
            flag="--staged", file=False),
    Setting("hook", "run as this native git hook, with what git gives it on standard input",
            kind="choice", flag="--hook", metavar="STAGE", choices=("pre-commit", "pre-push"),
            file=False),
    Setting("dry_run", "report as always, but end with 0", default=False, kind="boolean",
            flag="--dry-run", file=False),
)  # fmt: skip
PATHS: tuple[Setting, ...] = (
    Setting(
        "paths",
        "judge these files only, in the checks that work on files",
        (),
        "list",
        own_env=False,
        file=False,
        metavar="PATH",
    ),
)
REPORT: tuple[Setting, ...] = (
    Setting("checks", "checks to run (default: all; the delegation guard where it applies)", (),
            "list", metavar="CHECK", input="checks"),
    Setting("fail_level", "severity from which a finding fails the run", "high", "choice",
            flag="--fail-level", metavar="LEVEL", choices=SEVERITIES, input="fail-level"),
    Setting("templates", "folder of your own templates, read from the base commit",
            ".rlm-ci/templates", metavar="DIR"),
    Setting("suppressions", "findings that are known and accepted: reported, never failing", (),
            "table", columns=(
                Setting("rule", "rule id, or a check's id for all its rules", required=True),
                Setting("path", "pattern of the paths (default: every path)"),
                Setting("reason", "why it is accepted", required=True),
                Setting("until", "last day that it holds, YYYY-MM-DD"),
            )),
)  # fmt: skip
OUT: tuple[Setting, ...] = (
    Setting("out", "folder for report.json, comment.md, report.sarif, report.html (default: the "
            "run directory)", flag="--out", metavar="DIR", file=False, input="out"),
)  # fmt: skip
PUBLISH: tuple[Setting, ...] = (
    Setting("publish.enabled", "post the report on its pull request, if there is a token",
            default=True, kind="boolean", flag="--publish", off="post nothing"),
    Setting("publish.comment", "what to write on the pull request: a summary (sticky), that and "
            "review comments (review), or nothing", "review", "choice",
            choices=("sticky", "review", "none"), input="comment"),
    Setting("publish.check_run", "post a check run with the verdict", default=True,
            kind="boolean"),
    Setting("publish.unfinished", "conclusion of the check run where not everything was judged",
            "action_required", "choice", choices=("action_required", "failure")),
    Setting("publish.least", "severity from which a finding gets a review comment", "low",
            "choice", choices=SEVERITIES),
    Setting("publish.max_comments", "most review comments of one run", 50, "integer", minimum=0),
    Setting("publish.max_per_file", "most review comments of one run on one file", 10, "integer",
            minimum=0),
    Setting("publish.max_on_files", "most comments of one run on files as a whole, each a request "
            "of its own", 5, "integer", minimum=0),
    Setting("publish.max_annotations", "most annotations of one check run", 500, "integer",
            minimum=0),
    Setting("github.token", "token that posts on GitHub", env=("GITHUB_TOKEN",), secret=True,
            file=False, input="github-token"),
    _machine("github.api_url", "GITHUB_API_URL", "address of GitHub's API"),
)  # fmt: skip
MACHINE: tuple[Setting, ...] = (
    _machine("ci", "CI", "set in CI", "boolean"),
    Setting("non_interactive", "never prompt", kind="boolean", own_env=False, file=False,
            env=("CODEX_NON_INTERACTIVE", "CODEX_NONINTERACTIVE", "CODEX_NO_INTERACTIVE")),
    _machine("no_color", "NO_COLOR", "no colour, whatever its value"),
    _machine("term", "TERM", "kind of terminal: a dumb one gets no colour"),
    _machine("base_sha", "BASE_SHA", "base of the change, where nothing else tells it"),
    _machine("github.actions", "GITHUB_ACTIONS", "set in GitHub Actions", "boolean"),
    _machine("github.event_name", "GITHUB_EVENT_NAME", "event that started the workflow"),
    _machine("github.event_path", "GITHUB_EVENT_PATH", "its payload"),
    _machine("github.repository", "GITHUB_REPOSITORY", "owner/name"),
    _machine("github.server_url", "GITHUB_SERVER_URL", "web address of GitHub"),
    _machine("github.output", "GITHUB_OUTPUT", "file for the outputs of the step"),
    _machine("github.step_summary", "GITHUB_STEP_SUMMARY", "file for the job summary"),
    _machine("pre_commit.from_ref", "PRE_COMMIT_FROM_REF", "what the remote has"),
    _machine("pre_commit.to_ref", "PRE_COMMIT_TO_REF", "what is pushed"),
    _machine("pre_commit.remote_name", "PRE_COMMIT_REMOTE_NAME", "where it is pushed to"),
    _machine("pre_commit.local_branch", "PRE_COMMIT_LOCAL_BRANCH", "branch that is pushed"),
    _machine("pre_commit.remote_branch", "PRE_COMMIT_REMOTE_BRANCH", "branch that it goes to"),
)  # fmt: skip
MODEL: tuple[Setting, ...] = (
    Setting("model", "model that is asked, as its endpoint calls it", flag="--model",
            metavar="NAME", input="model"),
    Setting("models.max_completion_tokens", "most tokens of one answer, hidden reasoning included",
            16384, "integer", minimum=1),
    Setting("models.timeout", "seconds to wait for one answer", 600, "number", minimum=1),
    Setting("models.cache", "look answers up in the last runs of the same task, before a model is "
            "asked again", default=False, kind="boolean"),
    Setting("models.prices", "prices in USD that the built-in table does not know, by model", {},
            "tables", own_env=False, columns=(
                Setting("input_per_million", "USD for a million prompt tokens", kind="number",
                        required=True, minimum=0),
                Setting("output_per_million", "USD for a million completion tokens",
                        kind="number", required=True, minimum=0),
                Setting("cached_per_million", "USD for a million prompt tokens that were cached",
                        kind="number", minimum=0),
            )),
    # Whoever could set these could have the key sent to a server of their own.
    Setting("openai.base_url", "OpenAI-compatible endpoint (default: OpenAI's own)",
            env=("OPENAI_BASE_URL",), metavar="URL", file=False, input="openai-base-url"),
    Setting("openai.api_version", "version of Azure's API: the endpoint is Azure's",
            env=("OPENAI_API_VERSION",), file=False),
    Setting("openai.api_key", "key of the endpoint", env=("OPENAI_API_KEY",), secret=True,
            file=False, input="openai-api-key"),
)  # fmt: skip
BUDGET: tuple[Setting, ...] = (
    Setting("max_calls", "most calls of a model", kind="integer", minimum=0, flag="--max-calls",
            metavar="N", input="max-calls"),
    Setting("max_tokens", "most tokens, prompts and answers together", kind="integer", minimum=0,
            flag="--max-tokens", metavar="N"),
    Setting("budget_usd", "most money, in USD", kind="number", minimum=0, flag="--budget-usd",
            metavar="X", input="budget-usd"),
)  # fmt: skip
LOOP: tuple[Setting, ...] = (
    Setting("loop.goal", "what to reach", env=("RLM_GOAL",), own_env=False, file=False),
    Setting("loop.validator", "command that decides green; auto looks for it, none goes without",
            "auto", env=("RLM_VALIDATOR",), flag="--validator", metavar="CMD|auto|none"),
    Setting("loop.max_iterations", "most iterations; unlimited, or 0, for no end", 88, "cap",
            env=("RLM_MAX_ITERATIONS",), flag="--max-iterations", metavar="N"),
    Setting("loop.max_minutes", "most minutes; unlimited, or 0, for no end", 2880.0, "cap",
            env=("RLM_MAX_MINUTES",), flag="--max-minutes", metavar="N"),
    Setting("loop.validator_minutes", "most minutes of one run of the validator", 60, "number",
            minimum=0),
    Setting("loop.canary_minutes", "most minutes for changed tests that must fail (default: "
            "loop.validator_minutes)", None, "number", minimum=0),
    Setting("loop.roles", "who takes part: one agent, or planner, critic and reviser", "single",
            "choice", choices=("single", "triad"), env=("RLM_ROLES",), flag="--roles",
            metavar="NAME"),
    Setting("loop.subagents", "give each role a conversation of its own", default=False,
            kind="boolean", env=("RLM_SUBAGENTS", "CODEX_SUBAGENTS")),
    Setting("loop.agent", "who edits: openai, codex, claude, gemini, aider, autofix, or a command "
            "(default: openai, where a key or base URL is set)", flag="--agent", metavar="NAME"),
    Setting("loop.agent_env", "environment variables that an external agent is given", (), "list",
            metavar="NAME"),
    Setting("loop.setup", "command that installs what the validator needs, with network, in the "
            "fresh work tree of the last verdict"),
    Setting("loop.allow_test_edits", "tests are part of the goal, and may be edited",
            default=False, kind="boolean", flag="--allow-test-edits", file=False),
    Setting("loop.allow", "accept findings of this rule of the guard, such as tamper/binary; may "
            "be repeated", (), "list", flag="--allow", metavar="RULE", own_env=False, file=False),
    Setting("loop.allow_no_change", "pass if the validator is green and the agent changed "
            "nothing", default=False, kind="boolean", flag="--allow-no-change"),
    Setting("loop.trust_exit_code", "believe a validator that ends with 0, whatever it prints",
            default=False, kind="boolean"),
    Setting("loop.apply", "put the result into the work tree (default: yes, but not in CI)",
            kind="boolean", flag="--apply", file=False),
    # A repository must not be able to open the door of its own cage.
    Setting("sandbox", "where commands of the repository run", "auto", "choice",
            choices=("auto", "bubblewrap", "none"), flag="--sandbox", metavar="NAME", file=False,
            input="sandbox"),
    Setting("out_dir", "folder of the rollups of all tasks, relative to the repository", "out",
            env=("CODEX_ORCHESTRATOR_OUT_DIR",), metavar="DIR", file=False),
)  # fmt: skip
CONTEXT: tuple[Setting, ...] = (
    Setting("context.target_bytes", "bytes of a chunk", 65536, "integer", minimum=1,
            env=("RLM_CHUNK_TARGET_BYTES",)),
    Setting("context.overlap_bytes", "bytes that a chunk shares with the one before", 4096,
            "integer", minimum=0, env=("RLM_CHUNK_OVERLAP_BYTES",)),
    Setting("symbolic.top_k", "most hits of one search", 20, "integer", minimum=1,
            env=("RLM_SEARCH_TOP_K",)),
    Setting("symbolic.read_bytes", "most bytes of one read", 8192, "integer", minimum=1,
            env=("RLM_MAX_BYTES_PER_CHUNK_READ",)),
    Setting("symbolic.preview_bytes", "most bytes of the preview of a hit", 512, "integer",
            minimum=1, env=("RLM_MAX_PREVIEW_BYTES",)),
)  # fmt: skip
SYMBOLIC: tuple[Setting, ...] = (
    Setting("mode", "fix until green (iterative), answer from a long context (symbolic), or "
            "whichever fits (auto)", "auto", "choice", choices=("auto", "iterative", "symbolic"),
            env=("RLM_MODE",), flag="--mode", metavar="NAME"),
    Setting("context.source", "long text that the question is about: a file, a folder, a glob, "
            "- for standard input, or a context object", env=("RLM_CONTEXT_PATH",),
            flag="--context", metavar="PATH", file=False),
    Setting("symbolic.min_bytes", "size of a goal from which auto is symbolic", 1 << 20, "integer",
            minimum=1, env=("RLM_SYMBOLIC_MIN_BYTES",)),
    Setting("symbolic.searches", "most searches of one plan", 4, "integer", minimum=1,
            env=("RLM_MAX_SEARCHES_PER_ITERATION",)),
    Setting("symbolic.reads", "most reads of one plan", 8, "integer", minimum=1,
            env=("RLM_MAX_CHUNK_READS_PER_ITERATION",)),
    Setting("symbolic.subcalls", "most sub-calls of one plan", 4, "integer", minimum=1,
            env=("RLM_MAX_SUBCALLS_PER_ITERATION",)),
    Setting("symbolic.subcall_models", "models that a plan may name for a sub-call, beside the "
            "run's own", (), "list", metavar="NAME"),
    Setting("symbolic.snippets", "most snippets and spans of one sub-call", 8, "integer",
            minimum=1, env=("RLM_MAX_SNIPPETS_PER_SUBCALL",)),
    Setting("symbolic.snippet_bytes", "most bytes of one snippet", 8192, "integer", minimum=1,
            env=("RLM_MAX_BYTES_PER_SNIPPET",)),
    Setting("symbolic.subcall_bytes", "most bytes of text that one sub-call is given", 120000,
            "integer", minimum=1, env=("RLM_MAX_SUBCALL_INPUT_BYTES",)),
    Setting("symbolic.prompt_bytes", "most bytes of one prompt of the planner", 32768, "integer",
            minimum=1, env=("RLM_MAX_PLANNER_PROMPT_BYTES",)),
    Setting("symbolic.concurrency", "most sub-calls at the same time", 4, "integer", minimum=1,
            env=("RLM_MAX_CONCURRENCY",)),
    _machine("delegation.parent", "CODEX_DELEGATION_PARENT_MANIFEST_PATH",
             "manifest of the run that delegated this one"),
)  # fmt: skip
PIPELINES: tuple[Setting, ...] = (
    # What it holds is judged by runs/pipeline.py, beside another program's file of the same.
    Setting("pipelines", "pipelines of this repository, for rlm-ci start", (), "data",
            own_env=False),
    Setting("stage_timeout_ms", "milliseconds of a stage that does not say its own",
            kind="integer", env=("CODEX_ORCHESTRATOR_STAGE_TIMEOUT_MS",), own_env=False,
            minimum=1, file=False),
)  # fmt: skip
FIX: tuple[Setting, ...] = (
    Setting("fix", "goal of a fix loop on the change: an agent edits until the validator passes; "
            "the patch is kept, nothing is pushed", metavar="GOAL", file=False, input="fix"),
)  # fmt: skip
RECURSION: tuple[Setting, ...] = (
    Setting("recursion.path", "folder to look at (default: all of the repository)",
            flag="--path", metavar="PATH", file=False, own_env=False),
    Setting("recursion.worktree", "look at the files of the work tree, not at the commit",
            default=False, kind="boolean", flag="--worktree", file=False),
    Setting("recursion.scheduler", "order of the work: bfs, dfs, hybrid; or a Dask cluster that "
            "does the leaves: dask://HOST:PORT, also with ?order=dfs", "bfs",
            flag="--scheduler", metavar="NAME", file=False),
    Setting("recursion.concurrency", "most calls of a model at the same time", 8, "integer",
            minimum=1, flag="--concurrency", metavar="N"),
    Setting("recursion.max_depth", "most levels of splitting", 32, "integer", minimum=1,
            flag="--max-depth", metavar="N"),
    Setting("recursion.leaf_bytes", "bytes from which a node is split", 262144, "integer",
            minimum=1),
    Setting("recursion.leaf_files", "files from which a node is split", 16, "integer", minimum=1),
    Setting("recursion.attempts", "most attempts at a node", 2, "integer", minimum=1),
    Setting("recursion.max_file_bytes", "bytes from which a file is left out, and that is told",
            1 << 20, "integer", minimum=1),
    Setting("recursion.exclude", "patterns of paths that are left out, and that is told", (),
            "list", metavar="PATTERN"),
    Setting("recursion.include_generated", "look at files too that are generated or vendored, by "
            ".gitattributes, their names or their lines", default=False, kind="boolean"),
    Setting("recursion.prompt_bytes", "most bytes of text in one prompt", 120000, "integer",
            minimum=1),
    Setting("recursion.max_minutes", "most minutes; unlimited, or 0, for no end", None, "cap",
            flag="--max-minutes", metavar="N"),
)  # fmt: skip
REVIEW_OF_PR: tuple[Setting, ...] = (
    Setting("review.enabled", "review the change by analyzers, and by a model where one is set "
            "and allowed; auto: where an analyzer is installed", "auto", "choice",
            choices=("auto", "on", "off"), flag="--review", metavar="MODE", input="review"),
    Setting("review.model", "let a model take part in the review of a pull request: auto (where a "
            "model is named and the branch is of the same repository), or off", "auto", "choice",
            choices=("auto", "off")),
)  # fmt: skip
REVIEW: tuple[Setting, ...] = (
    Setting("review.domains", "what is looked for", _DOMAINS, "list", metavar="DOMAIN"),
    Setting("review.refute_level", "severity from which a finding of a model has to withstand a "
            "second, independent look; off for none", "high", "choice",
            choices=(*SEVERITIES, "off")),
    Setting("review.ruff", "built-in analyzer for Python: auto, where it is installed", "auto",
            "choice", choices=("auto", "on", "off")),
    Setting("review.ruff.extend", "further rules of ruff, by code or prefix, such as D; they apply "
            "even if the repository does not select them", (), "list",
            metavar="RULE"),
    Setting("review.analyzers", "further programs that print SARIF, run in the sandbox; auto: "
            "tools that the repository sets up and that are installed", (), "table",
            choices=("auto",), columns=(
                Setting("name", "what it is called", required=True),
                Setting("command", "program and arguments, a list; {files} stands for the files, "
                        "{folder} for the folder that holds them, {sarif} for where it writes",
                        (), "list", required=True),
                Setting("files", "patterns of the files that it looks at (default: all)", (),
                        "list"),
                Setting("domain", "domain of findings that it does not call security's itself",
                        "quality", "choice", choices=_DOMAINS),
                Setting("max_severity", "highest severity of its findings", "high", "choice",
                        choices=SEVERITIES),
                Setting("network", "let it reach the network from its sandbox", default=False,
                        kind="boolean"),
            )),
)  # fmt: skip
WIKI_OF_PR: tuple[Setting, ...] = (
    Setting("wiki.enabled", "tell which pages of the wiki a change makes stale; auto: where there "
            "is one in the repository", "auto", "choice", choices=("auto", "on", "off"),
            flag="--wiki", metavar="MODE", input="wiki"),
    Setting("wiki.folder", "folder of the repository that holds the wiki, where one does",
            "docs/wiki", metavar="DIR"),
)  # fmt: skip
WIKI: tuple[Setting, ...] = (
    Setting("wiki.out", "folder to write the pages to (default: the run directory)",
            flag="--out", metavar="DIR", file=False),
    Setting("wiki.site", "folder to write a static site with search to", flag="--site",
            metavar="DIR", file=False),
    Setting("wiki.prose", "let a model, where one is set, write prose on top", default=True,
            kind="boolean", flag="--prose", off="no prose"),
    Setting("wiki.push", "push the pages", default=False, kind="boolean", flag="--push",
            file=False),
    Setting("wiki.target", "where --push goes: pr (a pull request), branch:NAME, or wiki (the "
            "repository's own)", "pr", flag="--to", metavar="TARGET"),
)  # fmt: skip
#: What every judging command may need; a hook has no time to look at more.
CORE = (*COMMON, *CHANGE, *LOCAL_CHANGE, *PATHS, *REPORT, *OUT, *MACHINE)
#: What no check has a say in.
PROGRAM = (
    *CORE, *PUBLISH, *FIX, *MODEL, *BUDGET, *LOOP, *CONTEXT, *SYMBOLIC, *PIPELINES, *RECURSION,
    *REVIEW_OF_PR, *REVIEW, *WIKI_OF_PR, *WIKI,
)  # fmt: skip
