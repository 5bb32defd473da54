"""What a wiki says of a file besides its names: texts with their lines, invariants and risks.

Of code in other languages than Python they are found line by line, for what is hard to mistake.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from itertools import islice

from rlm_ci.source.code_places import CodePlaces
from rlm_ci.source.definitions.rust import spread
from rlm_ci.text.neutralise import clip
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    #: An expression, and the kind of the note that it makes.
    Patterns = tuple[tuple[str, str], ...]


#: Kinds of a note about what always holds, with their headings, in the order of a page.
INVARIANTS: Mapping[str, str] = {
    "raises": "Refused arguments and states",
    "asserts": "Asserted when it is loaded",
    "frozen": "Immutable",
    "choices": "One of a fixed set",
    "final": "Set once",
    "abstract": "Left to subclasses",
}
#: Kinds of a note about what may go wrong in operation, the most severe first.
RISKS: Mapping[str, str] = {
    "shell": "Asks a shell",
    "code": "Evaluates code",
    "objects": "Loads objects from bytes",
    "deletes": "Deletes files",
    "program": "Starts other programs",
    "network": "Speaks to a network",
    "threads": "Starts threads or processes",
    "memory": "Works outside of memory safety",
    "environment": "Depends on environment variables",
    "ends": "Ends the process",
    "swallows": "Swallows errors",
    "marker": "Marked as to do",
}
#: The kind of a note about an error that is raised; ``detail`` is its name.
THROWS = "throws"
#: Kinds of notes about how code fails: see ``surface``.
MESSAGE, EXIT, CAUGHT, CODE_OF = "message", "exit", "caught", "code of"
#: Kinds of notes about what sets the program: see ``surface.settings``.
OPTION, SETTINGS, CONFIG_FILE = "option", "settings", "configuration file"
CONFIG_KEYS = "configuration keys"
#: The kind of a note about a list that is added to: see ``surface.registries``.
REGISTRY = "registry"
#: The kind of a note about where tests are taken from: see ``surface.tested_paths``.
TESTS = "tests"
#: The kind of a note about tests of Rust that stand in the file that they test.
INNER_TESTS = "inner tests"
#: Kinds of which no page has a list of its own that counts as something to say.
UNCOUNTED = frozenset((THROWS, MESSAGE, EXIT, CAUGHT, CODE_OF, OPTION, SETTINGS, CONFIG_FILE,
                       CONFIG_KEYS, REGISTRY, TESTS))  # fmt: skip
#: Notes of one kind that are kept of one file.
MOST = 200
#: Lines of a note's place.
LONGEST = 12


class Statement(Row):
    """A text of the repository, and its lines."""

    text: str
    line_start: int
    line_end: int


class Chapter(Row):
    """A heading of a guide, its lines, and the ``paths`` that its text names, one a line."""

    text: str
    line_start: int
    line_end: int
    paths: str = ""


class CodeNote(Row):
    """A note about code: its lines, the definition around them, and texts from the code."""

    kind: str
    line_start: int
    line_end: int
    within: str
    text: str
    detail: str = ""


def folded(text: str, limit: int = 160) -> str:
    """A piece of code on one line, within a limit."""
    return clip(" ".join(text.split()), limit)


def bounded(notes: list[CodeNote]) -> list[CodeNote]:
    """The notes in order of their places, ``MOST`` of each kind."""
    counts: Counter[str] = Counter()
    code_notes = []
    for note in sorted(notes, key=lambda note: (note.line_start, note.kind, note.text)):
        counts[note.kind] += 1
        if counts[note.kind] <= MOST:
            code_notes.append(note)
    return code_notes


#: Characters of a line that are shown.
_WIDE = 110
_SCRIPT = (
    (r"\bshell:\s*true", "shell"),
    (r"(?<![.\w])eval\(|(?<![.\w])Function\(", "code"),
    (r"\b(?:unlink|unlinkSync|rmSync|rmdir|rmdirSync|rimraf)\(", "deletes"),
    (r"(?<![.\w])fetch\(|\bnew (?:XMLHttpRequest|WebSocket|EventSource)\(", "network"),
    (r"\b(?:https?|http2|net|tls)\.(?:request|get|connect|create\w+)\(", "network"),
    (r"\bnew Worker\(", "threads"),
    (r"\bprocess\.env\b(?:\.(?P<name>\w+))?", "environment"),
    (r"\bprocess\.exit\(", "ends"),
    (r"\bcatch\s*(?:\([^)]*\))?\s*\{\s*\}", "swallows"),
    # An error is made in one place, and thrown, or handed on, in another.
    (r"\bnew (?P<name>(?<=\bthrow new )\w+|\w*(?:Error|Exception)\b)", THROWS),
)  # fmt: skip
_C = (
    (r"(?<![.\w>])(?:system|popen)\s*\(", "shell"),
    (r"(?<![.\w>])(?:execv[ep]*|execl[ep]*|posix_spawnp?)\s*\(", "program"),
    (r"(?<![.\w>])(?:unlink|rmdir)\s*\(", "deletes"),
    (r"(?<![.\w>])(?:connect|bind|listen|accept)\s*\(", "network"),
    (r"\b(?:pthread_create|std::thread|std::async)\b|(?<![.\w>])fork\s*\(", "threads"),
    (r"(?<![.\w>])(?:strcpy|strcat|sprintf|gets|alloca)\s*\(", "memory"),
    (r"\bgetenv\s*\(\s*\"(?P<name>\w+)\"", "environment"),
    (r"(?<![.\w>])(?:abort|_exit|exit)\s*\(", "ends"),
)
#: What a line of a language says, and which note that is.
_PATTERNS: Mapping[str, Patterns] = {
    "JavaScript": _SCRIPT,
    "TypeScript": _SCRIPT,
    "TSX": _SCRIPT,
    "C": _C,
    "C++": _C,
    "Go": (
        (r"\bexec\.Command(?:Context)?\(", "program"),
        (r"\bos\.Remove(?:All)?\(", "deletes"),
        (r"\bnet\.(?:Dial|Listen)\w*\(|\bhttp\.(?:Get|Post|ListenAndServe\w*)\(", "network"),
        (r"\bunsafe\.\w+", "memory"),
        (r"\bos\.(?:Getenv|LookupEnv)\((?:\"(?P<name>\w+)\"|[^\")])", "environment"),
        (r"\bos\.Exit\(|\blog\.Fatal\w*\(", "ends"),
        (r"\bgo func\(", "threads"),
        (r"\breturn\b.*\b(?P<name>Err[A-Z]\w*)", THROWS),
    ),
    "Rust": (
        (r"\bfs::remove_(?:file|dir|dir_all)\(", "deletes"),
        (r"\b(?:TcpListener|TcpStream|UdpSocket)::\w+\(", "network"),
        (r"\bthread::spawn\(", "threads"),
        (r"\bunsafe\s*(?:\{|fn\b|impl\b)", "memory"),
        (r"\benv::var(?:_os)?\(\"(?P<name>\w+)\"", "environment"),
        (r"\bprocess::(?:exit|abort)\(", "ends"),
    ),
    "Java": (
        (r"\bgetRuntime\(\)\.exec\(|\bnew ProcessBuilder\(", "program"),
        (r"\bnew ObjectInputStream\(", "objects"),
        (r"\bFiles\.delete(?:IfExists)?\(", "deletes"),
        (r"\bnew (?:Server|Datagram|Multicast)?Socket\(|\bHttpClient\.new\w+\(", "network"),
        (r"\w*(?:Socket|Datagram)Channel\.open\(|\.openConnection\(", "network"),
        (r"\bHttps?Server\.create\(", "network"),
        (r"\bnew Thread\(|\bExecutors\.new\w+\(", "threads"),
        (r"\bSystem\.getenv\(\"(?P<name>\w+)\"", "environment"),
        (r"\bSystem\.exit\(", "ends"),
        (r"\bthrow new (?P<name>\w+)", THROWS),
        (r"\bcatch\s*\([^)]*\)\s*\{\s*\}", "swallows"),
    ),
    "C#": (
        (r"\bProcess\.Start\(", "program"),
        (r"\bBinaryFormatter\b", "objects"),
        (r"\b(?:File|Directory)\.Delete\(", "deletes"),
        (r"\bnew (?:HttpClient|TcpListener|TcpClient)\(", "network"),
        (r"\bnew Thread\(|\bTask\.Run\(", "threads"),
        (r"\bunsafe\b", "memory"),
        (r"\bGetEnvironmentVariable\(\"(?P<name>\w+)\"", "environment"),
        (r"\bEnvironment\.Exit\(", "ends"),
        (r"\bthrow new (?P<name>\w+)", THROWS),
    ),
    "Ruby": (
        (r"(?<![.\w])(?:system|exec)[ (]|(?<!\w)%x[({\[]", "shell"),
        (r"(?<![.\w])eval[ (]|\.(?:instance|class|module)_eval\b", "code"),
        (r"\bMarshal\.load\b|\bYAML\.(?:unsafe_)?load\(", "objects"),
        (r"\bFile\.(?:delete|unlink)\b|\bFileUtils\.rm\w*", "deletes"),
        (r"\bNet::HTTP\b|\bTCP(?:Socket|Server)\.new\b", "network"),
        (r"\bThread\.new\b|(?<![.\w])fork\b", "threads"),
        (r"\bENV(?:\.fetch\(|\[)[\"'](?P<name>\w+)", "environment"),
        (r"(?<![.\w])raise[ (](?:[A-Z]\w*::)*(?P<name>[A-Z]\w*)", THROWS),
    ),
    "PHP": (
        (r"(?<![>:\w$])(?:shell_exec|exec|system|passthru|popen|proc_open)\s*\(", "shell"),
        (r"(?<![>:\w$])eval\s*\(", "code"),
        (r"(?<![>:\w$])unserialize\s*\(", "objects"),
        (r"(?<![>:\w$])(?:unlink|rmdir)\s*\(", "deletes"),
        (r"\bcurl_(?:exec|init)\s*\(|\bfsockopen\s*\(", "network"),
        (r"\bgetenv\s*\(\s*[\"'](?P<name>\w+)", "environment"),
        (r"\bthrow new \\?(?:\w+\\)*(?P<name>\w+)", THROWS),
    ),
    "Shell": (
        (r"(?:^|[;&|]\s*)eval\s", "code"),
        (r"\brm\s+-\w*r", "deletes"),
        (r"(?:^|[;&|(]\s*)(?:curl|wget)\s", "network"),
    ),
}
_SCRIPTS = ("JavaScript", "TypeScript", "TSX")
#: Modules of JavaScript that use a network: the first import counts.
_SPEAKER = re.compile(
    r"(?:\bfrom|\b(?:require|import)\s?\(|\bimport)\s?[\"'](?:(?:node:)?(?:https?|http2|net|tls|dgram)"
    r"|axios|cross-fetch|engine\.io(?:-client)?|follow-redirects|got|@grpc/grpc-js|ioredis|mongodb"
    r"|mongoose|mysql2?|node-fetch|openai|pg|redis|socket\.io(?:-client)?|superagent|undici|ws)[\"']"
)
_OF_TYPES = re.compile(r"\s*(?:import|export)\s+type\b")
#: What a test brings along in Rust, in the file that it tests.
_ASIDE = re.compile(
    r"([ \t]*)(?:#\[(?:cfg\((?:test|all\(test\b.*)\)|(?:\w+::)*test)\]"
    r"|(?P<module>mod tests? \{$))"
)
#: What marks a function as a test.
_TEST = re.compile(r"\s*#\[(?:\w+::)*(?:test|rstest|test_case)\b")
#: A line that begins so is a comment; `*` is one within a block.
_COMMENT = re.compile(r"\s*(?://|#(?!\[|include|define|if|else|end|pragma)|/\*|\*)")
_MARK = re.compile(r"(?://|#|/\*|^\s*\*).*?\b(TODO|FIXME|XXX|HACK)\b.*")


def other_notes(language: str, source: bytes) -> list[CodeNote]:
    """The risks in the lines of a known language; nothing for any other."""
    patterns = _PATTERNS.get(language)
    if patterns is None:
        return []
    code = ProgramText(language, source)
    text = code.text
    if language in _SCRIPTS:
        patterns = (*patterns, *_programs_of_script(text))
    elif language == "Rust":
        patterns = (*patterns, _programs_of_rust(text))
    patterns = (*patterns, *_wrappers(language, text))
    compiled = [(re.compile(pattern), kind) for pattern, kind in patterns]
    is_silent = language not in _SCRIPTS
    notes = _inner_tests(code)
    for number, row in enumerate(text.split("\n"), 1):
        if number in code.tests:
            continue
        line = row[:1000]
        mark = _MARK.search(line)
        while mark and code.is_text(number, line, mark.start()):
            mark = _MARK.search(line, mark.start() + 1)
        if mark:
            text = folded(mark[0].lstrip("/#* "))
            notes.append(CodeNote("marker", number, number, "", text))
        if _COMMENT.match(line):
            continue
        for pattern, kind in compiled:
            match = next(
                (hit for hit in pattern.finditer(line) if code.does(number, line, hit.start())),
                None,
            )
            if match:
                name = match.groupdict().get("name") or ""
                begin = match.start() if len(line.strip()) > _WIDE and kind == "environment" else 0
                text = folded(f"{'… ' if begin else ''}{line[begin:]}", _WIDE)
                notes.append(CodeNote(kind, number, number, "", text, name))
        if not is_silent and _SPEAKER.search(line) and not _OF_TYPES.match(line):
            is_silent = True
            notes.append(CodeNote("network", number, number, "", folded(line, 110)))
    return bounded(list(dict.fromkeys(notes)))


#: A short function that reads the variable that its first parameter names.
_WRAPPERS: Mapping[str, str] = {
    "Go": r"\bfunc (\w+)\((\w+)[^{}]{0,200}\{[^{}]{0,200}?\bos\.(?:Getenv|LookupEnv)\(\2\)",
    "Rust": r"\bfn (\w+)(?:<[^>]*>)?\(\s*(\w+):[^{}]{0,200}\{[^{}]{0,200}?"
    r"\benv::var(?:_os)?\(&?\2\)",
    **dict.fromkeys(
        ("JavaScript", "TypeScript", "TSX"),
        r"\bfunction (\w+)\((\w+)[^{}]{0,200}\{[^{}]{0,200}?\bprocess\.env\[\2\]",
    ),
    "Java": r"\bString (\w+)\((?:final )?String (\w+)[^{}]{0,200}\{[^{}]{0,200}?\bgetenv\(\2\)",
}


def _wrappers(language: str, text: str) -> Iterator[tuple[str, str]]:
    """What names a variable to a function that reads it."""
    names = {
        match[1] for match in islice(re.finditer(_WRAPPERS.get(language, "$^"), text), _IMPORTS)
    }
    if names:
        yield rf"(?<![.\w])(?:{'|'.join(sorted(names))})\(\s*[\"'](?P<name>\w+)[\"']", "environment"


class ProgramText(CodePlaces):
    """The text of a file, and the lines of it that are there for its own ``tests``."""

    def __init__(self, language: str, source: bytes) -> None:
        super().__init__(language, source)
        self.text = source.decode("utf-8", "surrogateescape")
        self.tests = _lines_of_tests(self.text) if language == "Rust" else frozenset()

    def program(self, pattern: str) -> Iterator[tuple[re.Match[str], int]]:
        """Its ``matches`` outside of tests."""
        return (pair for pair in self.matches(pattern) if pair[1] not in self.tests)


def _inner_tests(code: ProgramText) -> list[CodeNote]:
    """The first test that a file has for itself, if it has one."""
    rows = code.text.split("\n")
    lines = (number for number in sorted(code.tests) if _TEST.match(rows[number - 1]))
    return [CodeNote(INNER_TESTS, line, line, "", "") for line in islice(lines, 1)]


def _lines_of_tests(text: str) -> frozenset[int]:
    """The lines that are compiled for tests only, up to the bracket of the same indentation."""
    rows = [row.rstrip() for row in text.split("\n")] if "test" in text else []
    ends: dict[str, list[int]] = {}
    for number, row in enumerate(rows, 1):
        if row.endswith("}") and not row[:-1].strip():
            ends.setdefault(row[:-1], []).append(number)
    lines: set[int] = set()
    last = 0
    for number, row in enumerate(rows, 1):
        match = _ASIDE.match(row) if number > last else None
        if match is None:
            continue
        last = number if match["module"] else number + 1
        closing = ends.get(match[1], [])
        at = bisect_right(closing, last)
        if at < len(closing) and (match["module"] or not rows[number].endswith((";", "}"))):
            last = closing[at]
        lines.update(range(number, last + 1))
    return frozenset(lines)


# ── by what names a file starts programs ──


_MODULE = r"['\"](?:node:)?child_process['\"]"
#: What starts a program, by its name in that module of JavaScript.
_STARTS: Mapping[str, str] = {
    **dict.fromkeys(("exec", "execSync"), "shell"),
    **dict.fromkeys(("spawn", "spawnSync", "execFile", "execFileSync", "fork"), "program"),
}
#: What the module, or a member of it, is bound to. No text is searched from two imports.
_BOUND = re.compile(
    rf"\bimport\s+(?P<clause>(?:(?!\bimport\b)[^;'\"]){{1,2000}}?)\bfrom\s*{_MODULE}"
    rf"|(?P<names>\{{[^{{}}]{{0,2000}}\}}|(?<![\w$])[\w$]{{1,200}})\s*=\s*(?:await\s+)?"
    rf"(?:require|import)\s*\(\s*{_MODULE}\s*\)(?:\s*\.\s*(?P<member>\w+))?"
)
#: So many of these are looked at.
_IMPORTS = 20
_LISTED = re.compile(r"(\w+)(?:\s*(?::|\bas\b)\s*(\w+))?")
_PROMISED = re.compile(
    r"\b(?:const|let|var)\s+(\w+)\s*=\s*(?:\w+\.)?promisify\(\s*(?:(\w+)\.)?(\w+)\s*\)"
)


def _programs_of_script(text: str) -> Patterns:
    if "child_process" not in text:
        return ()
    modules: set[str] = set()
    names: dict[str, str] = {}
    for match in islice(_BOUND.finditer(text), _IMPORTS):
        clause, member = match["clause"] or match["names"], match["member"]
        listed = re.search(r"\{([^{}]*)\}", clause)
        for exported, alias in _LISTED.findall(listed[1]) if listed else ():
            names[alias or exported] = exported
        bound = re.match(r"\s*(?:\*\s*as\s+)?(\w+)", clause)
        if bound and member:
            names[bound[1]] = member
        elif bound:
            modules.add(bound[1])
    for name, module, exported in _PROMISED.findall(text):
        if module in modules or exported in names:
            names[name] = exported if module else names[exported]
    return tuple(_calls(modules, names))


def _calls(modules: Iterable[str], names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    module_pattern = "|".join([*sorted(modules), rf"require\({_MODULE}\)"])
    for kind in ("shell", "program"):
        members = "|".join(member for member in _STARTS if _STARTS[member] == kind)
        calls = [rf"(?:{module_pattern})\.(?:{members})"]
        calls += [name for name, member in sorted(names.items()) if _STARTS.get(member) == kind]
        yield rf"(?<![.\w$])(?:{'|'.join(calls)})\(", kind


_USE = re.compile(r"\buse\s+([^;]{1,2000});")
_AS = re.compile(r"\s+as\s+")
#: Crates whose ``process::Command`` starts a program.
_CRATES = ("std", "tokio", "async_std", "async_process")


def _programs_of_rust(text: str) -> tuple[str, str]:
    """How a file of Rust starts programs: other crates have a ``Command``, too."""
    names = [r"(?:\w+::)*process::Command"]
    for clause in _USE.findall(text) if "Command" in text else ():
        for path in spread("".join(_AS.sub("@", clause).split())):
            original, _, alias = path.partition("@")
            parts = original.removeprefix("::").split("::")
            if parts[0] in _CRATES and parts[-1] == "Command":
                names.append(alias or "Command")
    return rf"(?<![\w:])(?:{'|'.join(dict.fromkeys(names))})::new\(", "program"
