"""Source of JavaScript, Go or Rust as its statements, however it is laid out. Read, never run.

A formatter breaks lines, moves commas and semicolons, and in JavaScript changes quotes: of two
texts that differ in nothing else, the statements are the same.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMENT = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
#: What is not closed goes to the end, so that nothing is looked at twice.
_LINE = r'"(?:\\.|[^"\\\n])*+(?:"|(?=\n)|\\?\Z)'
_CHAR = r"'(?:\\.[^'\n]{0,9}|[^'\\\n])'"
_QUOTED = {
    "js": rf"{_LINE}|`(?:\\.|[^`\\])*+(?:`|\\?\Z)|" + r"'(?:\\.|[^'\\\n])*+(?:'|(?=\n)|\\?\Z)",
    "go": rf"{_LINE}|`[^`]*(?:`|\Z)|{_CHAR}",
    "rs": rf'[bc]?r(?P<marks>#*)".*?(?:"(?P=marks)|\Z)|"(?:\\.|[^"\\])*+(?:"|\\?\Z)|{_CHAR}',
}
_REST = r"\w+|\s+|=>|->|::|&&|\|\||[=!<>]==?|[-+*/%&|^]=|\+\+|--|\?\.|\.\.\.|."
_TOKENS = {
    language: re.compile(rf"(?P<note>{_COMMENT})|(?P<text>{text})|(?P<rest>{_REST})", re.DOTALL)
    for language, text in _QUOTED.items()
}
#: Comments that the Go compiler reads.
_PRAGMA = re.compile(r"//go:|// ?\+build")
#: Behind these a line goes on, and so it does before those.
_OPEN = frozenset("([,.=+-*/%&|^<>?:!") | {"=>", "&&", "||", "==", "!=", "===", "!==", "<=", ">="}
_GOES_ON = frozenset(").],?:*/%&|=<>") | {"?.", "&&", "||", "==", "!=", "===", "!==", "<=", ">="}
#: Behind which a line break ends the statement.
_ENDED = frozenset(("return", "throw", "break", "continue", "yield"))
_DECLARES = re.compile(r"^(?:const|var) ")
#: What belongs to the block that it stands behind.
_AFTER_BLOCK = frozenset((")", ",", ".", "?.", "else", "catch", "finally"))
#: How a statement begins whose brace opens a block.
_BLOCKS = re.compile(
    r"(?:(?:pub|async|unsafe|export|default|const|static|extern) ?)*(?:if|for|switch|select|func|fn"
    r"|else|match|while|loop|impl|mod|try|catch|finally|do|class|function|trait|describe|it|test"
    r"|case|go|defer|type|struct|enum|interface)\b"
)


def statements(language: str, text: str) -> list[tuple[int, str]]:
    """The statements, each on one line without needless space, with its line in the text.

    What a condition guards stands behind it, if it is a single statement.
    """
    found: list[tuple[int, str]] = []
    guards = False
    for line, told in _Splitter(list(_tokens(language, text))).split():
        # A linter of JavaScript makes them const.
        statement = _DECLARES.sub("let ", told) if language == "js" else told
        if guards:
            found[-1] = (found[-1][0], found[-1][1] + statement)
        else:
            found.append((line, statement))
        guards = not guards and statement.startswith("if") and statement.endswith("{")
    return found


def _tokens(language: str, text: str) -> Iterator[tuple[int, str]]:
    """Tokens with their lines; a line break is one, a comment that no tool heeds is none."""
    line = 1
    held: list[tuple[int, str]] = []  # a comma that may turn out to be the last
    for match in _TOKENS[language].finditer(text):
        word = match[0]
        at, line = line, line + word.count("\n")
        if match["note"] is not None:
            if not _PRAGMA.match(word):
                continue
        elif word.isspace():
            if "\n" not in word or held:
                continue
            word = "\n"
        elif match["text"] is not None and language == "js" and word[0] == "'" and '"' not in word:
            inner = word[1:-1].replace("\\'", "'")
            word = f'"{inner}"'
        elif word == ",":
            held = [(at, word)]
            continue
        if not (held and word in ")]}"):
            yield from held
        held = []
        yield at, word


class _Splitter:
    """Goes over the tokens of a text once. ``brackets`` are the open ones, a block's as ``{``."""

    def __init__(self, tokens: list[tuple[int, str]]) -> None:
        self._tokens = tokens
        self._words: list[str] = []
        self._first = 1
        self._brackets: list[str] = []

    def split(self) -> Iterator[tuple[int, str]]:
        follows = ""
        following = []  # of each token, the next one that is no line break
        for _, word in reversed(self._tokens):
            following.append(follows)
            follows = follows if word == "\n" else word
        for (line, word), follows in zip(self._tokens, reversed(following), strict=True):
            if word in ("\n", ";"):
                if self._is_end(word, follows):
                    yield from self._ended()
                continue
            if word == "}" and self._brackets[-1:] == ["{"]:
                yield from self._ended()
            self._first = self._first if self._words else line
            ends = self._add(word)
            if ends and follows not in _AFTER_BLOCK:
                yield from self._ended()
        yield from self._ended()

    def _add(self, word: str) -> bool:
        """Take a token; whether a statement ends behind it, or a block begins or ends."""
        was = ""
        if word in ("(", "[", "{"):
            is_block = word == "{" and self._opens()
            self._brackets.append("{" if is_block else "(")
            self._words.append(word)
            return is_block
        if word in (")", "]", "}") and self._brackets:
            was = self._brackets.pop()
        self._words.append(word)
        is_attribute = word == "]" and self._words[0] == "#" and not self._is_inside()
        return (word == "}" and was == "{") or is_attribute

    def _is_inside(self) -> bool:
        return bool(self._brackets) and self._brackets[-1] != "{"

    def _is_end(self, word: str, follows: str) -> bool:
        if self._is_inside():
            return False
        if word == ";" or not self._words or self._words[-1] in _ENDED:
            return True
        after_block = self._words == ["}"] and follows in _AFTER_BLOCK
        return not (self._words[-1] in _OPEN or follows in _GOES_ON or after_block)

    def _opens(self) -> bool:
        """Whether a brace behind the words opens a block, and no value."""
        if not self._words or self._words[-1] in (")", "=>", "else", "try", "finally", "do", "}"):
            return True
        return not self._is_inside() and bool(_BLOCKS.match(" ".join(self._words[:3])))

    def _ended(self) -> Iterator[tuple[int, str]]:
        told = ""
        for word in self._words:
            needs = told and (told[-1].isalnum() or told[-1] in "_$") and word[0].isalnum()
            told += f" {word}" if needs else word
        if told:
            yield self._first, told
        self._words = []
