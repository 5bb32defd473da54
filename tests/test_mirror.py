"""The tests have the rooms of the program: who knows a module knows where its test is."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from test_architecture import MODULES, NAMES, PACKAGE, name_of, room

TESTS = Path(__file__).parent
#: Not about one module: what tests share, what stands beside the package, whole attacks.
BESIDE = {"attacks", "hooks", "testing", "tools"}
#: Folders whose modules are found by listing them: ``test_<folder>*.py`` tries them all.
CATALOGUES = {
    "lab/bench/generators",
    "report/formats",
    "source/definitions",
    "validators/parsers",
}
#: Modules that no test of their own room imports: the test that shows what they do.
SHOWN_BY = {
    "__main__": "cli/test_cli.py",
    "cli/commands/answer": "delegation/questions/test_tools.py",
    "cli/commands/cancel": "cli/commands/test_start.py",
    "cli/commands/config": "judge/test_config_file.py",
    "cli/commands/mcp": "delegation/test_server.py",
    "cli/commands/export": "cli/commands/test_list.py",
    "cli/commands/questions": "delegation/questions/test_tools.py",
    "cli/commands/replay": "fix/test_run_replay.py",
    "cli/commands/resume": "fix/test_run_killed.py",
    "cli/commands/status": "cli/commands/test_list.py",
    "cli/commands/together": "together/test_pull_requests.py",
    "cli/commands/wait": "cli/commands/test_list.py",
    "config/arguments": "cli/test_cli.py",
    "config/option_help": "cli/test_cli.py",
    "lab/frameworks/dspy": "lab/frameworks/test_frameworks.py",
    "lab/frameworks/google_adk": "lab/frameworks/test_frameworks.py",
    "lab/frameworks/pydantic_ai": "lab/frameworks/test_frameworks.py",
    "errors": "cli/test_cli.py",
    "evaluation": "lab/test_runner.py",
    "git/remote_clone": "cli/commands/test_wiki.py",
    "github/fetch": "pull_request/test_comment_commands.py",
    "github/proposal": "archive/test_pull_request.py",
    "guard/inline_tests": "guard/test_guard_cases.py",
    "models/trial": "cli/commands/test_doctor.py",
    "pipelines/agreed_context": "test_small_contexts_end_to_end.py",
    "pipelines/attempt": "fix/test_run_killed.py",
    "pipelines/background": "cli/commands/test_start.py",
    "pipelines/load": "cli/commands/test_start.py",
    "pipelines/repository/attempt": "cli/commands/test_review.py",
    "pipelines/repository/plan": "recursion/corpus/test_corpus.py",
    "pipelines/repository/tree_progress": "console/test_progress.py",
    "pipelines/run_context": "ask/test_run_sources.py",
    "pipelines/stored_runs": "cli/commands/test_list.py",
    "pull_request/extra_parts": "cli/commands/test_pr_without_model.py",
    "receipts/make": "cli/commands/test_receipt.py",
    "recursion/prompt_windows": "review/model/test_finder.py",
    "review/dry_run": "cli/commands/test_review_model.py",
    "review/fix_review": "fix/test_run_review_gate.py",
    "runs/state": "fix/test_run.py",
    "sandbox/probe_script": "sandbox/test_sandbox.py",
    "sandbox/supervisor": "sandbox/test_job.py",
    "solve/foreground": "cli/commands/test_review.py",
    "solve/pipeline": "ask/test_run_modes.py",
    "solve/verify_record": "viewer/test_read.py",
    "solve/registry": "cli/commands/test_start.py",
    "solve/review_gate": "fix/test_run_review_gate.py",
    "system/atomic_folder": "context/builder/test_build_failures.py",
    "system/command_line": "validators/test_detect.py",
    "system/transcript": "validators/test_validator.py",
    "system/transport": "models/openai/test_client_patience.py",
    "source/code_places": "wiki/surface/test_surface_failures.py",
    "text/error_text": "report/test_findings.py",
    "text/dates": "report/test_findings.py",
    "text/globs": "recursion/corpus/test_corpus.py",
    "text/mermaid": "wiki/pages/test_build_hostile.py",
    "text/object_id": "git/test_repository.py",
    "workspace/git_filters": "fix/test_run_git_filters.py",
    "workspace/recorded_change": "fix/test_run_replay.py",
    "trials/bite": "checks/test_test_bite.py",
    "trials/test_runs": "checks/test_test_bite.py",
    "trials/trees": "review/proofs/test_launch.py",
    "workspace/stored_trees": "fix/test_run_verify.py",
}


#: To parse all modules and all tests would take seconds.
IMPORT = re.compile(r"^ *from (rlm_ci[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)


@cache
def imports(path: Path) -> frozenset[str]:
    """The modules of ours that a file imports anywhere."""
    found: set[str] = set()
    for module, names in IMPORT.findall(path.read_text(encoding="utf-8")):
        inner = {f"{module}.{name}" for name in re.findall(r"\w+", names)} & NAMES.keys()
        found |= inner or {module}
    return frozenset(found)


#: All files of the tests; npm's packages are below tools/, and cases hold files of others.
PATHS = [
    path.relative_to(TESTS)
    for top in ("*.py", *(f"{folder.name}/**/*.py" for folder in TESTS.iterdir()))
    for path in (TESTS.glob(top) if not top.startswith("tools/") else ())
    if "cases" not in path.parts
]
FILES = [path for path in PATHS if path.name.startswith("test_")]
FOLDERS = {path.parent for path in FILES}
STEMS = {folder: [path.stem for path in FILES if path.parent == folder] for folder in FOLDERS}
MIRRORS = [path for path in FILES if len(path.parts) > 1 and path.parts[0] not in BESIDE]


def is_test_of(stem: str, name: str) -> bool:
    return stem == f"test_{name}" or stem.startswith(f"test_{name}_")


def test_a_test_is_named_after_a_module_of_its_folder() -> None:
    """``test_<module>.py``, or ``test_<module>_<aspect>.py``; a folder counts as a module."""
    for path in MIRRORS:
        folder = PACKAGE / path.parent
        assert folder.is_dir(), f"tests/{path.parent} has no folder in rlm_ci"
        names = {entry.stem for entry in folder.iterdir()} | {folder.name}
        assert any(is_test_of(path.stem, name) for name in names), (
            f"no module of rlm_ci/{path.parent} has the name of tests/{path}"
        )


def place_of(module: Path) -> str:
    """``git/clone`` of a module; of a package its folder."""
    place = module.relative_to(PACKAGE).with_suffix("")
    return str(place.parent if place.name == "__init__" else place)


def has_mirror(module: Path) -> bool:
    place = Path(place_of(module))
    return any(is_test_of(stem, place.name) for stem in STEMS.get(place.parent, ()))


@cache
def reached(of: str) -> frozenset[str]:
    """The modules of a room with a test of their name, or that its tests import.

    Those count, too, that only other modules of the room import.
    """
    tests = (TESTS / path for path in MIRRORS if path.parts[0] == of)
    waiting = [name for path in tests for name in imports(path)]
    waiting += [name for name, path in NAMES.items() if room(name) == of and has_mirror(path)]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in NAMES and room(name) == of and name not in found:
            found.add(name)
            waiting += imports(NAMES[name])
    return frozenset(found)


def test_each_module_has_a_test_where_one_looks_for_it() -> None:
    packages = {path for path in MODULES if path.name == "__init__.py"}
    listed = {path for path in MODULES if str(path.parent.relative_to(PACKAGE)) in CATALOGUES}
    without = {
        place_of(path)
        for path in set(MODULES) - packages - listed
        if name_of(path) not in reached(room(name_of(path)))
    }
    assert without == SHOWN_BY.keys(), (
        f"add tests/<folder>/test_<module>.py, or a row to SHOWN_BY, for each of "
        f"{sorted(without - SHOWN_BY.keys())}; no row is needed for "
        f"{sorted(SHOWN_BY.keys() - without)}"
    )


def test_the_tests_that_are_named_instead_are_there() -> None:
    missing = {path for path in SHOWN_BY.values() if not (TESTS / path).is_file()}
    assert missing == set()


@pytest.mark.parametrize("catalogue", sorted(CATALOGUES))
def test_a_catalogue_is_tested_as_one(catalogue: str) -> None:
    """By a test beside its modules, or in the folder above, that goes through all of them."""
    folder = Path(catalogue)
    assert any(
        is_test_of(path.stem, folder.name) or path.parent == folder.parent
        for path in MIRRORS
        if path.parent in (folder, folder.parent)
    )


def test_no_test_folder_hides_a_library() -> None:
    """``tests/`` is on the path: with an ``__init__.py``, tests/git would be imported for git."""
    packages = {path.parts[0] for path in PATHS if path.name == "__init__.py"}
    assert packages == {"testing"}


def test_what_tests_share_is_in_one_place() -> None:
    """Every other file is a test, or what pytest takes fixtures from."""
    others = {
        str(path)
        for path in PATHS
        if path.parts[0] != "testing" and not path.name.startswith(("test_", "conftest."))
    }
    assert others == set()


def test_only_marks_of_tests_and_their_cases_make_them_full() -> None:
    """conftest.py looks nowhere else: of a test that were so by a fixture none would be made."""
    for path in PATHS:
        text = (TESTS / path).read_text("utf-8")
        if "mark.full" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert node.name != "pytest_generate_tests", path
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("fixture"):
                assert "mark.full" not in ast.unparse(node), path
