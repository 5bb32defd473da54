"""What the name of a file says to the guard, where an honest one comes close to it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci.guard.protected.by_name import kind_of, shadowed
from testing.guarded_trees import BASE, Tree, judged, rules

if TYPE_CHECKING:
    from pathlib import Path

JAVA = "class X { int a() { return 1; } }\n"


@pytest.mark.parametrize("name", ["Latest", "Contest", "Fastest", "Protest", "Latests"])
def test_a_word_that_ends_like_a_test_of_java_is_source(name: str) -> None:
    path = f"src/main/java/org/x/{name}.java"
    assert judged({path: JAVA}, {path: JAVA.replace("1", "2")}) == []


def test_a_word_that_begins_like_them_is_source() -> None:
    for path in ("app/testimony.py", "lib/testutility/a.go", "app/testing/client.py"):
        assert judged({path: "a = 1\n"}, {path: "a = 2\n"}) == []


RUN = (
    "setup.py", "Dockerfile", "Containerfile", "compose.yaml",
    "docker-compose.override.yml", "flake.nix", "shell.nix", "renovate.json", ".renovaterc",
    "renovate.json5", ".readthedocs.yaml", "netlify.toml", "binding.gyp", "Gemfile", "x.gemspec",
    "Dangerfile", "Procfile", "setup.py.", "DOCKERFILE",
    "Docker\u200cfile",
)  # fmt: skip


@pytest.mark.parametrize("path", RUN)
def test_a_new_file_that_a_build_runs_by_its_name_is_told_of(path: str) -> None:
    text, other = ("[a]\n", "[b]\n") if path.endswith(".toml") else ("{}\n", "{ }\n")
    (found,) = judged(BASE, BASE | {path: text})
    assert found.rule == "tamper/build-file"
    assert "--allow-test-edits" in (found.hint or "")
    # What was there is source; so is one that moves, and data of tests.
    assert judged(BASE | {path: text}, BASE | {path: other}) == []
    assert judged(BASE | {path: text}, BASE | {f"moved/{path.rpartition('/')[2]}": text}) == []
    assert judged(BASE, BASE | {f"tests/data/one/{path}": text}) == []
    # Nobody looks for it in a folder that is no package.
    assert judged(BASE, BASE | {f"data/{path}": text}) == []
    package = BASE | {"web/go.mod": ""}
    assert rules(judged(package, package | {f"web/{path}": text})) == {"build-file"}


@pytest.mark.parametrize("path", ["action.yml", "deploy/action.yaml", "Action.YML"])
def test_an_action_is_run_by_ci_new_or_changed(path: str) -> None:
    for before in (BASE, BASE | {path: "runs: {}\n"}):
        (found,) = judged(before, BASE | {path: "runs: {steps: []}\n"})
        assert (found.rule, "--allow-test-edits" in (found.hint or "")) == (
            "tamper/build-file",
            True,
        )
    assert kind_of(f".github/actions/a/{path}") == "ci"
    assert judged(BASE, BASE | {f"tests/data/{path}": "runs: {}\n"}) == []


@pytest.mark.parametrize(
    "path",
    [
        ".gitea/workflows/x.yml", ".forgejo/workflows/x.yml", ".woodpecker.yml", ".builds/a.yml",
        ".gitlab-ci.release.yml", "azure-pipelines-2.yml", ".devcontainer.json", "lefthook.toml",
        ".g\u200cithub/workflows/x.yml", ".github\\workflows\\x.yml", ".github./workflows/x.yml",
        ".g\u200citattributes", ".gitmodules:stream", "sub/.g\u200cit/hooks/x", "git~1/hooks/x",
    ],
)  # fmt: skip
def test_no_other_spelling_of_a_protected_name_is_source(path: str) -> None:
    assert rules(judged(BASE, BASE | {path: "x: 1\n"})) == {"protected-path"}


@pytest.mark.parametrize(
    "path",
    ["src/dockerfile.py", "docs/compose.md", "src/action.py", "Dockerfile.md", "app/configure.py",
     "git~2/x.py", "src/.gitx", "renovate/json.py"],
)  # fmt: skip
def test_a_name_that_nobody_runs_is_source(path: str) -> None:
    found = judged(BASE, BASE | {path: "x = 1\n"})
    assert rules(found) <= ({"protected-path"} if ".gitx" in path else set())


#: What stood there, what the agent adds, and whether a module is imported from it instead.
PLACES: dict[str, tuple[Tree, Tree, bool]] = {
    "scripts in a folder": ({}, {"packaging/build_deb.py": "x = 1\n"}, False),
    "clients in a folder": ({}, {"src/requests/session.py": "", "calendar/x/y.py": ""}, False),
    "tests of a module": ({}, {"tests/json/test_dump.py": ""}, False),
    "a folder of plugins": ({}, {"pytest_more/x.py": ""}, False),
    "a folder of tests": ({}, {"test/__init__.py": "", "test.py": ""}, False),
    "more of what is there": ({"packaging/__init__.py": ""}, {"packaging/x.py": ""}, False),
    "a module of that name is there": ({"src/queue.py": ""}, {"src/queue/__init__.py": ""}, False),
    "a package": ({}, {"packaging/__init__.py": "", "packaging/x.py": ""}, True),
    "a folder that becomes one": ({"packaging/x.py": ""}, {"packaging/__init__.py": ""}, True),
    "a module beside a folder": ({"packaging/x.py": ""}, {"packaging.py": ""}, True),
    "a module beside its types": ({"yaml.pyi": ""}, {"yaml.py": ""}, True),
    "the types of a module": ({}, {"yaml.pyi": ""}, True),
    "what tests claim by": ({}, {"hamcrest/__init__.py": ""}, True),
    "a compiled one": ({}, {"yaml/__init__.cpython-313.so": "x"}, True),
    "below another root": ({"json.py": ""}, {"src/json.py": ""}, True),
}  # fmt: skip


@pytest.mark.parametrize("case", PLACES)
def test_what_would_be_imported_in_place_of_a_module(case: str) -> None:
    before, new, is_found = PLACES[case]
    base = BASE | before
    assert rules(judged(base, base | new)) == ({"shadowed-module"} if is_found else set())


@pytest.mark.parametrize("module", ["packaging", "json", "calendar"])
def test_python_itself_says_the_same(tmp_path: Path, module: str) -> None:
    """What lies in a folder without ``__init__`` takes nobody's place."""
    (tmp_path / module).mkdir()

    def origin() -> str:
        code = f"import {module}; print({module}.__file__)"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout

    for name in ("x.py", "__init__.py"):
        (tmp_path / module / name).write_text("")
        is_ours = origin().startswith(str(tmp_path))
        assert is_ours is bool(shadowed(f"{module}/{name}"))
