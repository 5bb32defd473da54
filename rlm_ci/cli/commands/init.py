"""``rlm-ci init``: write workflows, hooks and ``rlm-ci.toml``, or remove them again.

On a terminal it asks what no flag says. Only ``--force`` overwrites existing files, and keeps the
old ones renamed.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from shutil import which

from rlm_ci import __version__, checks, errors
from rlm_ci.agent_hooks.hook_files import AGENTS
from rlm_ci.cli import agent_hooks, native_hooks, new_config
from rlm_ci.cli.code_readers import CodeReaders
from rlm_ci.cli.new_workflows import workflows
from rlm_ci.cli.written_files import LIMIT, WrittenFiles
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import CONFIG_FILES, Setting, Settings, parse_config
from rlm_ci.console.messages import say
from rlm_ci.console.progress import Progress, asker
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.git import tracked
from rlm_ci.git.hardening import without_hook
from rlm_ci.git.repository import Repository, discover
from rlm_ci.judge.config_file import TABLE
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import REPORT_NAME, output_of
from rlm_ci.models.providers import (
    GITHUB,
    MODEL_NAME,
    NAME_HINT,
    OPENAI,
    PROVIDERS,
    require_provider,
)
from rlm_ci.report.wording import join
from rlm_ci.resources import loader
from rlm_ci.review.analyzers.from_repository import AUTO
from rlm_ci.system import files
from rlm_ci.system.installation import URL, checkout, recorded_commit
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.config.arguments import Arguments

SUMMARY = "set up a repository: write workflows, hooks and rlm-ci.toml"
USAGE = "[--review on|off] [--model NAME] [--hooks] [OPTION...]"
TAKES = ("no arguments", 0, 0)
EXAMPLES = (
    "rlm-ci init",
    "rlm-ci init --review off --hooks",
    "rlm-ci init --model openai:gpt-5-mini --fork-safe",
    "rlm-ci init --agents claude,codex,people",
    "rlm-ci init --agents @our-agent",
    "rlm-ci init --remove",
)
FORMS = ("text",)
EXITS = {
    errors.OK: "the files are written; those that exist are kept",
    errors.CONFIG: "no Git repository, no known commit to pin the action to, or no such model",
}


def _row(key: str, help_text: str, **more: Any) -> Setting:
    return Setting(key, help_text, flag=f"--{key.replace('_', '-')}", file=False, **more)


_SWITCH: Any = {"default": False, "kind": "boolean"}
OWN = (
    Setting("init.review", "also review the code of each pull request, besides the checks",
            "on", "choice", choices=("on", "off"), flag="--review", metavar="MODE", file=False,
            own_env=False),
    Setting("init.model", "model for the review, as PROVIDER:NAME (default: none; analyzers need "
            "no key)", flag="--model", metavar="NAME", file=False, own_env=False),
    Setting("init.agents", f"agents whose hooks check before the agent says done: "
            f"{', '.join(AGENTS)}; and who opens their pull requests, for whom test-guard fails: "
            "bots (the default), @LOGIN for an account, or people for everybody", (), "list",
            flag="--agents", metavar="NAME,...", file=False, own_env=False),
    Setting("init.after_edit", "with --agents: also advise an agent, after an edit, to split its "
            "work at 80 % of the diff budget", flag="--after-edit", file=False,
            own_env=False, **_SWITCH),
    _row("fork_safe", "write two workflows: one checks without permissions, the other posts, "
         "also for forks", **_SWITCH),
    _row("slash_commands", "write a workflow for comments such as /rlm-ci check", **_SWITCH),
    Setting("init.wiki", "write a workflow that refreshes the wiki once a week; it opens a pull "
            "request", flag="--wiki", file=False, own_env=False, **_SWITCH),
    Setting("init.test_bite", "also run the tests of a change on broken code (test-bite)",
            flag="--test-bite", file=False, own_env=False,
            **_SWITCH),
    _row("pin", "commit of rlm-ci for the workflows (default: the installed one)"),
    _row("hooks", "install native Git hooks in this clone, instead of a pre-commit configuration",
         **_SWITCH),
    _row("full", "write every setting into rlm-ci.toml, with its default", **_SWITCH),
    _row("force", "overwrite existing files; keep each one as FILE.orig", **_SWITCH),
    Setting("init.dry_run", "say what would be written or removed, and leave all as it is",
            flag="--dry-run", file=False, own_env=False, **_SWITCH),
    Setting("init.remove", "remove what init wrote in this clone; files that were changed since "
            "stay", flag="--remove", file=False, own_env=False, **_SWITCH),
)  # fmt: skip
ROWS = (*COMMON, *OWN)
#: Who opens the pull requests that agents wrote; the sign leads the login of an account.
_BOTS, _PEOPLE, _ACCOUNT = "bots", "people", "@"
_LOGIN = re.compile(rf"{_ACCOUNT}[A-Za-z0-9][A-Za-z0-9_-]{{0,99}}(\[bot])?")
_OPENERS = f"{_BOTS}, {_PEOPLE} for everybody, or {_ACCOUNT}LOGIN for an account"
_NOTHING = (
    "nothing to remove: this clone has no record of files that rlm-ci init wrote, and no file",
    "is as it would write it now; name the flags of that time, such as --fork-safe",
)


def run(arguments: Arguments) -> int:
    settings = Settings((*PROGRAM, *OWN), arguments.flags)
    if settings.format != "text":
        raise UsageError(
            f"init has no form {settings.format!r}", where="--format", hint="leave it out: text"
        )
    repository = open_repository(settings)
    if repository.git_dir is None:
        raise ConfigError(
            "not a git repository", where=repository.root, hint="make one first: git init"
        )
    written = WrittenFiles(repository, force=settings.force, is_dry=settings.init.dry_run)
    if settings.init.remove:
        return _remove(repository, written, settings)
    _require_agents(settings.init.agents)
    commit = _pinned(settings.pin, settings.environ)
    wish = _wish(settings, CodeReaders.of(repository)).replace(
        checks=_checks(repository, with_tests=settings.init.test_bite)
    )
    contents = _contents(commit, wish, settings)
    if wish.fork_safe and not settings.force:
        _require_first_job(repository)
    edits = agent_hooks.planned(repository, wish.agents, after_edit=wish.after_edit)
    lines = []
    if _is_configured(repository):
        # With a second configuration file every command would stop.
        del contents[CONFIG_FILES[0]]
        note = "kept       [tool.rlm-ci] of pyproject.toml is the configuration"
        lines.append(f"{note}{wish.lacking()}")
    if not settings.force:
        missing = [
            path for path in contents if not os.path.lexists(os.path.join(repository.root, path))
        ]
        for path in tracked.left_out(repository, missing):
            del contents[path]
            lines.append(f"kept       {path} (your sparse checkout leaves it out)")
    for path, text in contents.items():
        line = written.write(path, text)
        if line.startswith("kept "):
            line += _missing(os.path.join(repository.root, path), text)
            line += wish.lacking() if path == CONFIG_FILES[0] else ""
        lines.append(line)
    hooks = [*native_hooks.install(repository, written)] if settings.hooks else []
    lines += [*hooks, *agent_hooks.write(edits, written), written.ignore_runs()]
    if not settings.init.dry_run:
        lines += ["", *_next(wish, settings, hooks)]
    output_of(settings).emit("\n".join(lines) + "\n")
    return errors.OK


def _remove(repository: Repository, written: WrittenFiles, settings: Settings) -> int:
    """Remove what is recorded, and what these flags would write."""
    commit = settings.pin or own_commit(settings.environ)
    wish = _Wish(
        settings.init.review == "on", settings.init.model or "", settings.fork_safe,
        _openers(settings.init.agents), CodeReaders.of(repository), (), settings.init.after_edit,
        _checks(repository, with_tests=settings.init.test_bite),
    )  # fmt: skip
    lines = [*agent_hooks.remove(repository, written)]
    lines += [*written.remove(_contents(commit, wish, settings) if commit else {})]
    output_of(settings).emit("\n".join(lines or _NOTHING) + "\n")
    return errors.OK


class _Wish(Value):
    """What the flags and the answers say.

    ``openers`` open the pull requests of agents, ``agents`` are those that get hooks.
    """

    review: bool
    model: str
    fork_safe: bool
    openers: tuple[str, ...]
    readers: CodeReaders
    agents: tuple[str, ...] = ()
    after_edit: bool = False
    checks: tuple[str, ...] = ()

    @property
    def provider(self) -> str:
        """The provider of the model; "" without one."""
        prefix, _, name = self.model.partition(":")
        return (prefix if name and prefix in PROVIDERS else OPENAI) if self.model else ""

    @property
    def is_strict(self) -> bool:
        """Whether test-guard fails for every author."""
        return _PEOPLE in self.openers

    @property
    def accounts(self) -> tuple[str, ...]:
        """The logins for which test-guard fails, besides bots."""
        return tuple(opener[1:] for opener in self.openers if opener.startswith(_ACCOUNT))

    @property
    def has_own(self) -> bool:
        """Whether the repository's own analyzers take part in the review."""
        return self.review and self.readers.has_own

    @property
    def chosen(self) -> dict[str, Any]:
        """The settings that are not at their defaults."""
        rows = (
            ("checks", self.checks),
            ("model", self.model),
            ("review.enabled", "" if self.review else "off"),
            ("review.analyzers", AUTO if self.has_own else ""),
            ("test_guard.fail", self.is_strict),
            ("test_guard.strict_authors", self.accounts),
            ("agent_hooks.after_edit", self.after_edit),
        )
        return {key: value for key, value in rows if value}

    def lacking(self) -> str:
        """What an existing configuration may lack, as a remark; "" where the defaults do."""
        rows = [f"{key} = {new_config.toml(value)}" for key, value in self.chosen.items()]
        return f"; it needs: {', '.join(rows)}" if rows else ""


def _wish(settings: Settings, readers: CodeReaders) -> _Wish:
    """Ask on a terminal what no flag says. Raises ConfigError for a model that cannot be."""
    is_wanted = settings.interactive and not (settings.non_interactive or settings.ci)
    ask = asker(Progress(settings.environ, quiet=True)) if is_wanted else None

    def is_open(key: str) -> bool:
        return ask is not None and settings.sources[key] == "default"

    review, model = settings.init.review == "on", _full_name(settings.init.model or "")
    chosen = settings.init.agents
    fork_safe, openers = settings.fork_safe, _openers(chosen)
    if ask is not None and is_open("init.review") and not model:
        for line in readers.lines(model=False):
            say(f"{line[:1].upper()}{line[1:]}.")
        review = _is_yes(ask, "Review the code too, besides the checks? [Y/n] ", "y")
    if ask is not None and is_open("init.model") and review:
        model = _model(ask)
    if ask is not None and is_open("fork_safe"):
        words = "Post comments too, by a second workflow that also serves forks? [y/N] "
        fork_safe = _is_yes(ask, words, "n")
    if ask is not None and not openers:
        openers = _asked_openers(ask)
    if ask is not None and is_open("init.agents"):
        chosen = _agents(ask)
    agents = tuple(agent for agent in AGENTS if agent in chosen)
    after_edit = settings.init.after_edit
    return _Wish(review, model, fork_safe, openers, readers, agents, after_edit)


def _checks(repository: Repository, *, with_tests: bool) -> tuple[str, ...]:
    """The checks to name, for one that runs only where it is named; else none: the defaults."""
    if not with_tests:
        return ()
    has_tasks = os.path.exists(os.path.join(repository.root, "tasks", "index.json"))
    return tuple(name for name in checks.names() if name != "delegation-guard" or has_tasks)


def _agents(ask: Callable[[str], str]) -> Sequence[str]:
    """The answer to the question for hooks, asked again for what is no agent."""
    question = f"Check a change before the agent says done? Hooks for {', '.join(AGENTS)}; "
    question += "name some, or Enter for none: "
    while True:
        names = ask(question).replace(",", " ").lower().split()
        if {*names} <= {*AGENTS}:
            return names
        question = f"Please name agents of {', '.join(AGENTS)}, or Enter for none: "


def _asked_openers(ask: Callable[[str], str]) -> tuple[str, ...]:
    """The answer to the question for who opens pull requests, asked again for what is none."""
    question = "Who opens your agents' pull requests? Weakened tests fail theirs. Name bots, "
    question += f"{_PEOPLE} (for everybody), or accounts such as {_ACCOUNT}our-agent [{_BOTS}] "
    while True:
        names = ask(question).replace(",", " ").split() or [_BOTS]
        openers = _openers(names)
        if len(openers) == len(names) and not _contradiction(openers):
            return openers
        question = f"Please name {_OPENERS}: "


def _openers(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in (_BOTS, _PEOPLE) or _LOGIN.fullmatch(name))


def _contradiction(names: Collection[str]) -> str:
    both = {_BOTS, _PEOPLE} <= {*names}
    return "either bots or people open the pull requests of agents" if both else ""


def _require_agents(names: Sequence[str]) -> None:
    """Raise ConfigError for what is no agent and no author."""
    unknown = [name for name in names if name not in (*AGENTS, *_openers(names))]
    what = f"no agent is called {printable(unknown[0])[:80]!r}" if unknown else ""
    if what := what or _contradiction(names):
        hint = f"some of {', '.join(AGENTS)}, and {_OPENERS}: --agents claude,people"
        raise ConfigError(what, where="--agents", hint=hint)


def _model(ask: Callable[[str], str]) -> str:
    """The answer to the question for a model, asked again for what is none."""
    question = "Model for the review, as PROVIDER:NAME (Enter for none: analyzers need no key): "
    while True:
        try:
            return _full_name(ask(question).strip())
        except ConfigError as error:
            question = f"{error}; {error.hint}.\nModel, or Enter for none: "


def _is_yes(ask: Callable[[str], str], question: str, default: str) -> bool:
    while True:
        answer = ask(question).strip().lower() or default
        if answer in ("y", "yes", "n", "no"):
            return answer.startswith("y")
        question = "Please answer y or n: "


def _full_name(model: str) -> str:
    """The name of a model as the configuration has it; "" for none. Raises ConfigError."""
    if not model:
        return ""
    if model == GITHUB:
        return f"{GITHUB}:auto"
    if not MODEL_NAME.fullmatch(model) or model in PROVIDERS:
        raise ConfigError(
            f"no name of a model: {printable(model)[:80]!r}", where="--model", hint=NAME_HINT
        )
    require_provider(model, "--model")
    return model


def _next(wish: _Wish, settings: Settings, hooks: Sequence[str]) -> Iterator[str]:
    """What the user does now, and what happens then."""
    yield "next: commit these files; the workflow then runs on each pull request"
    row = PROVIDERS.get(wish.provider)
    if row is not None and row.local:
        yield f"      the workflow's machine must run {wish.provider}: use a runner of your own"
    elif row is not None and row.by_program:
        yield "      no key is needed where an organization owns the repository, and its Copilot"
        yield '      policy "Allow use of Copilot CLI billed to the organization" is on'
    elif row is not None:
        yield f"      give the workflow its key: gh secret set {row.keys[0]}"
    if row is not None and not row.base_url and not row.by_program:
        yield "      and the address: gh variable set OPENAI_BASE_URL, OPENAI_API_VERSION"
    if row is not None:
        yield f"      try the model here: rlm-ci doctor --model {wish.model}"
    if wish.fork_safe or settings.slash_commands:
        yield "      workflows that post or run commands start once they are on the default branch"
    if settings.init.wiki:
        yield "      let the wiki's workflow open its pull request: Settings, Actions, General,"
        yield '      "Allow GitHub Actions to create and approve pull requests"'
        yield "      write the first wiki here: rlm-ci wiki --out docs/wiki"
    if wish.review:
        yield from (f"      review: {line}" for line in wish.readers.lines(model=bool(wish.model)))
        yield from (f"      {line}" for line in wish.readers.steps() if wish.has_own)
    if not wish.is_strict:
        yield "      test-guard fails what bots and coding agents wrote, by traces in commits; for"
        yield "      people it only reports weakened tests: set test_guard.fail, or run"
        yield "      rlm-ci init --agents people"
    if wish.accounts:
        yield f"      it fails the pull requests of {join([*wish.accounts])} as well"
    yield from (f"      {line}" for line in agent_hooks.next_steps(wish.agents))
    if not wish.checks:
        yield "      do the tests of a change notice a fault? rlm-ci check test-bite runs them;"
        yield "      rlm-ci init --test-bite names it for the workflow"
    yield from _next_of_hooks(hooks)
    yield "      run the checks now: rlm-ci check"


def _next_of_hooks(hooks: Sequence[str]) -> Iterator[str]:
    if any(line.startswith("kept") for line in hooks):
        yield "      let each hook that was kept run: rlm-ci check --hook NAME"
    elif hooks and not any(line.startswith("waiting") for line in hooks):
        yield "      commits and pushes of this clone are checked from now on"
    elif not hooks:
        install = "" if which("pre-commit") else "pip install pre-commit, then "
        yield f"      to check each commit too: {install}pre-commit install"
        yield "      or, without pre-commit: rlm-ci init --hooks"


def _is_configured(repository: Repository) -> bool:
    name = CONFIG_FILES[1]
    with suppress(files.UnreadableError, ConfigError):
        return bool(parse_config(tracked.read(repository, name, LIMIT), name, TABLE))
    return False


def _require_first_job(repository: Repository) -> None:
    """Raise ConfigError if an existing workflow leaves the second job no report."""
    path = ".github/workflows/rlm-ci.yml"
    try:
        data = tracked.read(repository, path, LIMIT)
    except files.UnreadableError:
        return
    if REPORT_NAME.encode() not in data:
        raise ConfigError(
            "a workflow exists already, and uploads no report for the second job to post",
            where=path,
            hint="move it away and run this again; or overwrite every file that is there, each "
            "kept as FILE.orig: rlm-ci init --fork-safe --force",
        )


def _contents(commit: str, wish: _Wish, settings: Settings) -> dict[str, str]:
    texts = workflows(
        commit,
        fork_safe=wish.fork_safe,
        slash_commands=settings.slash_commands,
        wiki=settings.init.wiki,
        analyzers=wish.has_own,
        provider=wish.provider,
        model=wish.model,
    )
    contents = {f".github/workflows/{name}": text for name, text in texts.items()}
    if not settings.hooks:
        hooks = loader.read_template("init/pre-commit-config.yaml")
        contents[".pre-commit-config.yaml"] = hooks.replace("@URL@", URL).replace("@REV@", commit)
    config = new_config.full_config if settings.full else new_config.short
    contents[CONFIG_FILES[0]] = config(wish.chosen)
    return contents


def _pinned(commit_argument: str | None, environ: Mapping[str, str]) -> str:
    """The commit that workflows run; a tag could be moved. Raises ConfigError if none is known."""
    if commit_argument is not None and not (
        len(commit_argument) == 40 and is_object_id(commit_argument)
    ):
        raise ConfigError(
            f"no commit: {printable(commit_argument)!r}",
            where="--pin",
            hint="give the 40 hex digits of a commit of rlm-ci",
        )
    commit = commit_argument or own_commit(environ)
    if commit is None:
        raise ConfigError(
            "the commit of this rlm-ci is not known, and workflows are pinned to one",
            where=f"rlm-ci {__version__}",
            hint=f"look it up, and name it: git ls-remote {URL} 'v{__version__}*'; the line that "
            "ends in ^{} if there is one; then rlm-ci init --pin COMMIT",
        )
    return commit


def own_commit(environ: Mapping[str, str]) -> str | None:
    """The commit of the running rlm-ci; None if it is unknown."""
    commit, folder = recorded_commit(), checkout()
    if commit or folder is None:
        return commit
    root, git_dir = discover(folder)
    if git_dir is None or os.path.realpath(root) != os.path.realpath(folder):
        return None
    return Repository(root, git_dir, without_hook(environ)).resolve("HEAD")[0]


def _missing(full: str, text: str) -> str:
    """The lines that an existing pre-commit configuration lacks; "" for other files."""
    if os.path.basename(full) != ".pre-commit-config.yaml":
        return ""
    with suppress(files.UnreadableError):
        if f"{URL}\n".encode() in files.read(full, LIMIT):
            return ""
    first, _, entries = text.partition("repos:\n")
    lines = [*first.splitlines(), *entries.splitlines()]
    return "\n".join(["; add these lines, from the second on below repos:", *lines])
