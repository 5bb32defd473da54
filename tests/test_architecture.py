"""The house keeps its plan: who may import whom, what a hook loads, and how large a room is."""

from __future__ import annotations

import ast
import gc
import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci import checks
from testing.repositories.changes import small_change
from testing.repositories.delegated_runs import TASK, guard_runs, registered, write_index
from testing.repositories.shapes import many_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.repositories.git_repo import GitRepo

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "rlm_ci"

#: The rooms, from the ground up: each may import those below it, and nothing beside it.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "decoding"),
    ("values",),
    ("text",),
    ("config",),
    ("resources", "system"),
    ("source",),
    ("report", "sandbox"),
    ("redaction",),
    ("git", "console"),
    ("change", "runs", "context", "github"),
    ("models", "validators", "workspace"),
    ("canary",),
    ("guard", "overview"),
    ("receipts", "trials"),
    ("checks",),
    ("recursion",),
    ("environments",),
    ("agents", "judge"),
    ("pipelines",),
    ("fix", "ask", "review", "wiki", "lab", "archive", "together"),
    ("solve", "evaluation"),
    ("pull_request", "viewer", "delegation", "agent_hooks"),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
#: One library, one file: whoever replaces it edits that one.
HOMES = {
    "regex": "text/patterns.py",
    "backports": "text/unpacking.py",
    "jinja2": "resources/loader.py",
    "jsonschema": "resources/loader.py",
    "unidiff": "git/patches.py",
    "pathspec": "text/globs.py",
    "tomllib": "config/settings.py",
    "github": "github/api/client.py",
    "cryptography": "receipts/statement.py",
    "jwt": "receipts/oidc.py",
    "openai": "models/openai/client.py",
    "copilot": "models/copilot.py",
    "httpx2": "system/transport.py models/openai/client.py",  # openai sends by it
    "genai_prices": "models/prices.py",
    "orjson": "runs/journal/reader.py",
    "pydantic_monty": "sandbox/monty.py",
    "stringzilla": "context/search/occurrences.py",
    "tree_sitter": "source/grammars.py",
    "markdown_it": "wiki/facts/readme.py",
    "git": "git/clone.py",
    "yaml": "lab/bench/packs/documents.py",
    "distributed": "recursion/dask_pool.py",
    "rich": "console/live_screen.py",
    "shtab": "cli/commands/completion.py",
    "dspy": "lab/frameworks/dspy.py",
    "pydantic_ai": "lab/frameworks/pydantic_ai.py",
    "google": "lab/frameworks/google_adk.py",
    "opentelemetry": "lab/observability/otlp.py",
    "mcp": "delegation/server.py lab/mcp/connection.py",
    "anyio": "delegation/server.py lab/mcp/connection.py",  # mcp's streams
    "subprocess": "system/process.py",
}
#: Too heavy for a hook, whose whole budget is some ten milliseconds.
HEAVY = (
    "dataclasses", "typing", "subprocess", "pathlib", "argparse", "inspect", "asyncio", "jinja2",
    "jsonschema", "unidiff", "openai", "github", "git", "email", "http", "urllib.request",
    "logging", "tempfile", "random", "threading", "traceback", "shutil", "socket", "ssl",
    "tomllib", "pathspec", "rich", "textwrap", "difflib", "importlib", "importlib.metadata",
    "importlib.resources", "markdown_it",
)  # fmt: skip
FORBIDDEN_NAMES = {"utils", "util", "helpers", "common", "base", "manager", "core", "misc"}
#: Words that name no thing, and the part of all bound names that may still be one of them. It only
#: falls: what is new has a name of the field.
EMPTY_WORDS = frozenset((
    "one", "found", "told", "place", "said", "kept", "held", "wanted", "asked", "given", "named",
    "known", "made", "here", "there", "least", "most", "whole", "own", "rest", "near", "went",
    "meant", "sure", "ours", "theirs",
))  # fmt: skip
EMPTY_SHARE = 0.005
#: Fields that records on disk or templates of users have by these names.
PERSISTED = {
    "rlm_ci.fix.options.FixOptions.asked",
    "rlm_ci.lab.planted_bugs.benchmark.ArmTotals.found",
    "rlm_ci.lab.planted_bugs.benchmark.CaseScore.found",
    "rlm_ci.report.overview.changes.Overview.said",
    "rlm_ci.wiki.update.state.Prose.said",
}
#: But for what runs in the Python of others, with what is there.
OUTSIDE = (
    "validators/pytest_plugin/*.py", "environments/repl/inside/*.py", "review/proofs/inside/*.py",
    "lab/planted_bugs/inside/*.py", "trials/inside/*.py",
)  # fmt: skip
MODULES = sorted(
    set(PACKAGE.rglob("*.py")) - {one for found in OUTSIDE for one in PACKAGE.glob(found)}
)


#: Where a statement holds others; no statement stands in an expression.
BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    """To look for garbage among the trees of all files takes four times as long as to read them."""
    gc.disable()
    yield
    tree.cache_clear()
    gc.enable()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path): path for path in MODULES}


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and (
        node.test.id == "TYPE_CHECKING"
    )  # fmt: skip


def statements(node: ast.AST, *, types: bool) -> Iterator[ast.AST]:
    """All statements below, without what is for type checkers alone unless ``types``."""
    waiting = [node]
    while waiting:
        held = waiting.pop()
        for child in itertools.chain(*(getattr(held, name, ()) for name in BLOCKS)):
            if is_for_types(child) and not types:
                assert isinstance(child, ast.If)
                yield from child.orelse
                waiting += child.orelse
                continue
            yield child
            waiting.append(child)


@cache
def imports(path: Path, *, types: bool = True) -> frozenset[str]:
    """The modules that a file imports anywhere, by their full names."""
    found: set[str] = set()
    for node in statements(tree(path), types=types):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides where it leads"
            module = node.module or ""
            # `from rlm_ci import files` means the module, `from rlm_ci.x import y` too.
            inner = {f"{module}.{alias.name}" for alias in node.names} & NAMES.keys()
            found |= inner or {module}
    return frozenset(found)


def room(module: str) -> str:
    """The part of the house that a module stands in; "" for the package itself."""
    return module.removeprefix("rlm_ci").strip(".").partition(".")[0]


def ours(path: Path) -> set[str]:
    return {name for name in imports(path) if name.partition(".")[0] == "rlm_ci"}


def test_imports_point_down() -> None:
    for path in MODULES:
        own = room(name_of(path))
        if own in ("", "__main__"):
            assert {room(name) for name in ours(path)} <= {"cli"}
            continue
        assert own in LEVEL, f"{own} has no place in the plan"
        for imported in ours(path):
            other = room(imported)
            if other not in ("", own):
                assert LEVEL[other] < LEVEL[own], f"{name_of(path)} imports {imported}"


def modules_beside(path: Path) -> set[str]:
    """What a module of a sandbox imports: it knows the others of its folder alone."""
    nodes = statements(tree(path), types=True)
    return {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and node.level}


INSIDE = sorted(folder.relative_to(PACKAGE).as_posix() for folder in PACKAGE.rglob("inside"))


@pytest.mark.parametrize("where", ["", *INSIDE])
def test_no_import_closes_a_circle(where: str) -> None:
    """In no form: at the top of a module, inside a function, or for types alone."""
    if where:
        graph = {path.stem: modules_beside(path) for path in (PACKAGE / where).glob("*.py")}
    else:
        graph = {name: ours(path) & NAMES.keys() for name, path in NAMES.items()}
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, f"a circle: {' → '.join((*way, name))}"
        if name not in done:
            for other in graph[name] - {name}:
                visit(other, (*way, name))
            done.add(name)

    for name in graph:
        visit(name, ())


#: Folders that list their modules: one a command, a check, a format, a tool.
CATALOGUES = ("cli/commands", "validators/parsers")


def test_a_folder_is_taken_in_at_a_glance() -> None:
    for folder in {path.parent for path in MODULES}:
        held = {path.stem for path in folder.glob("*.py")} - {"__init__"}
        is_catalogue = str(folder.relative_to(PACKAGE)) in CATALOGUES
        assert len(held) <= 12 or is_catalogue, f"{folder}: {len(held)} modules"


def test_no_room_is_the_whole_house() -> None:
    lines: Counter[str] = Counter()
    for name, path in NAMES.items():
        lines[room(name)] += len(path.read_text(encoding="utf-8").splitlines())
    name, most = lines.most_common(1)[0]
    assert most <= 0.15 * lines.total(), f"{name} holds {most:,} of {lines.total():,} lines"


@pytest.mark.parametrize("folder", ["checks", "report/formats", "cli/commands"])
def test_a_drop_in_never_imports_the_door_of_its_package(folder: str) -> None:
    package = f"rlm_ci.{folder.replace('/', '.')}"
    for path in (PACKAGE / folder).glob("*.py"):
        if path.name == "__init__.py":
            continue
        doors = {
            node.module
            for node in ast.walk(tree(path))
            if isinstance(node, ast.ImportFrom)
            and node.module == package
            and not {f"{package}.{alias.name}" for alias in node.names} <= NAMES.keys()
        }
        assert doors == set(), path
        assert package not in imports(path), path


def test_a_check_never_imports_another_check() -> None:
    checks = list((PACKAGE / "checks").glob("[!_]*.py"))
    assert len(checks) >= 3
    for path in checks:
        others = {f"rlm_ci.checks.{other.stem}" for other in checks if other != path}
        assert not imports(path) & others


@pytest.mark.parametrize("library", HOMES)
def test_one_library_lives_in_one_file(library: str) -> None:
    users = {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        for name in imports(path, types=False)
        if name.partition(".")[0] == library
    }
    assert users == set(HOMES[library].split())


def test_only_what_is_declared_is_imported() -> None:
    allowed = {"rlm_ci", *HOMES, *sys.stdlib_module_names}
    for path in MODULES:
        assert {name.partition(".")[0] for name in imports(path)} <= allowed, path


@cache
def words(path: Path) -> frozenset[str]:
    """All names in a file, and words of its texts: what is not there need not be looked for."""
    return frozenset(re.findall(r"\w+", path.read_text(encoding="utf-8")))


@cache
def attributes(path: Path) -> frozenset[str]:
    """Dotted names of two parts that stand in a file, such as ``os.environ``."""
    return frozenset(
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    )


def uses(path: Path, *dotted: str) -> set[str]:
    """Those of some dotted names that stand in a file."""
    there = words(path)
    if any(there.issuperset(name.split(".")) for name in dotted):
        return {name for name in dotted if name in attributes(path)}
    return set()


def test_the_environment_has_one_reader() -> None:
    readers = {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if uses(path, "os.environ", "os.environb", "os.getenv", "os.putenv")
    }
    assert readers == {"config/settings.py"}


def test_settings_end_where_options_are_made() -> None:
    """A verb makes its options in ``run``; what stands below never sees the settings."""
    made = {"config", "checks", "judge", "pipelines", "solve", "cli"}
    below = {
        name_of(path)
        for path in MODULES
        if room(name_of(path)) not in made
        for node in statements(tree(path), types=True)
        if isinstance(node, ast.ImportFrom) and node.module == "rlm_ci.config.settings"
        if "Settings" in {alias.name for alias in node.names}
    }
    verbs = {f"rlm_ci.{verb}.run" for verb in ("fix", "ask", "review", "wiki", "lab")}
    verbs |= {"rlm_ci.pull_request.conversation", "rlm_ci.lab.runner", "rlm_ci.lab.bench.run"}
    assert below <= verbs


def test_only_the_commands_know_the_lab() -> None:
    """What tries models and environments is no part of a check, a fix or a review."""
    users = {
        name_of(path)
        for path in MODULES
        if room(name_of(path)) != "lab"
        if any(room(name) == "lab" for name in ours(path))
    }
    commands = {f"rlm_ci.cli.commands.{name}" for name in ("bench", "chat", "doctor", "export")}
    assert users == {*commands, "rlm_ci.cli.commands.completion"} | {
        "rlm_ci.evaluation",  # what Python programs import
        "rlm_ci.solve.registry",  # the table of pipelines
    }


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))


def test_nobody_prints_but_the_command_line_and_nobody_asks_a_shell() -> None:
    forks = PACKAGE / "context" / "search" / "worker_processes.py"
    for path in MODULES:
        inside = path.is_relative_to(PACKAGE / "cli") or path.is_relative_to(PACKAGE / "console")
        asking = {"eval", "exec", "input", "breakpoint", "print", "shell"}
        for call in calls(path) if words(path) & asking else ():
            if isinstance(call.func, ast.Name):
                assert call.func.id not in ("eval", "exec", "input", "breakpoint"), path
                assert call.func.id != "print" or inside, path
            assert not any(keyword.arg == "shell" for keyword in call.keywords), path
        assert not uses(path, "os.system", "os.popen", "pickle.loads"), path
        assert not uses(path, "os.fork") or path == forks, path
        assert inside or not uses(path, "sys.stdout", "sys.stderr", "sys.exit", "sys.argv"), path


def test_a_file_has_one_job_and_a_function_fits_on_a_screen() -> None:
    """600 lines a file and 80 a function are guides: one in a hundred may be somewhat longer."""
    files, functions = [], []
    for path in MODULES:
        files.append((len(path.read_text(encoding="utf-8").splitlines()), str(path)))
        functions += [
            ((node.end_lineno or node.lineno) - node.lineno + 1, f"{path}: {node.name}")
            for node in statements(tree(path), types=True)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    for lengths, guide, wall in ((files, 600, 700), (functions, 80, 110)):
        longer = sorted((length, name) for length, name in lengths if length > guide)
        assert len(longer) <= len(lengths) // 100, longer
        assert all(length <= wall for length, _ in longer), longer


def test_names_name_a_thing() -> None:
    """Variables, parameters, loop targets, fields, functions and classes."""
    names = [name.strip("_") for path in MODULES for name in bound_names(tree(path))]
    empty = Counter(name for name in names if name in EMPTY_WORDS)
    assert empty.total() <= EMPTY_SHARE * len(names), empty.most_common()


def test_what_others_use_has_names_of_the_field() -> None:
    """Public functions, methods and fields."""
    names = {f"{name_of(path)}.{name}" for path in MODULES for name in public_names(tree(path))}
    empty = {name for name in names if name.rpartition(".")[2] in EMPTY_WORDS}
    assert empty == PERSISTED


def public_names(module: ast.Module) -> Iterator[str]:
    """Functions, and the methods and fields of classes, also those that a method sets."""
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=owner, body=body):
                for statement in body:
                    match statement:
                        case ast.AnnAssign(target=ast.Name(id=name)):
                            yield f"{owner}.{name}"
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def test_what_json_may_lack_names_fields() -> None:
    """A field that is renamed leaves no name of before in ``_recent`` and the like."""
    looked = 0
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                lacking = lacking_names(node)
                looked += len(lacking)
                assert lacking <= fields_of(node), f"{path}: {node.name}"
    assert looked


def fields_of(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(one.target) for one in node.body if isinstance(one, ast.AnnAssign)}


def lacking_names(node: ast.ClassDef) -> set[str]:
    """The names in what a class says of members that JSON may lack, or of their items."""
    return {
        text.value
        for statement in node.body
        if isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) in ("_optional", "_recent", "_items")
        for text in ast.walk(statement.value)
        if isinstance(text, ast.Constant) and isinstance(text.value, str)
    }


def bound_names(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name


def test_no_module_has_a_name_that_fits_everything() -> None:
    for path in MODULES:
        assert not FORBIDDEN_NAMES & set(name_of(path).split(".")), path


def test_no_pattern_has_a_possessive_group() -> None:
    """Python 3.11.2 does not match all of one: (?:a|b)*+ ends too early."""
    group = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                assert not group.search(text), f"{path}, line {node.lineno}: {text}"


def test_no_public_class_name_stands_twice() -> None:
    """Protocols and nested classes, too: who reads a name knows which class it is."""
    homes: dict[str, set[str]] = {}
    for path in MODULES:
        for node in statements(tree(path), types=True):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, set()).add(name_of(path))
    assert len(homes) > 300
    assert not {name: found for name, found in homes.items() if len(found) > 1}


def test_importing_does_no_work() -> None:
    """The top of a module defines and names things; it opens, runs and prints nothing."""
    for path in MODULES:
        for node in tree(path).body:
            where = f"{path}, line {node.lineno}"
            assert not isinstance(node, ast.For | ast.While | ast.With), where
            if isinstance(node, ast.Expr):
                assert isinstance(node.value, ast.Constant), where


# -- what a hook loads --------------------------------------------------------------------------

LOADED = """
import sys
from rlm_ci.cli import main
code = main(sys.argv[1:])
sys.stderr.write("\\nLOADED " + " ".join(sys.modules) + "\\n")
raise SystemExit(code)
"""


def loaded(repo: GitRepo, *args: str, code: int = 0, **more: str) -> set[str]:
    """The modules that one run of the command imports; it ends with ``code``."""
    ended = subprocess.run(
        [sys.executable, "-I", "-c", LOADED, *args], cwd=repo, env={**os.environ, **more},
        capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip
    assert ended.returncode == code, ended
    return set(ended.stderr.decode().rpartition("LOADED ")[2].split())


def test_the_guard_loads_nothing_heavy(repo: GitRepo) -> None:
    repo.write("README.md", "# Shop\n").commit()
    guard_runs(repo.path / ".runs", count=3)
    write_index(repo.path, registered(TASK))
    modules = loaded(repo, "check", "delegation-guard", MCP_RUNNER_TASK_ID=TASK)
    assert modules & set(HEAVY) == set()
    assert "rlm_ci.checks.delegation_guard" in modules
    assert not {"rlm_ci.checks.diff_budget", "rlm_ci.checks.doc_archive"} & modules


def test_a_receipt_takes_no_network(repo: GitRepo, tmp_path: Path) -> None:
    write_index(repo.path, registered(TASK))
    repo.write(".gitignore", ".runs/\n").commit()
    guard_runs(repo.path / ".runs")
    loaded(repo, "receipt", "--task", TASK)
    (repo.path / ".runs").rename(tmp_path / "gone")
    repo.commit()
    modules = loaded(repo, "check", "delegation-guard", "--task", TASK, CI="true")
    assert "rlm_ci.receipts.judge" in modules
    assert not {"rlm_ci.receipts.oidc", "httpx2", "jwt", "ssl", "socket", "email"} & modules


@pytest.mark.parametrize("how", [(), ("--staged",), ("--base", "main"), ("--commit", "HEAD")])
@pytest.mark.parametrize(
    "check", sorted({*checks.names()} - {"delegation-guard", "description", "test-bite"})
)
def test_the_other_checks_load_nothing_heavy(
    repo: GitRepo, check: str, how: tuple[str, ...]
) -> None:
    small_change(repo)
    repo.run("update-ref", "refs/heads/doc-archives", "main")
    repo.remote("https://github.com/acme/shop.git")
    modules = loaded(repo, "check", check, *how)
    assert modules & set(HEAVY) == set()
    assert not {"rlm_ci.git.patches", "rlm_ci.git.errors", "rlm_ci.resources.loader"} & modules


def test_a_hook_loads_no_reader_of_descriptions(repo: GitRepo) -> None:
    """Nor the rule on AI, before there is a commit."""
    small_change(repo)
    modules = loaded(repo, "check", "--hook", "pre-commit")
    assert "rlm_ci.checks.scope" in modules
    assert not {one for one in modules if "description" in one or "overview" in one}
    assert "rlm_ci.checks.ai_policy" not in modules
    assert modules & set(HEAVY) == set()


def test_a_hook_of_a_large_change_loads_no_more(repo: GitRepo) -> None:
    """Nor what reads a config file that is not there, for a finding that could be accepted."""
    history = many_files(repo, 20)
    arguments = ("--base", history.base, "--head", history.head)
    limit = {"RLM_CI_DIFF_BUDGET_MAX_FILES": "1"}
    modules = loaded(repo, "check", "diff-budget", *arguments, code=1, **limit)
    assert modules & {*HEAVY, "re", "fnmatch", "tomllib", "datetime"} == set()


def test_a_full_report_loads_no_library_that_only_later_parts_need(
    repo: GitRepo, tmp_path: Path
) -> None:
    small_change(repo)
    repo.run("update-ref", "refs/heads/doc-archives", "main")
    repo.remote("https://github.com/acme/shop.git")
    out = str(tmp_path / "out")
    modules = loaded(repo, "pr", "--base", "main", "--out", out)
    assert not {"openai", "github", "git", "mcp", "asyncio", "http.client"} & modules
    assert not {name for name in modules if name.startswith("rlm_ci.lab")}
    assert "jinja2" in modules
