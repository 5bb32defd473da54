"""What a finding shows besides its message: what to write instead, and what proves it.

A fix that fits on its lines is a suggestion, which a reader can apply with one click.
"""

from __future__ import annotations

import re
from itertools import groupby

from rlm_ci.report.proof import ARGUED, PASSES, PROVEN, REFUTED, REPRODUCED
from rlm_ci.text import neutralise
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.report.findings import Finding
    from rlm_ci.report.links import Surface


WORD = "suggestion"

#: A longer one might not fit into a comment.
_LONGEST = 20_000
#: How a sentence begins, and how code ends that may begin so too.
_SENTENCE = re.compile(r"[A-Z][a-z]*,? +[A-Za-z`][\w'’-]*[` ,]")
_CODE_ENDS = (";", "{", "}", "(", ",", "[", "=", "\\", ":")


def replacement(fix: str | None) -> str | None:
    r"""The new lines, each ended by ``\n``, that ``fix`` puts in place; None if it is prose."""
    lines = (fix or "").replace("\r\n", "\n").strip("\n").split("\n")
    fence = lines[0].rstrip(" ").removesuffix(WORD)
    opened = len(fence) >= 3 and set(fence) in ({"`"}, {"~"}) and lines[0].startswith(fence + WORD)
    inner = lines[1:-1]
    if not opened or len(lines) < 2 or lines[-1].rstrip(" ") != fence:
        return None
    if any(_closes(line, fence) for line in inner):
        return None  # what a fence within it ends is unclear
    return "".join(f"{line}\n" for line in inner)


def pieces(fix: str) -> list[tuple[bool, str]]:
    """A fix in order, piece by piece, each with whether it is code.

    Code is what stands in a fence. Without any, a text is prose if it reads like a sentence, and
    else code, which loses nothing in a fence.
    """
    content = replacement(fix)
    if content is not None:
        return [(True, content.removesuffix("\n"))] if content else [(False, "Delete these lines.")]
    parts: list[tuple[bool, str]] = []
    lines: list[str] = []
    fence = ""
    for line in fix.replace("\r\n", "\n").strip("\n").split("\n"):
        opened = _opens(line)
        if fence and _closes(line, fence):
            parts.append((True, "\n".join(lines)))
            fence, lines = "", []
        elif opened and not fence:
            parts += _paragraphs(lines)
            fence, lines = opened, []
        else:
            lines.append(line)
    if fence:  # its end was cut off
        return [*parts, (True, "\n".join(lines))]
    text = "\n".join(lines)
    return [*parts, *_paragraphs(lines)] if parts or _is_prose(text) else [(True, text)]


def _paragraphs(lines: list[str]) -> list[tuple[bool, str]]:
    split = (part.strip() for part in "\n".join(line.rstrip() for line in lines).split("\n\n"))
    return [(False, part) for part in split if part]


def _is_prose(text: str) -> bool:
    text = text.strip()
    if text.endswith((".", "!", "?")):
        return True
    return bool(_SENTENCE.match(text)) and not text.endswith(_CODE_ENDS)


def is_plain(text: str) -> bool:
    """Whether ``text`` can be offered verbatim.

    Not with invisible characters, a marker of ours or a workflow command in it.
    """
    seen = text.replace("\n", "").replace("\t", "")
    return len(text) <= _LONGEST and printable(seen) == seen and not neutralise.is_obeyed(text)


def block(text: str) -> str:
    """``text`` as a suggestion block, its fence longer than any run of backticks inside."""
    longest = max((len(list(run)) for char, run in groupby(text) if char == "`"), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{WORD}\n{text}{fence}"


def _opens(line: str) -> str:
    """The marks with which ``line`` opens a block of code; "" if it opens none."""
    bare = line.strip()
    marks = bare[: len(bare) - len(bare.lstrip(bare[:1]))] if bare[:1] in ("`", "~") else ""
    return marks if len(marks) >= 3 and "`" not in bare[len(marks) :] else ""


def _closes(line: str, fence: str) -> bool:
    """Whether a parser may take ``line`` for the end of the block that ``fence`` opened."""
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


#: What a person reads above a reproduction.
SHOWN_BY = {
    PROVEN: "Reproduction: it fails here, and passes at the base",
    REPRODUCED: "Reproduction: it fails here, and the base has nothing to compare with",
    REFUTED: "Reproduction: it passes here",
    ARGUED: "What was run, which does not show it",
}
#: What stands for the output of a side that passed without one.
_SILENT = "It passes, and prints nothing."
#: Lines of an output that say less than the one that a failure ends with.
_FEW_LINES = 4
#: Characters of a line of output.
_WIDTH = 200


def fix_of(
    finding: Finding, surface: Surface, longest: int, longest_code: int
) -> list[dict[str, Any]]:
    """What is suggested, piece by piece, each with a ``text`` or with ``code`` to the letter.

    A text is cut after ``longest`` characters. Code of more than ``longest_code`` is left out as
    a whole: half of it is another change. A repair that was run takes the place of what is only
    suggested.
    """
    if not finding.suggested_fix or (finding.proof and finding.proof.repair):
        return []
    shown_pieces: list[dict[str, Any]] = []
    for is_code, piece in pieces(finding.suggested_fix):
        if not is_code:
            shown_pieces.append(
                {"text": surface.text(neutralise.clip(piece, longest)), "code": None}
            )
        elif len(piece) <= longest_code:
            language = language_of(finding)
            shown_pieces.append({"text": None, "code": surface.block(piece, language)})
        else:
            note = f"{count(piece.count(chr(10)) + 1, 'line')} of code, which `report.json` has."
            shown_pieces.append({"text": surface.text(note), "code": None})
    return shown_pieces


class ProofLimits(Value):
    """How much of a proof is shown.

    ``code`` is in characters, ``output_lines`` are the last ones of an output; with none of them
    there is only the level and its reason. Without ``has_repair`` the patch is left out, and
    without ``has_runs`` what was run.
    """

    code: int
    output_lines: int
    has_repair: bool = True
    has_runs: bool = True


def proof_of(
    finding: Finding, surface: Surface, limits: ProofLimits, alone: str = ""
) -> dict[str, Any] | None:
    """What a model's claim rests on, as a template shows it; None for any other finding.

    ``alone`` is the command that runs this proof from its run.
    """
    proof = finding.proof
    if proof is None:
        return None
    longest = limits.code
    view: dict[str, Any] = {
        "level": proof.level,
        "reason": surface.text(neutralise.clip(proof.reason, longest)),
        **dict.fromkeys(
            (
                "shown_by",
                "last",
                "alone",
                "command",
                "code",
                "path",
                "head",
                "base",
                "repair",
                "left_out",
                "repair_reason",
                "unrepaired",
            )
        ),
    }
    is_run = proof.reproduction or proof.head or proof.path
    if proof.level not in SHOWN_BY or not is_run or not limits.output_lines:
        return view

    def code(text: str, language: str) -> Any:
        return surface.block(text.rstrip("\n"), language) if 0 < len(text) <= longest else None

    repair = code(proof.repair, "diff") if limits.has_repair else None
    reason = proof.repair_reason or ("the reproduction passes with it" if proof.repair else "")
    repair_reason = (
        surface.text(f"{neutralise.clip(reason, longest).rstrip('.')}.") if reason else None
    )
    left_out = "The patch is `repair.patch` in the proof's folder."
    last = "" if proof.level in {ARGUED, REFUTED} else proof.failing_line
    if limits.has_runs:
        is_missed = proof.level == REFUTED and proof.reason.startswith(PASSES)
        shown_by = SHOWN_BY[ARGUED if proof.level == REFUTED and not is_missed else proof.level]
        head = proof.head or (_SILENT if is_missed else "")
        # The title and the last line say how it ended.
        output_lines = 0 if last and limits.output_lines <= _FEW_LINES else limits.output_lines
        base = proof.base or (_SILENT if proof.level == PROVEN else "")
        view |= {
            "shown_by": shown_by,
            "command": code(proof.command, "shell"),
            "code": code(proof.reproduction, language_of(finding)),
            "path": surface.code(proof.path) if proof.path else None,
            "head": _output(head, surface, output_lines),
            "base": _output(base, surface, output_lines),
        }
    return {
        **view,
        "last": surface.code(neutralise.clip(last, _WIDTH)) if last else None,
        # A command of its own needs the file that is shown beside it.
        "alone": surface.code(alone)
        if alone and not proof.is_argued and (limits.has_runs or alone != proof.command)
        else None,
        "repair": repair,
        "left_out": surface.text(left_out) if proof.repair and not repair else None,
        "repair_reason": repair_reason if proof.repair else None,
        "unrepaired": None if proof.repair else repair_reason,
    }


def _output(text: str, surface: Surface, line_limit: int) -> Any:
    if not line_limit:
        return None
    lines = text.rstrip("\n").split("\n")
    left = len(lines) - line_limit
    cut = [f"… {count(left, 'line')} above", *lines[-line_limit:]] if left > 1 else lines
    shown = "\n".join(neutralise.clip(line, _WIDTH) for line in cut)
    return surface.block(shown) if shown.strip() else None


#: Languages of quotes by the ending of a name, but for those that GitHub draws or embeds.
_LANGUAGES: dict[str, str] = {
    "c": "c", "cc": "cpp", "cpp": "cpp", "cs": "csharp", "css": "css", "go": "go", "h": "c",
    "html": "html", "java": "java", "js": "javascript", "json": "json", "kt": "kotlin",
    "md": "markdown", "php": "php", "py": "python", "rb": "ruby", "rs": "rust", "sh": "shell",
    "sql": "sql", "swift": "swift", "toml": "toml", "ts": "typescript", "tsx": "tsx",
    "yaml": "yaml", "yml": "yaml",
}  # fmt: skip


def language(path: str) -> str:
    """The word for the language of a file, "" if it has none."""
    return _LANGUAGES.get(path.rpartition(".")[2].lower(), "")


def language_of(finding: Finding) -> str:
    """The language of the file that a finding points to first."""
    return language(finding.evidence[0].path) if finding.evidence else ""
