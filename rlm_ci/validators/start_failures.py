"""Whether a validator that failed could not even start: no edit of the code can mend that.

Signs are lines of shells, package managers and runners. They count where no test ran and where the
code of the repository cannot be the cause; in doubt the agent is asked.
"""

from __future__ import annotations

import json
import os
import re

from rlm_ci.text.printable import printable
from rlm_ci.validators import test_reports
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rlm_ci.system.process import StreamResult
    from rlm_ci.validators.parsers import ParsedOutput

_LINES = 400
_NAME = 100
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "make", "gmake", "env"))
#: Folders that an installation fills.
_INSTALLED = frozenset(("node_modules", ".venv", "venv", "vendor", ".yarn", ".tox", ".nox"))
#: Lock and manifest, and what installs from them: the first that is there.
_NODE = (
    ("pnpm-lock.yaml", "pnpm install"), ("yarn.lock", "yarn install"), ("bun.lock", "bun install"),
    ("bun.lockb", "bun install"), ("package-lock.json", "npm ci"),
    ("npm-shrinkwrap.json", "npm ci"), ("package.json", "npm install"),
)  # fmt: skip
_PYTHON = (
    ("uv.lock", "uv sync"), ("poetry.lock", "poetry install"), ("pdm.lock", "pdm install"),
    ("Pipfile", "pipenv install --dev"), ("requirements.txt", "pip install -r requirements.txt"),
    ("pyproject.toml", "pip install --editable ."), ("setup.py", "pip install --editable ."),
)  # fmt: skip
_PHP, _RUBY = (("composer.json", "composer install"),), (("Gemfile", "bundle install"),)
_GROUPS = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")
_MANIFESTS = (
    "pyproject.toml", "requirements.txt", "requirements-dev.txt", "requirements-test.txt",
    "dev-requirements.txt", "test-requirements.txt", "requirements_dev.txt", "setup.cfg",
    "setup.py", "Pipfile", "tox.ini",
)  # fmt: skip
#: Files that say which scripts a validator runs.
_CALLERS = ("Makefile", "makefile", "GNUmakefile", "justfile", "composer.json")

#: What vitest fails with before it looks for tests, its own files aside.
_RUNNER = "its runner could not start"
_FILE = re.compile(r"[\w./@-]+\.\w+")
_TOOLS = ("pytest", "py.test", "tox", "nox", "coverage", "ruff", "mypy", "black", "flake8")
_NOT_FOUND = re.compile(
    r"(?P<by>[^\s:]+): (?:(?:line )?\d+: )?[‘'`\"]?(?P<program>[^\s:’'\"]+)[’'\"]?: "
    r"(?P<how>(?:command )?not found|No such file or directory|Permission denied)$"
)
_PASSED_ON = re.compile(r"(?:Error|code:?|status) 12[67]\b")
#: The same from tools that end with a code of their own.
_LAUNCHERS = re.compile(
    r"(?:zsh:\d+: |bundler: )?[Cc]ommand not found: (\S+)$"
    r"|error: Failed to spawn: `(.+?)`$"
    r"|npm (?:error|ERR!) .*missing packages.*\[\"(@?[^@\"]+)"
    r"|npm (?:error|ERR!) .*request to https?://[^/\s]+/(\S+) failed"
    r"|.*\bexec: \"(.+?)\": executable file not found in \$PATH"
    r"|.*ERR_PNPM_RECURSIVE_EXEC_FIRST_FAIL.* Command \"(.+?)\" not found"
)
_MODULE = re.compile(r"\S*(?:python|pypy)[\d.]*: No module named (\w+)")
_IMPORT = re.compile(r".*\bModuleNotFoundError: No module named '(\w+)")
_PACKAGE = re.compile(
    r".*\b(?:Cannot find (?:module|package)|Failed to resolve import|Could not resolve:?) "
    r"['\"]((?:@[\w.-]+/)?\w[\w.-]*)(?:/[^'\"]*)?['\"]"
)
_SETUP_FAILED = re.compile(r"FAIL(?:\t.*\[setup failed\])?$")
#: Counts of tests in the words of any runner.
_RAN = re.compile(
    r"(?i).*\b[1-9]\d* (?:tests?|specs?|examples?|assertions?|passed|passing|failed|failing)\b"
    r"|(?:not )?ok \d| *[✓✔✗✕✖] "
)
_INSTALL = "install it where the sandbox can see it, or pass --validator"
_RUSTUP = "install one: rustup toolchain install stable && rustup default stable"
_NO_PACKAGES = "its packages are not installed"
#: Other signs: what is wrong, and what helps.
_SIGNS = tuple((re.compile(pattern), what, hint) for pattern, what, hint in (
    (r"error: rustup could not choose a version", "rustup has no toolchain for it", _RUSTUP),
    (r"error: no .*default toolchain", "rustup has no toolchain for it", _RUSTUP),
    (r"error: toolchain '(?P<name>.*)' is not installed", "there is no toolchain {name}", _RUSTUP),
    (r"error: '(?P<name>.*)' is not installed for the", "{name} was not found", _RUSTUP),
    (r"error: the '(?P<name>.*)' binary, normally", "{name} was not found", _RUSTUP),
    (r"error: could not create home directory", "rustup finds no home with a toolchain", _RUSTUP),
    (r"error: no such command: `(?P<name>[\w-]+)`", "cargo-{name} was not found",
     "install it: cargo install cargo-{name}"),
    (r".*(?:Could not|Couldn't) resolve host.*crates\.io", "its crates are not there",
     "fetch them: cargo fetch"),
    (r".*without the --offline flag", "its crates are not there", "fetch them: cargo fetch"),
    (r".*requires rustc (?P<name>[\d.]+)", "it needs Rust {name}", "install it: rustup update"),
    (r"(?:go: |\S+\.go:\d+:\d+: ).*dial tcp: lookup", "its modules are not there",
     "fetch them: go mod download"),
    (r".*: mkdir \S+/pkg/mod\S*: read-only file system", "its modules are not there",
     "fetch them: go mod download"),
    (r"go: .*requires go >= (?P<name>[\d.]+)", "it needs Go {name}", "install that version"),
    (r"go: .*toolchain not available", "it needs another version of Go",
     "install the version that go.mod names"),
    (r".*invalid go version '(?P<name>\d+\.\d+\.\d+)'", "it needs Go {name} or newer",
     "install that version"),
    (r".*\berror: unrecognized arguments: (?P<name>.*)", "pytest does not know {name}",
     "install the plugin that has this option, such as pytest-cov for --cov"),
    (r"ERROR: .*[Mm]issing required plugins: (?P<name>\S+)", "pytest lacks {name}", "{python}"),
    (r"ERROR: .*requires pytest-(?P<name>[\w.]+)", "it needs pytest {name}", "{python}"),
    (r"  Module (?P<name>\S+) in the \S+ option was not found", "{name} was not found", "{node}"),
    (r"  Preset (?P<name>\S+) not found", "{name} was not found", "{node}"),
    (r".*Test environment (?P<name>\S+) cannot be found", "{name} was not found", "{node}"),
    (r"\S*node: bad option: (?P<name>\S+)", "this Node.js has no {name}", "install a newer one"),
    (r".*The requested module 'node:\w+' does not provide", "it needs another version of Node.js",
     "install a newer one"),
    (r".*Startup Error", _RUNNER, "see its output"),
    (r".*doesn't seem to (?:have been installed|be present in your lockfile)", _NO_PACKAGES,
     "{node}"),
    (r".*Error when performing the request to https?://", "corepack cannot download it",
     "corepack install, or npm install -g with the version that package.json names"),
    (r"Could not open input file: vendor/", _NO_PACKAGES, "install them: composer install"),
    (r".*Failed opening required '.*vendor/autoload", _NO_PACKAGES,
     "install them: composer install"),
    (r".*set up the project dependencies using Composer", _NO_PACKAGES,
     "install them: composer install"),
    (r".*Bundler::GemNotFound|.*Could not find .* in locally installed gems", _NO_PACKAGES,
     "install them: bundle install"),
    (r".*Cannot connect to the Docker daemon", "it needs Docker, which the sandbox does not have",
     "name another validator"),
))  # fmt: skip
#: What an edit of the validator's own files could mend, where such edits are allowed.
_SCRIPTS = re.compile(
    r"(?i).*(?:Missing script:|Script not found|Couldn't find a script named|NO_SCRIPT.*:)"
    r" *\"?(\S+?)\"?$"
    r"|.*error Command \"(\S+)\" not found\.$"
    r"|g?make: \*\*\* No rule to make target '([^']+)'\.  Stop\.$"
)
_OWN_RULES = ("validator/npm-script", "validator/make-error")


def telling_line(lines: Sequence[str]) -> str:
    """The line of an output that says best why a command failed; "" if it printed none."""
    printed = [line.strip() for line in lines if line.strip()]
    lacking = [line for line in printed if _IMPORT.match(line) or _PACKAGE.match(line)]
    errors = [line for line in printed if line.lower().startswith("error")]
    return next(iter((*lacking, *errors, *printed[-1:])), "").removeprefix("E ").lstrip()


class StartFailure(Value):
    """Why it could not start, and what helps; both one line."""

    what: str
    hint: str


class RepositoryRoot(Value):
    """The top of the repository, ``path`` for the command.

    ``exists`` says whether a relative path is a file there, ``text`` is what is in it, or "".
    """

    path: str
    exists: Callable[[str], bool]
    text: Callable[[str], str]

    def installs(self, *tables: tuple[tuple[str, str], ...]) -> str:
        """What installs the packages that the first manifest names."""
        commands = (how for table in tables for file, how in table if self.exists(file))
        return f"install it: {how}" if (how := next(commands, "")) else _INSTALL

    def has(self, name: str) -> bool:
        """Whether a program or a module of that name is the repository's own."""
        places = (name, f"{name}.py", f"{name}/__init__.py", f"src/{name}.py", f"bin/{name}",
                  f"src/{name}/__init__.py", f"scripts/{name}", f"{name}/__main__.py")  # fmt: skip
        return any(map(self.exists, places))

    def mentions(self, word: str, *files: str) -> bool:
        form = re.escape(word).replace("_", "[-_]")
        pattern = re.compile(rf"(?<![\w.-]){form}(?![\w-])", re.IGNORECASE)
        return any(pattern.search(self.text(file)) for file in files)

    def package(self, *groups: str) -> dict[str, object]:
        """The entries of these groups of package.json."""
        try:
            record = json.loads(self.text("package.json"))
        except (ValueError, RecursionError):
            return {}
        values = (record.get(group) for group in groups) if isinstance(record, dict) else ()
        groups_of = (group for group in values if isinstance(group, dict))
        return {name: entry for group in groups_of for name, entry in group.items()}

    def has_package(self, name: str) -> bool:
        """Whether a package of npm is installed."""
        return os.path.exists(os.path.join(self.path, "node_modules", name))

    def runs(self, script: str) -> bool:
        """Whether a file that says what the validator runs names a script."""
        scripts = map(str, self.package("scripts").values())
        return any(script in line for line in scripts) or self.mentions(script, *_CALLERS)

    def is_named(self, lines: Sequence[str]) -> bool:
        """Whether the lines name a file of the repository."""
        words = (word for line in lines for word in _FILE.findall(line))
        paths = (word.removeprefix(f"{self.path}/") for word in words)
        return any(self.exists(path) and _INSTALLED.isdisjoint(path.split("/")) for path in paths)


def find(
    ended: StreamResult,
    lines: Sequence[str],
    reading: ParsedOutput,
    root: RepositoryRoot,
    *,
    command: str,
    may_edit: bool,
) -> StartFailure | None:
    """Why a run could not start; None if it did, or may have. ``may_edit`` what decides."""
    if ended.reason or ended.returncode < 0:
        return None
    lines = lines[-_LINES:]
    tallies = [tally for _, tally in reading.tallies]
    if any(test_tally.passed for test_tally in tallies):
        return None
    if ended.returncode and (failure := _imports(lines, reading, root)):
        return failure
    counted = [line for line in lines if line.startswith("FAIL")]
    is_setup = bool(counted) and all(map(_SETUP_FAILED.match, counted))
    if any(test_tally.failed for test_tally in tallies) and not is_setup:
        return None
    if not may_edit and (failure := _no_test(ended, lines, reading)):
        return failure
    if not ended.returncode or any(map(_RAN.match, lines)):
        return None
    return next(_signs(ended, lines, root, command), None)


def _signs(
    ended: StreamResult, lines: Sequence[str], root: RepositoryRoot, command: str
) -> Iterator[StartFailure]:
    has_code = ended.returncode in (126, 127) or any(map(_PASSED_ON.search, lines))
    for line in lines:
        if has_code and (match := _NOT_FOUND.match(line)):
            yield from _program(match["program"], match["how"], match["by"], root, command)
        elif (match := _LAUNCHERS.match(line)) and match.lastindex:
            yield _missing(match[match.lastindex], root)
        elif (match := _MODULE.match(line)) and not root.has(match[1]):
            yield _missing(match[1], root, f"Python has no module {match[1]}")
        for pattern, what, hint in _SIGNS:
            if (match := pattern.match(line)) and not (what == _RUNNER and root.is_named(lines)):
                name = printable(match.groupdict().get("name") or "")[:_NAME]
                node, python = root.installs(_NODE), root.installs(_PYTHON)
                yield StartFailure(
                    what.format(name=name), hint.format(name=name, node=node, python=python)
                )


def _program(
    program: str, how: str, by: str, root: RepositoryRoot, command: str
) -> Iterator[StartFailure]:
    """A program that a shell, or a script of the validator, could not start."""
    script = os.path.basename(by)
    if script.partition("[")[0] not in _SHELLS and script not in command and not root.runs(script):
        return  # a script of the product itself
    if how.startswith("Permission"):
        yield StartFailure(f"{program} cannot be executed", f"chmod +x {program}")
    elif "/" in program and _INSTALLED.isdisjoint(program.split("/")) and program[0] != "/":
        if root.exists(os.path.normpath(program)):
            yield StartFailure(f"the interpreter of {program} was not found", "see its first line")
    elif not root.has(program):
        yield _missing(program, root)


def _missing(program: str, root: RepositoryRoot, what: str = "") -> StartFailure:
    """The failure for a program, with what installs it."""
    name = os.path.basename(program)
    if name in _TOOLS:
        declared = root.mentions(name, *_MANIFESTS)
        hint = root.installs(_PYTHON) if declared else f"install it: pip install {name}"
    elif root.mentions(name, "package.json"):
        hint = root.installs(_NODE)
    elif root.mentions(name, *_MANIFESTS):
        hint = root.installs(_PYTHON)
    else:
        table = (_PHP,) if "vendor/" in program else (_RUBY,) if root.exists("Gemfile") else ()
        hint = root.installs(*table)
    return StartFailure(printable((what or f"{program} was not found")[:_NAME]), hint)


def _imports(
    lines: Sequence[str], reading: ParsedOutput, root: RepositoryRoot
) -> StartFailure | None:
    """Packages that a manifest asks for, and that are not installed: all that failed."""
    packages = root.package(*_GROUPS)
    missing = []
    for line in lines:
        if (match := _IMPORT.match(line)) and not root.has(match[1]):
            if root.mentions(match[1], *_MANIFESTS):
                missing.append((match[1], _PYTHON))
        elif (
            (match := _PACKAGE.match(line))
            and match[1] in packages
            and not root.has_package(match[1])
        ):
            missing.append((match[1], _NODE))
    if not missing or len(missing) < len(reading.findings):
        return None
    name, table = missing[0]
    return StartFailure(f"the package {name} is not installed", root.installs(table))


def _no_test(
    ended: StreamResult, lines: Sequence[str], reading: ParsedOutput
) -> StartFailure | None:
    """There is no test, or no script that runs one: a new one would not count."""
    for line in lines if ended.returncode else ():
        if match := _SCRIPTS.match(line):
            name = printable(match[match.lastindex or 0])[:_NAME]
            return StartFailure(f"there is no {name}", "name what runs the tests")
    tools = [tool for tool, _ in reading.tallies]
    if not tools or any(finding.rule not in _OWN_RULES for finding in reading.findings):
        return None
    counts = test_reports.parse("\n".join(lines))
    total = sum(count.total for name, count in counts.items() if name != "go")
    if total and not ("pytest" in tools and ended.returncode == 5):  # all are skipped
        return None
    return StartFailure(
        f"{', '.join(tools)} found no test to run",
        "write one first, or let the agent do it: --allow-test-edits",
    )
