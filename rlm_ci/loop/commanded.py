"""Which files of a tree a command names as what it runs, or takes settings from.

They decide what green means. A file that is merely read (``grep -q x calc.py``) decides nothing.
The words are compared with the paths of the tree; what only a shell could work out is left.
"""

from __future__ import annotations

import re
import shlex
from posixpath import join, normpath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator

_LONGEST, _DEEPEST = 8000, 3
_INTERPRETER = re.compile(
    r"(?:python|pypy|node|ruby|perl|php|lua|Rscript)[\d.]*(?:\.exe)?|(?:ba|da|k|z)?sh"
    r"|tsx|ts-node|source|\."
)
_SHELL = re.compile(r"(?:ba|da|k|z)?sh")
#: What stands before the program of a command.
_BEFORE = re.compile(
    r"-.*|\w+=.*|\d+[smh]?|!|command|do|elif|else|env|exec|if|nice|nohup|then|time|timeout|until"
    r"|while|xvfb-run|npx|uvx|bunx|flock|xargs",
    re.DOTALL,
)
#: Options whose next word is a file that is run first, and those whose next word is code.
_PRELOADS = frozenset(("-r", "--require", "--import", "--loader"))
_TAKE_WORD = frozenset(("-W", "-X", "-I", "-o", "-O"))
_CODE = re.compile(r"-[a-z]*[ce]|-p|--eval|--print|--check")
#: Options of any tool whose value names its settings.
_CONFIG = re.compile(
    r"--?(?:config|conf|config-?file|config_file|rcfile|ini|preset|setup-?files|global-?setup"
    r"|project|settings|makefile)",
    re.IGNORECASE,
)
_SETTINGS = (".toml", ".ini", ".cfg", ".json", ".yml", ".yaml", ".conf")


def named(command: str, files: Container[str]) -> frozenset[str]:
    """The paths among ``files`` that ``command`` runs, or takes settings from."""
    found: set[str] = set()
    for folder, words in _commands(command[:_LONGEST], 0):
        for word in _deciding(words):
            path = normpath(join(folder, word)) if word else ""
            if path in files:
                found.add(path)
    return frozenset(found)


def _commands(text: str, depth: int) -> Iterator[tuple[str, list[str]]]:
    """The simple commands of a text of shell, those of a shell in it, and the folder of each."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:  # a quote is open
        tokens = text.split()
    folder, words = "", list[str]()
    for token in (*tokens, ";"):
        if not set(token) <= set(";&|()"):
            words.append(token)
            continue
        if words[:1] == ["cd"] and len(words) > 1:
            folder = normpath(join(folder, words[1]))
        elif words:
            yield folder, words
        if depth < _DEEPEST:
            for shell, option, inner in zip(words, words[1:], words[2:], strict=False):
                if _SHELL.fullmatch(_last(shell)) and _CODE.fullmatch(option):
                    yield from _commands(inner, depth + 1)
        words = []


def _deciding(words: list[str]) -> Iterator[str]:
    """The words of a command that would be run, or hold settings, if they name files."""
    is_first = True
    for at, word in enumerate(words):
        option, _, value = word.partition("=")
        following = words[at + 1] if at + 1 < len(words) else ""
        if value and not word.startswith("-"):
            yield value
        if _CONFIG.fullmatch(option):
            yield value or following
        elif (option == "-c" and following.endswith(_SETTINGS)) or (option == "-f" and at):
            yield following if option == "-c" or _last(words[0]).endswith("make") else ""
        if is_first:
            yield word
            is_first = bool(_BEFORE.fullmatch(word))
        if word == "run" and at:  # of uv, coverage, poetry, deno
            yield following
        if _INTERPRETER.fullmatch(_last(word)):
            yield from _scripts(words[at + 1 :])


def _scripts(words: list[str]) -> Iterator[str]:
    """The script among the words behind an interpreter, and what is loaded before it."""
    last = ""
    for at, word in enumerate(words):
        if word == "-m":
            modules = words[at + 1 : None if words[at + 1 : at + 2] == ["unittest"] else at + 2]
            for module in modules:
                stem = module.replace(".", "/")
                yield from (module, f"{stem}.py", f"{stem}/__main__.py")
            return
        if _CODE.fullmatch(word):
            return
        if not word.startswith("-"):
            yield word
            if last not in _TAKE_WORD | _PRELOADS:
                return
        last = word


def _last(word: str) -> str:
    return word.rpartition("/")[2]
