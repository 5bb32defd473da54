"""The table of all settings, one row each; those of every check are in ``core_options``.

Flags, environment names, the config file's keys, its schema, the reference page and the inputs of
the action come from these rows.
"""

from __future__ import annotations

from rlm_ci.config.core_options import CORE, SEVERITIES, machine
from rlm_ci.config.settings import Setting

_DOMAINS = ("security", "quality", "performance", "docs", "architecture")

PUBLISH: tuple[Setting, ...] = (
    Setting("publish.enabled", "post the report on the pull request if a token is set",
            default=True, kind="boolean", flag="--publish", off="post nothing"),
    Setting("publish.comment", "what to post on the pull request: a summary (sticky), a "
            "summary and review comments (review), or nothing (none)", "review", "choice",
            choices=("sticky", "review", "none"), input="comment"),
    Setting("publish.name", "name of this run on the pull request: each name has a comment and a "
            "check run of its own (default: the workflow's job)", metavar="NAME", input="name"),
    Setting("publish.check_run", "post a check run with the verdict", default=True,
            kind="boolean"),
    Setting("github.token", "token for posting on GitHub", env=("GITHUB_TOKEN",), secret=True,
            file=False, input="github-token"),
    Setting("github.label_token", "token that sets the label of /rlm-ci fix; a label that is set "
            "with GITHUB_TOKEN starts no workflow", secret=True, file=False),
    machine("github.api_url", "GITHUB_API_URL", "address of GitHub's API"),
    machine("github.job", "GITHUB_JOB", "job of the workflow"),
    machine("github.matrix", "RLM_CI_GITHUB_MATRIX", "values of the job's matrix, as JSON"),
)  # fmt: skip
MODEL: tuple[Setting, ...] = (
    Setting("model", "name of the model at its endpoint", flag="--model",
            metavar="NAME", input="model"),
    Setting("models.provider", "provider of the model: its address and the variable of its key "
            "(default: OpenAI, or the prefix of the model's name: groq:NAME)", kind="choice",
            choices=("anthropic", "azure", "gemini", "github", "groq", "lmstudio", "mistral",
                     "ollama", "openai", "openrouter", "together", "vllm")),
    Setting("models.max_completion_tokens", "maximum tokens of one answer, including hidden "
            "reasoning; raise it where answers are cut off",
            16384, "integer", minimum=1),
    Setting("models.context_tokens", "tokens that the model reads, prompt and answer together; "
            "0: what its endpoint says, else the table of models", 0, "integer", minimum=0),
    Setting("models.timeout", "seconds without a new token; for a whole answer where it is not "
            "streamed; raise it for a slow local model",
            600, "number", minimum=1),
    Setting("models.cache", "reuse answers from the last runs of the same task; turn it on "
            "while you try the same task again",
            default=False,
            kind="boolean"),
    Setting("models.prices", "prices in USD by model, for models that the built-in table does "
            "not have", {}, "tables", own_env=False, columns=(
                Setting("input_per_million", "USD per million prompt tokens", kind="number",
                        required=True, minimum=0),
                Setting("output_per_million", "USD per million completion tokens",
                        kind="number", required=True, minimum=0),
                Setting("cached_per_million", "USD per million cached prompt tokens",
                        kind="number", minimum=0),
            )),
    # Not in files: they could send the key to a foreign server.
    Setting("openai.base_url", "OpenAI-compatible endpoint (default: OpenAI's own)",
            env=("OPENAI_BASE_URL",), metavar="URL", file=False, input="openai-base-url"),
    Setting("models.recording", "file that gets each answer of a model; "
            "OPENAI_BASE_URL=recorded:FILE plays it to the same prompts, without a model",
            metavar="FILE", file=False),
    Setting("openai.api_version", "version of Azure's API, if the endpoint is on Azure",
            env=("OPENAI_API_VERSION",), file=False),
    Setting("openai.api_key", "key of the endpoint", env=("OPENAI_API_KEY",), secret=True,
            file=False, input="openai-api-key"),
)  # fmt: skip
BUDGET: tuple[Setting, ...] = (
    Setting("max_calls", "maximum number of model calls", kind="integer", minimum=0,
            flag="--max-calls", metavar="N", input="max-calls"),
    Setting("max_tokens", "maximum number of tokens, prompts and answers together", kind="integer",
            minimum=0, flag="--max-tokens", metavar="N"),
    Setting("budget_usd", "maximum cost in USD", kind="number", minimum=0, flag="--budget-usd",
            metavar="X", input="budget-usd"),
)  # fmt: skip
BUDGET_OF_PR: tuple[Setting, ...] = (
    Setting("budget.pull_request_usd", "maximum cost in USD of all runs on a pull request "
            "together, by what their summary comments and check runs say", kind="number",
            minimum=0),
    Setting("budget.reached", "what a run does once that is spent: the checks and analyzers "
            "alone (checks), or the checks alone, as incomplete (stop)", "checks", "choice",
            choices=("checks", "stop")),
)  # fmt: skip
RLMS: tuple[Setting, ...] = (
    Setting("loop.rlms.enabled", "let an analysis of a role's context run before its turn, where "
            "the other settings of loop.rlms say so", default=False, kind="boolean"),
    Setting("loop.rlms.mode", "what an analysis needs: a large context (auto), a request "
            "(requested, manual), or one of both (hybrid)", "hybrid", "choice",
            choices=("auto", "requested", "manual", "hybrid")),
    Setting("loop.rlms.request_keyword", "word by which a role or a commit's trailer asks for an "
            "analysis", "RLMS_REQUEST", metavar="WORD"),
    Setting("loop.rlms.context", "the context of a role: files that the goal names or that have "
            "changed since the run began (changed); these, and those that the last failures name, "
            "or the repository's own sources while there are none (relevant); or all", "relevant",
            "choice", choices=("relevant", "changed", "all")),
    Setting("loop.rlms.auto.max_lines", "number of lines above which a context is large; lower "
            "it to have analyses sooner",
            2500,
            "integer", minimum=1),
    Setting("loop.rlms.auto.max_estimated_tokens", "number of tokens above which a context is "
            "large; a token is 4 bytes", 120000, "integer", minimum=1),
    Setting("loop.rlms.auto.max_files", "number of files above which a context is large; lower "
            "it to have analyses sooner",
            40,
            "integer", minimum=1),
    Setting("loop.rlms.roles.planner", "allow an analysis for the planner", default=True,
            kind="boolean"),
    Setting("loop.rlms.roles.implementer", "allow an analysis for the role that edits",
            default=True, kind="boolean"),
    Setting("loop.rlms.roles.tester", "allow an analysis for the tester", default=True,
            kind="boolean"),
    Setting("loop.rlms.roles.reviewer", "allow an analysis for the reviewer or critic",
            default=True, kind="boolean"),
    Setting("loop.rlms.limits.max_steps", "maximum turns of the model of an analysis; raise it "
            "if analyses end too early",
            40,
            "integer", minimum=1),
    Setting("loop.rlms.limits.max_depth", "how deep an analysis may ask itself, at most 8", 2,
            "integer", minimum=1),
    Setting("loop.rlms.limits.timeout_seconds", "maximum seconds of an analysis; raise it for a "
            "slow model",
            240, "integer",
            minimum=1),
    Setting("loop.rlms.limits.max_subcalls", "maximum number of calls of models in an analysis, "
            "beside its own turns", 80, "integer", minimum=1),
    Setting("loop.rlms.output.format", "format of the result", "json", "choice",
            choices=("json",)),
    Setting("loop.rlms.output.require_citations", "let an analysis fail that cites no place of "
            "its context that holds", default=True, kind="boolean"),
    Setting("loop.rlms.policy.force_on", "run an analysis for each allowed role, whatever its "
            "context", default=False, kind="boolean"),
    Setting("loop.rlms.policy.force_off", "run no analysis", default=False, kind="boolean"),
    Setting("loop.rlms.policy.fail_mode", "what a failed analysis does: the role goes on without "
            "it (warn_and_continue), or the run ends (fail_role)", "warn_and_continue", "choice",
            choices=("warn_and_continue", "fail_role")),
)  # fmt: skip
GATES: tuple[Setting, ...] = (
    Setting("loop.gates.promise.text", "text that the role that edits must promise, in a "
            "<promise> tag, when the work is done"),
    Setting("loop.gates.tests.command", "command of tests that must pass besides the validator; "
            "each test that ran at the start must run again", metavar="CMD"),
    Setting("loop.gates.validation.commands", "commands that must pass besides the validator", (),
            "list", metavar="CMD"),
    Setting("loop.gates.checklists.paths", "Markdown files in which the agent must tick every "
            "item", (), "list", metavar="PATH"),
    Setting("loop.gates.review.enabled", "let a model review the result before it is green "
            "(default: yes, where it is the agent and a validator decides)", kind="boolean"),
    Setting("loop.gates.evidence.enabled", "write a manifest with the hash of all that a green "
            "result rests on; what has none fails", default=False, kind="boolean"),
    Setting("loop.gates.approval.file", "file in which a person approves the result; the run "
            "pauses until then", metavar="PATH"),
    Setting("loop.gates.stuck.turns", "number of turns in a row with the same failures that "
            "ends the loop; 0 turns that off; raise it for a goal that takes small steps",
            3, "integer", minimum=0),
)  # fmt: skip
RLMS_DRY_RUN: tuple[Setting, ...] = (
    Setting("loop.rlms.dry_run", "show which roles would get an analysis, and run nothing",
            default=False, kind="boolean", flag="--dry-run",
            file=False, own_env=False),
)  # fmt: skip
LOOP: tuple[Setting, ...] = (
    Setting("loop.goal", "the goal", env=("RLM_GOAL",), own_env=False, file=False),
    Setting("loop.validator", "command that must pass: auto finds one, none uses none",
            "auto", env=("RLM_VALIDATOR",), flag="--validator", metavar="CMD|auto|none"),
    Setting("loop.max_iterations", "maximum number of iterations; 0 or unlimited removes the "
            "limit", 88, "cap", env=("RLM_MAX_ITERATIONS",), flag="--max-iterations", metavar="N"),
    Setting("loop.max_minutes", "maximum minutes; 0 or unlimited removes the limit", 2880.0, "cap",
            env=("RLM_MAX_MINUTES",), flag="--max-minutes", metavar="N"),
    Setting("loop.validator_minutes", "maximum minutes of one validator run; raise it for a "
            "slow test suite",
            60, "number",
            minimum=0),
    Setting("loop.canary_minutes", "maximum minutes for the canary, which runs changed tests "
            "that must fail (default: loop.validator_minutes)", None, "number", minimum=0),
    Setting("loop.roles", "roles: one agent (single); planner, reviser and critic (triad); or "
            "planner, implementer, tester and reviewer (superloop)",
            "single", "choice", choices=("single", "triad", "superloop"), env=("RLM_ROLES",),
            flag="--roles", metavar="NAME"),
    Setting("loop.subagents", "give each role its own conversation", default=False,
            kind="boolean", env=("RLM_SUBAGENTS", "CODEX_SUBAGENTS")),
    Setting("loop.agent", "the agent that edits: openai, codex, claude, gemini, aider, "
            "autofix, or a command (default: openai, if a key or base URL is set)", flag="--agent",
            metavar="NAME"),
    Setting("loop.agent_env", "environment variables that an external agent gets", (), "list",
            metavar="NAME"),
    Setting("loop.command_seconds", "maximum seconds of one command that the built-in agent "
            "runs; 0 turns its commands off; raise it for slow builds",
            120, "number", minimum=0),
    # A repository must not be able to let a model run commands outside of a sandbox.
    Setting("loop.run_without_sandbox", "let the built-in agent run commands unsandboxed; where "
            "there is no sandbox", default=False, kind="boolean",
            flag="--run-without-sandbox", file=False),
    Setting("loop.allow_test_edits", "let the agent edit existing tests",
            default=False, kind="boolean", flag="--allow-test-edits", file=False),
    Setting("loop.allow", "accept findings of this guard rule, such as tamper/binary; repeatable",
            (), "list", flag="--allow", metavar="RULE", own_env=False, file=False),
    Setting("loop.allow_edit", "let the agent edit this file, though it is a test, or decides in "
            "another way; repeatable", (), "list", flag="--allow-edit", metavar="PATH",
            own_env=False, file=False),
    Setting("loop.allow_no_change", "pass where the agent changed nothing, and the validator "
            "passes",
            default=False, kind="boolean", flag="--allow-no-change"),
    Setting("loop.trust_exit_code", "accept a validator that exits with 0, whatever it prints",
            default=False, kind="boolean"),
    Setting("loop.apply", "apply the result to the work tree (default: yes, but not in CI)",
            kind="boolean", flag="--apply", file=False),
    # A repository must not be able to turn its own sandbox off.
    Setting("sandbox", "sandbox for commands of the repository, and for code of a REPL (also "
            "monty)", "auto", "choice", choices=("auto", "bubblewrap", "monty", "none"),
            flag="--sandbox", metavar="NAME", file=False, input="sandbox"),
    Setting("out_dir", "folder of the summaries of all tasks, relative to the repository", "out",
            env=("CODEX_ORCHESTRATOR_OUT_DIR",), metavar="DIR", file=False),
    *RLMS,
    *GATES,
)  # fmt: skip
EPISODE: tuple[Setting, ...] = (
    Setting("episode.environment", "how the model may act: generic (rlm), coding (dspy, "
            "dspy-coding, framework), or pure_rlm (pure-rlm)", "generic", flag="--environment",
            metavar="NAME", file=False),
    Setting("episode.max_steps", "maximum number of steps", 4, "integer", minimum=1,
            flag="--max-steps", metavar="N", file=False),
    Setting("episode.exec_timeout", "maximum seconds of one piece of code", 30, "number",
            minimum=1, flag="--exec-timeout", metavar="N", file=False),
    Setting("episode.branch_width", "candidates for each step; the best of them is carried out",
            1, "integer", minimum=1, flag="--branch-width", metavar="N", file=False),
    Setting("episode.framework", "framework that runs the episode: dspy, pydantic_ai or "
            "google_adk (default: none)", flag="--framework", metavar="NAME", file=False),
    Setting("episode.max_depth", "maximum depth of delegated tasks", 2, "integer", minimum=0,
            flag="--max-depth", metavar="N", file=False),
    Setting("episode.max_children_per_step", "maximum number of tasks that one step delegates", 4,
            "integer", minimum=1, flag="--max-children-per-step", metavar="N", file=False),
    Setting("episode.parallelism", "maximum number of parallel children", 2, "integer", minimum=1,
            flag="--parallelism", metavar="N", file=False),
    Setting("episode.time_budget_seconds", "maximum seconds of the whole episode; what still "
            "runs then is killed (default: no limit)", kind="number", minimum=0,
            flag="--time-budget-seconds", metavar="N", file=False),
    Setting("episode.sub_model", "model for children and sub-calls (default: the same)",
            flag="--sub-model", metavar="NAME", file=False),
    # A repository must not be able to name programs that run outside of the sandbox.
    Setting("episode.mcp_config", "file of the MCP servers whose tools the model gets, outside of "
            "the repository", flag="--mcp-config", metavar="FILE", file=False),
    Setting("episode.mcp_server", "only this server of --mcp-config (default: all)",
            flag="--mcp-server", metavar="NAME", file=False),
    Setting("episode.sub_provider", "provider of --sub-model: openai or azure (default: the same)",
            flag="--sub-provider", metavar="NAME", file=False),
)  # fmt: skip
CHAT: tuple[Setting, ...] = (
    Setting("chat.session_id", "id of the conversation", flag="--session-id", metavar="ID",
            file=False, own_env=False),
    Setting("chat.compaction", "summarize old messages of the conversation", default=True,
            kind="boolean", flag="--compaction", off="keep all messages", file=False),
    Setting("chat.compaction_limit", "exchanges before old ones are summarized", 6,
            "integer", minimum=1, flag="--compaction-limit", metavar="N", file=False),
    Setting("chat.keep_recent", "number of the newest exchanges that stay as they are", 4,
            "integer", minimum=1, flag="--keep-recent", metavar="N", file=False),
)  # fmt: skip
CONTEXT: tuple[Setting, ...] = (
    Setting("context.target_bytes", "size of a chunk in bytes; lower it for closer pointers",
            65536, "integer", minimum=1,
            env=("RLM_CHUNK_TARGET_BYTES",)),
    Setting("context.overlap_bytes", "bytes that a chunk shares with the previous one; raise it "
            "for long records",
            4096,
            "integer", minimum=0, env=("RLM_CHUNK_OVERLAP_BYTES",)),
    Setting("symbolic.top_k", "maximum hits of one search; raise it for texts that repeat",
            20, "integer", minimum=1,
            env=("RLM_SEARCH_TOP_K",)),
    Setting("symbolic.read_bytes", "maximum bytes of one read; lower it for a model with little "
            "context",
            8192, "integer", minimum=1,
            env=("RLM_MAX_BYTES_PER_CHUNK_READ",)),
    Setting("symbolic.preview_bytes", "maximum bytes of a hit's preview; raise it for long lines",
            512, "integer",
            minimum=1, env=("RLM_MAX_PREVIEW_BYTES",)),
)  # fmt: skip
SYMBOLIC: tuple[Setting, ...] = (
    Setting("mode", "fix until green (iterative), answer a question about a context "
            "(symbolic), or choose (auto)", "auto", "choice",
            choices=("auto", "iterative", "symbolic"),
            env=("RLM_MODE",), flag="--mode", metavar="NAME"),
    Setting("context.source", "the long text to ask about: a file, a folder, a glob, - for "
            "standard input, or a context object", env=("RLM_CONTEXT_PATH",),
            flag="--context", metavar="PATH", file=False),
    Setting("context.encoding", "encoding of a context: by BOM and bytes (auto), none (bytes), "
            "or one such as shift_jis", "auto",
            flag="--context-encoding", metavar="NAME", file=False),
    Setting("symbolic.environment", "how a question is answered: by plans that look into the text "
            "(symbolic), or by code (repl)", "symbolic", "choice",
            choices=("symbolic", "repl"), flag="--environment", metavar="NAME", file=False),
    Setting("symbolic.min_bytes", "size of a goal in bytes above which auto is symbolic; lower "
            "it to have shorter goals searched",
            1 << 20,
            "integer", minimum=1, env=("RLM_SYMBOLIC_MIN_BYTES",)),
    Setting("symbolic.reads", "maximum reads of one plan; raise it if answers miss places",
            8, "integer", minimum=1,
            env=("RLM_MAX_CHUNK_READS_PER_ITERATION",)),
    Setting("symbolic.subcalls", "maximum sub-calls of one plan; raise it if a question needs "
            "many parts",
            4, "integer", minimum=1,
            env=("RLM_MAX_SUBCALLS_PER_ITERATION",)),
    Setting("symbolic.subcall_models", "models that a plan may use for a sub-call, in addition "
            "to the run's own", (), "list", metavar="NAME"),
    Setting("symbolic.prompt_bytes", "maximum bytes of one planner prompt; lower it for a model "
            "with little context",
            32768, "integer",
            minimum=1, env=("RLM_MAX_PLANNER_PROMPT_BYTES",)),
    Setting("symbolic.concurrency", "maximum number of parallel sub-calls", 4, "integer", minimum=1,
            env=("RLM_MAX_CONCURRENCY",)),
    machine("delegation.parent", "CODEX_DELEGATION_PARENT_MANIFEST_PATH",
             "manifest of the run that delegated this one"),
)  # fmt: skip
PIPELINES: tuple[Setting, ...] = (
    # pipelines/definition.py checks the content.
    Setting("pipelines", "pipelines of this repository, for rlm-ci start", (), "data",
            own_env=False),
    Setting("stage_timeout_ms", "default timeout of a pipeline stage, in milliseconds",
            kind="integer", env=("CODEX_ORCHESTRATOR_STAGE_TIMEOUT_MS",), own_env=False,
            minimum=1, file=False),
)  # fmt: skip
FIX: tuple[Setting, ...] = (
    Setting("fix", "goal of a fix loop on the change: an agent edits until the validator "
            "passes; the result is a patch, and nothing is pushed", metavar="GOAL", file=False,
            input="fix"),
)  # fmt: skip
RECURSION: tuple[Setting, ...] = (
    Setting("recursion.path", "folder to read (default: the whole repository)",
            flag="--path", metavar="PATH", file=False, own_env=False),
    Setting("recursion.worktree", "read the work tree instead of the commit",
            default=False, kind="boolean", flag="--worktree", file=False),
    Setting("recursion.scheduler", "order of the work: bfs, dfs or hybrid; or a Dask cluster "
            "for the leaves: dask://HOST:PORT, also with ?order=dfs", "bfs",
            flag="--scheduler", metavar="NAME", file=False),
    Setting("recursion.concurrency", "maximum number of parallel model calls", 8, "integer",
            minimum=1, flag="--concurrency", metavar="N"),
    Setting("recursion.max_depth", "maximum depth of splitting", 32, "integer", minimum=1,
            flag="--max-depth", metavar="N", file=False),
    Setting("recursion.exclude", "patterns of paths that are left out and listed; name fixtures "
            "and data",
            (),
            "list", metavar="PATTERN"),
    Setting("recursion.include_generated", "also read generated and vendored files, as "
            ".gitattributes, names or lines show", default=False, kind="boolean"),
    Setting("recursion.prompt_bytes", "maximum bytes of text in one prompt; lower it for a "
            "model with little context",
            120000, "integer",
            minimum=1),
    Setting("recursion.max_minutes", "maximum minutes; 0 or unlimited removes the limit", None,
            "cap", flag="--max-minutes", metavar="N"),
)  # fmt: skip
REVIEW_OF_PR: tuple[Setting, ...] = (
    Setting("review.enabled", "review the change with analyzers, and a model if one is set and "
            "allowed; auto: if an analyzer is installed", "auto", "choice",
            choices=("auto", "on", "off"), flag="--review", metavar="MODE", input="review"),
    Setting("review.model", "use a model in the review of a pull request: auto (if a model is "
            "named and the branch is in the same repository), or off", "auto", "choice",
            choices=("auto", "off")),
)  # fmt: skip
REVIEW: tuple[Setting, ...] = (
    Setting("review.domains", "what to look for", _DOMAINS, "list", metavar="DOMAIN"),
    Setting("review.depth", "how the model reviews a change: quick (it reads), normal (also with "
            "tools, where it can), or deep (longer)", "normal", "choice",
            choices=("quick", "normal", "deep"), flag="--depth", metavar="DEPTH"),
    Setting("review.proofs", "have reproductions of what a model claims of a change run in the "
            "sandbox: auto (if there is one), or off", "auto", "choice", choices=("auto", "off")),
    Setting("review.repair_level", "lowest severity of a proven finding for which the model is "
            "asked for a repair; off for none (a finding's own suggestion is always tried)", "high",
            "choice", choices=(*SEVERITIES, "off")),
    Setting("review.describe", "have the model that reviews a change say in sentences what it "
            "does: auto, or off", "auto", "choice", choices=("auto", "off")),
    Setting("review.description", "have the model that reviews a pull request also hold its title "
            "and body against the change: auto, or off", "off", "choice", choices=("auto", "off")),
    Setting("review.rounds", "reviews of a pull request, one a push, after which a model's new "
            "findings count only if they are proven high; 0: no end", 3, "integer", minimum=0),
    Setting("review.guidelines", "what the maintainers wish for in the code, for a model that "
            "reviews it", (), "table", columns=(
                Setting("paths", "patterns of the files that it is about (default: all)", (),
                        "list"),
                Setting("text", "the guideline", required=True),
                Setting("level", "severity of a finding that rests on it and that no run shows "
                        "(default: medium)", "medium", "choice", choices=SEVERITIES),
            )),
    Setting("review.ruff", "built-in analyzer for Python; auto: if it is installed", "auto",
            "choice", choices=("auto", "on", "off")),
    Setting("review.ruff.extend", "further ruff rules, by code or prefix, such as D; they "
            "apply even if the repository does not select them", (), "list", metavar="RULE"),
    Setting("review.analyzers", "further programs that print SARIF, run in the sandbox; auto: "
            "installed tools that the repository has set up", (), "table",
            choices=("auto",), columns=(
                Setting("name", "name of the analyzer", required=True),
                Setting("command", "program and arguments, as a list; {files} stands for the "
                        "files, {folder} for their folder, {sarif} for the file to "
                        "write", (), "list", required=True),
                Setting("files", "patterns of the files that it reads (default: all)", (),
                        "list"),
                Setting("domain", "domain of findings that the tool does not tag as security",
                        "quality", "choice", choices=_DOMAINS),
                Setting("max_severity", "highest severity of its findings", "high", "choice",
                        choices=SEVERITIES),
                Setting("network", "allow network in its sandbox", default=False, kind="boolean"),
            )),
)  # fmt: skip
WIKI_OF_PR: tuple[Setting, ...] = (
    Setting("wiki.enabled", "report wiki pages that the change makes stale; auto: if the "
            "repository has a wiki", "auto", "choice", choices=("auto", "on", "off"),
            flag="--wiki", metavar="MODE", input="wiki"),
    Setting("wiki.folder", "folder of the wiki in the repository", "docs/wiki", metavar="DIR"),
)  # fmt: skip
WIKI: tuple[Setting, ...] = (
    Setting("wiki.out", "folder for the pages, as seen from the repository (default: the run "
            "directory)",
            flag="--out", metavar="DIR", file=False),
    Setting("wiki.site", "folder for a static site with search", flag="--site",
            metavar="DIR", file=False),
    Setting("wiki.prose", "let a model write prose, if one is set", default=True,
            kind="boolean", flag="--prose", off="write no prose", file=False),
    Setting("wiki.push", "push the pages", default=False, kind="boolean", flag="--push",
            file=False),
    Setting("wiki.target", "target of --push: pr (a pull request), branch:NAME, or wiki (the "
            "repository's GitHub wiki)", "pr", flag="--to", metavar="TARGET", file=False),
)  # fmt: skip
WIKI_CHECK: tuple[Setting, ...] = (
    Setting("wiki.check", "exit with 1 if a page in --out, else in wiki.folder, is stale; write "
            "nothing, ask no model", default=False, kind="boolean",
            flag="--check", file=False, own_env=False),
)  # fmt: skip
TOGETHER_OF_PR: tuple[Setting, ...] = (
    Setting("together.enabled", "compare it with the other open pull requests; this needs a "
            "token that may read them", default=False, kind="boolean",
            flag="--together", input="together"),
)  # fmt: skip
TOGETHER: tuple[Setting, ...] = (
    Setting("together.max_changes", "maximum number of pull requests to compare, the latest first",
            100, "integer", minimum=2, flag="--max-changes", metavar="N", file=False),
)  # fmt: skip
AGENT_HOOKS: tuple[Setting, ...] = (
    Setting("agent_hooks.enabled", "judge what a coding agent changed, when it stops",
            default=True, kind="boolean"),
    Setting("agent_hooks.validator", "also run the validator, in the sandbox", default=False,
            kind="boolean"),
    Setting("agent_hooks.max_blocks", "how often in a row an agent is held, before it is let go "
            "and the person is told; 0: it is never held", 2, "integer", minimum=0),
    Setting("agent_hooks.timeout", "seconds after which a hook gives up, and holds nothing; the "
            "hook files of rlm-ci init allow 600", 50, "number", minimum=1),
    Setting("agent_hooks.after_edit", "advise the agent to split its work once it has used 80 % "
            "of the diff budget", default=False, kind="boolean"),
    Setting("agent_hooks.override_reason", "why the person lets an agent stop on findings; set "
            "it before the agent starts; '(until YYYY-MM-DD)' in it ends the override",
            env=("RLM_CI_AGENT_OVERRIDE",), own_env=False, file=False),
)  # fmt: skip
#: From the narrowest.
DELEGATE_MODES = ("status_only", "question_only", "full")
DELEGATE: tuple[Setting, ...] = (
    Setting("delegate.mode", "tools that rlm-ci mcp offers: for the status of runs (status_only), "
            "also for questions to people (question_only), or all (full); the narrowest of flag, "
            "environment and config file counts", "question_only", "choice",
            choices=DELEGATE_MODES, env=("CODEX_DELEGATE_MODE",), flag="--mode", metavar="NAME"),
    Setting("delegate.roots", "folder of repositories for the tools of rlm-ci mcp; "
            "repeatable (default: the repository)", (), "list", flag="--root", metavar="DIR",
            file=False, own_env=False),
    # A repository must not let its agents start more of them.
    Setting("delegate.allow_nested", "let a delegated run delegate, too, three levels deep",
            default=False, kind="boolean", file=False),
    Setting("delegate.spawn_timeout_ms", "how long delegate.spawn waits for a run to be there, in "
            "milliseconds; 30000 at most", 10000, "integer", minimum=1, file=False,
            env=("SPAWN_START_TIMEOUT_MS", "CODEX_DELEGATION_SPAWN_START_TIMEOUT_MS",
                 "DELEGATION_SPAWN_START_TIMEOUT_MS")),
    Setting("delegate.depth", "how many runs above this one have delegated it; set by "
            "delegate.spawn", 0, "integer", minimum=0, file=False, own_env=False,
            env=("RLM_CI_DELEGATE_DEPTH",)),
    Setting("delegate.question_expiry_fallback", "what becomes of a run that pauses for a question "
            "when the question expires: it stays paused (pause), goes on (resume) or is cancelled "
            "(fail)", "pause", "choice", choices=("pause", "resume", "fail"), file=False),
)  # fmt: skip
RECEIPT: tuple[Setting, ...] = (
    machine("github.run_id", "GITHUB_RUN_ID", "id of the workflow run"),
    machine("github.run_attempt", "GITHUB_RUN_ATTEMPT", "attempt of the workflow run"),
    machine("github.sha", "GITHUB_SHA", "commit that the workflow runs on"),
    machine("github.ref", "GITHUB_REF", "ref that the workflow runs on"),
    machine("github.id_token_url", "ACTIONS_ID_TOKEN_REQUEST_URL", "where a job with id-token: "
            "write gets its token, for a receipt"),
    Setting("github.id_token_bearer", "key to that address", secret=True, file=False, own_env=False,
            env=("ACTIONS_ID_TOKEN_REQUEST_TOKEN",)),
)  # fmt: skip
REVIEW_DRY_RUN: tuple[Setting, ...] = (
    Setting("review.dry_run", "review nothing; show calls, tokens and dollars of the reading",
            default=False, kind="boolean", flag="--dry-run", file=False, own_env=False),
)  # fmt: skip
#: What no check has a say in.
PROGRAM = (
    *CORE, *PUBLISH, *FIX, *MODEL, *BUDGET, *LOOP, *RLMS_DRY_RUN, *EPISODE, *CHAT, *CONTEXT,
    *SYMBOLIC, *PIPELINES, *RECURSION, *REVIEW_OF_PR, *REVIEW, *REVIEW_DRY_RUN, *WIKI_OF_PR, *WIKI,
    *BUDGET_OF_PR, *TOGETHER_OF_PR, *TOGETHER,
    *WIKI_CHECK, *AGENT_HOOKS, *DELEGATE, *RECEIPT,
)  # fmt: skip
