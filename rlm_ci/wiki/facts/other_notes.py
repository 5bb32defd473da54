"""Notes about code in other languages than Python: line by line, for what is hard to mistake."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from rlm_ci.source import grammars
from rlm_ci.wiki.facts import note as kinds
from rlm_ci.wiki.facts import process_aliases
from rlm_ci.wiki.facts.note import CodeNote, bounded, folded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tree_sitter import Node

_SCRIPT = (
    (r"\bshell:\s*true", kinds.SHELL),
    (r"(?<![.\w])eval\(|(?<![.\w])Function\(", kinds.CODE),
    (r"\b(?:unlink|unlinkSync|rmSync|rmdir|rmdirSync|rimraf)\(", kinds.DELETES),
    (r"(?<![.\w])fetch\(|\bnew (?:XMLHttpRequest|WebSocket|EventSource)\(", kinds.NETWORK),
    (r"\b(?:https?|http2|net|tls)\.(?:request|get|connect|create\w+)\(", kinds.NETWORK),
    (r"\bnew Worker\(", kinds.THREADS),
    (r"\bprocess\.env\b(?:\.(?P<name>\w+))?", kinds.ENVIRONMENT),
    (r"\bprocess\.exit\(", kinds.ENDS),
    (r"\bcatch\s*(?:\([^)]*\))?\s*\{\s*\}", kinds.SWALLOWS),
)  # fmt: skip
_C = (
    (r"(?<![.\w>])(?:system|popen)\s*\(", kinds.SHELL),
    (r"(?<![.\w>])(?:execv[ep]*|execl[ep]*|posix_spawnp?)\s*\(", kinds.PROGRAM),
    (r"(?<![.\w>])(?:unlink|rmdir)\s*\(", kinds.DELETES),
    (r"(?<![.\w>])(?:connect|bind|listen|accept)\s*\(", kinds.NETWORK),
    (r"\b(?:pthread_create|std::thread|std::async)\b|(?<![.\w>])fork\s*\(", kinds.THREADS),
    (r"(?<![.\w>])(?:strcpy|strcat|sprintf|gets|alloca)\s*\(", kinds.MEMORY),
    (r"\bgetenv\s*\(\s*\"(?P<name>\w+)\"", kinds.ENVIRONMENT),
    (r"(?<![.\w>])(?:abort|_exit|exit)\s*\(", kinds.ENDS),
)
#: What a line of a language says, and which note that is.
_PATTERNS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "JavaScript": _SCRIPT,
    "TypeScript": _SCRIPT,
    "TSX": _SCRIPT,
    "C": _C,
    "C++": _C,
    "Go": (
        (r"\bexec\.Command(?:Context)?\(", kinds.PROGRAM),
        (r"\bos\.Remove(?:All)?\(", kinds.DELETES),
        (r"\bnet\.(?:Dial|Listen)\w*\(|\bhttp\.(?:Get|Post|ListenAndServe\w*)\(", kinds.NETWORK),
        (r"\bunsafe\.\w+", kinds.MEMORY),
        (r"\bos\.(?:Getenv|LookupEnv)\(\"(?P<name>\w+)\"", kinds.ENVIRONMENT),
        (r"\bos\.Exit\(|\blog\.Fatal\w*\(", kinds.ENDS),
        (r"\bgo func\(", kinds.THREADS),
    ),
    "Rust": (
        (r"\bfs::remove_(?:file|dir|dir_all)\(", kinds.DELETES),
        (r"\b(?:TcpListener|TcpStream|UdpSocket)::\w+\(", kinds.NETWORK),
        (r"\bthread::spawn\(", kinds.THREADS),
        (r"\bunsafe\s*(?:\{|fn\b|impl\b)", kinds.MEMORY),
        (r"\benv::var(?:_os)?\(\"(?P<name>\w+)\"", kinds.ENVIRONMENT),
        (r"\bprocess::(?:exit|abort)\(", kinds.ENDS),
    ),
    "Java": (
        (r"\bgetRuntime\(\)\.exec\(|\bnew ProcessBuilder\(", kinds.PROGRAM),
        (r"\bnew ObjectInputStream\(", kinds.OBJECTS),
        (r"\bFiles\.delete(?:IfExists)?\(", kinds.DELETES),
        (r"\bnew (?:Server|Datagram|Multicast)?Socket\(|\bHttpClient\.new\w+\(", kinds.NETWORK),
        (r"\w*(?:Socket|Datagram)Channel\.open\(|\.openConnection\(", kinds.NETWORK),
        (r"\bHttps?Server\.create\(", kinds.NETWORK),
        (r"\bnew Thread\(|\bExecutors\.new\w+\(", kinds.THREADS),
        (r"\bSystem\.getenv\(\"(?P<name>\w+)\"", kinds.ENVIRONMENT),
        (r"\bSystem\.exit\(", kinds.ENDS),
        (r"\bcatch\s*\([^)]*\)\s*\{\s*\}", kinds.SWALLOWS),
    ),
    "C#": (
        (r"\bProcess\.Start\(", kinds.PROGRAM),
        (r"\bBinaryFormatter\b", kinds.OBJECTS),
        (r"\b(?:File|Directory)\.Delete\(", kinds.DELETES),
        (r"\bnew (?:HttpClient|TcpListener|TcpClient)\(", kinds.NETWORK),
        (r"\bnew Thread\(|\bTask\.Run\(", kinds.THREADS),
        (r"\bunsafe\b", kinds.MEMORY),
        (r"\bGetEnvironmentVariable\(\"(?P<name>\w+)\"", kinds.ENVIRONMENT),
        (r"\bEnvironment\.Exit\(", kinds.ENDS),
    ),
    "Ruby": (
        (r"(?<![.\w])(?:system|exec)[ (]|(?<!\w)%x[({\[]", kinds.SHELL),
        (r"(?<![.\w])eval[ (]|\.(?:instance|class|module)_eval\b", kinds.CODE),
        (r"\bMarshal\.load\b|\bYAML\.(?:unsafe_)?load\(", kinds.OBJECTS),
        (r"\bFile\.(?:delete|unlink)\b|\bFileUtils\.rm\w*", kinds.DELETES),
        (r"\bNet::HTTP\b|\bTCP(?:Socket|Server)\.new\b", kinds.NETWORK),
        (r"\bThread\.new\b|(?<![.\w])fork\b", kinds.THREADS),
        (r"\bENV(?:\.fetch\(|\[)[\"'](?P<name>\w+)", kinds.ENVIRONMENT),
    ),
    "PHP": (
        (r"(?<![>:\w$])(?:shell_exec|exec|system|passthru|popen|proc_open)\s*\(", kinds.SHELL),
        (r"(?<![>:\w$])eval\s*\(", kinds.CODE),
        (r"(?<![>:\w$])unserialize\s*\(", kinds.OBJECTS),
        (r"(?<![>:\w$])(?:unlink|rmdir)\s*\(", kinds.DELETES),
        (r"\bcurl_(?:exec|init)\s*\(|\bfsockopen\s*\(", kinds.NETWORK),
        (r"\bgetenv\s*\(\s*[\"'](?P<name>\w+)", kinds.ENVIRONMENT),
    ),
    "Shell": (
        (r"(?:^|[;&|]\s*)eval\s", kinds.CODE),
        (r"\brm\s+-\w*r", kinds.DELETES),
        (r"(?:^|[;&|(]\s*)(?:curl|wget)\s", kinds.NETWORK),
    ),
}
#: What is found of one file alone.
_OF_FILE: Mapping[str, Callable[[str], process_aliases.Patterns]] = {
    **dict.fromkeys(("JavaScript", "TypeScript", "TSX"), process_aliases.of_script),
    "Rust": process_aliases.of_rust,
}
#: Modules of JavaScript that speak to a network for whoever imports them: the first import counts.
_SPEAKER = re.compile(
    r"(?:\bfrom|\b(?:require|import)\s?\(|\bimport)\s?[\"'](?:(?:node:)?(?:https?|http2|net|tls|dgram)"
    r"|axios|cross-fetch|engine\.io(?:-client)?|follow-redirects|got|@grpc/grpc-js|ioredis|mongodb"
    r"|mongoose|mysql2?|node-fetch|openai|pg|redis|socket\.io(?:-client)?|superagent|undici|ws)[\"']"
)
_OF_TYPES = re.compile(r"\s*(?:import|export)\s+type\b")
#: What a test brings along in Rust, in the file that it tests.
_ASIDE = re.compile(r"([ \t]*)#\[cfg\((?:test|all\(test\b.*)\)\]")
#: A line that begins so is a comment; `*` is one within a block.
_COMMENT = re.compile(r"\s*(?://|#(?!\[|include|define|if|else|end|pragma)|/\*|\*)")
_MARK = re.compile(r"(?://|#|/\*|^\s*\*).*?\b(TODO|FIXME|XXX|HACK)\b.*")


def other_notes(language: str, source: bytes) -> list[CodeNote]:
    """What lines of a known language dare; nothing of any other."""
    patterns = _PATTERNS.get(language)
    if patterns is None:
        return []
    text = source.decode("utf-8", "surrogateescape")
    if language in _OF_FILE:
        patterns = (*patterns, *_OF_FILE[language](text))
    compiled = [(re.compile(pattern), kind) for pattern, kind in patterns]
    is_silent = _OF_FILE.get(language) is not process_aliases.of_script
    aside = _aside(text) if language == "Rust" else frozenset()
    code = _Code(language, source)
    found = []
    for number, row in enumerate(text.split("\n"), 1):
        if number in aside:
            continue
        line = row[:1000]
        mark = _MARK.search(line)
        while mark and code.is_text(number, line, mark.start()):
            mark = _MARK.search(line, mark.start() + 1)
        if mark:
            text = folded(mark[0].lstrip("/#* "))
            found.append(CodeNote(kinds.MARKER, number, number, "", text))
        if _COMMENT.match(line):
            continue
        for pattern, kind in compiled:
            match = next(
                (one for one in pattern.finditer(line) if code.does(number, line, one.start())),
                None,
            )
            if match:
                name = match.groupdict().get("name") or ""
                found.append(CodeNote(kind, number, number, "", folded(line, 110), name))
        if not is_silent and _SPEAKER.search(line) and not _OF_TYPES.match(line):
            is_silent = True
            found.append(CodeNote(kinds.NETWORK, number, number, "", folded(line, 110)))
    return bounded(list(dict.fromkeys(found)))


#: So many places of a file are looked at; a person writes fewer.
_ASKED = 2000
#: What stands in such a node does nothing, unless it is put into a text there.
_TEXTS = ("string", "heredoc", "char_literal", "character_literal", "regex", "jsx_text")
_PUT_IN = ("interpolation", "substitution")
#: What such a node names is defined there, or begun with a value.
_DEFINITIONS = frozenset((
    "abstract_method_signature", "field_initializer", "function_declaration", "function_declarator",
    "function_definition", "function_item", "function_signature", "method", "method_declaration",
    "method_definition", "method_signature", "singleton_method",
))  # fmt: skip


class _Code:
    """Whether something is said or done, by the tree of a file; done, where there is no tree."""

    def __init__(self, language: str, source: bytes) -> None:
        self._language = language
        self._source = source
        self._starts: list[int] = []
        self._root: Node | None = None
        self._left = _ASKED

    def does(self, number: int, line: str, column: int) -> bool:
        found = self._kinds(number, line, column)
        if not found:
            return self._left > 0
        if len(found) > 1 and found[-2] in _DEFINITIONS:
            return False
        for kind in reversed(found):
            if any(word in kind for word in _PUT_IN):
                return True
            if "comment" in kind or kind == "text" or any(word in kind for word in _TEXTS):
                return False
        return True

    def is_text(self, number: int, line: str, column: int) -> bool:
        """Whether what looks like a comment is none."""
        found = self._kinds(number, line, column)
        return bool(found) and not any("comment" in kind for kind in found)

    def _kinds(self, number: int, line: str, column: int) -> list[str]:
        """What holds the character ``column`` of a line: the file is parsed when first asked."""
        if not self._starts:
            lengths = (len(row) + 1 for row in self._source.split(b"\n"))
            self._starts = list(accumulate(lengths, initial=0))
            self._root = grammars.parse(self._language, self._source)
        if self._root is None or not self._left:
            return []
        self._left -= 1
        before = line[:column].encode("utf-8", "surrogateescape")
        return grammars.kinds_at(self._root, self._starts[number - 1] + len(before))


def _aside(text: str) -> frozenset[int]:
    """The lines of what is there for tests alone: to the bracket that stands as far in."""
    rows = [row.rstrip() for row in text.split("\n")] if "#[cfg(" in text else []
    ends: dict[str, list[int]] = {}
    for number, row in enumerate(rows, 1):
        if row.endswith("}") and not row[:-1].strip():
            ends.setdefault(row[:-1], []).append(number)
    lines: set[int] = set()
    last = 0
    for number, row in enumerate(rows, 1):
        found = _ASIDE.match(row) if number > last else None
        if found is None:
            continue
        last = number + 1
        closing = ends.get(found[1], [])
        at = bisect_right(closing, last)
        if at < len(closing) and not rows[number : number + 1][0].endswith((";", "}")):
            last = closing[at]
        lines.update(range(number, last + 1))
    return frozenset(lines)
