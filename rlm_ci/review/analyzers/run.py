"""Run analyzers on the texts of a leaf, read what they print, and open each place they report.

Programs of a configuration run in the sandbox: some tools run what a file beside the code tells
them to. ruff is our own dependency, runs nothing and reads no settings (``--isolated``).
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import partial

from rlm_ci.change.evidence import REJECTED, anchor
from rlm_ci.errors import RlmCiError
from rlm_ci.git.objects import batches
from rlm_ci.recursion.prompt_windows import name
from rlm_ci.report.findings import Evidence, Finding, Location, Severity
from rlm_ci.report.rules import kebab
from rlm_ci.review.analyzer_output import json_formats, sarif
from rlm_ci.review.analyzer_output.sarif import AnalyzerOutput, AnalyzerResult, ResultPlace
from rlm_ci.review.analyzers import ruff, sandboxed
from rlm_ci.review.analyzers.programs import locate
from rlm_ci.review.analyzers.sandboxed import (
    AnalyzerError,
    AnalyzerUnavailableError,
    ScratchFolder,
    ScratchInput,
    by_halves,
    configures,
    mark,
    scratch_path,
)
from rlm_ci.sandbox import Mount
from rlm_ci.source.languages import language
from rlm_ci.system import files
from rlm_ci.text.globs import matcher
from rlm_ci.text.printable import count
from rlm_ci.values import Value
from rlm_ci.workspace.tree import ShownTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.recursion.nodes import LeafTask, LeafText
    from rlm_ci.review.analyzers.programs import Analyzer
    from rlm_ci.review.analyzers.sandboxed import ScratchFile


#: Bytes of all the names in one command.
_NAMES = 96 << 10


def run(
    analyzer: Analyzer, inputs: Sequence[ScratchInput], seconds: float, *, by_pipe: bool
) -> AnalyzerOutput:
    """What an analyzer says of the files that it is ``inputs``. Raises AnalyzerError.

    Only ruff can read them ``by_pipe``.
    """
    if analyzer.results is not None:
        return _recorded(analyzer.results, inputs)
    with (
        nullcontext()
        if by_pipe
        else ScratchFolder(inputs, analyzer.settings, real_names=bool(analyzer.rules))
    ) as scratch:
        try:
            if analyzer.rules:
                return _ruff(analyzer, scratch, inputs, seconds)
            if scratch is None:
                raise AnalyzerUnavailableError("it needs files on the disk")
            return sarif.merged([
                _confined(analyzer, scratch, batch, seconds)
                for batch in _batches(analyzer.command, scratch.scratch_files)
            ])  # fmt: skip
        except (sarif.SarifError, RlmCiError) as error:
            raise AnalyzerError(str(error)) from None


def _recorded(results: Mapping[str, Any], inputs: Sequence[ScratchInput]) -> AnalyzerOutput:
    analyzer_results = [
        AnalyzerResult(
            rule,
            "",
            message,
            level,
            (ResultPlace(scratch_input.text, start, end, column),),
            address,
        )
        for scratch_input in inputs
        for start, end, column, rule, level, message, address in results[
            mark(scratch_input.path, scratch_input.content)
        ]
    ]
    return AnalyzerOutput(tuple(analyzer_results), 0)


def _ruff(
    analyzer: Analyzer,
    scratch: ScratchFolder | None,
    inputs: Sequence[ScratchInput],
    seconds: float,
) -> AnalyzerOutput:
    program = locate(ruff.NAME)
    if program is None:
        raise AnalyzerUnavailableError("ruff is not installed where this ran")

    def output(some: Sequence[ScratchInput], *, heed_noqa: bool) -> AnalyzerOutput:
        command = ruff.command(program, analyzer.rules, heed_noqa=heed_noqa)
        if scratch is None:
            return sarif.merged([
                sarif.read(printed((*command[:-1], _piped(file), "-"), file.content), _only(file))
                for file in some
            ])  # fmt: skip
        numbers = {scratch_input.text for scratch_input in some}
        scratch_files = [file for file in scratch.scratch_files if file.text in numbers]
        return sarif.merged([
            sarif.read(printed((*command, *(file.name for file in batch))), scratch.find)
            for batch in _batches(("{files}",), scratch_files)
        ])  # fmt: skip

    def printed(argv: tuple[str, ...], stdin: bytes = b"") -> bytes:
        root = scratch.root if scratch else ""
        ended = sandboxed.run_ruff(
            argv, analyzer.sandbox, seconds=seconds, folder=root, stdin=stdin
        )
        return _log(ended.data, ended.stderr, ended.returncode)

    everything = output(inputs, heed_noqa=False)
    if everything.version != analyzer.version:
        now = everything.version or "another version"
        raise AnalyzerUnavailableError(
            f"it is {now} here, and was {analyzer.version} when the run began"
        )
    quiet = [scratch_input for scratch_input in inputs if _may_silence(scratch_input.content)]
    may = {scratch_input.text for scratch_input in quiet}
    # A second run, which heeds the comments, shows what they silence.
    heard = set(output(quiet, heed_noqa=True).results) if quiet else set()
    why = "a comment in the file tells ruff to be silent"
    results = (
        result.replace(suppression=why)
        if result.spots[0].text in may and result not in heard
        else result
        for result in everything.results
    )
    return everything.replace(results=tuple(results))


def _piped(scratch_input: ScratchInput) -> str:
    return f"--stdin-filename={scratch_path(scratch_input.path, scratch_input.text, real=True)}"


def _only(scratch_input: ScratchInput) -> Callable[[str], int]:
    return lambda _address: scratch_input.text


def _may_silence(content: bytes) -> bool:
    folded = content.lower()
    return b"noqa" in folded or b"ruff:" in folded


def _batches(
    command: Sequence[str], scratch_files: Sequence[ScratchFile]
) -> Iterator[list[ScratchFile]]:
    """The files in as few commands as the length of their names allows."""
    room = _NAMES if "{files}" in command else sys.maxsize
    return batches(((file, len(os.fsencode(file.name)) + 8) for file in scratch_files), room)


def _confined(
    analyzer: Analyzer, scratch: ScratchFolder, scratch_files: Sequence[ScratchFile], seconds: float
) -> AnalyzerOutput:
    """What a program of a configuration prints, or writes to the file named in its command."""
    texts = Mount(scratch.root, scratch.root)
    empty = Mount(scratch.empty, scratch.empty, writable=True)
    start, other = (texts, empty) if analyzer.settings else (empty, texts)
    printed = sandboxed.run(
        _filled(analyzer.command, scratch, scratch_files),
        analyzer.sandbox,
        ShownTree(start.source, start.target, on_top=(other,), writable=start.writable),
        out=scratch.out,
        network=analyzer.network,
        seconds=seconds,
    )
    written = sandboxed.read(scratch.printout)
    files.clear(scratch.printout)
    is_fine = analyzer.format == json_formats.SARIF or printed.returncode in (0, 1)
    data = written or printed.data if is_fine else b""
    data = _log(data, printed.stderr, printed.returncode)
    return json_formats.read(analyzer.format, data, scratch.find)


def _filled(
    command: Sequence[str], scratch: ScratchFolder, scratch_files: Sequence[ScratchFile]
) -> tuple[str, ...]:
    program = locate(command[0]) if command else None
    if program is None:
        raise AnalyzerUnavailableError(f"{command[0] if command else 'its program'} is not on PATH")
    words: list[str] = []
    for word in command[1:]:
        if word == "{files}":
            words += [file.name for file in scratch_files]
        else:
            filled = word.replace("{folder}", scratch.root).replace("{sarif}", scratch.printout)
            words.append(filled)
    return (program, *words)


def _log(data: bytes, output: bytes, returncode: int) -> bytes:
    """``data`` if it looks like JSON, else AnalyzerError with the last line of the output."""
    if data.lstrip().startswith((b"{", b"[")):
        return data
    words = (output.strip() or data.strip()).decode("utf-8", "replace")
    last = words.rpartition("\n")[2].strip()
    raise AnalyzerError(last or f"it printed nothing and ended with {returncode}")


#: The rule of a finding on a file that cannot be parsed.
SYNTAX = f"review/{ruff.NAME}-{ruff.SYNTAX}"
#: Characters of a message in a note or a reason.
_SHOWN = 200
_LEVELS = {
    "error": Severity.HIGH, "warning": Severity.MEDIUM, "note": Severity.LOW, "none": Severity.INFO,
}  # fmt: skip
_CONFIDENCE = 0.7


class LeafAnalysis(Value):
    """What the analyzers found in a leaf. ``failed`` are triples of analyzer, path and reason.

    ``seen`` are the paths that an analyzer was shown, ``notes`` tell of those that it was not.
    """

    findings: tuple[Finding, ...] = ()
    counts: Evidence = Evidence()
    failed: tuple[tuple[str, str, str], ...] = ()
    seen: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def analyse(
    task: LeafTask, analyzers: Sequence[Analyzer], domains: Sequence[str], *, by_pipe: bool = False
) -> LeafAnalysis:
    """Run them over the texts of a leaf. Raises StorageError where the disk has no room.

    A sliced file is shown to them whole, with its first slice. ``by_pipe``: no file is written,
    so only ruff can run.
    """
    texts = [text.replace(content=text.complete) for text in task.texts if text.line_start == 1]
    findings: list[Finding] = []
    failed: list[tuple[str, str, str]] = []
    seen = set(
        paths_looked_at(analyzers, [text.path for text in task.texts if text.line_start > 1])
    )
    notes: list[str] = []
    verified = rejected = 0
    for analyzer in analyzers:
        inputs, unread, withheld = _inputs(analyzer, texts)
        failed += [(analyzer.name, path, why) for path, why in unread]
        notes += [f"{analyzer.name} was not shown {path}: it could command it" for path in withheld]
        if not inputs:
            continue
        seen |= {scratch_input.path for scratch_input in inputs}
        heard, broken = by_halves(inputs, partial(run, analyzer, by_pipe=by_pipe))
        failed += [
            (analyzer.name, scratch_input.path, why)
            for some, why in broken
            for scratch_input in some
        ]
        printout = sarif.merged(heard)
        rejected += printout.rejected
        placed = [*printout.results, *(_undecodable(texts, inputs) if analyzer.rules else ())]
        lost = [
            analyzer_result
            for analyzer_result in printout.placeless
            if _domain(analyzer, analyzer_result) in domains
        ]
        for result in placed:
            finding = _finding(analyzer, result, texts, domains)
            if finding == REJECTED:
                rejected += 1
                lost.append(result)
            elif isinstance(finding, Finding):
                verified += len(finding.evidence)
                findings.append(finding)
        if lost:
            have = "has" if len(lost) == 1 else "have"
            results = f"{count(len(lost), 'result')} of {analyzer.name} {have}"
            notes.append(f"{results} no place in the files: {lost[0].message[:_SHOWN]}")
        why = _grave(analyzer, lost)
        if why:
            failed.append((analyzer.name, inputs[0].path, why))
    return LeafAnalysis(
        tuple(_first_errors(findings)),
        Evidence(verified + rejected, verified, 0, rejected),
        tuple(failed),
        frozenset(seen),
        tuple(notes),
    )


def _inputs(
    analyzer: Analyzer, texts: Sequence[LeafText]
) -> tuple[list[ScratchInput], list[tuple[str, str]], list[str]]:
    """What an analyzer is shown; what it cannot read, and why; what would configure it."""
    inputs: list[ScratchInput] = []
    unread: list[tuple[str, str]] = []
    withheld: list[str] = []
    matches = matcher(analyzer.files) if analyzer.files else None
    for number, (path, _, content, *_) in enumerate(texts):
        if analyzer.rules:
            if not (matches and matches(path)) and not _is_python(path, content):
                continue
            try:
                inputs.append(ScratchInput(number, path, ruff.readable(content)))
            except ValueError as error:
                unread.append((path, str(error)))
        elif analyzer.results is not None:
            record = analyzer.results.get(mark(path, content))
            if isinstance(record, str):
                unread.append((path, record))
            elif record is not None:
                inputs.append(ScratchInput(number, path, content))
        elif matches is None or matches(path):
            if configures(path):
                withheld.append(name(path))
            else:
                inputs.append(ScratchInput(number, path, content))
    return inputs, unread, withheld


def _undecodable(
    texts: Sequence[LeafText], inputs: Sequence[ScratchInput]
) -> Iterator[AnalyzerResult]:
    """Files with characters that Python cannot read; ruff gets them mended."""
    for scratch_input in inputs:
        fault = ruff.undecodable(texts[scratch_input.text].content)
        if fault is not None:
            line, why = fault
            spot = sarif.ResultPlace(scratch_input.text, line, line)
            yield sarif.AnalyzerResult(ruff.SYNTAX, ruff.SYNTAX, why, "error", (spot,))


def _is_python(path: str, content: bytes) -> bool:
    """Whether a file without a telling name is a script of Python."""
    return content.startswith(b"#!") and language(path, content[:256]) == "Python"


def _first_errors(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Of the syntax errors of a file the first alone: the others follow from it."""
    broken: set[str] = set()
    for finding in findings:
        if finding.rule == SYNTAX:
            if finding.evidence[0].path in broken:
                continue
            broken.add(finding.evidence[0].path)
        yield finding


def paths_looked_at(analyzers: Sequence[Analyzer], paths: Sequence[str]) -> frozenset[str]:
    """Those of ``paths`` that at least one analyzer looks at, by their names alone."""
    seen: set[str] = set()
    for analyzer in analyzers:
        matches = matcher(analyzer.files) if analyzer.files else None
        seen |= {
            path
            for path in paths
            if (matches is None or matches(path)) and (analyzer.rules or not configures(path))
        }
    return frozenset(seen)


# ── results as findings ──


def _finding(
    analyzer: Analyzer,
    result: AnalyzerResult,
    texts: Sequence[LeafText],
    domains: Sequence[str],
) -> Finding | str | None:
    """One result as a finding: REJECTED where no place holds, None if it is of no interest."""
    placed = [
        (spot.text, location) for spot in result.spots if (location := _location(spot, texts))
    ]
    if not placed:
        return REJECTED
    if analyzer.rules:
        number, first = placed[0]
        spot = result.spots[0]
        weight = ruff.weigh(
            result.rule,
            first.path,
            result.message,
            first.quote or "",
            texts[number].content,
            at=(spot.line_start or 0, spot.column),
        )
        hint = ruff.hint(result.rule, result.name)
    else:
        weight = ruff.RuleWeight(
            _domain(analyzer, result), _max_severity(analyzer, result), _CONFIDENCE
        )
        hint = result.rule
    if weight is None or weight.domain not in domains:
        return None
    return Finding(
        f"review/{kebab(analyzer.name, 80)}-{kebab(result.rule, 80)}",
        weight.severity,
        result.message,
        f"{hint}: {result.help}" if result.help.startswith("https://") else hint or None,
        tuple(location for _, location in placed),
        weight.domain,
        weight.confidence,
        suppression=result.suppression,
        source=f"analyzer:{analyzer.name}",
    )


def _location(spot: ResultPlace, texts: Sequence[LeafText]) -> Location | None:
    text = texts[spot.text]
    shift = text.line_start - 1
    start, end = spot.line_start, spot.line_end
    if start is None:
        return anchor(Location(text.path), text.content, text.blob).location
    claim = Location(text.path, start + shift, None if end is None else end + shift)
    location = anchor(claim, text.content, text.blob, text.line_start).location
    if location is None and start > 1:  # the end of a file is no line; it follows its last one
        claim = Location(text.path, start + shift - 1)
        location = anchor(claim, text.content, text.blob, text.line_start).location
    return location


def _domain(analyzer: Analyzer, result: AnalyzerResult) -> str:
    return "security" if result.is_security else analyzer.domain


def _max_severity(analyzer: Analyzer, result: AnalyzerResult) -> Severity:
    return min(Severity.from_label(analyzer.max_severity), _severity(result))


def _grave(analyzer: Analyzer, placeless: Sequence[AnalyzerResult]) -> str:
    """Why a review is incomplete: a result without a place would fail it; "" if none would."""
    for result in placeless:
        if result.suppression is None and _max_severity(analyzer, result) >= Severity.HIGH:
            return f"a result of it has no place in the files: {result.message[:_SHOWN]}"
    return ""


def _severity(result: AnalyzerResult) -> Severity:
    """By the tool's security score if there is one, else by its level."""
    if result.score is not None:
        steps = ((9.0, Severity.CRITICAL), (7.0, Severity.HIGH), (4.0, Severity.MEDIUM))
        return next((level for floor, level in steps if result.score >= floor), Severity.LOW)
    return _LEVELS[result.level]
