"""Commands that run tests, before and after: which tests they leave out.

They stand in files of CI, in a Makefile, in the scripts of package.json and in tox.ini.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter

from rlm_ci.guard.weakening import Weakening
from rlm_ci.validators import test_file_names
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rlm_ci.guard.collected.tree_side import TreeSide
    from rlm_ci.guard.weakening import TextChange

NARROWED = "run-loosened"

#: Tools that judge, as commands, actions and hooks name them.
TOOLS = re.compile(
    r"(?:(?<![\w./-])|\buses: ?[\"']?[\w.-]{1,60}/(?:action-)?)"
    r"(?:(?P<tool>pytest|tox|nox|unittest|mypy|pyright|ty|ruff[ -]format"
    r"|ruff(?:-check)?|flake8|pylint|black|isort|bandit|pre-commit|prek|eslint|prettier|jest|vitest|mocha|playwright"
    r"|cypress|tsc|biome|golangci-lint|staticcheck|ctest|rspec|rubocop|phpunit|phpstan"
    r"|semgrep|codeql|zizmor|actionlint|codespell|typos|mdformat|yamlfmt|dprint|oxlint|oxfmt"
    r"|pyrefly|shellcheck|rustfmt|gofmt|rlm-ci)(?:-(?:action|uv)(?=@))?(?!\w|-\w|[\w-]*==)"
    r"|(?P<task>(?:go|cargo|deno|dotnet|swift|mix|mvn) (?:test|vet|clippy|fmt|lint|check|verify)\b"
    r"|(?:npm|pnpm|yarn|bun|deno|gradle|\./gradlew|make|just) (?:run )?"
    r"[\w:.-]{0,60}(?:test|vet|clippy|fmt|lint|check|verify)[\w:.-]{0,60}))"
)
#: What a hook of pre-commit has installed beside its tool, in one line or as a list.
_BESIDE = re.compile(r"(?m)^( *)additional_dependencies:.*(?:\n\1 *- .*)*$")
#: Endings of the tests of a language.
_PYTHON, _SCRIPT, _GO = (
    (".py",),
    (".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx"),
    (".go",),
)


class _Runner(Value):
    """A runner as commands name it, and the options by which it runs fewer tests or none, passes
    without any, or writes what it expects.
    """

    name: str
    options: str
    #: Endings of the tests that its words choose: paths, or parts of paths.
    files: tuple[str, ...] = ()
    by_part: bool = False


_UPDATES = r"|-u|--update|--updateSnapshot|--update-snapshots"
_RUNNERS = (
    _Runner(
        r"pytest|py\.test",
        r"--co|--collect-only|-k|-m|--ignore(?:-glob)?|--deselect|--lf|--last-failed|--picked"
        r"|--setup-(?:only|plan)|--suppress-no-test-exit-code|--snapshot-update|--testmon", _PYTHON,
    ),
    _Runner(r"unittest", r"-k"),
    _Runner(
        r"jest|vitest",
        r"--passWithNoTests|-t|--testNamePattern|--testPathIgnorePatterns|--exclude|--listTests"
        r"|--changed(?:Since)?|-o|--onlyChanged|--onlyFailures|--dangerouslyIgnoreUnhandledErrors"
        rf"|list{_UPDATES}", _SCRIPT, by_part=True,
    ),
    _Runner(
        r"mocha",
        r"-g|-f|--f?grep|-i|--invert|--ignore|--exclude|--dry-run|--pass-on-failing-test-suite",
        _SCRIPT,
    ),
    _Runner(r"ava", rf"-m|--match{_UPDATES}", _SCRIPT),
    _Runner(
        r"playwright test",
        r"-g|--grep|--grep-invert|--pass-with-no-tests|--list|--last-failed|--only-changed"
        rf"{_UPDATES}", _SCRIPT, by_part=True,
    ),
    _Runner(
        r"node(?= [^;&|]*--test\b)",
        r"--test-(?:name|skip)-pattern|--test-only|--test-update-snapshots", _SCRIPT,
    ),
    _Runner(
        r"bun test|deno test",
        rf"-t|--test-name-pattern|--filter|--ignore|--no-run|--permit-no-files{_UPDATES}",
    ),
    _Runner(r"go test", r"-(?:test\.)?(?:run|skip|short|list|c)|-count=0", _GO),
    _Runner(
        r"cargo (?:test|t|nextest run)",
        r"--skip|--no-run|--exclude|--lib|--bins?|--doc|--list|-E|--filter-expr|--no-tests=\w+",
    ),
    _Runner(
        r"mvnw?",
        r"-DskipTests|-DskipITs|-Dmaven\.test\.skip|-Dmaven\.test\.failure\.ignore|-Dtest|-fn"
        r"|--fail-never|-DexcludedGroups",
    ),
    _Runner(
        r"gradlew?",
        r"(?:-x|--exclude-task)=\S*(?:[tT]est|check)\S*|--tests|-m|--dry-run|-PskipTests",
    ),
    _Runner(r"rspec", r"-t|--tag|-e|--example|--dry-run|--exclude-pattern|--only-failures"),
    _Runner(r"phpunit|pest", r"--filter|--exclude-(?:group|filter)|--group|--list-tests"),
    _Runner(r"dotnet test", r"--filter|--list-tests|-t"),
    _Runner(r"ctest", r"-[EN]|--exclude-regex|--show-only"),
)  # fmt: skip
_NAME = re.compile(
    r"(?<![\w./@=-])(?:[\w./-]*/)?(?:"
    + "|".join(f"({one.name})" for one in _RUNNERS)
    + r")(?![\w./=<>~!-])"
)
#: Options that leave out as much as others.
_SAME = {"-Dmaven.test.skip": "-DskipTests", "--last-failed": "--lf"}
_SUBCOMMANDS = frozenset(("run", "watch", "dev", "related", "bench", "test"))
_REST = re.compile(r"(?:\"[^\"]*\"|'[^']*'|[^;&|\"'`\n])*")
#: Lines of CI that name a runner, and start none.
_NO_COMMAND = re.compile(
    r"^\s*(?:- )?(?:name|uses|key|path|id|description|if|needs|group|label)\s*:"
    r"|\b(?:install|add|i|require|get)\s"
)


_IS_SCRIPT = re.compile(r"(?:^|/)(?:package\.json|Makefile|tox\.ini|noxfile\.py)$")
#: A command of tox in TOML, which is a list of lists.
_LISTED = r"\bcommands\s*=\s*\[[^=]*?[\"'](?:[\w./-]*/)?{}[\"']"


class TestCommand(Value):
    """A command at a line, with its runner as the number of a row."""

    __test__ = False

    path: str
    line: int
    runner: int
    words: tuple[str, ...]

    @property
    def narrowing(self) -> Counter[tuple[str, str]]:
        """Its options that leave tests out, with their values."""
        counts: Counter[tuple[str, str]] = Counter()
        for word, following in zip(self.words[1:], (*self.words[2:], ""), strict=False):
            name, equals, value = word.partition("=")
            value = value if equals else "" if following.startswith("-") else following
            options = _RUNNERS[self.runner].options
            if any(re.fullmatch(options, form) for form in (name, f"{name}={value}")):
                counts[_SAME.get(name, name), value] += 1
        return counts


def narrowed(changes: Sequence[TextChange], tree: TreeSide) -> Iterator[Weakening]:
    """The commands that run fewer tests than those whose place they took.

    Where there are more than before, the tests may be shared out: nothing is told.
    """
    before = [
        test_command
        for change in changes
        for test_command in commands(change.path, change.before or "")
    ]
    after = [
        test_command
        for change in changes
        for test_command in commands(change.path, change.after or "")
    ]
    yield from _gone(changes, before, after)
    for runner in {test_command.runner for test_command in after}:
        lost, gained = _surplus(runner, before, after), _surplus(runner, after, before)
        if len(gained) > len(lost):
            continue
        for command in gained:
            old = max(lost, key=lambda test_command: _likeness(test_command, command))
            lost.remove(old)
            if what := _less(old, command) or _fewer_files(old, command, tree):
                shown = shlex.join(command.words)[:120]
                yield Weakening(NARROWED, f"{what}: {shown}", command.path, command.line)


def _gone(
    changes: Sequence[TextChange], before: Iterable[TestCommand], after: Iterable[TestCommand]
) -> Iterator[Weakening]:
    """The runners that scripts start no more, if no other tool is started in their place."""
    was, now = (
        {_RUNNERS[test_command.runner].name: test_command for test_command in side}
        for side in (before, after)
    )
    removed = {
        change.path for change in changes if change.after is None and "/" in change.path
    }  # of a package
    lost = [was[name] for name in was.keys() - now.keys() if _IS_SCRIPT.search(was[name].path)]
    lost = [test_command for test_command in lost if test_command.path not in removed]
    tables = "\n".join(change.after or "" for change in changes if change.path.endswith(".toml"))
    lost = [
        test_command
        for test_command in lost
        if not re.search(_LISTED.format(re.escape(test_command.words[0])), tables)
    ]
    if lost:
        texts = [
            [change.before or "" for change in changes],
            [change.after or "" for change in changes],
        ]
        old, new = ({tool for text in side for tool in tools(text)} for side in texts)
        for command in lost[len((new - old) | (now.keys() - was.keys())) :]:
            name = command.path.rpartition("/")[2]
            message = f"{name} no longer runs {shlex.join(command.words)[:120]}"
            yield Weakening(NARROWED, message, command.path, command.line, "old")


def tools(text: str) -> Counter[str]:
    """How often a text names each tool that judges, but for its comments, the names of its steps,
    and what is only installed beside a hook.
    """
    text = _BESIDE.sub("", re.sub(r"(?m)(?:^|\s)#.*$|^ *- +name:.*$", "", text))
    lines = text.split("\n")
    matches = (match for line in lines for match in TOOLS.finditer(line))
    names = ((match["tool"] or match["task"]).replace("run ", "") for match in matches)
    names = (name.replace("ruff format", "ruff-format") for name in names)
    return Counter("ruff" if name == "ruff-check" else name for name in names)


def arrived(changes: Iterable[TextChange]) -> frozenset[str]:
    """The tools that some of these files name by now, and none of them did before."""
    was, now = set[str](), set[str]()
    for change in changes:
        was.update(tools(change.before or ""))
        now.update(tools(change.after or ""))
    return frozenset(now - was)


def commands(path: str, text: str) -> Iterator[TestCommand]:
    for number, line in command_lines(path, text):
        if _NO_COMMAND.search(line):
            continue
        line = re.sub(r"^\t[@+-]*", "", line)  # noqa: PLW2901 - what make reads
        for match in _NAME.finditer(line):
            yield TestCommand(
                path, number, (match.lastindex or 1) - 1, (match[0], *_words(line, match.end()))
            )


def _words(line: str, start: int) -> list[str]:
    match = _REST.match(line, start)
    text = match[0] if match else ""
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quote is open
        return text.split()


def command_lines(path: str, text: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that may be commands, each with its number."""
    name = path.rpartition("/")[2]
    if name == "package.json":
        for script in _scripts(text):
            yield text[: max(0, text.find(json.dumps(script)))].count("\n") + 1, script
        return
    if name.endswith((".toml", ".json", ".xml", ".cfg", ".js", ".ts", ".mjs", ".cjs")):
        return
    waiting, start = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        start = start if waiting else number
        if line.endswith("\\"):
            waiting += line[:-1]
            continue
        command, waiting = waiting + line, ""
        if name.endswith(".py"):  # the words of nox, each in quotes
            command = re.sub(r"[\"']\s*,\s*[\"']", " ", command)
        if not command.lstrip().startswith("#"):
            yield start, command


def _scripts(text: str) -> list[str]:
    try:
        scripts = json.loads(text or "{}").get("scripts") or {}
        return [script for script in scripts.values() if isinstance(script, str)]
    except (ValueError, AttributeError, RecursionError):
        return []


def _surplus(
    runner: int, test_commands: Iterable[TestCommand], other: Iterable[TestCommand]
) -> list[TestCommand]:
    counts = Counter(command.words for command in other if command.runner == runner)
    extra = []
    for command in test_commands:
        if command.runner == runner:
            counts[command.words] -= 1
            extra += [command] if counts[command.words] < 0 else []
    return extra


def _likeness(command: TestCommand, other: TestCommand) -> tuple[bool, float]:
    words, others = set(command.words), set(other.words)
    return command.path == other.path, len(words & others) / len(words | others)


def _less(old: TestCommand, new: TestCommand) -> str:
    """What a command leaves out by an option that the old one had not, or had with less."""
    was, now = old.narrowing, new.narrowing
    counts = Counter(name for name, _ in was.elements())
    counts.subtract(name for name, _ in now.elements())
    for name, value in now - was:
        others = [other for option, other in was if option == name]
        if counts[name] < 0 or any(value.startswith(f"{other} and ") for other in others if other):
            return f"{new.words[0]} leaves tests out by {name}"
    return ""


def _fewer_files(old: TestCommand, new: TestCommand, tree: TreeSide) -> str:
    """What a command leaves out by the paths that it names: tests that are there."""
    runner = _RUNNERS[new.runner]
    if not runner.files or any(set("$*{") & set("".join(command.words)) for command in (old, new)):
        return ""
    tests = [path for path in tree.paths if path.endswith(runner.files)]
    tests = [path for path in tests if test_file_names.is_file(path)]
    tops = {path.partition("/")[0] for path in tests}
    was, now = _places(old, tops), _places(new, tops)
    if not now or was == now or (runner.files == _GO and not old.words[1:]):
        return ""
    chooses = _has_part if runner.by_part else _is_below
    if not was and not runner.by_part and runner.files != _GO:
        was = [path.partition("/")[0] for path in now if "/" in path] or now
    left = [test for test in tests if (not was or chooses(test, was)) and not chooses(test, now)]
    return f"{new.words[0]} no longer runs {min(left)}" if left else ""


def _places(command: TestCommand, tops: set[str]) -> list[str]:
    """The paths, or parts of paths, that a command names; none: everything."""
    paths = []
    for before, word in zip(command.words, command.words[1:], strict=False):
        path = word.partition("::")[0].removeprefix("./").removesuffix("...").rstrip("/")
        is_path = path.partition("/")[0] in tops
        is_part = _RUNNERS[command.runner].by_part and not before.startswith("-")
        if path in ("", "."):
            return []
        if not word.startswith("-") and (is_path or (is_part and word not in _SUBCOMMANDS)):
            paths.append(path)
    return paths


def _has_part(path: str, parts: Iterable[str]) -> bool:
    return any(part in path for part in parts)


def _is_below(path: str, places: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in places)
