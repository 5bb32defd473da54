"""Run analyzers over the files of a scratch folder, and read what they print.

Programs of a configuration run in the sandbox: some tools run what a file beside the code tells
them to. ruff is our own dependency, runs nothing and reads no settings (``--isolated``).
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext

from rlm_ci.errors import RlmCiError
from rlm_ci.git.objects import batches
from rlm_ci.review.analyzer_output import json_formats, sarif
from rlm_ci.review.analyzer_output.sarif import AnalyzerOutput, AnalyzerResult, ResultPlace
from rlm_ci.review.analyzers import ruff, sandboxed
from rlm_ci.review.analyzers.programs import locate
from rlm_ci.review.analyzers.sandboxed import AnalyzerError, AnalyzerUnavailableError
from rlm_ci.review.analyzers.scratch_folder import ScratchFolder, ScratchInput, mark, scratch_path
from rlm_ci.sandbox import Mount
from rlm_ci.system import files
from rlm_ci.workspace.trees.shown_tree import ShownTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.review.analyzers.programs import Analyzer
    from rlm_ci.review.analyzers.scratch_folder import ScratchFile

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
                for batch in _batches(analyzer.command, scratch.held)
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
        scratch_files = [file for file in scratch.held if file.text in numbers]
        return sarif.merged([
            sarif.read(printed((*command, *(file.name for file in batch))), scratch.find)
            for batch in _batches(("{files}",), scratch_files)
        ])  # fmt: skip

    def printed(argv: tuple[str, ...], stdin: bytes = b"") -> bytes:
        root = scratch.root if scratch else ""
        ended = sandboxed.run_ruff(
            argv, analyzer.sandbox, seconds=seconds, folder=root, stdin=stdin
        )
        return _log(ended.data, ended.said, ended.returncode)

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
    data = _log(data, printed.said, printed.returncode)
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
