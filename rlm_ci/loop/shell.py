"""A text that a shell would read, as the commands in it. Nothing is expanded, nothing is run."""

from __future__ import annotations

import re
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Lines of a text, and characters of one, that are looked at.
_LINES, LONGEST = 2000, 8000
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
#: References of make, and of a shell to a variable by its name.
REFERENCE = re.compile(r"\$[({]([A-Za-z_]\w{0,63})[)}]")
#: What stands for a folder, however it is found out: ``$(dirname "$0")``, `` `pwd` ``.
_FOLDER = re.compile(
    r"\$\([^()]{0,200}\b(?:dirname|pwd|rev-parse|readlink|realpath)\b[^()]{0,200}\)"
    r"|`[^`]{0,200}\b(?:dirname|pwd|rev-parse|readlink|realpath)\b[^`]{0,200}`"
    r"|\$\{[^{}]{0,200}\}"
)
#: What a shell would fill in.
SOME = r"\$(?:\w{1,64}|[*@<^?#$!-])"
#: Variables that begin a path.
LEADING = re.compile(rf"(?:{SOME}/)+")
_SETTING = re.compile(r"[A-Za-z_]\w*=")


def commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a text of shell, each as its words."""
    for whole in text.replace("\\\n", " ").split("\n")[:_LINES]:
        line = REFERENCE.sub(lambda one: f"${one[1]}", whole[:LONGEST])
        for _ in range(3):  # one inside of another
            line = _FOLDER.sub("$HERE", line)
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


def program(words: list[str]) -> list[str]:
    """The words of a command without what stands before its program."""
    at = 0
    while at < len(words):
        word = words[at]
        if last(word) in _RUNS:
            run = next((n for n in range(at, len(words)) if words[n] in ("run", "exec")), None)
            if run is None:
                break
            at = run + 1
            while at < len(words) and words[at].startswith("-") and words[at] != "-m":
                at += 1
            if words[at : at + 1] == ["-m"]:
                return ["python", *words[at:]]
            if last(word) == "coverage" or "".join(words[at : at + 1]).endswith(".py"):
                return ["python", *words[at:]]
        elif (
            _SETTING.match(word)
            or word in _BEFORE
            or word.startswith("-")
            or re.match(r"\d+[smh]?$", word)
        ):
            at += 1
        else:
            break
    return words[at:]


def settings(words: list[str]) -> Iterator[str]:
    """What variables are set to in front of a command, word by word."""
    for word in words:
        if _SETTING.match(word):
            yield from word.partition("=")[2].split()
        elif word not in _BEFORE:
            return


def last(word: str) -> str:
    return word.rpartition("/")[2]


def joined(folder: str, word: str) -> str:
    """A word as a path of the tree, seen from ``folder``: ``./x`` and ``$PWD/x`` are ``x``."""
    word = LEADING.sub("", word, count=1) if word.startswith("$") else word
    parts = folder.split("/") if folder and not word.startswith("/") else []
    for part in word.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return "/".join(parts)
