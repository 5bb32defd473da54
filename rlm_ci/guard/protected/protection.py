"""Which files decide what green means: by facts of the first run, by command, and by name.

Files that held tests are of tests. Names count where a runner tells no files, and the name of a
folder only if tests are in it, or it may have some that no runner tells.

Words are compared with the paths of the tree. Scripts of package.json, recipes, and scripts that
start others are followed. A file that is merely read decides nothing, and what only a shell could
work out is left.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from fnmatch import filter as matching
from itertools import islice, pairwise
from posixpath import basename, dirname

from rlm_ci.guard import lint_silencing
from rlm_ci.guard.protected import by_name, config_sections
from rlm_ci.source.languages import is_code
from rlm_ci.validators import script_commands, test_file_names
from rlm_ci.validators.outcomes import TestOutcome, TestOutcomes
from rlm_ci.validators.script_commands import within
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.validators.script_commands import ScriptCommand

    Read = Callable[[Iterable[str]], list[bytes | None]]


_LONGEST, _MOST = 8000, 2000
_INTERPRETER = re.compile(
    r"(?:.*/)?(?:(?:python|pypy|node|ruby|perl|php|lua)[\d.]*|(?:ba|da|k|z)?sh|tsx|ts-node|run|bun"
    r"|source|\.|[\w-]+-node|esno|jiti|Rscript|julia|elixir)|\$\{?\w+\}?"
)
#: What runs the tests in the files that it is given, and may not say which file a test is in.
_RUNNER = re.compile(
    r"(?:.*/)?(?:mocha|tape|ava|tap|uvu|jasmine|qunit|bats|prove|phpunit|pest|rspec|busted|nose2"
    r"|trial|unittest|--test)"
)
#: In a script: what starts a program, or loads a module, with the texts that follow.
_CALL = re.compile(
    r"\b(?P<name>run|call|check_call|check_output|Popen|system|run_path|exec[lv]\w*|fork"
    r"|exec(?:Sync|File|FileSync)|spawn\w*|run_module|loadTestsFromNames?|discover)"
    r"\s*\((?P<inner>(?:[^()]|\([^()]*\)){1,1000})\)"
)
#: Options of one whose value is no test.
_VALUE = re.compile(r"-[ItrRw]|--(?:include|require|reporter|ext\w*|cov[\w-]*|source|watch-files)")
_QUOTED = re.compile(r"""(["'`])((?:(?!\1)[^\n]){1,200})\1""")
_MODULES = ("run_module", "loadTests", "discover")
#: Programs that show what another one prints, and do not judge it.
_ONWARD = frozenset(("tee", "tail", "head", "cat", "sed", "tap-spec", "npx", "ts"))
#: Settings that name commands: of each tool its file, and what in it are commands.
_SETTINGS_OF = {"tox": "tox.ini", "nox": "noxfile.py"}
_TOX = re.compile(r"^(?:commands\w*\s*=|[ \t]+)(.*)", re.MULTILINE)
#: Words before the program of a command.
_BEFORE = re.compile(
    r"-.*|\w+=.*|\d+[smh]?|!|command|do|elif|else|env|exec|if|nice|nohup|then|time|timeout|until"
    r"|while|xvfb-run|npx|uvx|bunx|xargs",
    re.DOTALL,
)
#: Options of an interpreter whose next word is no script.
_TAKE_WORD = frozenset(("-W", "-X", "-I", "-o", "-O", "-r", "--require", "--import", "--loader"))
#: Options of any tool whose value names its settings, and a variable that does.
_CONFIG = re.compile(
    r"--?(?:config|conf|config-?file|config_file|rcfile|ini|preset|global-?setup|project|settings)"
    r"|[A-Z]\w*",
    re.IGNORECASE,
)
_SETTINGS = (".toml", ".ini", ".cfg", ".json", ".yml", ".yaml", ".conf")


def files_of_command(
    command: str, files: Collection[str], text: Callable[[str], str] = lambda _path: ""
) -> frozenset[str]:
    """The ``files`` that a command runs or obeys, itself or by the scripts that it starts.

    ``text`` gives the text of a file, or "".
    """
    paths = dict.fromkeys(_files_of_command(command[:_LONGEST], files, text))
    for path in tuple(paths):
        inner = "\n".join(_started(path, text(path)))
        paths |= dict.fromkeys(_files_of_command(inner[:_LONGEST], files, text))
    return frozenset(paths)


def _files_of_command(
    command: str, files: Collection[str], text: Callable[[str], str]
) -> Iterator[str]:
    packages = tuple(dirname(path) for path in files if basename(path) == "package.json")
    for script_command in islice(script_commands.commands(command, text, packages), _MOST):
        if script_command.reader and script_command.reader not in _ONWARD:
            continue  # its output is judged: it is what is tested
        for folder in dict.fromkeys((script_command.folder, dirname(script_command.script))):
            places = (
                within(folder, word)
                for word in _deciding((*script_command.variables, *script_command.words))
            )
            yield from (path for path in places if path in files)
            yield from _tests(script_command, folder, files)
        for tool, settings in _SETTINGS_OF.items():
            if tool in script_command.words and settings in files:
                inner = "\n".join(_started(settings, text(settings)))
                yield from _files_of_command(inner[:_LONGEST], files, lambda _path: "")


def _started(path: str, text: str) -> Iterator[str]:
    """The commands that a script, or the settings of a tool, start."""
    if path.endswith(".ini"):
        yield from (match[1] for match in _TOX.finditer(text))
        return
    for match in _CALL.finditer(text):
        words = " ".join(quoted[2] for quoted in _QUOTED.finditer(match["inner"]))
        yield f"python -m unittest {words}" if match["name"].startswith(_MODULES) else words


def _tests(command: ScriptCommand, folder: str, files: Collection[str]) -> Iterator[str]:
    """The files that a runner is given as its tests: by name, by a pattern, or by their folder."""
    at = next((at for at, word in enumerate(command.words) if _RUNNER.fullmatch(word)), None)
    for last, word in pairwise(command.words[at:] if at is not None else ()):
        if _VALUE.fullmatch(last):
            continue
        path = within(folder, word)
        if path in files:
            yield path
        elif "*" in word:
            yield from matching(files, path.replace("/**/", "/*"))
        elif path != ".":
            below = [file for file in files if file.startswith(f"{path}/")]
            if not any(map(_is_test, below)):
                yield from below


def _is_test(path: str) -> bool:
    folders = path.split("/")[:-1]
    return test_file_names.is_file(path) or any(map(test_file_names.is_folder, folders))


def _deciding(words: Sequence[str]) -> Iterator[str]:
    """The words of a command that would be run, or hold settings, if they are files."""
    is_first = True
    for at, (word, following) in enumerate(zip(words, (*words[1:], ""), strict=False)):
        option, _, value = word.partition("=")
        if _CONFIG.fullmatch(option) and (value or word.startswith("-")):
            yield value or following
        elif word == "-c" and following.endswith(_SETTINGS):
            yield following
        if is_first:
            yield word
            is_first = bool(_BEFORE.fullmatch(word))
        if _INTERPRETER.fullmatch(word):
            yield from _scripts(words[at + 1 :])


def _scripts(words: Sequence[str]) -> Iterator[str]:
    """The script behind an interpreter, and what is loaded before it."""
    for last, word, following in zip(("", *words), words, (*words[1:], ""), strict=False):
        if word == "-m":
            modules = words if following == "unittest" else [following]
            for module in modules:
                stem = module.replace(".", "/")
                yield from (module, f"{stem}.py", f"{stem}/__main__.py")
        if word in ("-m", "--check"):
            return
        if not word.startswith("-"):
            yield word
            if last not in _TAKE_WORD:
                return


_WORD = re.compile(r"[\w.-]{1,80}")
#: The files in which tools find the commands that they run, and how many are read.
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_LISTS = {
    "make": _MAKEFILES, "gmake": _MAKEFILES, "npm": ("package.json",), "pnpm": ("package.json",),
    "yarn": ("package.json",), "bun": ("package.json",), "tox": ("tox.ini",),
    "nox": ("noxfile.py",), "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
}  # fmt: skip
_MOST_LISTS = 20
#: Files that set how much coverage is required.
_FLOORS = (".coveragerc", "pyproject.toml", "setup.cfg", "tox.ini", "package.json", "codecov.yml")
_SCRIPT = "js jsx ts tsx mjs cjs mts cts vue svelte"
#: Languages by how their files end; the files of others go by their own endings.
_LANGUAGES = dict.fromkeys(_SCRIPT.split(), _SCRIPT) | {"pyi": "py", "pyx": "py"}
#: Where the runner tells a crate, and no file.
_UNTOLD = "rs"
#: Code that is no test, and none that would be tested.
_BARE = frozenset(("__init__.py", "conftest.py", "mod.rs"))
#: Folders that are of tests where they lie at the top, or beside a manifest.
_SURE = re.compile(r"tests?|__tests__|spec|e2e")
_MAVEN = re.compile(r"(?:.*/)?src/\w*[tT]est/")
#: Folders whose data is of the tests that lie beside them.
_BESIDE = frozenset(("testdata", "__snapshots__", "__mocks__", "__fixtures__"))
#: What is read in place of a module.
_IN_PLACE = re.compile(r"\.pyi$|\.d\.[cm]?ts$|(?:^|/)__mocks__/")
#: Names that a folder of the repository's own may have, too: a shop has vendors.
_VENDORED = frozenset(("vendor", "third_party", "third-party", "thirdparty"))
#: What comes along with the code of somebody else.
_SIGN = re.compile(
    r"(un)?licen[cs]e([.-].*)?|copying([.-].*)?|\.cargo-checksum\.json|.*\.gem", re.IGNORECASE
)
#: Settings that name what a package is, by manifest, and where its modules may be.
_ENTRIES = {
    "package.json": re.compile(r"(?:main|module|browser|bin|exports)(?:\.|$)"),
    "pyproject.toml": re.compile(r"(?:project|tool\.poetry)\.(?:gui-)?scripts\."),
}
_ROOTS = ("", "src")
#: An import of Python from a package, or of a path in quotes; and how many files are read for it.
_IMPORT = (
    r"""^\s*(?:from|import)\s+(?:[\w.]*\.)?({names})\b(?!\s+from)"""
    r"""|(?:from|import|require|require_relative|include)\b[ (]*["'][^"'\n]*?\b({names})/"""
)
_MOST_READ = 500
#: Languages whose runners find tests by the names of files alone.
_BY_NAME = frozenset(("go", "rs"))
_VITEST = re.compile(r"(?:^|/)vite(?:st)?\.config\.[cm]?[jt]s$")
#: Folders, and a file, in which code of Rust is all test.
_RUST = re.compile(r"(?:.*/)?(?:tests|benches)(?:/.*|\.rs)")


class Protection(Value):
    """``tests``: files that held tests; ``allowed``: files that may be edited, whatever they are.

    ``folders``: all in them belongs to tests; ``reported_languages``: those whose tests only facts
    show; ``scripts``: files that the command names; ``homes``: folders in which tools look for
    settings; ``heeded``: its tools that a comment can silence; ``vendored``: code of others.
    """

    tests: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()
    reported_languages: frozenset[str] = frozenset()
    scripts: frozenset[str] = frozenset()
    homes: frozenset[str] = frozenset(("",))
    heeded: frozenset[str] = frozenset()
    vendored: tuple[str, ...] = ()
    #: Folders that are called like those of tests, and that product code imports.
    of_product: frozenset[str] = frozenset()
    #: Whether vitest looks for tests in sources.
    in_source: bool = False

    @classmethod
    def of(cls, entries: Mapping[str, TreeEntry], read: Read, command: str) -> Protection:
        """From the files of a snapshot, and the validator's command.

        ``read`` gives the contents of objects, None for one that is too large.
        """
        files = {path: entry for path, entry in entries.items() if entry.is_file}

        def texts(paths: Iterable[str]) -> list[str]:
            oids = [files[path].oid for path in dict.fromkeys(paths) if path in files]
            contents = read(oids) if oids else []
            return [(content or b"").decode("utf-8", "surrogateescape") for content in contents]

        def text(path: str) -> str:
            return next(iter(texts([path])), "")

        entry_points = _entry_points(files, text)
        scripts = files_of_command(command, files, text) - entry_points
        names = {path for word in _WORD.findall(command) for path in _LISTS.get(word, ())}
        lists = [path for path in files if path.rpartition("/")[2] in names] if names else []
        lists = sorted(lists, key=lambda path: (path.count("/"), path))[:_MOST_LISTS]
        run = "\n".join((command, *texts((*lists, *sorted(scripts)))))
        homes = {path.rpartition("/")[0] for path in files if by_name.is_manifest(path)}
        protection = cls(
            scripts=scripts,
            homes=frozenset(("", *homes)),
            heeded=lint_silencing.tools(_WORD.findall(run), (run, *texts(_FLOORS))),
            vendored=vendored_folders(files),
            in_source=any("includeSource" in text for text in texts(filter(_VITEST.search, files))),
            of_product=_imported(files, scripts, texts),
        )
        return protection.learning(TestOutcomes(), entries)

    def learning(self, outcomes: TestOutcomes, entries: Mapping[str, TreeEntry]) -> Protection:
        """The same, with the outcomes of the validator's first run."""
        tests = holding(outcomes, entries)
        languages = {_language(path) for path in tests} - {_UNTOLD}
        covered = frozenset(languages) if outcomes.complete else frozenset[str]()
        test_files = {
            path
            for path in entries
            if _language(path) not in covered and test_file_names.is_file(path)
        }
        return self.replace(
            tests=tests,
            reported_languages=covered,
            folders=tuple(
                _folders(entries, tests | test_files, self.homes, covered, self.of_product)
            ),
        )

    def kind_of(self, path: str) -> str:
        """The kind of a protected file, or ""."""
        kind = by_name.kind_of(path, self.homes)
        if not kind and path.startswith(self.vendored):
            kind = by_name.DEPENDENCY
        if kind in by_name.OF_REPOSITORY and path.startswith(self.folders):
            return by_name.TESTS
        if not kind and path in self.scripts:
            return by_name.HOOKS
        return kind or (by_name.TESTS if self._is_test(path) else "")

    def is_of_tests(self, path: str) -> bool:
        """Whether a file is a test, or what tests are run with."""
        return self.kind_of(path) in (by_name.HOOKS, by_name.TESTS)

    def leaves_out(self, path: str, *, new: bool = False) -> bool:
        """Whether the result leaves an edit of this file out.

        If the file is ``new``, only one that tests are run with: a new test stays.
        """
        kind = "" if path in self.allowed else self.kind_of(path)
        return kind == by_name.HOOKS or (kind == by_name.TESTS and not new)

    def is_protected(self, path: str, *, allow_test_edits: bool = False) -> bool:
        """Whether the last verdict takes this file from the snapshot.

        New tests are no part of it: the old ones decide, unless test edits are allowed.
        """
        kind = "" if path in self.allowed else self.kind_of(path)
        return bool(kind) and not (allow_test_edits and kind in by_name.OF_TESTS)

    def may_be_test(self, path: str) -> bool:
        """Whether a file is called like a test, or lies beside a script that the command runs."""
        folder = path.rpartition("/")[0]
        return (
            test_file_names.is_file(path)
            or any(map(test_file_names.is_folder, folder.split("/")))
            or (
                folder != "" and any(script.rpartition("/")[0] == folder for script in self.scripts)
            )
        )

    def _is_test(self, path: str) -> bool:
        if path in self.tests and not self._is_source(path):
            return True
        language = _language(path)
        if path.startswith(self.folders) and (language != "go" or "/testdata/" in f"/{path}"):
            return True
        return language not in self.reported_languages and test_file_names.is_file(path)

    def _is_source(self, path: str) -> bool:
        """Whether a file with tests is product code."""
        if test_file_names.is_file(path):
            return False
        if path.endswith(".rs"):
            return not _RUST.fullmatch(path)
        return self.in_source and _language(path) == _SCRIPT


def is_data(path: str) -> bool:
    """Whether a file is no source, or stands in for one: a stub, or the mock of a module."""
    return not is_code(path) or _IN_PLACE.search(path) is not None


def holding(outcomes: TestOutcomes, files: Collection[str]) -> frozenset[str]:
    """The ``files`` that held tests in a run, by names of paths, modules and packages."""
    paths = {path for path in outcomes.test_files if path in files}
    places = {test.location for test in outcomes.tests if not _is_of_source(test)} - paths - {""}
    if (
        outcomes.test_files
    ):  # our plugin of pytest tells every file, and not those that a linter checks
        places = {origin for origin in places if not origin.endswith(".py")}
    if places:
        stems: dict[str, list[str]] = {}
        folders: dict[str, list[str]] = {}
        for path in files:
            folder, _, name = path.rpartition("/")
            stems.setdefault(name.partition(".")[0], []).append(path)
            folders.setdefault(folder or ".", []).append(path)
        for origin in places:
            path = origin.replace("\\", "/").removeprefix("./").rstrip("/")
            if path in files:
                paths.add(path)
            elif path in folders:  # of a package
                paths.update(filter(test_file_names.is_file, folders[path]))
            else:
                paths.update(file for file in _module(path, stems) if _may_hold(file))
    return frozenset(paths)


def _is_of_source(outcome: TestOutcome) -> bool:
    """Whether pytest names a doctest of a module."""
    if not outcome.location.endswith(".py") or test_file_names.is_file(outcome.location):
        return False
    module = outcome.location.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]
    return "." in outcome.name or outcome.name == module


def _module(dotted: str, stems: Mapping[str, list[str]]) -> list[str]:
    """The files that may be the module ``dotted``, or have a class of that name."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        stem = "/" + "/".join(parts[:end])
        paths = stems.get(parts[end - 1], ())
        if matches := [path for path in paths if f"/{path.rpartition('.')[0]}".endswith(stem)]:
            return matches
    return []


def _may_hold(path: str) -> bool:
    """Whether a module may hold tests: a package of Go, named by one word, is no file of it."""
    return not path.endswith(".go") or test_file_names.is_file(path)


def _folders(
    entries: Iterable[str],
    tests: Collection[str],
    homes: Collection[str],
    paths: Collection[str],
    of_product: Collection[str],
) -> Iterator[str]:
    """Folders that are named like those of tests, and hold tests and little other code.

    At the top, or beside a manifest, tests may have many helpers; elsewhere it may be product code.
    There, code in a language whose tests no runner tells is of tests. Folders of data need no test
    in them, only beside or below the folder that they are in.
    """
    counts: Counter[str] = Counter()
    code: Counter[str] = Counter()
    untold: Counter[str] = Counter()
    languages = {_language(path) for path in tests}
    for path in entries:
        *outer, name = path.split("/")
        language = _language(path)
        is_test = path in tests
        is_counted = is_test or (language in languages and name not in _BARE)
        is_untold = is_code(path) and language not in paths and language not in _BY_NAME
        for at, part in enumerate(outer, 1):
            if test_file_names.is_folder(part):
                folder = "/".join((*outer[:at], ""))
                code[folder] += is_counted
                counts[folder] += is_test
                untold[folder] += is_untold and (part, language) != ("spec", "py")
    parts = [path.split("/") for path in tests]
    parents = {"/".join(some[:at]) for some in parts for at in range(len(some))}
    for folder, count in counts.items():
        parent, _, name = folder[:-1].rpartition("/")
        is_sure = (parent in homes and _SURE.fullmatch(name)) or _MAVEN.fullmatch(folder)
        has_tests = count and (is_sure or 2 * count > code[folder])
        may_have = is_sure and untold[folder] and folder not in of_product
        if has_tests or may_have or (name in _BESIDE and parent in parents):
            yield folder


def _entry_points(files: Collection[str], text: Callable[[str], str]) -> frozenset[str]:
    """The files that a package is, or installs as a program: they are what is tested."""
    paths = set[str]()
    for path in sorted(file for file in files if file.rpartition("/")[2] in _ENTRIES)[:_MOST_LISTS]:
        settings = config_sections.settings(path, text(path).encode("utf-8", "surrogateescape"))
        for name, value in (settings or {}).items():
            if _ENTRIES[path.rpartition("/")[2]].match(name):
                target = value.strip('"').partition(":")[0]
                if path.endswith(".toml"):
                    target = f"{target.replace('.', '/')}.py"
                places = (posixpath.join(path.rpartition("/")[0], root, target) for root in _ROOTS)
                paths.update(map(posixpath.normpath, places))
    return frozenset(paths)


def _imported(
    files: Collection[str], scripts: Collection[str], texts: Callable[[Iterable[str]], list[str]]
) -> frozenset[str]:
    """The folders called like those of tests, without a test by name, that other code imports."""
    folders: dict[str, str] = {}
    outside = []
    with_tests = set[str]()
    for path in files:
        *outer, _ = path.split("/")
        at = next((at for at, part in enumerate(outer, 1) if _SURE.fullmatch(part)), 0)
        folder = "/".join((*outer[:at], ""))
        if test_file_names.is_file(path):
            with_tests.add(folder)
        elif at and is_code(path):
            folders[folder] = outer[at - 1]
        elif is_code(path) and path not in scripts:
            outside.append(path)
    folders = {folder: name for folder, name in folders.items() if folder not in with_tests}
    names = "|".join(sorted(map(re.escape, set(folders.values()))))
    if not names:
        return frozenset()
    imports = re.compile(_IMPORT.format(names=names), re.MULTILINE)
    used = {
        match[1] or match[2]
        for text in texts(sorted(outside)[:_MOST_READ])
        for match in imports.finditer(text)
    }
    return frozenset(folder for folder, name in folders.items() if name in used)


def _language(path: str) -> str:
    ending = path.rpartition("/")[2].rpartition(".")[2].lower()
    return _LANGUAGES.get(ending, ending)


def vendored_folders(paths: Iterable[str]) -> tuple[str, ...]:
    """The folders with code of others, by what is in them; each ends with a slash."""
    folders: dict[str, None] = {}
    for path in paths:
        *outer, name = path.split("/")
        at = next((number for number, part in enumerate(outer) if part in _VENDORED), None)
        if at is None:
            continue
        if at + 1 < len(outer):
            is_kept = _SIGN.fullmatch(name) is not None
        else:
            is_kept = by_name.kind_of(path) == by_name.DEPENDENCY
        if is_kept:
            folders["/".join((*outer[: at + 1], ""))] = None
    return tuple(folders)
