"""How code in other languages than Python fails: messages and exit codes, by expressions."""

from __future__ import annotations

import re

from rlm_ci.source.code_places import CodePlaces
from rlm_ci.wiki.facts.note import EXIT, LONGEST, MESSAGE, CodeNote, folded
from rlm_ci.wiki.facts.other_notes import lines_of_tests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Characters of a message, and of code.
_MESSAGE, _CODE = 200, 60
_QUOTED = r"(?:[\"`](?P<text>(?:[^\"`\\\n]|\\.|\\\n){4,400})[\"`])"
_QUOTED_TOO = r"(?:(?P<q>[\"'`])(?P<text>(?:(?!(?P=q))[^\\\n]|\\.){4,400})(?P=q))"
#: What carries a message, before the text.
_MESSAGES: Mapping[str, str] = {
    **dict.fromkeys(
        ("JavaScript", "TypeScript", "TSX"),
        rf"\b(?:new )?(?P<name>\w*Error|(?:\w+\.)?(?:error|fatal|fail|die|abort))\((?:\w+,)?\s*"
        rf"{_QUOTED_TOO}",
    ),
    "Go": r"\b(?P<name>fmt\.Errorf|errors\.(?:New|Errorf|Wrapf?)|log\.(?:Fatal|Error)f?|panic"
    rf"|log(?:Error|Fatal))\((?:\w+,)?\s*{_QUOTED}",
    "Rust": r"\b(?P<name>anyhow!|bail!|ensure!|panic!|print_error|eprintln!)\(\s*(?:format!\(\s*)?"
    rf"{_QUOTED}",
    **dict.fromkeys(
        ("Java", "C#", "PHP"), rf"\bnew \\?(?P<name>\w+(?:Error|Exception))\(\s*{_QUOTED_TOO}"
    ),
    "Ruby": r"(?<![.\w])(?:(?:raise|fail)[ (]\s*(?P<name>[A-Z][\w:]*)\s*,"
    r"|(?P<word>raise|fail|abort)[ (])\s*"
    rf"{_QUOTED_TOO}",
}
_NAMED = (
    r"\b(?P<name>\w*Exit(?:Code|Status)(?:::|\.)\w+)\s*=>\s*(?P<code>\d{1,3})\b"
    r"|\b(?P<constant>EX(?:IT)?_[A-Z0-9_]+|[A-Z0-9_]+_EXIT(?:_CODE)?)\b[\w: ]{0,20}"
    r"=\s*(?P<value>\d{1,3})\b"
)
#: Exit codes of Go that count themselves, from the first on.
_IOTA = (
    r"\bconst \(\s*\w*[eE]xit\w*\s*(?:\w+\s*)?=\s*iota\n(?P<rest>(?:[ \t]*\w*[eE]xit\w*[ \t]*\n)+)"
)
_WORDS = {"SUCCESS": "0", "FAILURE": "1"}
#: What ends the process with a code.
_CALLS: Mapping[str, str] = {
    **dict.fromkeys(
        ("JavaScript", "TypeScript", "TSX"),
        r"\bprocess\.(?:exit\(\s*(?P<code>\d{1,3})\)|exitCode\s*=\s*(?P<digits>\d{1,3})\b)",
    ),
    **dict.fromkeys(("C", "C++"), r"(?<![.\w>])_?exit\s*\(\s*(?P<code>\d{1,3})\)"),
    "Go": r"\bos\.Exit\((?P<code>\d{1,3})\)",
    "Rust": r"\b(?:process::exit|ExitCode::from)\((?P<code>\d{1,3})\)"
    r"|\bExitCode::(?P<word>FAILURE|SUCCESS)\b",
    "Java": r"\bSystem\.exit\((?P<code>\d{1,3})\)",
    "C#": r"\bEnvironment\.Exit\((?P<code>\d{1,3})\)",
    "Ruby": r"(?<![.\w])exit[ (](?P<code>\d{1,3})\b",
    "PHP": r"(?<![>:\w$])exit\s*\(\s*(?P<code>\d{1,3})\)",
    "Shell": r"(?:^|[;&|{]\s*|\n\s*)exit\s+(?P<code>\d{1,3})\b",
}


def other_failures(language: str, source: bytes) -> list[CodeNote]:
    """The messages and exit codes of a file in another language; nothing in one not known."""
    if language not in _MESSAGES and language not in _CALLS:
        return []
    text = source.decode("utf-8", "surrogateescape")
    aside = lines_of_tests(text) if language == "Rust" else frozenset()
    places = CodePlaces(language, source)
    notes = []
    for match, line in places.matches(_MESSAGES.get(language, "")):
        text = re.sub(r"\\\s*\n\s*|\\[nt]", " ", match["text"])
        message = folded(re.sub(r"\\([\"'`])", r"\1", text), _MESSAGE)
        if line not in aside and " " in message:
            last = min(line + match[0].count("\n"), line + LONGEST - 1)
            name = match["name"] or match["word"]
            notes.append(CodeNote(MESSAGE, line, last, "", name, message))
    for match, line in places.matches(_CALLS.get(language, "")):
        if line not in aside:
            written = folded(match[0].strip(";&|{ \n"), _CODE)
            groups = match.groupdict()
            ends = groups.get("code") or groups.get("digits")
            ends = ends or _WORDS[groups.get("word") or "SUCCESS"]
            notes.append(CodeNote(EXIT, line, line, "", written, ends))
    for match, line in places.matches(_IOTA if language == "Go" else ""):
        names = re.findall(r"\w*[eE]xit\w*", match[0])
        first = line + match[0][: match[0].index(names[0])].count("\n")
        notes += [
            CodeNote(EXIT, first + number, first + number, "", name, str(number))
            for number, name in enumerate(names)
        ]
    for match, line in places.matches(_NAMED):
        if line not in aside:
            name, code = match["name"] or match["constant"], match["code"] or match["value"]
            notes.append(CodeNote(EXIT, line, line, "", name, code))
    return notes
