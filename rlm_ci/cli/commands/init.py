"""``rlm-ci init``: write workflows, hooks and ``rlm-ci.toml``.

On a terminal it asks what no flag says. Only ``--force`` overwrites existing files, and keeps the
old ones renamed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count

from rlm_ci import __version__, errors
from rlm_ci.cli import native_hooks, new_config
from rlm_ci.cli.new_workflows import REPORT_NAME, workflows
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import CONFIG_FILES, Setting, Settings, parse_config
from rlm_ci.console.progress import Progress, asker
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.git import tracked
from rlm_ci.git.hardening import without_hook
from rlm_ci.git.repository import Repository, discover
from rlm_ci.judge.config_file import LIMIT, TABLE
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import output_of
from rlm_ci.models.providers import GITHUB, MODEL_NAME, OPENAI, PROVIDERS
from rlm_ci.resources import loader
from rlm_ci.system import files
from rlm_ci.system.installation import URL, checkout, recorded_commit
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.config.arguments import Arguments

SUMMARY = "set up a repository: write workflows, hooks and rlm-ci.toml"
USAGE = "[--review on|off] [--model NAME] [--hooks] [OPTION...]"
TAKES = ("no arguments", 0, 0)
EXAMPLES = (
    "rlm-ci init",
    "rlm-ci init --review off --hooks",
    "rlm-ci init --model gpt-5-mini --fork-safe",
    "rlm-ci init --wiki",
)
EXITS = {
    errors.OK: "the files are written; those that exist are kept",
    errors.CONFIG: "no Git repository, no known commit to pin the action to, or no such model",
}


def _own(key: str, help_text: str, **more: Any) -> Setting:
    return Setting(key, help_text, flag=f"--{key.replace('_', '-')}", file=False, **more)


_SWITCH: Any = {"default": False, "kind": "boolean"}
OWN = (
    Setting("init.review", "also review the code of each pull request, besides the checks",
            "on", "choice", choices=("on", "off"), flag="--review", metavar="MODE", file=False,
            own_env=False),
    Setting("init.model", "model for the review, as PROVIDER:NAME (default: none; analyzers need "
            "no key)", flag="--model", metavar="NAME", file=False, own_env=False),
    _own("fork_safe", "write two workflows: one checks without permissions, the other posts, "
         "also for forks", **_SWITCH),
    _own("slash_commands", "write a workflow that runs comments such as /rlm-ci check", **_SWITCH),
    Setting("init.wiki", "write a workflow that refreshes the repository's wiki once a week, as a "
            "pull request", flag="--wiki", file=False, own_env=False, **_SWITCH),
    _own("pin", "commit of rlm-ci for the workflows (default: the installed one)"),
    _own("hooks", "install native Git hooks in this clone, instead of a pre-commit configuration",
         **_SWITCH),
    _own("full", "write every setting into rlm-ci.toml, with its default", **_SWITCH),
    _own("force", "overwrite existing files; keep each one as FILE.orig", **_SWITCH),
)  # fmt: skip
_LIMIT = 1 << 20
ROWS = (*COMMON, *OWN)


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
    commit = _pinned(settings.pin, settings.environ)
    wish = _wish(settings)
    contents = _contents(commit, wish, settings)
    if wish.fork_safe and not settings.force:
        _require_first_job(repository)
    lines = []
    if _is_configured(repository):
        # With a second configuration file every command would stop.
        del contents[CONFIG_FILES[0]]
        kept = "kept       [tool.rlm-ci] of pyproject.toml is the configuration"
        lines.append(f"{kept}{wish.lacking()}")
    if not settings.force:
        missing = [
            path for path in contents if not os.path.lexists(os.path.join(repository.root, path))
        ]
        for path in tracked.left_out(repository, missing):
            del contents[path]
            lines.append(f"kept       {path} (your sparse checkout leaves it out)")
    lines += [
        _write(repository.root, path, text, force=settings.force) for path, text in contents.items()
    ]
    if lines and lines[-1].startswith(f"kept       {CONFIG_FILES[0]} "):
        lines[-1] += wish.lacking()
    hooks = [*_hooks(repository, force=settings.force)] if settings.hooks else []
    lines += [*hooks, _ignore_runs(repository), "", *_next(wish, settings, hooks)]
    output_of(settings).emit("\n".join(lines) + "\n")
    return errors.OK


class _Wish(Value):
    """What the flags and the answers say."""

    review: bool
    model: str
    fork_safe: bool

    @property
    def provider(self) -> str:
        """The provider of the model; "" without one."""
        named, _, rest = self.model.partition(":")
        return (named if rest and named in PROVIDERS else OPENAI) if self.model else ""

    def lacking(self) -> str:
        """What an existing configuration may lack, as a remark; "" where the defaults do."""
        rows = [f'model = "{self.model}"'] if self.model else []
        rows += [] if self.review else ['review.enabled = "off"']
        return f"; it needs: {', '.join(rows)}" if rows else ""


def _wish(settings: Settings) -> _Wish:
    """Ask on a terminal what no flag says. Raises ConfigError for a model that cannot be."""
    is_wanted = settings.interactive and not (settings.non_interactive or settings.ci)
    ask = asker(Progress(settings.environ, quiet=True)) if is_wanted else None

    def is_open(key: str) -> bool:
        return ask is not None and settings.sources[key] == "default"

    review, model = settings.init.review == "on", settings.init.model or ""
    fork_safe = settings.fork_safe
    if ask is not None and is_open("init.review") and not model:
        review = _is_yes(ask, "Review the code too, besides the checks? [Y/n] ", "y")
    if ask is not None and is_open("init.model") and review:
        words = "Model for the review, as PROVIDER:NAME (Enter for none: analyzers need no key): "
        model = ask(words).strip()
    if ask is not None and is_open("fork_safe"):
        words = "Post comments too, by a second workflow that also serves forks? [y/N] "
        fork_safe = _is_yes(ask, words, "n")
    if model == GITHUB:
        model = f"{GITHUB}:auto"
    if model:
        _require_model(model)
    return _Wish(review, model, fork_safe)


def _is_yes(ask: Callable[[str], str], question: str, default: str) -> bool:
    while True:
        answer = ask(question).strip().lower() or default
        if answer in ("y", "yes", "n", "no"):
            return answer.startswith("y")
        question = "Please answer y or n: "


def _require_model(model: str) -> None:
    """Raise ConfigError for what is no name of a model, or of one that nobody offers any more."""
    named, _, rest = model.partition(":")
    if not MODEL_NAME.fullmatch(model) or (named in PROVIDERS and not rest):
        raise ConfigError(
            f"no name of a model: {printable(model)[:80]!r}",
            where="--model",
            hint=f"PROVIDER:NAME, with one of {', '.join(PROVIDERS)}; or NAME for OpenAI",
        )


def _hooks(repository: Repository, *, force: bool) -> Iterator[str]:
    """Install the native hooks; what became of each."""
    folder, is_own = native_hooks.folder(repository)
    if not is_own:
        yield (f"kept       core.hooksPath is {printable(folder)}, not of this clone alone: call "
               "rlm-ci check --hook pre-commit (and pre-push) there")  # fmt: skip
        return
    text = native_hooks.script(folder, repository)
    shown = os.path.relpath(folder, repository.root)
    if shown.startswith(os.pardir):  # of a linked work tree
        shown = folder
    for name in native_hooks.NAMES:
        told = _write(folder, name, text, force=force, mode=0o755)
        yield told.replace(f" {name}", f" {printable(os.path.join(shown, name))}", 1)


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
    named, _, rest = wish.model.partition(":")
    if rest and named not in PROVIDERS:
        yield f"      no provider is called {named}, so {wish.provider} gets the name {wish.model}"
    if row is not None:
        yield f"      try the model here: rlm-ci doctor --model {wish.model}"
    if wish.fork_safe or settings.slash_commands:
        yield "      workflows that post or run commands start once they are on the default branch"
    if settings.init.wiki:
        yield "      let the wiki's workflow open its pull request: Settings, Actions, General,"
        yield '      "Allow GitHub Actions to create and approve pull requests"'
        yield "      write the first wiki here: rlm-ci wiki --out docs/wiki"
    if any(line.startswith("kept") for line in hooks):
        yield "      let each hook that was kept run: rlm-ci check --hook NAME"
    elif hooks:
        yield "      commits and pushes of this clone are checked from now on"
    else:
        yield "      to check each commit too: pre-commit install, or rlm-ci init --hooks"
    yield "      run the checks now: rlm-ci check"


def _is_configured(repository: Repository) -> bool:
    name = CONFIG_FILES[1]
    with suppress(files.UnreadableError, ConfigError):
        return bool(parse_config(tracked.read(repository, name, LIMIT), name, TABLE))
    return False


def _require_first_job(repository: Repository) -> None:
    """Raise ConfigError if an existing workflow leaves the second job no report."""
    path = ".github/workflows/rlm-ci.yml"
    try:
        data = tracked.read(repository, path, _LIMIT)
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
    made = workflows(
        commit,
        fork_safe=wish.fork_safe,
        slash_commands=settings.slash_commands,
        wiki=settings.init.wiki,
        provider=wish.provider,
        model=wish.model,
    )
    contents = {f".github/workflows/{name}": text for name, text in made.items()}
    if not settings.hooks:
        hooks = loader.read_template("init/pre-commit-config.yaml")
        contents[".pre-commit-config.yaml"] = hooks.replace("@URL@", URL).replace("@REV@", commit)
    config = new_config.whole if settings.full else new_config.short
    contents[CONFIG_FILES[0]] = config(model=wish.model, review=wish.review)
    return contents


def _pinned(named: str | None, environ: Mapping[str, str]) -> str:
    """The commit that workflows run; a tag could be moved. Raises ConfigError if none is known."""
    if named is not None and not (len(named) == 40 and is_object_id(named)):
        raise ConfigError(
            f"no commit: {printable(named)!r}",
            where="--pin",
            hint="give the 40 hex digits of a commit of rlm-ci",
        )
    commit = named or own_commit(environ)
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


def _write(root: str, path: str, text: str, *, force: bool, mode: int = 0o644) -> str:
    full = os.path.join(root, path)
    if os.path.lexists(full):
        try:
            same = files.read_inside(root, path, _LIMIT) == text.encode()
        except files.UnreadableError:
            same = False
        if same:
            return f"unchanged  {path}"
        if not force:
            return f"kept       {path} (it exists; --force overwrites it){_missing(full, text)}"
    folder = os.path.dirname(full)
    own = os.path.normpath(os.path.join(os.path.realpath(root), os.path.dirname(path)))
    if os.path.realpath(folder) != own:
        raise ConfigError("the folder is a link", where=path, hint="write the file by hand")
    files.make_folder(folder)
    kept = _set_aside(full)
    files.write(full, text.encode(), mode)
    return f"written    {path}" + (f" (the previous one: {kept})" if kept else "")


def _missing(full: str, text: str) -> str:
    """The lines that an existing pre-commit configuration lacks; "" for other files."""
    if os.path.basename(full) != ".pre-commit-config.yaml":
        return ""
    with suppress(files.UnreadableError):
        if f"{URL}\n".encode() in files.read(full, _LIMIT):
            return ""
    first, _, rest = text.partition("repos:\n")
    lines = [*first.splitlines(), *rest.splitlines()]
    return "\n".join(["; add these lines, from the second on below repos:", *lines])


def _set_aside(full: str) -> str:
    """Rename an existing file; its new name, or "". Raises StorageError."""
    if not os.path.lexists(full) or os.path.isdir(full):
        return ""
    names = (f"{full}.orig{number or ''}" for number in count())
    aside = next(name for name in names if not os.path.lexists(name))
    try:
        os.rename(full, aside)
    except OSError as error:
        raise files.storage_error(error, full) from None
    return os.path.basename(aside)


def _ignore_runs(repository: Repository) -> str:
    """Add the folder of runs to the ignored files: runs never belong in a commit."""
    path = os.path.join(repository.root, ".gitignore")
    try:
        data = tracked.read(repository, ".gitignore", _LIMIT)
    except files.UnreadableError as error:
        if not error.missing:
            return f"kept       .gitignore ({error}; add .runs/ to it)"
        data = b""
    if b".runs/" in data.split():
        return "unchanged  .gitignore"
    end = b"" if not data or data.endswith(b"\n") else b"\n"
    files.write(path, data + end + b".runs/\n")
    return "written    .gitignore (.runs/ added)"
