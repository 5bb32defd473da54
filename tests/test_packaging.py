"""What is built and locked: wheel, sdist, editable install, checkout, and the locks."""

from __future__ import annotations

import ast
import email
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rlm_ci
from testing.action_runner import BIN, ROOT, WHEELS, offline_pip
from testing.folders import unpack

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
DATA = ("templates", "schemas")
EXPORTS = (
    "requirements.lock", "requirements-models.lock", "requirements-build.lock",
    "requirements-docs.lock", "requirements-dev.lock",
)  # fmt: skip
#: Where a stranger's uv and pip get the packages from.
#: Extras that only their users want, and the modules that they bring.
FRAMEWORKS = {"dspy": "dspy", "pydantic-ai": "pydantic_ai", "google-adk": "google",
              "otel": "opentelemetry"}  # fmt: skip
PUBLIC = ("https://pypi.org/simple", "https://files.pythonhosted.org/packages/")

#: Reads every shipped file through the program's own eyes, and tells where it lives.
READER = """
import json, pathlib, rlm_ci
from rlm_ci.resources import loader as resources
names = json.loads(input())
print(json.dumps({
    "templates": {name: resources.read_template(name) for name in names["templates"]},
    "schemas": {name: resources.read_schema(name) for name in names["schemas"]},
    "home": str(pathlib.Path(rlm_ci.__file__).parent), "version": rlm_ci.__version__,
}))
"""


def _run(*argv: str | Path, cwd: Path, stdin: str = "", **variables: str) -> str:
    """What a command prints. Raises AssertionError, with all that it said, when it fails."""
    environment = {**os.environ, **variables}
    ended = subprocess.run(
        argv, cwd=cwd, env=environment, input=stdin, capture_output=True, text=True,
        check=False, timeout=180,
    )  # fmt: skip
    assert ended.returncode == 0, f"{argv}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def _files(folder: Path) -> dict[str, Path]:
    """The files below ``folder`` by their names relative to it, caches left out."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path for path in found if path.suffix != ".pyc"
    }  # fmt: skip


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, so that building leaves nothing in the real one."""
    ignore = shutil.ignore_patterns(
        ".git", ".venv", ".runs", "node_modules", "__pycache__", ".*_cache", ".hypothesis",
        "aider", ".work", "dist", "build",
    )  # fmt: skip
    return Path(shutil.copytree(ROOT, tmp_path_factory.mktemp("tree") / "rlm-ci", ignore=ignore))


@pytest.fixture(scope="session")
def sdist(tree: Path) -> Path:
    return _build(tree, "--sdist")


@pytest.fixture(scope="session")
def wheel(tree: Path) -> Path:
    return _build(tree, "--wheel")


def _build(tree: Path, kind: str) -> Path:
    out = tree.parent / f"dist{kind}"
    argv = (sys.executable, "-m", "build", "--no-isolation", kind, "--outdir", out, tree)
    _run(*argv, cwd=tree.parent)
    (built,) = out.iterdir()
    return built


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _metadata(wheel: Path) -> Message:
    (text,) = (data for name, data in _contents(wheel).items() if name.endswith("/METADATA"))
    return email.message_from_bytes(text)


def _environment(folder: Path, *what: str | Path, by_uv: bool = False) -> Path:
    """A fresh virtual environment with ``what`` from the locked wheels; its bin folder.

    It is pip that brings it, as to most users, or uv, which takes a third of the time.
    """
    _run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    if by_uv:
        cache = ("--cache-dir", folder.parent / "cache")
        source = ("--no-index", "--find-links", WHEELS, "--python", scripts / "python")
        _uv("pip", "install", "--quiet", *cache, *source, *what, cwd=folder.parent)
        return scripts
    pip = (sys.executable, "-m", "pip", "--python", scripts / "python")
    # What is imported is compiled then; all that could be is twenty times as much.
    _run(*pip, "install", "--quiet", "--no-compile", *what, cwd=folder.parent, **offline_pip())
    return scripts


def _read_resources(python: Path, cwd: Path, *prelude: str) -> dict[str, Any]:
    names = {folder: sorted(_files(ROOT / folder)) for folder in DATA}
    names["schemas"] = [name for name in names["schemas"] if name.endswith(".json")]
    script = "\n".join([*prelude, READER])
    seen: dict[str, Any] = json.loads(
        _run(python, "-I", "-c", script, cwd=cwd, stdin=json.dumps(names))
    )
    for name, text in seen["templates"].items():
        assert text == (ROOT / "templates" / name).read_text("utf-8")
    for name, schema in seen["schemas"].items():
        assert schema == json.loads((ROOT / "schemas" / name).read_text("utf-8"))
    assert seen["templates"]
    assert seen["schemas"]
    assert seen["version"] == rlm_ci.__version__
    return seen


# -- what is built ------------------------------------------------------------------------------


@pytest.mark.full
def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(wheel: Path) -> None:
    held = {name: data for name, data in _contents(wheel).items() if ".dist-info/" not in name}
    wanted = {f"rlm_ci/{name}": path for name, path in _files(ROOT / "rlm_ci").items()}
    for folder in DATA:
        wanted |= {f"rlm_ci/_data/{folder}/{n}": p for n, p in _files(ROOT / folder).items()}
    wanted["rlm_ci/_data/docs/rules.json"] = ROOT / "docs" / "rules.json"
    wanted["rlm_ci/_data/hooks/run"] = ROOT / "hooks" / "run"
    assert set(held) == set(wanted)
    assert all(data == wanted[name].read_bytes() for name, data in held.items())


@pytest.mark.full
def test_the_sdist_builds_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    unpack(sdist, tmp_path)
    (unpacked,) = tmp_path.iterdir()
    assert _contents(_build(unpacked, "--wheel")) == _contents(wheel)
    assert (unpacked / "LICENSE").exists()
    assert (unpacked / "README.md").exists()


def test_the_metadata(wheel: Path) -> None:
    metadata = _metadata(wheel)
    assert metadata["Name"] == "rlm-ci"
    assert metadata["Version"] == rlm_ci.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    required = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    core = {canonicalize_name(r.name) for r in required if not r.marker}
    assert core == {
        "jinja2", "jsonschema", "markdown-it-py", "pathspec", "rich", "shtab", "unidiff",
    }  # fmt: skip
    extras = {"github", "models", "copilot", "fast", "zstd", "monty", "repl", "syntax", "review",
        "wiki", "site", "archive", "bench", "mcp", "dask", "all", *FRAMEWORKS}  # fmt: skip
    assert set(metadata.get_all("Provides-Extra", [])) == extras


def test_everything_in_one_extra() -> None:
    extras = dict(PROJECT["project"]["optional-dependencies"])
    (everything,) = extras.pop("all")
    assert Requirement(everything).extras == set(extras) - FRAMEWORKS.keys()


# -- where it runs from -------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("source", ["wheel", "sdist"])
def test_installed(source: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    built = request.getfixturevalue(source)
    if source == "sdist":
        unpack(built, tmp_path / "unpacked")
        (unpacked,) = (tmp_path / "unpacked").iterdir()
        built = _build(unpacked, "--wheel")
    # With its dependencies, from the locked wheels alone: metadata and lock agree.
    scripts = _environment(tmp_path / "venv", built, by_uv=source == "wheel")
    assert _run(scripts / "rlm-ci", "--version", cwd=tmp_path).split()[-1] == rlm_ci.__version__
    seen = _read_resources(scripts / "python", tmp_path)
    assert Path(seen["home"]).is_relative_to(tmp_path / "venv")
    # What an extra brings is asked for by name, and nothing is judged without it.
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("import os\n", "utf-8")
    asked = subprocess.run(
        (scripts / "rlm-ci", "review", "code"), cwd=tmp_path, capture_output=True, text=True,
        check=False, timeout=180, env={**os.environ, "PATH": f"{scripts}:/usr/bin:/bin"},
    )  # fmt: skip
    assert asked.returncode == 4, asked
    assert "ruff is not installed" in asked.stderr
    assert f"'rlm-ci[review] @ {built.as_uri()}'" in asked.stderr


@pytest.mark.full
def test_installed_editable(tree: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(tree, checkout)
    script = "from hatchling.build import build_editable; print(build_editable('editable'))"
    name = _run(sys.executable, "-c", script, cwd=checkout).split()[-1]
    scripts = _environment(tmp_path / "venv", checkout / "editable" / name)
    assert _run(scripts / "rlm-ci", "--version", cwd=tmp_path).split()[-1] == rlm_ci.__version__
    assert Path(_read_resources(scripts / "python", tmp_path)["home"]) == checkout / "rlm_ci"
    # The checkout's own folder is read, not a copy of it made at installation.
    (checkout / "templates" / "new.txt").write_text("new")
    script = "from rlm_ci.resources import loader; print(loader.read_template('new.txt'))"
    assert _run(scripts / "python", "-I", "-c", script, cwd=tmp_path) == "new\n"


def test_from_a_checkout(tmp_path: Path) -> None:
    prelude = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    seen = _read_resources(Path(sys.executable), tmp_path, prelude)
    assert Path(seen["home"]) == ROOT / "rlm_ci"


# -- dependencies -------------------------------------------------------------------------------


def _imported() -> set[str]:
    """The top-level modules that the package imports, wherever it does."""
    known = set(sys.stdlib_module_names) | {"rlm_ci"}
    found: set[str] = set()
    for path in (ROOT / "rlm_ci").rglob("*.py"):
        if path.parent.name == "pytest_plugin":  # it runs in the Python of a user's project
            continue
        text = path.read_text("utf-8")
        # Of most files a look at the lines tells that there is nothing to find.
        told = re.findall(r"^[ \t]*(?:from[ \t]+(\w+)|import[ \t]+([^#\n]+))", text, re.MULTILINE)
        if {word for start, names in told for word in _first_words(start or names)} <= known:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - known


def _first_words(names: str) -> set[str]:
    return set(re.findall(r"(?:^|,)[ \t]*(\w+)", names))


def _providers() -> dict[str, set[str]]:
    """The distributions that bring each top-level module. By the first words of what each has
    recorded: ``packages_distributions`` makes an object of each of ten thousands of files.
    """
    found: dict[str, set[str]] = {}
    for one in importlib.metadata.distributions():
        recorded = (one.read_text("RECORD") or "").splitlines()
        for first in {re.split(r"[/,.]", line, maxsplit=1)[0] for line in recorded}:
            found.setdefault(first, set()).add(canonicalize_name(one.name))
    return found


def test_what_is_imported_is_declared_and_the_core_is_imported() -> None:
    providers = _providers()
    modules = _imported()
    assert modules >= set(FRAMEWORKS.values()), "they are in no environment of ours"
    imported = {name for one in modules - set(FRAMEWORKS.values()) for name in providers[one]}
    extras = PROJECT["project"]["optional-dependencies"].values()
    core = {
        canonicalize_name(Requirement(line).name) for line in PROJECT["project"]["dependencies"]
    }
    optional = {canonicalize_name(Requirement(line).name) for lines in extras for line in lines}
    assert imported <= core | optional
    assert core <= imported, "the core install is light: what nobody imports goes"


# -- locks --------------------------------------------------------------------------------------


def _uv(*args: str | Path, cwd: Path) -> str:
    variables = {"UV_OFFLINE": "1", "UV_NO_CONFIG": "1", "UV_PYTHON_DOWNLOADS": "never",
                 "UV_PYTHON": sys.executable}  # fmt: skip
    return _run(BIN / "uv", *args, cwd=cwd, **variables)


@pytest.mark.full
def test_the_lock_fits_the_project(tree: Path, tmp_path: Path) -> None:
    project = shutil.copytree(tree, tmp_path / "project")
    _uv("lock", "--check", "--no-build-isolation", cwd=project)
    text = (project / "pyproject.toml").read_text("utf-8")
    (project / "pyproject.toml").write_text(text.replace("unidiff>=0.7.5,<2", "unidiff<0.7"))
    with pytest.raises(AssertionError):
        _uv("lock", "--check", "--no-build-isolation", cwd=project)


@pytest.mark.parametrize(
    ("lock", "groups"),
    [
        ("requirements.lock", ["--no-dev", "--extra", "github", "--extra", "review"]),
        (
            "requirements-models.lock",
            ["--no-dev", "--extra", "github", "--extra", "copilot", "--extra", "review"],
        ),
        ("requirements-build.lock", ["--no-dev", "--group", "build"]),
        ("requirements-dev.lock", []),
    ],
)
def test_the_exports_are_those_of_the_lock(lock: str, groups: list[str], tree: Path) -> None:
    exported = _uv(
        "export", "--quiet", "--frozen", "--no-header", "--no-emit-project", *groups,
        "--format", "requirements-txt", cwd=tree,
    )  # fmt: skip
    assert (ROOT / lock).read_text("utf-8") == exported


def test_the_locks_name_public_places_only() -> None:
    urls = re.findall(r"\w+://[^\"\s]+", (ROOT / "uv.lock").read_text("utf-8"))
    assert len(urls) > 100
    assert {url for url in urls if not url.startswith(PUBLIC)} == set()
    for lock in EXPORTS:
        text = (ROOT / lock).read_text("utf-8")
        assert "://" not in text
        assert "--index" not in text
        assert "--find-links" not in text


def _pins(lock: str) -> list[str]:
    """What a lock holds, each pin with its hashes and without uv's remark who wants it."""
    text = re.sub(r"\n +#.*", "", (ROOT / lock).read_text("utf-8").strip())
    return re.split(r"\n(?=\S)", text)


def test_what_the_action_installs_for_a_fix_is_what_it_always_installs_and_more() -> None:
    """So that the wheels of one are enough to test both."""
    always, fix = (
        {re.sub(r" ;[^\\]*", " ", pin) for pin in _pins(lock)}  # the system depends on who wants it
        for lock in ("requirements.lock", "requirements-models.lock")
    )
    assert always < fix


@pytest.mark.parametrize("lock", EXPORTS)
def test_every_pin_is_exact_and_hashed(lock: str) -> None:
    for pin in _pins(lock):
        assert re.match(r"[\w.-]+(\[[\w,-]+\])?==[\w.!+]+", pin), pin
        assert "--hash=sha256:" in pin


def test_the_core_is_light() -> None:
    """The core (rich and what it needs are four of it) and what builds it."""
    text = (ROOT / "requirements-build.lock").read_text("utf-8")
    assert len(re.findall(r"^\w", text, re.MULTILINE)) <= 20
