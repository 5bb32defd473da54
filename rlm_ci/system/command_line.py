"""Split the command that a person wrote into words, with a shell only where it needs one.

``pytest -k "a and b"`` starts without a shell. Pipes, ``&&``, ``$NAME``, globs, redirections and
a leading ``NAME=value`` go whole to ``/bin/sh -c``, in the sandbox like everything else.
"""

from __future__ import annotations

import os
import re
import shlex

from rlm_ci.errors import UsageError
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SHELL = "/bin/sh"
_LONGEST = 8192
#: What a shell reads as it is: an escape, or quotes, but double ones with ``$`` or a backtick.
_QUOTED = re.compile(r"""\\[^\n]|'[^']*'|"(?:[^"\\$`]|\\.)*\"""", re.DOTALL)
#: Special to a shell, some only where a word begins; a quote that is left has others in it.
_SIGNS = re.compile(r"[|&;<>()$`*?\[\n\"]|(?:^|\s)[#~!]")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-")
#: First words that a shell understands itself: there is no program to look for.
_OWN_WORDS = frozenset(
    (
        ".", ":", "[", "alias", "case", "cd", "command", "echo", "eval", "exec", "exit", "export",
        "false", "for", "if", "printf", "pwd", "read", "set", "shift", "test", "time", "times",
        "trap", "true", "type", "ulimit", "umask", "unset", "until", "wait", "while",
    )
)  # fmt: skip


class Command(Value):
    """What to run; ``programs`` must be found before, ``in_shell``: a shell reads ``text``."""

    text: str
    argv: tuple[str, ...]
    programs: tuple[str, ...]
    in_shell: bool = False

    @classmethod
    def of(cls, *argv: str) -> Command:
        """The command of these words, without a shell."""
        return cls(shlex.join(argv), argv, argv[:1])

    @classmethod
    def parse(cls, text: str, *, where: str = "--validator") -> Command:
        """The command that a person wrote. Raises UsageError."""
        text = text.strip()
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise _refused(f"{str(error).lower()} in {text!r}", where) from None
        if not words:
            raise _refused("an empty command", where)
        if "\0" in text or len(text) > _LONGEST:
            raise _refused("a command with a NUL, or one too long", where)
        if not _needs_shell(text, words):
            return cls(text, tuple(words), (words[0],))
        return cls(text, (SHELL, "-c", text), (SHELL, *_first_program(words)), in_shell=True)


def _refused(what: str, where: str) -> UsageError:
    return UsageError(
        f"it cannot be run: {printable(what[:200])}",
        where=where,
        hint=f"give one command, such as {_example(where)}",
    )


def _example(where: str) -> str:
    if "agent" in where.lower():
        return '--agent "python3 mend.py"'
    return '"npm ci"' if "setup" in where else '--validator "python -m pytest"'


def _needs_shell(text: str, words: list[str]) -> bool:
    if _is_assignment(words[0]) or words[0] in _OWN_WORDS - {"echo", "false", "printf", "true"}:
        return True
    return bool(_SIGNS.search(_QUOTED.sub("x", text)))


def _is_assignment(word: str) -> bool:
    name, sign, _ = word.partition("=")
    return bool(sign) and name.isidentifier() and name.isascii()


def _first_program(words: list[str]) -> tuple[str, ...]:
    """The program that a shell text begins with, if that is clear without a shell."""
    word = next((word for word in words if not _is_assignment(word)), "")
    return (word,) if word and set(word) <= _PLAIN and word not in _OWN_WORDS else ()


def finder(
    path: str, root: str, copy: str, shared: tuple[str, ...] = ()
) -> Callable[[str], str | None]:
    """A function from a program's name to its file; None when it could not be started.

    ``path`` is the PATH of the sandbox and ``root`` the repository in it; ``copy`` is that tree
    outside, but for its folders ``shared``, which are at their own place. A script needs its
    interpreter, too.
    """

    def at(name: str) -> str:
        """The place outside of a path in the sandbox."""
        inside = os.path.normpath(os.path.join(root, name))
        within = files.below(root, inside)
        if within is None or any(within.startswith(f"{folder}/") for folder in shared):
            return inside
        return os.path.join(copy, within)

    def find(name: str, depth: int = 0) -> str | None:
        if not name or depth > 3:
            return None
        folders = [""] if os.sep in name else path.split(os.pathsep)
        for folder in folders:
            candidate = at(os.path.join(folder, name))
            if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
                programs = _interpreter(candidate)
                return candidate if all(find(program, depth + 1) for program in programs) else None
        return None

    return find


def _interpreter(path: str) -> tuple[str, ...]:
    """The programs that the first line of a script names; none for a binary."""
    try:
        with open(path, "rb") as file:
            line = file.read(256).partition(b"\n")[0]
    except OSError:  # it may be executable and not readable
        return ()
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    program: list[str] = []
    if words and os.path.basename(words[0]) == "env":
        program = [
            word for word in words[1:] if not word.startswith("-") and not _is_assignment(word)
        ]
    return (*words[:1], *program[:1])
