"""How rlm-ci was installed, what installs more of it, and the commit that a wheel carries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci import __version__
from rlm_ci.system import installation
from testing.action_runner import BIN, ROOT
from testing.folders import unpack

if TYPE_CHECKING:
    from collections.abc import Callable

COMMIT = "1234567890abcdef1234567890abcdef12345678"
VCS = (
    f'{{"url": "https://example.com/r.git", "vcs_info": {{"vcs": "git", "commit_id": "{COMMIT}"}}}}'
)
HERE = {"VIRTUAL_ENV": sys.prefix}
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
WORDS = "pip install"
GIT = f"'rlm-ci[review] @ git+{installation.URL}@%s'"


@pytest.mark.parametrize(
    ("record", "sources", "expected"),
    [
        ('{"url": "https://example.com/rlm_ci-1.whl", "archive_info": {}}', None,
         "'rlm-ci[review] @ https://example.com/rlm_ci-1.whl'"),
        (VCS, None, f"'rlm-ci[review] @ git+https://example.com/r.git@{COMMIT}'"),
        ('{"url": "file:///home/ada/my%20clone", "dir_info": {}}', None,
         "'/home/ada/my clone[review]'"),
        ('{"url": "file:///x", "dir_info": {"editable": true}}', "/home/ada/clone",
         "-e '/home/ada/clone[review]'"),
        ("", "/home/ada/clone", "-e '/home/ada/clone[review]'"),
        ("", f"/home/runner/_actions/rlm-ci/rlm-ci/{COMMIT}", GIT % COMMIT),
        ("", None, GIT % f"v{__version__}"),
        ("[]", None, GIT % f"v{__version__}"),
        ("{", None, GIT % f"v{__version__}"),
    ],
)  # fmt: skip
def test_the_command_fits_how_it_was_installed(
    monkeypatch: pytest.MonkeyPatch, record: str, sources: str | None, expected: str
) -> None:
    told = {"direct_url.json": record, "INSTALLER": "pip\n"}
    monkeypatch.setattr(installation, "_metadata", lambda name: told[name])
    monkeypatch.setattr(installation, "checkout", lambda: sources)
    environ = HERE | ({"GITHUB_ACTIONS": "true"} if "_actions" in str(sources) else {})
    assert installation.command("review", environ=environ) == f"{WORDS} {expected}"


def test_the_command_is_for_the_python_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"direct_url.json": '{"url": "https://example.com/a.whl"}', "INSTALLER": "pip"}
    monkeypatch.setattr(installation, "_metadata", lambda name: told[name])
    source = "'rlm-ci @ https://example.com/a.whl'"
    monkeypatch.setattr(sys, "executable", "/opt/an env/python")
    assert installation.command(environ={}) == f"'/opt/an env/python' -m pip install {source}"
    told["INSTALLER"] = "uv"
    assert installation.command(upgrade=True, environ=HERE) == f"uv pip install --upgrade {source}"
    assert installation.command(environ={}).startswith("uv pip install --python '/opt/an env/")


def test_in_an_environment_of_pipx_it_is_pipx_that_installs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = {"direct_url.json": VCS, "INSTALLER": "pip"}
    monkeypatch.setattr(installation, "_metadata", lambda name: told[name])
    prefix = tmp_path / "rlm-ci"
    prefix.mkdir()
    monkeypatch.setattr(sys, "prefix", str(prefix))
    assert "pipx" not in installation.command("review", environ={})
    (prefix / "pipx_metadata.json").touch()
    source = f"'rlm-ci[review] @ git+https://example.com/r.git@{COMMIT}'"
    expected = f"pipx runpip rlm-ci install --upgrade {source}"
    assert installation.command("review", upgrade=True, environ={}) == expected


def test_this_checkout_is_known_as_one() -> None:
    assert installation.checkout() == str(ROOT)
    assert installation.command("review", environ=HERE).endswith(f"-e '{ROOT}[review]'")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is needed to build, committed."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("rlm_ci", "templates", "schemas", "hooks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "rules.json", folder / "docs")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, *IDENTITY, "commit", "-qm", "All")
    return folder


def git(folder: Path, *words: str) -> str:
    return run("git", "-C", folder, *words)


def run(*argv: str | Path, **environment: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment}
    ended = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{argv}\n{ended.stdout}{ended.stderr}"
    return ended.stdout.strip()


def build(folder: Path, out: Path, target: str = "wheel", **environment: str) -> Path:
    run(sys.executable, "-c", "import os, sys; os.chdir(sys.argv.pop(1)); "
        "from hatchling.cli import hatchling; sys.exit(hatchling())",
        folder, "build", "-t", target, "-d", out, **environment)  # fmt: skip
    (built,) = (path for path in out.iterdir() if path.suffix in (".whl", ".gz"))
    return built


@pytest.fixture
def installed(tmp_path: Path) -> Callable[..., Callable[..., str]]:
    """Install it, without its dependencies: these are the ones of the tests."""

    def install(*what: str | Path) -> Callable[..., str]:
        place = tmp_path / "venv"
        run(sys.executable, "-m", "venv", "--without-pip", place)
        python = place / "bin" / "python"
        (site,) = (place / "lib").glob("*/site-packages")
        (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
        options = ("--no-deps", "--no-build-isolation", "--no-cache", "--offline", "--quiet")
        run(BIN / "uv", "pip", "install", *options, "--python", python, *what,
            PATH=f"{BIN}:{os.environ['PATH']}")  # fmt: skip
        return lambda *argv: run(python, "-I", *argv)

    return install


SAYS = (
    "from rlm_ci.system import installation as i\nprint(i.recorded_commit(), i.command('review'))"
)


@pytest.mark.full
def test_a_wheel_carries_its_commit_and_init_pins_to_it(
    clone: Path, installed: Callable[..., Callable[..., str]], tmp_path: Path
) -> None:
    """As from an index: no installer knows where the wheel comes from."""
    commit = git(clone, "rev-parse", "HEAD")
    build(clone, tmp_path / "dist")
    python = installed("--no-index", "--find-links", tmp_path / "dist", "rlm-ci")
    recorded, _, command = python("-c", SAYS).partition(" ")
    assert recorded == commit
    assert command.startswith("uv pip install --python ")
    assert command.endswith(GIT % commit)
    git(tmp_path, "init", "-q", "repo")
    python("-m", "rlm_ci", "init", "--fork-safe", "--slash-commands", "-C", str(tmp_path / "repo"))
    written = [*(tmp_path / "repo" / ".github" / "workflows").iterdir()]
    assert len(written) == 3
    for path in (*written, tmp_path / "repo" / ".pre-commit-config.yaml"):
        assert re.findall(r"(?:rlm-ci/rlm-ci@|rev: )(\S+)", path.read_text()) == [commit], path


@pytest.mark.full
def test_a_hook_that_builds_it_does_not_give_its_own_commit(clone: Path, tmp_path: Path) -> None:
    """Git tells its hooks in the environment which repository is meant, and builds inherit it."""
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", str(other))
    git(other, *IDENTITY, "commit", "-q", "--allow-empty", "-m", "Another")
    hook = {"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other)}
    wheel = build(clone, tmp_path / "dist", **hook)
    with zipfile.ZipFile(wheel) as held:
        commit = held.read("rlm_ci/_data/COMMIT").decode().strip()
    assert commit == git(clone, "rev-parse", "HEAD")


@pytest.mark.full
def test_an_sdist_carries_it_on(clone: Path, tmp_path: Path) -> None:
    sdist = build(clone, tmp_path / "one", "sdist")
    unpack(sdist, tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    wheel = build(unpacked, tmp_path / "two")
    held = run(sys.executable, "-m", "zipfile", "-l", wheel)
    assert "rlm_ci/_data/COMMIT" in held
    assert (unpacked / "COMMIT").read_text().strip() == git(clone, "rev-parse", "HEAD")


@pytest.mark.full
@pytest.mark.parametrize("why", ["changed", "no git"])
def test_what_is_of_no_commit_is_refused(
    clone: Path, installed: Callable[..., Callable[..., str]], tmp_path: Path, why: str
) -> None:
    folder = tmp_path / "changed"
    shutil.copytree(clone, folder)
    if why == "changed":
        (folder / "README.md").write_text("another")
    else:
        shutil.rmtree(folder / ".git")
    build(folder, tmp_path / "dist")
    python = installed("--no-index", "--find-links", tmp_path / "dist", "rlm-ci")
    assert python("-c", SAYS).startswith("None ")
    git(tmp_path, "init", "-q", "repo")
    with pytest.raises(AssertionError, match="rlm-ci init --pin COMMIT"):
        python("-m", "rlm_ci", "init", "-C", str(tmp_path / "repo"))
    assert [path.name for path in (tmp_path / "repo").iterdir()] == [".git"]


@pytest.mark.full
@pytest.mark.parametrize("way", ["wheel", "folder", "editable", "git"])
def test_each_way_of_installing_is_known(
    clone: Path, installed: Callable[..., Callable[..., str]], tmp_path: Path, way: str
) -> None:
    commit = git(clone, "rev-parse", "HEAD")
    given: tuple[str | Path, ...]
    if way == "wheel":
        built = build(clone, tmp_path / "dist")
        given, recorded, source = (built,), commit, f"'rlm-ci[review] @ {built.as_uri()}'"
    elif way == "folder":
        given, recorded, source = (clone,), commit, f"'{clone}[review]'"
    elif way == "editable":
        given, recorded, source = ("-e", clone), "None", f"-e '{clone}[review]'"
    else:
        given, recorded = (f"rlm-ci @ git+{clone.as_uri()}",), commit
        source = f"'rlm-ci[review] @ git+{clone.as_uri()}@{commit}'"
    told, _, command = installed(*given)("-c", SAYS).partition(" ")
    assert told == recorded
    assert command.endswith(source)


#: An installer, and behind it on the same line the name by itself, whatever extras it has.
BARE = re.compile(
    r"(?:pipx?|uv|uvx|poetry|pdm|pip3)\b[^\n#|;&]*?(?<![\w/.@-])['\"]?rlm-ci(?:\[[\w,]*\])?['\"]?"
    r"(?![\w/.-]|\[|\s*@|\s*=)"
)
#: What an installer of packages does; "pip" in another sentence is none.
_INSTALLS = re.compile(r"\b(?:pip3?|pipx|poetry|pdm|uv)\b.*\b(?:install|add|run|inject)\b|\buvx\b")


def test_no_text_installs_a_bare_name_of_an_index() -> None:
    """Whoever took the name there would be run by everybody who obeys the text."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    found = []
    for name in listed.split("\0"):
        path = ROOT / name
        if name.startswith(("tests/", "CHANGELOG")) or not name or not path.is_file():
            continue
        text = path.read_text("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), 1):
            if _INSTALLS.search(line) and BARE.search(line):
                found.append(f"{name}:{number}: {line.strip()}")
        if re.search(r"additional_dependencies:[^\n]*\brlm-ci\b", text):
            found.append(f"{name}: additional_dependencies")
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "pip install rlm-ci", "pip install 'rlm-ci[review]'", "pipx install rlm-ci", "uvx rlm-ci",
        "python -m pip install -U \"rlm-ci[all]\"", "uv tool install rlm-ci",
        "pip install rlm-ci, or",
    ],
)  # fmt: skip
def test_such_a_text_would_be_found(line: str) -> None:
    assert _INSTALLS.search(line)
    assert BARE.search(line)
