"""Which files of a tree a command starts: scripts, what they start in turn, tests that it names.

Commands are read word by word, as data; nothing is expanded by a shell. What is started decides
what green means. A file that is merely read (``grep -q x calc.py``) decides nothing. Where it
cannot be told which folder a word is seen from, it is looked for in each that may be meant.
"""

from __future__ import annotations

import json
import re

from rlm_ci.loop import makefiles
from rlm_ci.loop.lookup import Lookup
from rlm_ci.loop.shell import commands, joined, last, program, settings
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    #: Folders that a command may be started in, the likeliest first.
    Folders = tuple[str, ...]

#: How deep scripts start scripts, and how many files one command can come to.
_DEPTH, _MOST = 6, 200
#: Commands that are looked at, in all: nobody writes as many, unless he wants to be looked at long.
_COMMANDS = 20_000
#: Folders that a word is looked up from.
_MOST_FOLDERS = 8
#: Characters of a script that is no shell's.
_LONGEST = 1 << 18
_INTERPRETER = re.compile(
    r"(?:python|pypy|node|ruby|perl|php|lua|Rscript|tclsh|julia)[\d.]*(?:\.exe)?$"
    r"|(?:ba|da|k|z|fi)?sh$|(?:bun|deno|tsx|ts-node|source|\.)$"
    r"|\$\W?\w{0,40}(?:PY|SH|NODE|RUBY|PERL|PHP)\w{0,40}\W?$",
    re.IGNORECASE,
)
_SHELL = re.compile(r"(?:ba|da|k|z)?sh$|source$|\.$")
_SHEBANG = re.compile(r"#!.*\b(?:ba|da|k|z)?sh\b")
_SHELL_ENDINGS = (".sh", ".bash", ".zsh", ".ksh", ".bats", ".command")
_RUNNER = re.compile(
    r"(?:pytest|py\.test|unittest|nose2?|jest|vitest|mocha|ava|tap|rspec|phpunit|bats"
    r"|prove|busted|behave|cucumber(?:-js)?|codecept|phpspec|pest|jasmine|tape|uvu|robot)$"
)
#: Options of interpreters whose next word is no script.
_TAKES_WORD = frozenset(("-W", "-X", "-I", "-o", "-O"))
#: Those whose next word is a file that is run before the script.
_PRELOADS = frozenset(("-r", "--require", "--import", "--loader", "--experimental-loader"))
#: Those whose next word is code.
_EVALS = frozenset(("-c", "-e", "-p", "--eval", "--print"))
#: What a module may be called in full.
_MODULE_ENDINGS = ("", ".js", ".cjs", ".mjs", ".ts", "/index.js", "/index.cjs", "/index.mjs")
#: Options, of any tool, whose next word names its settings or a plugin; and pytest's for one.
_CONFIG = re.compile(
    r"(?:-c|--(?:config|conf|config-?file|config_file|rcfile|rc-file|ini|require|preset|setup-?files"
    r"(?:-?after-?env)?|global-?setup|project|settings|plugins?|loader|import|env-file))$",
    re.IGNORECASE,
)
#: Programs that read the files that they are given, and run none of them.
_READERS = frozenset(
    (
        "grep", "egrep", "fgrep", "rg", "ag", "cat", "head", "tail", "wc", "test", "[", "[[",
        "diff", "cmp", "ls", "stat", "file", "sed", "echo", "printf", "git", "chmod", "touch",
        "rm", "sha256sum", "md5sum", "shellcheck", "shfmt", "bashate", "checkbashisms", "ruff",
        "mypy", "flake8", "pylint", "black", "isort", "pyright", "eslint", "prettier", "tsc",
        "codespell", "reuse", "pre-commit",
    )
)  # fmt: skip
_MANAGERS = frozenset(("npm", "pnpm", "yarn", "bun", "lerna", "turbo", "nx"))
#: Options of those whose next word is no script's name, and how they are told of workspaces.
_PREFIXES = frozenset(("--prefix", "-C", "--cwd", "--dir"))
_WORKSPACES = re.compile(
    r"(?:-w|-ws|-r|--filter|-F|--recursive|--workspaces?|--scope|workspaces?|foreach)(?:=.*)?$"
)
#: Runners of tasks that are written as lines of shell, and the files of those.
_TASKS = {
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml"),
    "tox": ("tox.ini",),
}
_TASK = re.compile(r"^[ \t]{0,80}-? {0,9}\w{1,80} {0,9}[:=]", re.MULTILINE)
#: Folders of what a project is built and checked with: modules there are no part of the product.
_TOOLING = frozenset(
    (
        "tools", "tool", "scripts", "script", "ci", ".ci", "build", "dev", "devtools", "hack",
        "bin", "checks", "qa", "contrib", "utils", "make", "etc",
    )
)  # fmt: skip
_IMPORTS = re.compile(
    r"^\s{0,80}(?:from|import)\s{1,9}([\w.]{1,200})"
    r"|\b(?:require|import)\s{0,4}\(?\s{0,4}['\"](\.[^'\"\n]{1,200})['\"]"
    r"|\bfrom\s{1,4}['\"](\.[^'\"\n]{1,200})['\"]",
    re.MULTILINE,
)
_TEXT = re.compile(r"""(["'`])((?:(?!\1)[^\\\n]){1,300})\1""")
_STARTS = re.compile(
    r"""(?:["'](?:/usr)?(?:/bin/)?(?:env["'],\s{0,9}["'])?((?:ba|da|k|z)?sh|python3?|node|ruby|perl"""
    r"""|make|npm)["']|(sys\.executable|process\.execPath))\s{0,9},\s{0,9}\[?\s{0,9}"""
    r"""((?:["'][^"'\n]{0,200}["'][\s,]{0,20}){1,10})"""
)


class Tree(Value):
    """The files of a snapshot: which there are, whether each is executable, and their texts.

    ``read`` gives None for what is no text that can be had.
    """

    files: Mapping[str, bool]
    read: Callable[[str], str | None]


class Started(Value):
    """``scripts`` are run, ``tests`` are handed to a runner, ``settings`` to any other tool.

    ``made`` are the files that make has rules for, on its way to what is asked for; ``words``
    those of all commands, without the folders of what they name.
    """

    scripts: frozenset[str]
    tests: frozenset[str]
    settings: frozenset[str]
    made: frozenset[makefiles.Made]
    words: frozenset[str]


def started(command: str, tree: Tree) -> Started:
    """What ``command`` starts or is configured by, by path; names may be of no file yet."""
    search = _Search(tree)
    search.shell(command, ("",), 0)
    return Started(
        frozenset(search.found).difference(search.tests),
        frozenset(search.tests),
        frozenset(search.settings).difference(search.found),
        frozenset(search.made),
        frozenset(search.words),
    )


class _Search:
    def __init__(self, tree: Tree) -> None:
        self.found: dict[str, None] = {}
        self.tests: set[str] = set()
        self.settings: set[str] = set()
        self.made: set[makefiles.Made] = set()
        self.words: set[str] = set()
        self._tree = tree
        self._meant = Lookup(tree.files).meant
        self._done: set[str] = set()
        #: Texts and commands that were looked at, from which folders, and how deep at the least.
        self._seen: dict[tuple[object, Folders], int] = {}
        self._left = _COMMANDS
        self._rules: dict[tuple[str, Folders], makefiles.Rules] = {}
        self._scripts: dict[str, dict[str, object]] = {}

    def _is_new(self, what: object, folders: Folders, depth: int) -> bool:
        """Whether something is looked at for the first time, or less deep than before."""
        if self._seen.get((what, folders), _DEPTH + 2) <= depth:
            return False
        self._seen[what, folders] = depth
        return True

    # ── commands ──

    def shell(self, text: str, folders: Folders, depth: int) -> None:
        """Look at every command of a text that a shell would read."""
        if depth > _DEPTH or not self._is_new(text, folders, depth):
            return
        listed: list[str] = []  # what a find before has listed, for the next command to take
        for words in commands(text):
            self._command(words, folders, depth)
            rest = program(words)
            takes = rest[:1] in (["xargs"], ["parallel"], ["read"])
            if takes and _READERS.isdisjoint(map(last, rest)):
                self._handed_on("find", listed, folders, depth)
            listed = rest[1:] if rest[:1] == ["find"] else []
            if rest[:1] in (["cd"], ["pushd"]) and len(rest) > 1:
                folders = _moved(folders, rest[1])

    def _command(self, words: list[str], folders: Folders, depth: int) -> None:
        if not self._left or not self._is_new(tuple(words), folders, depth):
            return
        self._left -= 1
        self.words.update(map(last, words))
        for value in settings(words):
            self.settings.update(self._meant(value, folders))
        words = program(words)
        if not words:
            return
        name, rest = last(words[0]), words[1:]
        if "/" in words[0]:
            self._start_all(words[0], folders, depth)
        if name in ("make", "gmake", "$MAKE"):
            self._make(rest, folders, depth)
        elif name in _MANAGERS:
            self._package(rest, folders, depth)
        elif name in _TASKS:
            for path in self._meant_any(_TASKS[name], folders):
                self.shell(_TASK.sub(" ", self._tree.read(path) or ""), folders, depth + 1)
        if _INTERPRETER.match(name):
            self._interpreter(name, rest, folders, depth)
        else:
            self._configured(name, rest, folders)
            if name != "find" or not {"-exec", "-execdir"}.isdisjoint(rest):
                self._handed_on(name, rest, folders, depth)
        self._named(words, folders)

    def _interpreter(self, name: str, rest: list[str], folders: Folders, depth: int) -> None:
        """The script among the words behind an interpreter, or the text that it is given."""
        is_shell = bool(_SHELL.match(name))
        skip = False
        for number, word in enumerate(rest):
            following = rest[number + 1] if number + 1 < len(rest) else ""
            option, _, value = word.partition("=")
            if skip or word in ("run", "-", "<"):
                skip = False
            elif word == "-m":
                module = following.replace(".", "/")
                for path in (f"{module}.py", f"{module}/__main__.py"):
                    self._start_all(path, folders, depth)
                return
            elif is_shell and re.match(r"-[a-z]*c$", word):
                self.shell(following, folders, depth + 1)
                return
            elif not is_shell and option in _PRELOADS:
                self._start_all(value or following, folders, depth)
                skip = not value
            elif word in _EVALS and not is_shell:
                return
            elif word.startswith("-"):
                skip = word in _TAKES_WORD
            else:
                self._start_all(word, folders, depth, is_shell=is_shell)
                return

    def _handed_on(self, name: str, rest: list[str], folders: Folders, depth: int) -> None:
        """Scripts among the words of a program that may start them: ``xargs``, ``for``, ``cp``."""
        if name in _READERS:
            return
        for number, word in enumerate(rest):
            inner = last(word)
            if inner in _READERS:
                return
            if len(inner) > 1 and inner != "source" and _INTERPRETER.match(inner):
                self._interpreter(inner, rest[number + 1 :], folders, depth)
                return
        for word in rest:
            _, is_option, value = word.partition("=")
            wanted = value if is_option else word
            for path in self._meant(f"$ANY/{wanted}" if name == "find" else wanted, folders):
                if self._is_script(path, is_called=word.startswith("./")):
                    self._start(path, folders, depth)

    def _configured(self, name: str, rest: list[str], folders: Folders) -> None:
        """Files that a tool is told to take its settings from."""
        if name in ("pip", "pip3", "make", "gmake", "git"):
            return
        for number, word in enumerate(rest):
            option, _, value = word.partition("=")
            if _CONFIG.match(option):
                wanted = value or "".join(rest[number + 1 : number + 2])
                self.settings.update(self._meant_any(_as_modules(wanted), folders))

    def _named(self, words: list[str], folders: Folders) -> None:
        """The files that are handed to a test runner by name."""
        if words[1:2] == ["-m"] and _INTERPRETER.match(last(words[0])):
            words = words[2:]
        is_runner = bool(words) and _RUNNER.match(last(words[0]))
        if is_runner and not any("doctest" in word for word in words):
            for word in words[1:]:
                if not word.startswith("-"):
                    self.tests.update(self._meant(word.partition("::")[0], folders))

    # ── scripts ──

    def _meant_any(self, words: Iterable[str], folders: Folders) -> list[str]:
        return [path for word in words for path in self._meant(word, folders)]

    def _is_script(self, path: str, *, is_called: bool = False) -> bool:
        if path.endswith(_SHELL_ENDINGS):
            return True
        if self._tree.files[path] and (is_called or "." not in last(path)):
            return True
        return bool(_SHEBANG.match((self._tree.read(path) or "")[:200]))

    def _start_all(
        self, word: str, folders: Folders, depth: int, *, is_shell: bool = False
    ) -> None:
        for path in self._meant(word, folders):
            self._start(path, folders, depth, is_shell=is_shell)
        if not is_shell and "." not in last(word):
            for path in self._meant_any((f"{word}{one}" for one in _MODULE_ENDINGS), folders):
                self._start(path, folders, depth)

    def _start(self, path: str, folders: Folders, depth: int, *, is_shell: bool = False) -> None:
        if path in self.found or len(self.found) >= _MOST:
            return
        text = self._tree.read(path)
        if text is None:
            return
        self.found[path] = None
        own = _around(folders, path.rpartition("/")[0])
        head = text.partition("\n")[0][:200]
        if is_shell or path.endswith(_SHELL_ENDINGS) or _SHEBANG.match(head):
            self.shell(text, own, depth + 1)
        elif depth < _DEPTH:
            self._program(path, text[:_LONGEST], own, depth + 1)

    def _program(self, path: str, text: str, folders: Folders, depth: int) -> None:
        """What a script of another language starts: the commands among its texts, and modules."""
        folder = path.rpartition("/")[0]
        if not _TOOLING.isdisjoint(folder.lower().split("/")):
            for python, *others in _IMPORTS.findall(text):
                dotted = python.lstrip(".").replace(".", "/")
                words = [f"{dotted}.py", f"{dotted}/__init__.py"] if dotted else []
                words += [f"{one}{end}" for one in others if one for end in _MODULE_ENDINGS]
                for module in self._meant_any(words, (folder,)):
                    self._start(module, folders, depth)
        for name, own, listed in _STARTS.findall(text):
            words = [one for _, one in _TEXT.findall(listed)]
            called = name or ("python" if own.startswith("sys") else "node")
            self._command([called, *words], folders, depth)
        for _, quoted in _TEXT.findall(text):
            if " " in quoted:
                self.shell(quoted, folders, depth)
                continue
            for script in self._meant(quoted, folders):
                if self._is_script(script):
                    self._start(script, folders, depth)

    # ── what runs commands by a name ──

    def _make(self, rest: list[str], folders: Folders, depth: int) -> None:
        names: list[str] = []
        moves: list[str] = []
        for number, word in enumerate(rest):
            option = re.match(r"(-f|-C|--file=|--makefile=|--directory=)(.+)", word)
            following = "".join(rest[number + 1 : number + 2])
            if word in ("-f", "--file", "--makefile", "-C", "--directory"):
                option = re.match(r"(-+\w+)=?(.*)", f"{word}={following}")
            if option:
                (moves if option[1].strip("-=") in ("C", "directory") else names).append(option[2])
        for move in moves:
            folders = _moved(folders, move)
        for folder in folders:
            own = tuple(dict.fromkeys((folder, *folders)))
            for path in (
                self._meant_any(names, (folder,)) or self._meant_any(makefiles.NAMES, (folder,))[:1]
            ):
                self._makefile(path, rest, own, depth)
        self._handed_on("make", rest, folders, depth)

    def _rules_of(self, path: str, folders: Folders) -> makefiles.Rules:
        """The rules of a Makefile, with those that it includes: each file of these once."""
        read = {path}

        def include(word: str) -> list[str]:
            near = list(self._meant(word, folders))
            if not near and re.fullmatch(r"[\w./-]+", word):
                near = [joined(folders[0], word)]  # it may come to be
            self.found.update(dict.fromkeys(near))
            fresh = [one for one in near if one not in read]
            read.update(fresh)
            return [text for text in map(self._tree.read, fresh) if text is not None]

        if (path, folders) not in self._rules:
            text = self._tree.read(path) or ""
            self._rules[path, folders] = makefiles.rules(text, include)
        return self._rules[path, folders]

    def _makefile(self, path: str, rest: list[str], folders: Folders, depth: int) -> None:
        self.found[path] = None
        known = self._rules_of(path, folders)
        self.shell(known.anyway, folders, depth + 1)
        wanted = [word for word in rest if any(known.of(word))] or [known.first]
        while wanted:
            target = wanted.pop()
            if f"{path}:{target}" in self._done:
                continue
            self._done.add(f"{path}:{target}")
            self.made.update(known.made(target, folders[0], self._tree.files))
            for name in known.of(target):
                needs, recipe = known.known[name]
                wanted += needs
                for need in needs:  # a script that a rule depends on is run, or made by another
                    if need.endswith(_SHELL_ENDINGS):
                        self._start_all(need, folders, depth, is_shell=True)
                self.shell(recipe, folders, depth + 1)

    def _package(self, rest: list[str], folders: Folders, depth: int) -> None:
        """The scripts of that name in the package.json here, or, of workspaces, in all."""
        words: list[str] = []
        everywhere = False
        skip = ""
        for word in rest:
            everywhere = everywhere or bool(_WORKSPACES.match(word))
            option, _, value = word.partition("=")
            if skip in _PREFIXES or (option in _PREFIXES and value):
                folders = _moved(folders, value or word)
            elif not skip and not word.startswith("-"):
                words.append(word)
            takes = option in _PREFIXES or _WORKSPACES.match(word)
            skip = word if takes and not value and word.startswith("-") else ""
        paths = self._meant_any(("package.json",), folders)
        if everywhere:
            paths = [one for one in self._tree.files if one.endswith("package.json")][:_MOST]
        for path in paths:
            # Behind an option that may or may not take a word, each word may be the name.
            for name in words if not everywhere else [*words, *rest]:
                self._script_of(path, name, folders, depth)

    def _script_of(self, path: str, name: str, folders: Folders, depth: int) -> None:
        name = {"t": "test", "tst": "test"}.get(name, name)
        if path not in self._scripts:
            self._scripts[path] = _scripts(self._tree.read(path) or "")
        for one in (f"pre{name}", name, f"post{name}"):
            text = self._scripts[path].get(one)
            if isinstance(text, str) and f"{path} {one}" not in self._done:
                self._done.add(f"{path} {one}")
                self.shell(text, _around(folders, path.rpartition("/")[0]), depth + 1)


def _scripts(text: str) -> dict[str, object]:
    try:
        scripts = json.loads(text or "{}").get("scripts", {})
    except (ValueError, AttributeError, RecursionError):
        return {}
    return scripts if isinstance(scripts, dict) else {}


def _as_modules(word: str) -> Iterator[str]:
    """A path or a module, as an option may have it."""
    yield word
    if re.fullmatch(r"[\w.]+", word):
        yield f"{word.replace('.', '/')}.py"


def _around(folders: Folders, folder: str) -> Folders:
    """The folders to look from, with one more that may be meant."""
    return tuple(dict.fromkeys((*folders, folder)))[:_MOST_FOLDERS]


def _moved(folders: Folders, word: str) -> Folders:
    """The folders once one has gone to ``word``: those, and the ones before."""
    return tuple(dict.fromkeys((*(joined(one, word) for one in folders), *folders)))[:_MOST_FOLDERS]
