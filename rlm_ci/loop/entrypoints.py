"""Which files of a tree a command starts: scripts, what they start in turn, tests that it names.

Commands are read word by word, as data; nothing is expanded by a shell. What is started decides
what green means. A file that is merely read (``grep -q x calc.py``) decides nothing.
"""

from __future__ import annotations

import json
import re
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    #: The text of a file of the tree, or None where there is none.
    Read = Callable[[str], str | None]

#: How deep scripts start scripts, and how many files one command can come to.
_DEPTH, _MOST = 6, 200
#: Lines of a text, and characters of one, that are looked at.
_LINES, _LONGEST = 2000, 8000
#: What separates the commands of a line of shell, besides its end.
_BETWEEN = frozenset(";&|(){}")
#: Words that come before a command and change nothing about which one it is.
_BEFORE = frozenset(
    (
        "!", "command", "do", "elif", "else", "env", "exec", "if", "nice", "nohup", "then", "time",
        "timeout", "until", "while", "xvfb-run", "npx", "pnpx", "bunx", "uvx",
    )
)  # fmt: skip
#: The same for tools that start the words behind ``run`` in an environment of theirs.
_RUNS = frozenset(("bundle", "coverage", "hatch", "pdm", "pipenv", "pixi", "poetry", "rye", "uv"))
_INTERPRETER = re.compile(
    r"(?:python|pypy|node|ruby|perl|php|lua|Rscript|tclsh|julia)[\d.]*(?:\.exe)?$"
    r"|(?:ba|da|k|z|fi)?sh$|(?:bun|deno|tsx|ts-node|source|\.)$"
    r"|\$\W?\w{0,40}(?:PY|SH|NODE|RUBY|PERL|PHP)\w{0,40}\W?$",
    re.IGNORECASE,
)
_SHELL = re.compile(r"(?:ba|da|k|z)?sh$|source$|\.$")
_RUNNER = re.compile(
    r"(?:pytest|py\.test|unittest|nose2?|jest|vitest|mocha|ava|tap|rspec|phpunit|bats)$"
)
#: Options of interpreters whose next word is no script.
_TAKES_WORD = frozenset(("-W", "-X", "-r", "--require", "--import", "--loader", "-I", "-o", "-O"))
#: Those whose next word is code.
_EVALS = frozenset(("-c", "-e", "-p", "--eval", "--print"))
_MANAGERS = frozenset(("npm", "pnpm", "yarn", "bun"))
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_RULE = re.compile(r"^([^\s:=#][^:=#]{0,400}?)\s{0,9}::?(?!=)([^#]{0,4000})")
_SETTING = re.compile(r"^(?:export )?\s{0,9}([A-Za-z_]\w{0,63})\s{0,9}[:?+]?:?=\s{0,9}(.{0,1000})$")
_REFERENCE = re.compile(r"\$[({]([A-Za-z_]\w{0,63})[)}]")


def started(command: str, read: Read) -> frozenset[str]:
    """The files that ``command`` starts, by path."""
    search = _Search(read)
    search.shell(command, 0)
    return frozenset(search.found)


def named(command: str, read: Read) -> frozenset[str]:
    """The files that ``command`` hands to a test runner by name."""
    found: set[str] = set()
    for words in _commands(command):
        rest = _program(words)
        if rest[1:2] == ["-m"] and _INTERPRETER.match(_last(rest[0])):
            rest = rest[2:]
        is_runner = bool(rest) and _RUNNER.match(_last(rest[0]))
        if is_runner and not any("doctest" in word for word in rest):
            paths = (_clean(word.partition("::")[0]) for word in rest[1:])
            found.update(path for path in paths if read(path) is not None)
    return frozenset(found)


class _Search:
    def __init__(self, read: Read) -> None:
        self.found: dict[str, None] = {}
        self._read = read
        self._targets: set[str] = set()

    def shell(self, text: str, depth: int) -> None:
        """Look at every command of a text that a shell would read."""
        if depth > _DEPTH:
            return
        for words in _commands(text):
            self._command(words, depth)

    def _command(self, words: list[str], depth: int) -> None:
        words = _program(words)
        if not words:
            return
        name, rest = _last(words[0]), words[1:]
        if "/" in words[0]:
            self._start(words[0], depth, is_shell=False)
        if name in ("make", "gmake"):
            self._make(rest, depth)
        elif name in _MANAGERS:
            self._package(rest, depth)
        if _INTERPRETER.match(name):
            self._interpreter(name, rest, depth)

    def _interpreter(self, name: str, rest: list[str], depth: int) -> None:
        """The script among the words behind an interpreter, or the text that it is given."""
        skip = False
        for number, word in enumerate(rest):
            following = rest[number + 1] if number + 1 < len(rest) else ""
            if skip or word in ("run", "-"):
                skip = False
            elif word == "-m":
                module = following.replace(".", "/")
                for path in (f"{module}.py", f"{module}/__main__.py"):
                    self._start(path, depth, is_shell=False)
                return
            elif _SHELL.match(name) and re.match(r"-[a-z]*c$", word):
                self.shell(following, depth + 1)
                return
            elif word in _EVALS and not _SHELL.match(name):
                return
            elif word.startswith("-"):
                skip = word in _TAKES_WORD
            else:
                self._start(word, depth, is_shell=bool(_SHELL.match(name)))
                return

    def _start(self, word: str, depth: int, *, is_shell: bool) -> None:
        path = _clean(word)
        text = self._read(path)
        if text is None or path in self.found or len(self.found) >= _MOST:
            return
        self.found[path] = None
        head = text.partition("\n")[0][:200]
        if (
            is_shell
            or path.endswith((".sh", ".bash"))
            or re.match(r"#!.*\b(?:ba|da|k|z)?sh\b", head)
        ):
            self.shell(text, depth + 1)

    def _make(self, rest: list[str], depth: int) -> None:
        named = [rest[at + 1] for at, word in enumerate(rest[:-1]) if word in ("-f", "--file")]
        for name in named or _MAKEFILES:
            text = self._read(_clean(name))
            if text is not None:
                break
        else:
            return
        rules, first = _rules(text)
        wanted = [word for word in rest if word in rules] or [first]
        while wanted:
            target = wanted.pop()
            if target in self._targets or target not in rules:
                continue
            self._targets.add(target)
            needs, recipe = rules[target]
            wanted += needs
            for need in needs:  # a script that a rule depends on is run by it, or made by another
                if need.endswith((".sh", ".bash")):
                    self._start(need, depth, is_shell=True)
            self.shell(recipe, depth + 1)

    def _package(self, rest: list[str], depth: int) -> None:
        try:
            scripts = json.loads(self._read("package.json") or "{}").get("scripts", {})
        except (ValueError, AttributeError, RecursionError):
            return
        words = [word for word in rest if not word.startswith("-")]
        name = words[1] if words[:1] in (["run"], ["run-script"]) and len(words) > 1 else ""
        name = name or (words[0] if words else "")
        name = {"t": "test", "tst": "test"}.get(name, name)
        for one in (f"pre{name}", name, f"post{name}"):
            text = scripts.get(one) if isinstance(scripts, dict) else None
            if isinstance(text, str) and one and f"npm {one}" not in self._targets:
                self._targets.add(f"npm {one}")
                self.shell(text, depth + 1)


def _rules(text: str) -> tuple[dict[str, tuple[list[str], str]], str]:
    """The rules of a Makefile, each with its needs and recipe, and the name of the first."""
    settings: dict[str, str] = {}
    rules: dict[str, tuple[list[str], str]] = {}
    first, names = "", list[str]()

    def filled(line: str) -> str:
        for _ in range(3):
            line = _REFERENCE.sub(lambda one: settings.get(one[1], one[0]), line)[:_LONGEST]
        return line.replace("$$", "$")

    for line in text.replace("\\\n", " ").split("\n"):
        if line.startswith("\t"):
            for name in names:
                needs, recipe = rules[name]
                rules[name] = (needs, f"{recipe}{filled(line).strip().lstrip('@-+')}\n")
            continue
        setting = _SETTING.match(line)
        if setting:
            settings.setdefault(setting[1], setting[2].strip())
            continue
        rule = _RULE.match(line)
        if rule:
            names = filled(rule[1]).split()
            needed, _, own = filled(rule[2]).partition(";")
            for name in names:
                known = rules.get(name, ([], ""))
                rules[name] = ([*known[0], *needed.replace("|", " ").split()], f"{known[1]}{own}\n")
                if not first and not name.startswith("."):
                    first = name
    return rules, first


def _commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a text of shell, each as its words."""
    for whole in text.replace("\\\n", " ").split("\n")[:_LINES]:
        line = _REFERENCE.sub(lambda one: f"${one[1]}", whole[:_LONGEST])
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = "#"
        try:
            yield from _parted(list(lexer))
        except ValueError:  # a quote is open, over lines as it may be
            yield line.replace('"', " ").replace("'", " ").split()


def _parted(tokens: list[str]) -> Iterator[list[str]]:
    """The words between what separates commands; behind ``$(…)`` are no new ones."""
    words: list[str] = []
    values: list[bool] = []
    for token in tokens:
        if not _BETWEEN.issuperset(token):
            words.append(token)
            continue
        yield words
        if ")" in token and values and values.pop():
            words = ["$"]
            continue
        if "(" in token:
            values.append(bool(words) and words[-1].endswith("$"))
        words = []
    yield words


def _program(words: list[str]) -> list[str]:
    """The words of a command without what stands before its program."""
    at = 0
    while at < len(words):
        word = words[at]
        is_setting = re.match(r"[A-Za-z_]\w*=", word)
        if _last(word) in _RUNS:
            run = next((n for n in range(at, len(words)) if words[n] in ("run", "exec")), None)
            if run is None:
                break
            at = run + 1
            while at < len(words) and words[at].startswith("-") and words[at] != "-m":
                at += 1
            if words[at : at + 1] == ["-m"]:
                return ["python", *words[at:]]
            if _last(word) == "coverage" or "".join(words[at : at + 1]).endswith(".py"):
                return ["python", *words[at:]]
        elif is_setting or word in _BEFORE or word.startswith("-") or re.match(r"\d+[smh]?$", word):
            at += 1
        else:
            break
    return words[at:]


def _last(word: str) -> str:
    return word.rpartition("/")[2]


def _clean(word: str) -> str:
    """A word as a path of the tree: ``./x`` and ``$PWD/x`` are ``x``."""
    word = re.sub(r"^\$\{?(?:PWD|CURDIR|INIT_CWD)\}?/|^\$\(CURDIR\)/", "", word)
    parts: list[str] = []
    for part in word.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return "/".join(parts)
