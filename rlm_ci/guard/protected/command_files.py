"""Which files a command runs, or takes settings from: they decide what green means.

Words are compared with the paths of the tree. A file that is merely read decides nothing, and what
only a shell could work out is left.
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
    r"(?:.*/)?(?:(?:python|pypy|node|ruby|perl|php|lua)[\d.]*|(?:ba|da|k|z)?sh|tsx|ts-node|run"
    r"|source|\.)"
)
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


def named(command: str, files: Container[str]) -> frozenset[str]:
    places = {
        normpath(join(folder, word))
        for folder, words in _commands(command[:_LONGEST], 0)
        for word in _deciding(words)
        if word
    }
    return frozenset(path for path in places if path in files)


def _commands(text: str, depth: int) -> Iterator[tuple[str, list[str]]]:
    """The simple commands of a shell text, also of shells in it, each with its folder."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:  # a quote is open
        tokens = text.split()
    folder, words = "", list[str]()
    for token in (*tokens, ";"):
        if not set(token) <= set(";&|()\n"):
            words.append(token)
            continue
        if words[:1] == ["cd"] and len(words) > 1:
            folder = normpath(join(folder, words[1]))
        yield folder, words
        if depth < _DEEPEST and any(one.endswith("sh") for one in words):
            for inner in words:
                if " " in inner:
                    yield from _commands(inner, depth + 1)
        words = []


def _deciding(words: list[str]) -> Iterator[str]:
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


def _scripts(words: list[str]) -> Iterator[str]:
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
