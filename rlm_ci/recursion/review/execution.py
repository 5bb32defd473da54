"""Analyzers at work: commands over the files of a scratch folder, and what they print."""

from __future__ import annotations

import os
import sys

from rlm_ci import process
from rlm_ci.recursion.review import ruff, sarif
from rlm_ci.recursion.review.programs import environment, locate
from rlm_ci.recursion.review.scratch import Given, Scratch, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.recursion.review.programs import Analyzer
    from rlm_ci.recursion.review.sarif import Printout
    from rlm_ci.recursion.review.scratch import Held

#: Bytes of all the names in one command, and of what it may print; seconds that it may take.
_NAMES = 96 << 10
_PRINTED = 64 << 20
_SECONDS = 300.0
#: It starts in an empty folder: settings and modules are looked for where one stands.
_START = "import os, sys; os.chdir(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"


class BrokenError(Exception):
    """Why an analyzer gave nothing, in words."""


def run(
    analyzer: Analyzer, scratch: Scratch | None, given: Sequence[Given]
) -> tuple[Printout, list[str | None]]:
    """What an analyzer says, and of each result why somebody wants it silent, if so.

    Without ``scratch`` it reads from a pipe what it is ``given``, which ruff can.
    """
    if analyzer.rules:
        return _ruff(analyzer, scratch, given)
    if scratch is None:
        raise BrokenError("it needs files on the disk")
    printout = sarif.merged([
        sarif.read(_printed(_filled(analyzer.command, scratch, batch), scratch), scratch.find)
        for batch in _batches(analyzer.command, scratch.held)
    ])  # fmt: skip
    return printout, [one.suppression for one in printout.results]


def _ruff(
    analyzer: Analyzer, scratch: Scratch | None, given: Sequence[Given]
) -> tuple[Printout, list[str | None]]:
    program = locate(ruff.NAME)
    if program is None:
        raise BrokenError("ruff is not installed where this ran")

    def told(some: Sequence[Given], *, heed_noqa: bool) -> Printout:
        command = ruff.command(program, analyzer.rules, heed_noqa=heed_noqa)
        if scratch is None:
            return sarif.merged([_piped(command, one) for one in some])
        wanted = {one.text for one in some}
        held = [one for one in scratch.held if one.text in wanted]
        return sarif.merged([
            sarif.read(_printed((*command, *(one.name for one in batch))), scratch.find)
            for batch in _batches(("{files}",), held)
        ])  # fmt: skip

    everything = told(given, heed_noqa=False)
    if everything.version != analyzer.version:  # two versions in one review would be neither's
        now = everything.version or "another version"
        raise BrokenError(f"it is {now} here, and was {analyzer.version} when the run began")
    quiet = [one for one in given if _may_silence(one.content)]
    may = {one.text for one in quiet}
    # ruff itself knows best which comment silences what: it is asked once more, heeding them.
    heard = set(told(quiet, heed_noqa=True).results) if quiet else set()
    silenced = [
        "a comment in the file tells ruff to be silent"
        if one.spots[0].text in may and one not in heard
        else None
        for one in everything.results
    ]
    return everything, silenced


def _piped(command: Sequence[str], one: Given) -> Printout:
    """What ruff says of a file that it reads from a pipe, under its name if that is plain."""
    told = (*command[:-1], f"--stdin-filename={plain(one)}", "-")
    return sarif.read(_printed(told, stdin=one.content), lambda _address: one.text)


def _may_silence(content: bytes) -> bool:
    folded = content.lower()
    return b"noqa" in folded or b"ruff:" in folded


def _batches(command: Sequence[str], held: Sequence[Held]) -> Iterator[list[Held]]:
    """The files in as few commands as their names allow; in one where they are not named."""
    if "{files}" not in command:
        yield list(held)
        return
    batch: list[Held] = []
    room = _NAMES
    for one in held:
        size = len(os.fsencode(one.name)) + 8
        if batch and size > room:
            yield batch
            batch, room = [], _NAMES
        batch.append(one)
        room -= size
    if batch:
        yield batch


def _filled(command: Sequence[str], scratch: Scratch, held: Sequence[Held]) -> tuple[str, ...]:
    words: list[str] = []
    for word in command:
        if word == "{files}":
            words += [one.name for one in held]
        else:
            filled = word.replace("{folder}", scratch.root).replace("{sarif}", scratch.printout)
            words.append(filled)
    program = locate(words[0]) if words else None
    if program is None:
        raise BrokenError(f"{words[0] if words else 'its program'} is not on PATH")
    return (sys.executable, "-I", "-S", "-c", _START, scratch.empty, program, *words[1:])


def _printed(argv: Sequence[str], scratch: Scratch | None = None, stdin: bytes = b"") -> bytes:
    """The SARIF that a command prints, or leaves where it was told to. Raises BrokenError."""
    ended = process.run(argv, env=environment(), stdin=stdin, timeout=_SECONDS, limit=_PRINTED)
    if ended.timed_out:
        raise BrokenError(f"it took more than {_SECONDS:.0f} seconds")
    if ended.truncated:
        raise BrokenError(f"it printed more than {_PRINTED >> 20} MiB")
    data = ended.stdout
    if scratch is not None and os.path.isfile(scratch.printout):
        with open(scratch.printout, "rb") as file:
            data = file.read(_PRINTED)
        os.remove(scratch.printout)
    if not data.lstrip().startswith(b"{"):
        said = (ended.stderr.strip() or data.strip()).decode("utf-8", "replace")
        last = said.rpartition("\n")[2].strip()
        raise BrokenError(last or f"it printed nothing and ended with {ended.returncode}")
    return data
