"""Analyzers at work on the texts of a leaf: any program that prints SARIF, and ruff built in.

Their results are claims like any other: each place is opened before anything is said of it.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import nullcontext
from functools import lru_cache, partial

from rlm_ci import process
from rlm_ci.errors import RlmCiError
from rlm_ci.evidence import REJECTED, anchor
from rlm_ci.findings import Evidence, Finding, Location, Severity
from rlm_ci.globs import matcher
from rlm_ci.recursion.review import placeless, ruff, sarif
from rlm_ci.recursion.review.scratch import Given, Scratch, configures, plain
from rlm_ci.recursion.review.windows import name
from rlm_ci.recursion.syntax.languages import language
from rlm_ci.settings import environment
from rlm_ci.texts import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.recursion.nodes import Task, Text
    from rlm_ci.recursion.review.sarif import Printout, Result
    from rlm_ci.recursion.review.scratch import Held

#: Bytes of all the names in one command, and of what it may print; seconds that it may take.
_NAMES = 96 << 10
_PRINTED = 64 << 20
_SECONDS = 300.0
#: Characters of what a broken analyzer said.
_SAID = 200
#: What an analyzer may know of where it runs; no secret is among it.
_KEPT = ("PATH", "PATHEXT", "HOME", "LANG", "LC_ALL", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP")
#: It starts in an empty folder: settings and modules are looked for where one stands.
_START = "import os, sys; os.chdir(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"

_LEVELS = {
    "error": Severity.HIGH, "warning": Severity.MEDIUM, "note": Severity.LOW, "none": Severity.INFO,
}  # fmt: skip
_CONFIDENCE = 0.7
_SYNTAX = f"review/ruff-{ruff.SYNTAX}"


class Analyzer(Value):
    """One as the options have it. ``rules`` are those of ruff, and empty for all others."""

    name: str
    command: tuple[str, ...]
    files: tuple[str, ...]
    domain: str
    max_severity: str
    version: str = ""
    rules: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        record = {name: getattr(self, name) for name in self._fields}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in record.items()
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Analyzer:
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in record.items()
        }
        return cls(**fields)


class Analysis(Value):
    """What the analyzers found in a leaf. ``failed`` are triples of analyzer, path and reason.

    ``seen`` are the paths that an analyzer was shown, ``notes`` tell of those that it was not.
    """

    findings: tuple[Finding, ...] = ()
    counts: Evidence = Evidence()
    failed: tuple[tuple[str, str, str], ...] = ()
    seen: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


class _BrokenError(Exception):
    """Why an analyzer gave nothing, in words."""


def locate(program: str) -> str | None:
    """The file of a program: on PATH, or beside the interpreter that we run in."""
    from shutil import which

    folders = environment().get("PATH", "").split(os.pathsep)
    known = [folder for folder in folders if os.path.isabs(folder)]
    own = os.path.dirname(os.path.abspath(sys.executable))
    return which(program, path=os.pathsep.join([*known, own]))


def builtin() -> Analyzer | None:
    """The ruff that is installed here, with those of its rules that this version has."""
    program = locate(ruff.NAME)
    return None if program is None else _installed(program)


@lru_cache(maxsize=1)
def _installed(program: str) -> Analyzer | None:
    told = process.run((program, "--version"), env=_environment(), timeout=60)
    version = told.stdout.decode("utf-8", "replace").split()[-1:] or ["?"]
    listed = process.run(
        (program, "rule", "--all", "--output-format", "json"), env=_environment(), timeout=60
    )
    known = set(re.findall(r'"code": ?"([A-Z]+[0-9]+)"', listed.stdout.decode("utf-8", "replace")))
    rules = tuple(rule for rule in ruff.rules() if rule in known)
    if not rules:
        return None
    return Analyzer(
        ruff.NAME, (), ruff.FILES, "quality", "critical", printable(version[0][:40]), rules
    )


def analyse(
    task: Task, analyzers: Sequence[Analyzer], domains: Sequence[str], *, by_pipe: bool = False
) -> Analysis:
    """Run them over the texts of a leaf. Raises StorageError where the disk has no room.

    A file that was sliced is shown to them whole, with its first slice. ``by_pipe``: nothing is
    written, so that there must be none but ruff.
    """
    texts = [_whole(one) for one in task.texts if one.line_start == 1]
    findings: list[Finding] = []
    failed: list[tuple[str, str, str]] = []
    seen = set(known(analyzers, [one.path for one in task.texts if one.line_start > 1]))
    notes: list[str] = []
    verified = rejected = 0
    for analyzer in analyzers:
        given, unread, kept = _given(analyzer, texts)
        failed += [(analyzer.name, path, why) for path, why in unread]
        notes += [f"{analyzer.name} was not shown {path}: it could command it" for path in kept]
        if not given:
            continue
        seen |= {one.path for one in given}
        with nullcontext() if by_pipe else Scratch(given) as scratch:
            try:
                printout, silenced = _run(analyzer, scratch, given)
            except (_BrokenError, sarif.SarifError, RlmCiError) as error:
                why = printable(str(error))[:_SAID]
                failed += [(analyzer.name, one.path, why) for one in given]
                continue
        if printout.failed:
            failed += [(analyzer.name, one.path, printout.failed) for one in given]
        rejected += printout.rejected
        results = list(zip(printout.results, silenced, strict=True))
        if analyzer.rules:
            results += [(one, None) for one in _undecodable(texts, given)]
        lost = [one for one in printout.placeless if _domain(analyzer, one) in domains]
        for result, quiet in results:
            finding = _finding(analyzer, result, texts, domains, quiet)
            if finding == REJECTED:
                rejected += 1
                lost.append(result)
            elif isinstance(finding, Finding):
                verified += len(finding.evidence)
                findings.append(finding)
        notes += placeless.note(analyzer.name, lost)
        why_more = placeless.grave(lost, partial(_most, analyzer))
        failed += [(analyzer.name, given[0].path, why) for why in why_more]
    return Analysis(
        tuple(_first_errors(findings)),
        Evidence(verified + rejected, verified, 0, rejected),
        tuple(failed),
        frozenset(seen),
        tuple(notes),
    )


def _whole(text: Text) -> Text:
    """A text as analyzers look at it: a part of a file may not even parse."""
    return text if text.whole is None else text.replace(content=text.whole)


def _given(
    analyzer: Analyzer, texts: Sequence[Text]
) -> tuple[list[Given], list[tuple[str, str]], list[str]]:
    """What an analyzer is shown; what it cannot read, and why; what would command it."""
    given: list[Given] = []
    unread: list[tuple[str, str]] = []
    kept: list[str] = []
    matches = matcher(analyzer.files) if analyzer.files else None
    for number, (path, _, content, *_) in enumerate(texts):
        if analyzer.rules:
            if not (matches and matches(path)) and not _is_python(path, content):
                continue
            try:
                given.append(Given(number, path, ruff.readable(content)))
            except ValueError as error:
                unread.append((path, str(error)))
        elif matches is None or matches(path):
            if configures(path):
                kept.append(name(path))
            else:
                given.append(Given(number, path, content))
    return given, unread, kept


def _undecodable(texts: Sequence[Text], given: Sequence[Given]) -> Iterator[Result]:
    """What ruff is not shown: the characters that Python could not read."""
    for one in given:
        found = ruff.undecodable(texts[one.text].content)
        if found is not None:
            line, why = found
            spot = sarif.Spot(one.text, line, line)
            yield sarif.Result(ruff.SYNTAX, ruff.SYNTAX, why, "error", (spot,))


def _is_python(path: str, content: bytes) -> bool:
    """Whether a file without a telling name is a script of Python."""
    return content.startswith(b"#!") and language(path, content[:256]) == "Python"


def _first_errors(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Of the syntax errors of a file the first alone: the others follow from it."""
    broken: set[str] = set()
    for one in findings:
        if one.rule == _SYNTAX:
            if one.evidence[0].path in broken:
                continue
            broken.add(one.evidence[0].path)
        yield one


def known(analyzers: Sequence[Analyzer], paths: Sequence[str]) -> frozenset[str]:
    """Those of ``paths`` that at least one analyzer looks at, by their names alone."""
    found: set[str] = set()
    for analyzer in analyzers:
        matches = matcher(analyzer.files) if analyzer.files else None
        found |= {
            path
            for path in paths
            if (matches is None or matches(path)) and (analyzer.rules or not configures(path))
        }
    return frozenset(found)


def _environment() -> dict[str, str]:
    known = environment()
    kept = {name: known[name] for name in _KEPT if name in known}
    return {**kept, "NO_COLOR": "1", "PYTHONSAFEPATH": "1"}


def _run(
    analyzer: Analyzer, scratch: Scratch | None, given: Sequence[Given]
) -> tuple[Printout, list[str | None]]:
    """What an analyzer says, and of each result why somebody wants it silent, if so.

    Without ``scratch`` it reads from a pipe what it is ``given``, which ruff can.
    """
    if analyzer.rules:
        return _ruff(analyzer, scratch, given)
    if scratch is None:
        raise _BrokenError("it needs files on the disk")
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
        raise _BrokenError("ruff is not installed where this ran")

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
        raise _BrokenError(f"it is {now} here, and was {analyzer.version} when the run began")
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
        raise _BrokenError(f"{words[0] if words else 'its program'} is not on PATH")
    return (sys.executable, "-I", "-S", "-c", _START, scratch.empty, program, *words[1:])


def _printed(argv: Sequence[str], scratch: Scratch | None = None, stdin: bytes = b"") -> bytes:
    """The SARIF that a command prints, or leaves where it was told to. Raises _BrokenError."""
    ended = process.run(argv, env=_environment(), stdin=stdin, timeout=_SECONDS, limit=_PRINTED)
    if ended.timed_out:
        raise _BrokenError(f"it took more than {_SECONDS:.0f} seconds")
    if ended.truncated:
        raise _BrokenError(f"it printed more than {_PRINTED >> 20} MiB")
    data = ended.stdout
    if scratch is not None and os.path.isfile(scratch.printout):
        with open(scratch.printout, "rb") as file:
            data = file.read(_PRINTED)
        os.remove(scratch.printout)
    if not data.lstrip().startswith(b"{"):
        said = (ended.stderr.strip() or data.strip()).decode("utf-8", "replace")
        last = said.rpartition("\n")[2].strip()
        raise _BrokenError(last or f"it printed nothing and ended with {ended.returncode}")
    return data


def _finding(
    analyzer: Analyzer,
    result: Result,
    texts: Sequence[Text],
    domains: Sequence[str],
    silenced: str | None,
) -> Finding | str | None:
    """One result as a finding: REJECTED where no place of it holds, None if nobody wants it."""
    places = [place for spot in result.spots if (place := _place(spot, texts)) is not None]
    if not places:
        return REJECTED
    if analyzer.rules:
        first = places[0]
        content = next(text.content for text in texts if text.path == first.path)
        spot = result.spots[0]
        weight = ruff.weigh(
            result.rule,
            first.path,
            result.message,
            first.quote or "",
            content,
            at=(spot.line_start or 0, spot.column),
        )
        hint = ruff.hint(result.rule, result.name)
    else:
        weight = ruff.Weight(_domain(analyzer, result), _most(analyzer, result), _CONFIDENCE)
        hint = result.rule
    if weight is None or weight.domain not in domains:
        return None
    return Finding(
        f"review/{_kebab(analyzer.name)}-{_kebab(result.rule)}",
        weight.severity,
        result.message,
        f"{hint}: {result.help}" if result.help.startswith("https://") else hint or None,
        tuple(places),
        weight.domain,
        weight.confidence,
        suppression=silenced,
        source=f"analyzer:{analyzer.name}",
    )


def _place(spot: sarif.Spot, texts: Sequence[Text]) -> Location | None:
    text = texts[spot.text]
    shift = text.line_start - 1
    start, end = spot.line_start, spot.line_end
    if start is None:
        return anchor(Location(text.path), text.content, text.blob).location
    claim = Location(text.path, start + shift, None if end is None else end + shift)
    place = anchor(claim, text.content, text.blob, text.line_start).location
    if place is None and start > 1:  # the end of a file is no line; it follows its last one
        claim = Location(text.path, start + shift - 1)
        place = anchor(claim, text.content, text.blob, text.line_start).location
    return place


def _domain(analyzer: Analyzer, result: Result) -> str:
    return "security" if result.is_security else analyzer.domain


def _most(analyzer: Analyzer, result: Result) -> Severity:
    return min(Severity.from_label(analyzer.max_severity), _severity(result))


def _severity(result: Result) -> Severity:
    """A tool's own: by the score of security advisories where it has one, else by its level."""
    if result.score is not None:
        steps = ((9.0, Severity.CRITICAL), (7.0, Severity.HIGH), (4.0, Severity.MEDIUM))
        return next((level for least, level in steps if result.score >= least), Severity.LOW)
    return _LEVELS[result.level]


def _kebab(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.casefold())[:80].strip("-") or "unnamed"
