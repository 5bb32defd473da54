"""The commands by which a project is set up, built, run, tested and checked, each with its line.

They are read line by line from manifests, task files and CI workflows; nothing is run. A command
that a shell would not take as it stands (an expression of a workflow, an odd name) is left out.
What a command is for is said by the name of its task, or by its first words.
"""

from __future__ import annotations

import re
import shlex
from itertools import islice

from rlm_ci.config.settings import parse_config
from rlm_ci.errors import ConfigError
from rlm_ci.source.languages import OTHER as OTHER_LANGUAGE
from rlm_ci.source.languages import language_of_fence
from rlm_ci.validators.detect import PLACEHOLDER
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rlm_ci.source import Outline


#: What commands are for.
SETUP, BUILD, RUN, TEST, CHECK, DOCS, OTHER = (
    "setup", "build", "run", "test", "check", "docs", "other",
)  # fmt: skip

#: Words of a task's name, the strongest first.
_NAMED = (
    (TEST, frozenset(("test", "tests", "testing", "pytest", "unittest", "unit", "e2e", "spec",
                      "specs", "integration", "coverage", "cov"))),
    (CHECK, frozenset(("lint", "linter", "format", "fmt", "style", "typing", "types", "typecheck",
                       "mypy", "pyright", "ruff", "black", "flake8", "pylint", "eslint",
                       "prettier", "clippy", "vet"))),
    (DOCS, frozenset(("docs", "doc", "html", "documentation", "apidoc", "site"))),
    (BUILD, frozenset(("build", "compile", "dist", "bundle", "wheel", "sdist"))),
    (SETUP, frozenset(("install", "setup", "bootstrap", "deps", "develop", "venv"))),
)  # fmt: skip
#: Words that say so only at the start of a name.
_STARTS = frozenset(("run", "start", "serve", "server", "dev", "watch", "preview"))
#: Words at the start of a name that take away what the other words name.
_UNDOES = frozenset(("clean", "clear", "delete", "purge", "remove", "rm", "uninstall"))
#: An environment of tox for one version of Python.
_PYTHON = re.compile(r"py(?:py)?(?:-?\d[\d.]*t?)?|3\.\d+t?")

_HEADS = tuple(
    (purpose, re.compile(rf"(?:{pattern})(?![\w.(-]|\s*=)"))
    for purpose, pattern in (
        (TEST, (r"pytest|py\.test|unittest|ctest|jest|vitest|mocha|ava|rspec|phpunit|gotestsum"
               r"|stestr|trial|ginkgo|cypress run|playwright test|zig build test"
               r"|(?:go|cargo|bun|deno|dotnet|swift|mix) test|cargo (?:nextest|llvm-cov|miri test)"
               r"|(?:mvnw?|gradlew?)(?: \S+)* (?:test|check|verify)|npm t")),
        (CHECK, (r"ruff|mypy|pyright|flake8|pylint|black|isort|eslint|prettier|biome|stylelint"
                r"|golangci-lint|staticcheck|pre-commit run|prek run|rubocop|shellcheck|gofmt"
                r"|clang-format|clang-tidy|codespell|actionlint|zizmor|tsc .*--noEmit"
                r"|go (?:vet|fmt)|cargo (?:clippy|fmt|check|deny|audit)")),
        (SETUP, (r"pip[\d.]* install|uv (?:sync|pip install)|poetry install|pdm (?:install|sync)"
                r"|pipenv install|(?:npm|pnpm|bun) (?:ci|i|install)|yarn install|yarn$"
                r"|go mod download|bundle install|composer install|cargo fetch|setup\.py develop")),
        (DOCS, r"sphinx-build|mkdocs|zensical|typedoc|cargo doc|pdoc|jekyll|hugo|mdbook"),
        (BUILD, (r"build|(?:uv|hatch|poetry|flit|dotnet|docker|vite|cargo|pdm) build|go build"
                r"|cmake|meson|ninja|make$|tsc|webpack|rollup|esbuild|tsup|maturin"
                r"|cibuildwheel|setup\.py (?:build|sdist|bdist_wheel)"
                r"|(?:mvnw?|gradlew?)(?: \S+)* (?:package|assemble|build)")),
        (RUN, r"(?:cargo|go|dotnet) run|flask run|uvicorn|gunicorn|manage\.py runserver"),
    )
)  # fmt: skip
#: Runners of named tasks: the name decides.
_TASK = re.compile(
    r"(?:make|just|poe|rake|npm run|pnpm run|bun run|yarn run|npm|pnpm|yarn|hatch run)"
    r" (?:-\S+ )*([\w:./-]+)"
)
_ENVIRONMENT = re.compile(r"(?:tox|nox)\b(?:.* (?:-e|-s|--env|--session)[ =]?([\w.-]+))?")
#: Programs that run another one, with the word behind which that begins.
_RUNNERS = {
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "pipenv", "pixi", "rye"), "run"),
    **dict.fromkeys(("bundle", "npm", "pnpm", "yarn"), "exec"),
    **dict.fromkeys(("python", "python3", "py"), "-m"),
    "coverage": "run",
}  # fmt: skip
_BEFORE = frozenset(("sudo", "time", "exec", "env", "npx", "bunx", "uvx", "command"))
#: Options of such programs that another word follows.
_VALUED = frozenset((
    "--group", "--only-group", "--with", "--extra", "--python", "-p", "--project", "--package",
    "--directory", "-m", "--env-file", "--source",
))  # fmt: skip
_VARIABLE = re.compile(r"[A-Za-z_]\w*=\S*")
#: A script of the project, whose name says what it is for as that of a task does.
_SCRIPT = re.compile(r"(?:run[-_])?([\w-]+)\.sh(?!\S)")
_STARTED = re.compile(r"python3? setup\.py|(?:ba|z)?sh \S+\.sh")


def purpose_of(name: str, runs: str = "") -> str:
    """What the task ``name`` is for, which ``runs`` this command; OTHER if neither says it."""
    return by_name(name) or by_command(runs) or OTHER


def by_name(name: str) -> str:
    """What the name of a task says; "" for nothing."""
    words = [word for word in re.split(r"[-_:./ ]+", name.lower()) if word]
    if not words or words[0] in _UNDOES:
        return ""
    if words[0] in _STARTS:
        return RUN
    for purpose, keywords in _NAMED:
        if keywords.intersection(words):
            return purpose
    return TEST if any(map(_PYTHON.fullmatch, words)) else ""


def by_command(text: str) -> str:
    """What the first telling part of a shell's line is for; "" for nothing."""
    for part in re.split(r"&&|\|\||[;|]", text[:1000]):
        purpose = _by_head(bare(part.split()))
        if purpose:
            return purpose
    return ""


def _by_head(head: str) -> str:
    match = _ENVIRONMENT.match(head)
    if match and "--devenv" in head:
        return SETUP
    if match:
        name = match[1] or ""
        return (by_name(name) or OTHER) if name else TEST
    for purpose, pattern in _HEADS:
        if pattern.match(head):
            return purpose
    return by_name(task_of(head))


def task_of(head: str) -> str:
    """The named task or script that a command without its variables runs; "" for none.

    An environment of tox for a version of Python, or for all, is none: it is what tox runs anyway.
    """
    task = _TASK.match(head) or _SCRIPT.match(head) or _ENVIRONMENT.match(head)
    name = (task[1] or "") if task else ""
    return "" if head.startswith(("tox", "nox")) and _PYTHON.fullmatch(name) else name


def bare(words: list[str]) -> str:
    """A command without variables, and without the programs that only start it."""
    while words:
        first = words[0].rpartition("/")[2].lstrip("@")
        if _VARIABLE.fullmatch(words[0]) or first in _BEFORE:
            words = words[1:]
        elif words[1:2] == [_RUNNERS.get(first, "")]:
            words = _behind_options(words[2:])
        elif _STARTED.fullmatch(" ".join((first, *words[1:2]))):
            words = words[1:]
        else:
            words = [first, *words[1:]]
            break
    return " ".join(words[:12])


def _behind_options(words: list[str]) -> list[str]:
    while words and words[0].startswith("-"):
        words = words[1 + (words[0] in _VALUED and words[0] != "-m") :]
    return words


#: Bytes of a file that is read, commands of one, and characters of a command.
_MAX_BYTES, _MOST, _LONGEST = 1 << 20, 200, 200
#: The name of a task, a session or a program that can be typed as it is.
_NAME = re.compile(r"[A-Za-z0-9@][\w:.@/+-]{0,79}")
#: Scripts that a package manager runs by itself.
_HOOKS = re.compile(r"(?:pre|post)?(?:install|publish|pack|prepare|version)|prepublishOnly")


class ProjectCommand(Row):
    """A command, the line that it is from, and what it runs.

    ``purpose`` is one of the words of this module. ``is_usual``: the line does not spell the
    command out, which is the common one for such a file; ``runs`` are then the options that the
    file adds to it.
    """

    purpose: str
    text: str
    line: int
    runs: str = ""
    is_usual: bool = False


def commands(read: Outline, content: bytes) -> tuple[ProjectCommand, ...]:
    """The commands of a file that says how to work on its project; () for any other."""
    name = read.path.rpartition("/")[2]
    is_told = name in _READERS or name in _USUAL or read.language == "Makefile"
    is_told = is_told or is_workflow(read.path) or is_document(read.path)
    if not is_told or len(content) > _MAX_BYTES or b"\0" in content:
        return ()
    lines = [row.rstrip("\r") for row in content.decode("utf-8", "replace").split("\n")]
    by_text: dict[str, ProjectCommand] = {}
    for command in (*_written(read, name, lines), *_usual(name, lines)):
        if len(command.text) <= _LONGEST and command.text.isprintable():
            by_text.setdefault(command.text, command)
    return tuple(islice(by_text.values(), _MOST))


#: Documents for people who work on a project; a README also says how others get it. How their names
#: end.
_GUIDES = ("contributing", "hacking", "development", "developing", "developers")
TEXTS = ("md", "markdown", "rst", "txt", "adoc", "rdoc")


def is_document(path: str) -> bool:
    """Whether it is a guide for who works on the project, or its README."""
    folder, _, name = path.lower().rpartition("/")
    stem, _, suffix = name.rpartition(".")
    is_text = suffix in TEXTS or not stem
    if folder.partition("/")[0] in ("docs", "doc") and folder.rpartition("/")[2] in _GUIDES:
        return is_text
    return (
        folder in ("", ".github", "docs", "doc")
        and is_text
        and (stem or suffix) in (*_GUIDES, "readme")
    )


def is_workflow(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder == ".github/workflows" and name.endswith((".yml", ".yaml"))


def _written(read: Outline, name: str, lines: list[str]) -> Iterator[ProjectCommand]:
    if is_workflow(read.path):
        yield from _workflow(lines)
        return
    if is_document(read.path):
        yield from _documented(lines, is_guide="readme" not in name.lower())
        return
    scripts = [
        entry for entry in read.entries if entry.kind == "script" and _NAME.fullmatch(entry.name)
    ]
    for entry in scripts:
        text = f"cargo run --bin {entry.name}" if name == "Cargo.toml" else entry.name
        yield ProjectCommand(RUN, text, entry.line_start, entry.runs[:_LONGEST])
    if name == "package.json":
        yield from _package(read)
    for entry in read.entries:
        if not _NAME.fullmatch(entry.name):
            continue
        if read.language == "Makefile":
            runs = _recipe(lines, entry.line_start)
            yield _task(entry.name, f"make {entry.name}", entry.line_start, runs)
        elif name == "noxfile.py" and entry.kind == "task":
            yield _task(entry.name, f"nox -s {entry.name}", entry.line_start)
    reader = _READERS.get(name)
    if reader is not None:
        yield from reader(lines)


def _task(name: str, text: str, line: int, runs: str = "") -> ProjectCommand:
    return ProjectCommand(purpose_of(name, runs), text, line, runs[:_LONGEST])


def _recipe(lines: Sequence[str], line: int) -> str:
    """The first command of a rule that says what it is for, else the first."""
    recipe = []
    for row in lines[line : line + 40]:
        if not row.startswith("\t"):
            break
        recipe.append(row.strip().lstrip("@-+").rstrip("\\ "))
    return next(filter(by_command, recipe), recipe[0] if recipe else "")


def _package(read: Outline) -> Iterator[ProjectCommand]:
    scripts = {entry.name: entry for entry in read.entries if entry.kind == "task" and entry.runs}
    for name, entry in scripts.items():
        is_typed = _NAME.fullmatch(name) and not _is_hook(name, scripts)
        if is_typed and PLACEHOLDER not in entry.runs:
            word = "" if name in ("test", "start") else "run "
            runs = " ".join(entry.runs.split())
            yield _task(name, f"npm {word}{name}", entry.line_start, runs)


def _is_hook(name: str, scripts: Mapping[str, object]) -> bool:
    bare = re.sub("^(?:pre|post)", "", name)
    return bool(_HOOKS.fullmatch(name)) or (bare != name and bare in scripts)


_TOX = re.compile(r"\[testenv:([^\]]+)\]|\[(?:tool\.tox\.)?env\.\"?([\w.-]+)\"?\]")


def _tox(lines: Sequence[str]) -> Iterator[ProjectCommand]:
    for number, row in enumerate(lines, 1):
        match = _TOX.match(row)
        name = (match[1] or match[2]) if match else ""
        if name and _NAME.fullmatch(name):
            yield _task(name, f"tox run -e {name}", number, _commands_of(lines[number:]))


def _commands_of(lines: Sequence[str]) -> str:
    """What tests of the commands of an environment of tox, whose lines these are, else the first.

    Of lists, the last one: what stands before that prepares the environment.
    """
    inside = False
    texts: list[str] = []
    for row in lines[:60]:
        if row.startswith("[") or (texts and re.match(r"\w", row)):
            break
        key = None if texts else re.match(r"commands\s*=(.*)", row)
        inside = bool(key) or (inside and row[:1] in (" ", "\t", "]"))
        text = (key[1] if key else row).strip() if inside else ""
        texts += [text] if text else []
    if texts and texts[0][0] in "#[":
        return _last_of(texts)
    rows = [row.rstrip("\\ ") for row in texts]
    return next((row for row in rows if by_command(row) == TEST), rows[0] if rows else "")


def _last_of(rows: Sequence[str]) -> str:
    """The words of the last of the commands that TOML lists in these rows."""
    text = "\n".join((f"commands = {' '.join(rows[:1])}", *rows[1:]))
    try:
        every = parse_config(text.encode("utf-8", "surrogateescape"), "tox", None)["commands"]
    except ConfigError:
        return ""
    last = every[-1] if isinstance(every, list) and every else None
    words = last if isinstance(last, list) else ()
    return " ".join(word for word in words if isinstance(word, str))


def _just(lines: Sequence[str]) -> Iterator[ProjectCommand]:
    for number, row in enumerate(lines, 1):
        match = re.match(r"@?([A-Za-z][\w-]*)(?:\s[^:=]*)?:(?!=)", row)
        if match and match[1] not in ("set", "export", "alias"):
            after = lines[number].strip() if number < len(lines) else ""
            yield _task(match[1], f"just {match[1]}", number, after.lstrip("@-"))


#: Tables of a pyproject.toml with tasks, and what runs one.
_TASKS = {
    "tool.poe.tasks": "poe {}", "tool.pdm.scripts": "pdm run {}", "tool.taskipy.tasks": "task {}",
    "tool.hatch.envs.default.scripts": "hatch run {}", "tool.pixi.tasks": "pixi run {}",
}  # fmt: skip
_TABLE = re.compile(r"\[([^\[\]]+)\]\s*(?:#.*)?$")
_PAIR = re.compile(r"([\w:-]+)\s*=\s*(?:[\"']([^\"']*)[\"'])?")


def _pyproject(lines: Sequence[str]) -> Iterator[ProjectCommand]:
    table = ""
    for number, row in enumerate(lines, 1):
        begun, pair = _TABLE.match(row), _PAIR.match(row)
        if begun:
            table = begun[1].replace('"', "").replace(" ", "")
            above, _, name = table.rpartition(".")
            if above in _TASKS and _NAME.fullmatch(name):
                yield _task(name, _TASKS[above].format(name), number)
        elif pair and pair[1][0] != "_":
            hatch = re.fullmatch(r"tool\.hatch\.envs\.([\w.-]+)\.scripts", table)
            shown = _TASKS.get(table) or (f"hatch run {hatch[1]}:{{}}" if hatch else "")
            if shown:
                yield _task(pair[1], shown.format(pair[1]), number, pair[2] or "")
    yield from _tox(lines)


#: What defines a task in a Rakefile, by itself or by a class that runs tests or checks.
_RAKE = re.compile(r"\s*(?:(?:\w+::)*(\w*Task)\.new\b|(?:multi)?task\b)\s*\(?\s*:?[\"']?([\w:-]+)?")
_OF_RAKE = {"TestTask": ("test", TEST), "RakeTask": ("spec", TEST)}


def _rake(lines: Sequence[str]) -> Iterator[ProjectCommand]:
    for number, row in enumerate(lines, 1):
        match = _RAKE.match(row)
        if match is None:
            continue
        usual, purpose = _OF_RAKE.get(match[1] or "", ("", ""))
        if "RuboCop" in row:
            usual, purpose = "rubocop", CHECK
        name = match[2] or usual
        if purpose and name not in ("do", ""):
            yield ProjectCommand(purpose, f"rake {name}", number)
        elif name and not match[1] and name != "default" and _NAME.fullmatch(name):
            yield _task(name, f"rake {name}", number)


_READERS: Mapping[str, Callable[[Sequence[str]], Iterator[ProjectCommand]] | None] = {
    "tox.ini": _tox, "tox.toml": _tox, "setup.cfg": _tox, "noxfile.py": None, "package.json": None,
    "justfile": _just, "Justfile": _just, "pyproject.toml": _pyproject, "Cargo.toml": None,
    "Rakefile": _rake,
}  # fmt: skip


# ── documents ──

#: What opens a block of code in reStructuredText.
_DIRECTIVE = re.compile(r"\s*\.\. (?:code|code-block|sourcecode|prompt):: ")
_FENCE, _SPAN = (
    re.compile(r"\s*(?:```+|~~~+)\s*([\w+#-]*)"),
    re.compile(r"(?<!`)`{1,2}([^`]+)`{1,2}(?!`)"),
)
#: What a reader is to put in, or to see.
_BLANKS = re.compile(r"<[A-Za-z]|\.\.\.|…|\[|\{|https?:")
#: What a README says to who works on the project; how others get it is no part of that.
_OF_README = (BUILD, TEST, CHECK)


#: Languages of blocks whose lines one types; a block without a word, or of a ``console``, has none.
_TYPED = (OTHER_LANGUAGE, "Shell", "Text", "PowerShell", "Batch")


def _documented(lines: Sequence[str], *, is_guide: bool) -> Iterator[ProjectCommand]:
    """The commands in blocks of code, and in the text, of a document."""
    inside, is_code, opens, is_literal = False, False, False, False
    for number, row in enumerate(lines, 1):
        if fence := _FENCE.match(row):
            inside = not inside
            is_code = inside and language_of_fence(fence[1]) not in _TYPED
            continue
        if is_code:
            continue
        is_indented = row[:1] in (" ", "\t")
        if row.strip():
            is_literal = is_indented and (is_literal or opens)
            opens = row.endswith("::") or bool(_DIRECTIVE.match(row)) or (opens and is_indented)
        is_block = inside or is_literal or row.startswith(("    ", "\t"))
        texts = [row] if is_block else [match[1] for match in _SPAN.finditer(row)]
        for text in texts:
            shown = re.sub(r"\s+#\s.*", "", text.strip()).removeprefix("$ ").strip()
            purpose = by_command(shown) if is_block or " " in shown else ""
            is_wanted = purpose and (is_guide or purpose in _OF_README)
            if is_wanted and not _NO_COMMAND.match(shown) and not _BLANKS.search(shown):
                yield ProjectCommand(purpose, shown, number)


# ── workflows ──

_RUN = re.compile(r"(\s*)(- +)?run:\s*(.*)$")
#: What a shell needs a whole script for, and what only Actions has.
_NO_COMMAND = re.compile(
    r"#|(?:if|then|else|elif|fi|for|while|do|done|case|esac|echo|printf|cd|set|exit)\b"
)
_ONLY_THERE = re.compile(r"\$\{\{|\$\{?(?:GITHUB|RUNNER)_")


def _workflow(lines: Sequence[str]) -> Iterator[ProjectCommand]:
    """The commands of ``run`` steps that build, run, test or check."""
    for number, text in _steps(lines):
        purpose = by_command(text)
        if purpose and not _NO_COMMAND.match(text) and not _ONLY_THERE.search(text):
            yield ProjectCommand(purpose, text, number)


def _steps(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The lines of all scripts, with what a backslash joins to them."""
    inside, begun, joined = -1, 0, ""
    for number, row in enumerate(lines, 1):
        if inside >= 0 and row.strip() and len(row) - len(row.lstrip()) <= inside:
            inside, joined = -1, ""
        if inside >= 0:
            begun = begun if joined else number
            joined = f"{joined} {row.strip()}".strip()
            if joined.endswith("\\"):
                joined = joined.rstrip("\\ ")
            elif joined:
                yield begun, joined
                joined = ""
            continue
        match = _RUN.match(row)
        if match and re.match(r"[|>][-+\d]*\s*(?:#.*)?$", match[3]):
            inside = len(match[1]) + len(match[2] or "")
        elif match and match[3]:
            text = match[3].strip()
            quoted = text[0] in "\"'" and text[-1] == text[0] and len(text) > 1
            yield number, text[1:-1] if quoted else re.sub(r"\s#.*", "", text).rstrip()


# ── what goes with a file ──

_TESTED = "python -m pytest"
#: A text in a list, and the lines that a list of options takes at most.
_TEXT, _LISTED = re.compile(r"\"([^\"]*)\"|'([^']*)'"), 20
#: The lines by which a file says that these commands go with it.
_USUAL = {
    "pyproject.toml": (
        (SETUP, "python -m pip install -e .", r"\[(?:project|tool\.poetry)\]"),
        (BUILD, "python -m build", r"\[build-system\]"),
        (TEST, _TESTED, r"\[tool\.pytest(?:\.ini_options)?\]"),
        (TEST, "tox run", r"\[tool\.tox\]"),
    ),
    "setup.py": ((SETUP, "python -m pip install -e .", r"(?:\w+\.)?setup\("),),
    "setup.cfg": ((TEST, _TESTED, r"\[tool:pytest\]"),),
    "pytest.ini": ((TEST, _TESTED, r"\[pytest\]"),),
    "tox.ini": ((TEST, "tox run", r"\[tox\]|\[testenv\]"),),
    "tox.toml": ((TEST, "tox run", r"env_list\b|\[env"),),
    "requirements.txt": (
        (SETUP, "python -m pip install -r requirements.txt", r"[A-Za-z-]"),
    ),
    ".pre-commit-config.yaml": ((CHECK, "pre-commit run --all-files", r"repos:"),),
    "package.json": ((SETUP, "npm install", r"\s*\"(?:devDependencies|dependencies)\"\s*:"),),
    "Cargo.toml": (
        (BUILD, "cargo build", r"\[(?:package|workspace)\]"),
        (TEST, "cargo test", r"\[(?:package|workspace)\]"),
    ),
    "go.mod": ((BUILD, "go build ./...", r"module\s"), (TEST, "go test ./...", r"module\s")),
    "pom.xml": ((BUILD, "mvn package", r"\s*<project\b"), (TEST, "mvn test", r"\s*<project\b")),
    **dict.fromkeys(("build.gradle", "build.gradle.kts"), (
        (BUILD, "gradle build", r"plugins\b|apply\b"), (TEST, "gradle test", r"plugins\b|apply\b"),
    )),
    "CMakeLists.txt": (
        (BUILD, "cmake -B build && cmake --build build", r"(?i)project\s*\("),
        (TEST, "ctest --test-dir build", r"(?i)\s*(?:enable_testing|include\s*\(\s*CTest)"),
    ),
    "Gemfile": ((SETUP, "bundle install", r"\s*(?:gem|gemspec|source)\b"),),
    "mkdocs.yml": ((DOCS, "mkdocs serve", r"site_name:"),),
}  # fmt: skip


def _usual(name: str, lines: Sequence[str]) -> Iterator[ProjectCommand]:
    for purpose, text, sign in _USUAL.get(name, ()):
        pattern = re.compile(sign)
        number = next((n for n, row in enumerate(lines, 1) if pattern.match(row)), 0)
        if number:
            line, runs = _chosen(lines, number) if text == _TESTED else (number, "")
            if name == "tox.ini" and "[testenv]" in lines:
                line = lines.index("[testenv]") + 1
                runs = _commands_of(lines[line:])
            yield ProjectCommand(purpose, text, line, runs[:_LONGEST], is_usual=True)


def _chosen(lines: Sequence[str], number: int) -> tuple[int, str]:
    """The options that a table of pytest adds to each run, and their line; else its own line."""
    for at, row in enumerate(lines[number:], number + 1):
        if row.startswith("["):
            break
        key, _, value = row.partition("=")
        if key.strip() == "addopts":
            value = value.strip()
            if value.startswith("["):
                listed = " ".join(lines[at - 1 : at + _LISTED]).partition("[")[2].partition("]")[0]
                value = shlex.join(double or single for double, single in _TEXT.findall(listed))
            elif len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]:
                value = value[1:-1]
            return at, value
    return number, ""
