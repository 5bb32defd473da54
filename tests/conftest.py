"""What every test stands on: a closed environment, an empty repository, the real program."""

from __future__ import annotations

import gc
import inspect
import itertools
import os
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from rlm_ci.change.agent_authors import AGENTS
from testing.preforked_interpreter import wait_for_no_disk
from testing.program import Cli
from testing.repositories.git_repo import FIRST_COMMIT_AT, GitRepo

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

# No example has a deadline: some build whole reports, and there are more workers than cores.
for _name, _examples in (("quick", 10), ("thorough", 30)):
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("quick")
wait_for_no_disk()

# Who puts us in the background, or calls nohup, has these ignored; each child would inherit that.
for _signal in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(
            _signal, signal.default_int_handler if _signal is signal.SIGINT else signal.SIG_DFL
        )

#: Variables that rlm-ci, git, pre-commit or GitHub Actions would listen to.
_AMBIENT_PREFIXES = (
    "GIT_", "GITHUB_", "RUNNER_", "ACTIONS_", "INPUT_", "PRE_COMMIT", "RLM_", "MCP_RUNNER_",
    "CODEX_", "DIFF_BUDGET_", "DELEGATION_", "DOC_ARCHIVE_", "OPENAI_", "OTEL_", "XDG_", "LC_",
    "COV_", "COVERAGE_",
)  # fmt: skip
_AMBIENT_NAMES = frozenset({
    "CI", "TASK", "BASE_SHA", "GH_TOKEN", "EMAIL", "LANG", "LANGUAGE", "COLUMNS", "LINES",
    "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PAGER", "EDITOR", "VISUAL",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy",
    "AGENT", "AI_AGENT", *(name for agent in AGENTS for name in agent.variables),
})  # fmt: skip

#: Variables that name a place at home.
_AT_HOME = {
    "HOME": "",
    "USERPROFILE": "",
    "XDG_CONFIG_HOME": ".config",
    "XDG_CACHE_HOME": ".cache",
    "XDG_STATE_HOME": ".local/state",
    "GIT_CONFIG_GLOBAL": ".gitconfig",
}
_CERTIFICATE = Path(__file__).with_name("authority.pem")

_GIT_CONFIG = """\
[user]
\tname = Ada Writer
\temail = ada@example.com
[core]
\tfsync = none
[init]
\tdefaultBranch = main
"""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The thousands of tests that are found stay to the end: nobody looks among them for garbage.

    To look costs a tenth of the time of all tests that run in this process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, obj: object
) -> list[pytest.Item] | None:
    """Of a test whose cases would all be sorted out none is made: to make them takes seconds."""
    expression = collector.config.option.markexpr
    if expression not in ("not full", "full or hypothesis"):
        return None
    marks = [*getattr(obj, "pytestmark", ()), *collector.iter_markers()]
    if expression == "not full":
        return [] if any(mark.name == "full" for mark in marks) else None
    may_be_slow = getattr(obj, "is_hypothesis_test", False) or any(map(_has_full_case, marks))
    return None if may_be_slow or not inspect.isfunction(obj) else []


def _has_full_case(mark: pytest.Mark) -> bool:
    """Whether a mark of a test makes it ``full``, or may do so for some of its cases."""
    if mark.name != "parametrize":
        return mark.name in ("full", "sample")
    values = mark.args[1] if len(mark.args) > 1 else mark.kwargs["argvalues"]
    if not isinstance(values, (list, tuple)):
        return True  # to look would use it up
    cases = (getattr(value, "marks", ()) for value in values)
    return any(case_mark.name == "full" for marks in cases for case_mark in marks)


@pytest.hookimpl(tryfirst=True)  # before pytest sorts out by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked ``sample(n)``, all cases but the first n are ``full``.

    Those that are ``long`` begin first: at the end the other workers would wait for them.
    """
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("sample")
        if mark is None or item.get_closest_marker("full"):
            continue
        name = item.nodeid.partition("[")[0]
        seen[name] += 1
        if seen[name] > mark.args[0]:
            item.add_marker(pytest.mark.full)


@pytest.fixture(scope="session", autouse=True)
def _closed_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test sees the machine's identity, configuration, CI or clock."""
    date = f"{FIRST_COMMIT_AT} +0000"
    fixed = {
        # Scripted models know nothing of it; who tests it takes the variable away.
        "RLM_CI_LOOP_GATES_REVIEW_ENABLED": "false",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_DATE": date,
        # A repository around the temporary folder must not be found.
        "GIT_CEILING_DIRECTORIES": str(tmp_path_factory.getbasetemp()),
        # One certificate, of nobody: each client of a model reads them all, a hundred and more.
        "SSL_CERT_FILE": str(_CERTIFICATE),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name in _AMBIENT_NAMES or name.startswith(_AMBIENT_PREFIXES):
                patch.delenv(name)
        for name, value in fixed.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders with git's configuration and nothing else: the same one until a test changes it."""
    return _new_homes(tmp_path_factory.mktemp("homes"))


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, _homes: Iterator[Path]) -> None:
    """A home that no test has touched."""
    home = next(_homes)
    for name, place in _AT_HOME.items():
        monkeypatch.setenv(name, str(home / place))


def _new_homes(folder: Path) -> Iterator[Path]:
    for number in itertools.count():
        home = folder / str(number)
        home.mkdir()
        config = home / ".gitconfig"
        config.write_text(_GIT_CONFIG)
        while os.listdir(home) == [config.name] and config.read_text() == _GIT_CONFIG:
            yield home


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    """An empty repository, HEAD on the unborn branch main."""
    return GitRepo(tmp_path / "repo")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the action installs for the checks."""
    return _installed(tmp_path_factory)


@pytest.fixture(scope="session")
def made_for_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the action installs where a model may be asked."""
    return _installed(tmp_path_factory, models=True)


def _installed(temp: pytest.TempPathFactory, **options: bool) -> Path:
    from testing.action_runner import installed  # needs more than most tests do

    base = temp.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return installed(shared / "installed", **options)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Runs the program in ``tmp_path``, or in the ``cwd`` of a call; a GitRepo will do."""
    return Cli(tmp_path)
