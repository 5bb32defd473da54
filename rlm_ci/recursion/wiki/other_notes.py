"""Notes about code in other languages than Python: line by line, for what is hard to mistake."""

from __future__ import annotations

import re

from rlm_ci.recursion.wiki import notes as kinds
from rlm_ci.recursion.wiki.notes import Note, bounded, folded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SCRIPT = (
    (r"\b(?:exec|execSync)\(|\bshell:\s*true", kinds.SHELL),
    (r"(?<![.\w])eval\(|\bnew Function\(", kinds.CODE),
    (r"(?<![.\w])(?:spawn|spawnSync|execFile|execFileSync|fork)\(", kinds.PROGRAM),
    (r"\b(?:unlink|unlinkSync|rmSync|rmdir|rmdirSync|rimraf)\(", kinds.DELETES),
    (r"(?<![.\w])fetch\(|\bhttps?\.(?:request|get|createServer)\(|\bnew WebSocket\(",
     kinds.NETWORK),
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
        (r"\bCommand::new\(", kinds.PROGRAM),
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
        (r"\bnew (?:Server)?Socket\(|\bHttpClient\.new\w+\(", kinds.NETWORK),
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
#: A line that begins so is a comment; `*` is one within a block.
_COMMENT = re.compile(r"\s*(?://|#(?!\[|include|define|if|else|end|pragma)|/\*|\*)")
_MARK = re.compile(r"(?://|#|/\*|^\s*\*).*?\b(TODO|FIXME|XXX|HACK)\b.*")


def other_notes(language: str, source: bytes) -> list[Note]:
    """What lines of a known language dare; nothing of any other."""
    patterns = _PATTERNS.get(language)
    if patterns is None:
        return []
    compiled = [(re.compile(pattern), kind) for pattern, kind in patterns]
    found = []
    for number, row in enumerate(source.decode("utf-8", "surrogateescape").split("\n"), 1):
        line = row[:1000]
        mark = _MARK.search(line)
        if mark:
            text = folded(mark[0].lstrip("/#* "))
            found.append(Note(kinds.MARKER, number, number, "", text))
        if _COMMENT.match(line):
            continue
        for pattern, kind in compiled:
            match = pattern.search(line)
            if match:
                name = match.groupdict().get("name") or ""
                found.append(Note(kind, number, number, "", folded(line, 110), name))
    return bounded(found)
