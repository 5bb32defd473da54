"""Lines of a file, as a text names them: ``a.py:12``, ``a.py#L3-L5``, ``line 12 of a.py``.

Readers believe such references, so all are found, even of files that do not exist, and callers
verify or mark them. A time, a ratio, an address with its port or a version is none.
"""

from __future__ import annotations

import re

from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# Every repetition has a bound: what is searched is linear in time.
_DIGITS = r"\d{1,20}"
_DASH = "[-\u2010-\u2015]"
_COLON = "[:\uff1a\ufe55\u2236\ua789]"
#: What Markdown puts around a number, and what people do.
_MARKUP = r"[*_`~#]{0,3}"
_ONE = rf"L?{_DIGITS}(?:C{_DIGITS})?"
_SPAN = rf"{_ONE}(?:{_DASH}{_ONE})?"
_MARKS = rf"#L{_SPAN[2:]}(?:,{_SPAN}){{0,50}}"
_AFTER_COLON = (
    rf"{_COLON}{_MARKUP}{_SPAN}(?:,{_SPAN}){{0,50}}(?:{_COLON}{_DIGITS}){{0,2}}(?:ff?\b)?"
)
_TO = rf"(?:{_DASH}|\s{_DASH}\s|\sto\s|\sthrough\s)"
_SPOKEN = rf"{_MARKUP}{_DIGITS}(?:{_MARKUP}{_TO}{_MARKUP}{_DIGITS})?"
_NUMBER_OF = r"(?:\s(?:no\.|numbers?))?"
_WORDS = (
    rf"(?:(?:[Ll]ines|[Rr]ows|ll\.){_NUMBER_OF}\s{{1,3}}{_SPOKEN}"
    rf"(?:{_MARKUP}(?:,\s?|\s)(?:(?:and|or|&)\s)?{_SPOKEN}){{0,20}}"
    rf"|(?:[Ll]ine|[Rr]ow|l\.){_NUMBER_OF}\s{{1,3}}{_SPOKEN}|L{_SPAN[2:]})"
)
_END = rf"(?![^\W_]|_\w|[.]\d|{_DASH}L?\d)"
_NAME = r"[^\s\"'`<>|,;:#()\[\]{}*]"
_OF = r"{_MARKUP}(?:\s{1,3}(?:of|in|from|at)\s{1,3}|,\s|\s\()(?:the\s)?(?:file\s)?".replace(
    "{_MARKUP}", _MARKUP
)
#: The lines before or behind a name, to be searched in a text.
LINES = (
    rf"(?P<url>\b[A-Za-z][A-Za-z0-9+.-]{{1,20}}://[^\s<>\"'`()\[\]]{{1,2000}})"
    rf"|(?P<close>[\"'`*)\]]{{0,3}})(?:(?P<mark>{_MARKS})|(?P<colon>{_AFTER_COLON})"
    rf"|(?P<round>\({_DIGITS}(?:,\s?{_DIGITS})?\))"
    rf"|(?:['\u2019]s)?(?:[,:]\s{{0,3}}|\s{{1,3}}(?:(?:[->\u2192@|]|{_DASH}){{1,2}}\s)?|(?=[(\[]))"
    rf"(?P<paren>[(\[])?(?:(?:at|on|in|near|around|about|approximately|starting\sat)\s){{0,2}}"
    rf"(?P<words>(?>{_WORDS}))(?(paren)[)\]]?)(?!{_OF}(?:[`\"]|{_NAME}{{1,100}}[./\\]\w)))"
    rf"{_END}"
    rf"|\b(?P<before>{_WORDS}){_OF}"
    rf"(?:`(?P<code>[^`\n]{{1,500}})`|\"(?P<quoted>[^\"\n]{{1,500}})\""
    rf"|(?P<bare>(?>{_NAME}{{1,500}}))(?!{_COLON}\d|\#L))"
)
_REFERENCE = re.compile(LINES)
_NUMBERS = re.compile(rf"({_DIGITS})(?:{_TO}L?({_DIGITS}))?")
_COLUMNS = re.compile(rf"(?<=\d)(?:{_COLON}|C){_DIGITS}")
_LINES_OF_URL = re.compile(rf"#L{_DIGITS}|[^/?#]{_COLON}{_DIGITS}(?:{_DASH}{_DIGITS})?$")
_SUFFIX = re.compile(r".\.(?=[\w+]*[^\W\d_])[\w+]{1,12}$")
_ROOTED = re.compile(r"(?:[A-Za-z]:)?[/\\]|\.{1,2}[/\\]|~[/\\]")
#: Beside letters and digits, what the inside of a path is written with: none begins behind it.
_INNER = frozenset("/._-\\~@+%$#!&^")
#: From here on scripts put no blank between words.
_UNSPACED = "\u2e80"
#: Where a path may begin, counted back from its end: at so many words, in so many characters.
_WORDS_BACK = 12
_LONGEST = 4096
_BACK = 500
#: How names of machines end, which have a port; a name with two dots is one, too.
_DOMAINS = frozenset((
    "ai", "app", "at", "au", "be", "biz", "br", "ca", "ch", "cloud", "cluster", "cn", "co", "com",
    "corp", "cz", "de", "dev", "dk", "edu", "es", "eu", "example", "fi", "fr", "gov", "ie", "info",
    "int", "internal", "invalid", "io", "it", "jp", "kr", "lan", "local", "localhost", "me", "mil",
    "net", "nl", "no", "nz", "org", "se", "svc", "test", "tv", "uk", "us",
))  # fmt: skip


#: What replaces a reference that was not verified.
_UNVERIFIED = "[unverified: {}]"


class LineReference(Value):
    """Lines of a file named in ``text[start:end]``: pairs of first and last in ``spans``.

    ``is_plain``: it is written as references are, so that its lines can be looked up.
    """

    start: int
    end: int
    name: str
    spans: tuple[tuple[int, int], ...]
    is_plain: bool = True


class ReferenceReader:
    """Finds references; ``names`` are those of existing files.

    ``is_file_type`` tells whether a name is that of a kind of file, by its ending.
    """

    def __init__(
        self, names: Mapping[str, object], is_file_type: Callable[[str], bool] = bool
    ) -> None:
        self._names = names
        self._is_file_type = is_file_type
        self._longest = min(max(map(len, names), default=0), _LONGEST)
        self._endings = {_ending(name) for name in names}

    def find(self, text: str) -> Iterator[LineReference]:
        """All of ``text``, in order; none begins before the end of another."""
        done = 0
        for match in _REFERENCE.finditer(text):
            if reference := self.read(text, match, done):
                yield reference
                done = reference.end

    def read(self, text: str, match: re.Match[str], since: int) -> LineReference | None:
        """What ``match``, of ``LINES`` in ``text``, refers to; nothing of it before ``since``."""
        if match["url"] is not None:
            url = match["url"].rstrip(".:!?,;*_")
            is_one = _LINES_OF_URL.search(url.partition("://")[2].partition("/")[2])
            end = match.start() + len(url)
            return LineReference(match.start(), end, url, (), is_plain=False) if is_one else None
        if match["before"] is not None:
            return self._named_behind(match)
        written = match["mark"] or match["colon"] or match["words"] or match["round"]
        spans = _spans(written)[: 1 if match["round"] else None]  # a column follows
        found = self._before(text, match, since)
        if found is None:
            return None
        start, name = found
        name = name.removeprefix("./")
        if not (self._is_named(name, match) or self._is_place(name, match)):
            return None
        is_plain = _is_plain(written)
        return LineReference(start, match.end(), name, spans, is_plain)

    def _named_behind(self, match: re.Match[str]) -> LineReference | None:
        """``line 3 of a.py``."""
        name, end = match["code"] or match["quoted"], match.end()
        if name is None:
            name = match["bare"].rstrip(".!?*_")
            end -= len(match["bare"]) - len(name)
        name = name.removeprefix("./")
        if name not in self._names and not _has_suffix(name) and not _ROOTED.match(name):
            return None
        written = match["before"]
        return LineReference(match.start(), end, name, _spans(written), _is_plain(written))

    def _before(self, text: str, match: re.Match[str], since: int) -> tuple[int, str] | None:
        """The name that ends where ``match`` begins, and where it begins."""
        end = match.start()
        quote = next((char for char in match["close"] if char in "\"'`"), "")
        if quote:  # `a b.py`:3
            begin = text.rfind(quote, max(since, end - _BACK), end)
            inner = text[begin + 1 : end].strip("*")
            return (begin, inner) if begin >= 0 and inner and "\n" not in inner else None
        whole = self._in_quotes(text, match, since)
        if whole is not None:  # `a b.py:3`
            return whole
        begin = known = end
        words = 0
        while begin > max(since, end - self._longest - 2) and words < _WORDS_BACK:
            begin -= 1
            if _begins(text, begin):
                words += 1
                if self._is_named(text[begin:end].removeprefix("./"), match):
                    known = begin
        if known < end:
            return known, text[known:end]
        begin = end
        while begin > max(since, end - _BACK) and _is_inner(text[begin - 1]):
            begin -= 1
        if begin - 2 >= since and re.match(r"(?<![^\W_])[A-Za-z]:[/\\]", text[begin - 2 : end]):
            begin -= 2
        return (begin, text[begin:end]) if begin < end else None

    def _in_quotes(self, text: str, match: re.Match[str], since: int) -> tuple[int, str] | None:
        """A name of several words in quotes together with its lines alone."""
        quote = text[match.end() : match.end() + 1]
        if quote not in ("`", '"'):
            return None
        first = max(since, match.start() - _BACK)
        line = max(first, text.rfind("\n", first, match.start()) + 1)
        begin = text.rfind(quote, line, match.start()) + 1
        name = text[begin : match.start()]
        is_one = begin > 0 and " " in name and name.strip(" ") == name
        is_open = is_one and text.count(quote, line, begin) % 2 == 1
        return (begin, name) if is_open and _has_suffix(name) else None

    def _is_named(self, name: str, match: re.Match[str]) -> bool:
        """Whether there is a file of that name, written as one: ``redis:7`` is not."""
        return name in self._names and ((match["colon"] or match["round"]) is None or _tells(name))

    def _is_place(self, name: str, match: re.Match[str]) -> bool:
        """Whether a reader takes ``name``, of an unknown file, for a place."""
        last = re.split(r"[/\\]", name)[-1]
        is_path = last != name
        if not any(map(str.isalpha, name)):
            return False
        if match["mark"] is not None:
            return True
        if match["round"] is not None:  # a call is written like this, too
            return self._is_file_type(last) and _has_suffix(last)
        if match["words"] is not None:
            return _has_suffix(last) or bool(_ROOTED.match(name))
        if not re.fullmatch(rf"{_COLON}{_DIGITS}", match["colon"]):
            return _has_suffix(last) or (is_path and not last.isdigit())
        if is_path:
            return _has_suffix(last) or not (
                last.isdigit() or _is_host(re.split(r"[/\\]", name)[0])
            )
        if _has_suffix(last):
            return _ending(last) in self._endings or self._is_file_type(last) or not _is_host(last)
        return self._is_file_type(last) and (last.isupper() or last.endswith("file"))


def _begins(text: str, at: int) -> bool:
    """Whether a path may begin at ``at``: no word or longer path continues there."""
    return at == 0 or text[at - 1] >= _UNSPACED or not _is_inner(text[at - 1])


def _is_inner(char: str) -> bool:
    return (char.isalnum() and char < _UNSPACED) or char in _INNER


def _tells(name: str) -> bool:
    """Whether a reader takes a name for a file: not ``redis:7``, not ``11:30``."""
    has_letter = any(map(str.isalpha, name))
    return has_letter and ("." in name or "/" in name or name[0].isupper())


def _has_suffix(name: str) -> bool:
    return bool(_SUFFIX.search(name)) or bool(re.match(r"\.[^\W\d]\w", name))


def _ending(name: str) -> str:
    return name.rpartition(".")[2].casefold()


def _is_host(name: str) -> bool:
    """Whether a name may be a machine's, which no file is known by."""
    *labels, last = name.split(".")
    is_host = re.fullmatch(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+", name) is not None
    return is_host and (last in _DOMAINS or len(labels) > 1)


def _spans(written: str) -> tuple[tuple[int, int], ...]:
    plain = _COLUMNS.sub("", written)
    found = ((int(match[1]), int(match[2] or match[1])) for match in _NUMBERS.finditer(plain))
    return tuple(found)


def _is_plain(written: str) -> bool:
    """Whether the lines are written in figures and signs that cannot be mistaken for others."""
    return re.sub(_DASH, "-", written).isascii()


def unverified(written: str) -> str:
    """``written``, marked as unverified."""
    return _UNVERIFIED.format(written)


def marked(
    text: str,
    names: Mapping[str, object] | None = None,
    holds: Callable[[LineReference], bool] | None = None,
) -> str:
    """``text`` of a model with a mark at each reference that does not hold and has none yet."""
    parts: list[str] = []
    done = 0
    before, after = _UNVERIFIED.split("{}")
    for reference in ReferenceReader(names or {}).find(text):
        is_marked = text.endswith(before, 0, reference.start) and text.startswith(
            after, reference.end
        )
        if is_marked or (reference.is_plain and holds is not None and holds(reference)):
            continue
        parts += (text[done : reference.start], unverified(text[reference.start : reference.end]))
        done = reference.end
    return "".join((*parts, text[done:]))


def written_name(path: str) -> str:
    """A path as prompts and answers write it."""
    return printable(encodable(path))
