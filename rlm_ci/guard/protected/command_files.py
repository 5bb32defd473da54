"""Which files a command runs, or takes settings from: they decide what green means.

Words are compared with the paths of the tree. Scripts of package.json, recipes, and scripts that
start others are followed. A file that is merely read decides nothing, and what only a shell could
work out is left.
"""

from __future__ import annotations

import re
from fnmatch import filter as matching
from itertools import islice, pairwise
from posixpath import basename, dirname

from rlm_ci.validators import script_commands, test_file_names
from rlm_ci.validators.script_commands import within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from rlm_ci.validators.script_commands import ScriptCommand

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
