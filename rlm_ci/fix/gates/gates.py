"""The gates of a run: each looks at a result that the validator has passed, and gives a verdict.

``checklists``: every item of these Markdown files must be ticked. ``promise``: the role that edits
must say, in so many words, that the work is done. ``evidence``: a manifest with the hash of all
that the verdict rests on. ``approval``: a person must approve the result, in a file of the work
tree. They are asked in their order.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from functools import partial
from hashlib import sha256

from rlm_ci.checks._shown_markdown import items
from rlm_ci.errors import LimitError
from rlm_ci.fix.gates.commands import CommandGate
from rlm_ci.fix.gates.gate import FAILED, NOT_ASKED, PASSED, WAITING, Gate, GateResult, summary
from rlm_ci.runs.journal import spans
from rlm_ci.runs.state import PAUSED
from rlm_ci.system import files
from rlm_ci.text.printable import count, encodable, first_of, printable
from rlm_ci.workspace.tree_diff import differing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.fix.gates.gate import GateView
    from rlm_ci.fix.options import FixContext
    from rlm_ci.fix.verdict.verdict import ResultJudge
    from rlm_ci.models.gateway import Gateway
    from rlm_ci.runs import Fact
    from rlm_ci.workspace.workspace import Workspace

    MakeGate = Callable[[FixContext, Gateway], Gate]
    #: Reads a file of a tree: its bytes, or None.
    Read = Callable[[str, str], bytes | None]


APPROVED, REJECTED = "approved", "rejected"
#: The approval that a person can copy, if the result is right.
APPROVAL_FILE = "rlm/approval.json"
_LIMIT = 64 << 10
_SAID, _APPROVAL_REASON = 200, 2_000


class ApprovalGate(Gate):
    """``path`` is the file, below ``root``, the user's work tree."""

    name = "approval"

    def __init__(self, path: str, root: str, fact: Fact, path_of: Callable[..., str]) -> None:
        self._path = path
        self._root = root
        self._fact = fact
        self._path_of = path_of
        #: What a person has rejected: the same is not offered again.
        self._rejected: dict[str, GateResult] = {}
        self.line = "approval: a person looks at the result. You cannot give it"

    def check(self, view: GateView) -> GateResult:
        if any(result.verdict != PASSED for result in view.earlier):
            return GateResult(self.name, NOT_ASKED, "another gate does not pass")
        if view.result == view.base:
            return GateResult(self.name, PASSED, "there is no change to approve")
        step, key = f"iteration-{view.iteration}/approval", {"result": view.result}
        if view.result in self._rejected:
            return self._rejected[view.result]
        request = json.dumps({"status": APPROVED, "result": view.result}) + "\n"
        files.write(self._path_of(*APPROVAL_FILE.split("/")), request.encode(), 0o600)
        request_fact = self._fact("approval-asked", step, key, lambda: {"file": self._identity()})

        def produce() -> Mapping[str, Any]:
            return self._decided(str(request_fact["file"]), view.result)

        try:
            decision = self._fact("approval", step, key, produce)
        except LimitError as error:
            if error.budget != PAUSED:
                raise
            return GateResult(self.name, WAITING, error.what)
        comment = printable(str(decision["said"]))
        if decision["approved"]:
            return GateResult(self.name, PASSED, f"approved{comment and f': {comment}'}"[:_SAID])
        reason = f"a person rejected the result{comment and f': {comment}'}"
        rejected = GateResult(self.name, FAILED, reason[:_SAID], feedback=reason)
        self._rejected[view.result] = rejected
        return rejected

    def _decided(self, digest: str, result: str) -> Mapping[str, Any]:
        """What a person has decided. Raises LimitError as long as there is nothing."""
        now = self._identity()  # before the content: that may only be newer
        try:
            data = files.read_inside(self._root, self._path, _LIMIT)
        except files.UnreadableError as error:
            raise self._waiting("" if error.missing else str(error)) from None
        if now == digest:
            raise self._waiting("it was there before the run asked: write it anew")
        try:
            record = json.loads(data)
        except (ValueError, RecursionError):
            raise self._waiting("it is no JSON") from None
        status = record.get("status") if isinstance(record, dict) else None
        if status not in (APPROVED, REJECTED):
            raise self._waiting("its status is neither approved nor rejected")
        if record.get("result", result) != result:
            raise self._waiting("it is for another result")
        comment = record.get("reason", "")
        return {
            "approved": status == APPROVED,
            "said": comment[:_APPROVAL_REASON] if isinstance(comment, str) else "",
        }

    def _waiting(self, why: str) -> LimitError:
        message = (
            f"look at the patch; to approve it, copy {APPROVAL_FILE} of the run to"
            f" {printable(self._path)}, and resume"
        )
        return LimitError(f"{message}{why and f' ({printable(why)})'}", budget=PAUSED)

    def _identity(self) -> str:
        """What tells one writing of the file from another; "" without a file."""
        try:
            status = os.lstat(os.path.join(self._root, self._path))
        except OSError:
            return ""
        return f"{status.st_mtime_ns}-{status.st_ino}-{status.st_size}"


#: Items that a reason names, and characters of each.
_NAMED, _ITEM = 5, 120


class ChecklistGate(Gate):
    """``lists`` are pairs of a path and the items that must be in the file."""

    name = "checklists"

    def __init__(
        self, lists: Sequence[tuple[str, Sequence[str]]], read: Read, redact: Callable[[str], str]
    ) -> None:
        self._lists = lists
        self._read = read
        self._redact = redact  # the record has the items without secrets
        paths = ", ".join(f"`{printable(path)}`" for path, _ in lists)
        self.line = (
            f"checklists: each item of {paths} must be ticked (`[x]`). Tick what you have done, and"
            " remove or reword no item"
        )

    def check(self, view: GateView) -> GateResult:
        problems = [
            f"{printable(path)}: {reason}"
            for path, expected in self._lists
            if (reason := self._wrong(self._read(view.result, path), expected))
        ]
        if problems:
            return GateResult(self.name, FAILED, "; ".join(problems))
        number = count(sum(len(expected) for _, expected in self._lists), "item")
        return GateResult(self.name, PASSED, f"{number} of the start ticked")

    def _wrong(self, data: bytes | None, names: Sequence[str]) -> str:
        if data is None:
            return "it is gone, or no regular file"
        boxes = [(self._redact(text), ticked) for text, ticked in items(data)]
        problems = []
        if gone := list((Counter(names) - Counter(text for text, _ in boxes)).elements()):
            problems.append(f"{count(len(gone), 'item')} removed or reworded: {_quoted(gone)}")
        if left := [text for text, ticked in boxes if not ticked]:
            problems.append(f"{count(len(left), 'open item')}: {_quoted(left)}")
        return ", ".join(problems)


def _quoted(texts: Sequence[str]) -> str:
    more = [f"and {len(texts) - _NAMED:,} more"] if len(texts) > _NAMED else []
    return "; ".join([*(printable(text)[:_ITEM] for text in texts[:_NAMED]), *more])


EVIDENCE_FILE = "rlm/evidence.json"
VERSION = 1
#: Files that are in memory at once, and bytes of a log.
_BATCH, _EVIDENCE_LIMIT = 64, 1 << 30


class EvidenceGate(Gate):
    """Hashes what the result changes, and the files of its last iteration."""

    name = "evidence"

    def __init__(
        self, copy: Workspace, path_of: Callable[..., str], redact: Callable[[str], str]
    ) -> None:
        self._copy = copy
        self._path_of = path_of
        self._redact = redact

    def check(self, view: GateView) -> GateResult:
        changes, odd = self._changes(view)
        artifacts = []
        logs = (name for result in view.earlier for name in result.logs)
        for name in dict.fromkeys((*view.files, *logs)):
            try:
                data = files.read(self._path_of(*name.split("/")), _EVIDENCE_LIMIT)
            except files.UnreadableError:
                odd.append(name)
                continue
            artifacts.append({"path": name, **_hashed(data)})
        record = {
            "version": VERSION,
            "iteration": view.iteration,
            "base": view.base,
            "result": view.result,
            "gates": summary(view.earlier),
            "changes": changes,
            "artifacts": artifacts,
        }
        text = self._redact(json.dumps(record, indent=2)).encode()
        files.write(self._path_of(*EVIDENCE_FILE.split("/")), text + b"\n", 0o600)
        if odd:
            message = f"it cannot be read: {first_of(sorted(odd), 'file')}"
            return GateResult(self.name, FAILED, message)
        message = f"{count(len(changes), 'change')} and {count(len(artifacts), 'artifact')} hashed"
        return GateResult(self.name, PASSED, f"{message} in {EVIDENCE_FILE}", logs=(EVIDENCE_FILE,))

    def _changes(self, view: GateView) -> tuple[list[dict[str, Any]], list[str]]:
        """Each file that the result changes, and the paths of those whose content is not there."""
        sides = differing(self._copy.entries(view.base), self._copy.entries(view.result))
        rows, odd = [], []
        for at in range(0, len(paths := sorted(sides)), _BATCH):
            batch = [(path, sides[path][1]) for path in paths[at : at + _BATCH]]
            blobs = iter(self._copy.contents(new.oid for _, new in batch if new))
            for path, new in batch:
                row = {"path": encodable(path), "mode": new.mode if new else None}
                data = next(blobs) if new else None
                rows.append(row if data is None else row | _hashed(data))
                odd += [path] if new and data is None else []
        return rows, odd


def _hashed(data: bytes) -> dict[str, Any]:
    return {"sha256": sha256(data).hexdigest(), "bytes": len(data)}


_OPEN, _CLOSE = "<promise>", "</promise>"
_PROMISE_SHOWN = 200
#: Characters of the end of an answer: before that, an agent prints files, which may have a tag.
_END = 4000


class PromiseGate(Gate):
    """The first ``<promise>`` of the summary, else of the answer's end, must hold ``text``.

    Blanks do not count.
    """

    name = "promise"

    def __init__(self, text: str) -> None:
        self._text = " ".join(text.split())
        # Never the tag itself: an agent may print its prompt.
        self.line = (
            "a promise: if all of the work is done, and only then, end your answer (as the role"
            f" that edits) with an XML element `promise` that holds: {printable(self._text)}"
        )

    def check(self, view: GateView) -> GateResult:
        turn = next((role_turn for role_turn in reversed(view.turns) if role_turn.edits), None)
        if turn is None or turn.outcome.exit_code:
            return self._failed("the turn of the role that edits was not completed")
        promise = promised(turn.outcome.summary)
        if promise is None:
            promise = promised(turn.outcome.output[-_END:])
        if promise is None:
            return self._failed("the answer of the role that edits has no promise")
        if promise != self._text:
            return self._failed(f"the promise is another one: {promise[:_PROMISE_SHOWN]}")
        return GateResult(self.name, PASSED, f"promised: {printable(self._text)}")

    def _failed(self, reason: str) -> GateResult:
        return GateResult(self.name, FAILED, printable(reason))


def promised(text: str) -> str | None:
    """What the first whole tag holds, with single blanks; None without one."""
    _, opened, after = text.partition(_OPEN)
    promise, closed, _ = after.partition(_CLOSE)
    return re.sub(r"\s+", " ", promise).strip() if opened and closed else None


SUMMARY = "rlm/gate-summary.txt"
#: Characters of a reason.
_REASON = 1_000


class GateSequence:
    """All of ``gates`` are asked, each with what those before it have said."""

    def __init__(self, gates: Sequence[Gate], path_of: Callable[..., str]) -> None:
        self._gates = tuple(gates)
        self._path_of = path_of

    @property
    def lines(self) -> tuple[str, ...]:
        """What each asks of the agent."""
        return tuple(gate.line for gate in self._gates if gate.line)

    def begin(self) -> None:
        for gate in self._gates:
            gate.begin()

    def clear(self) -> None:
        """Remove what was said of an earlier iteration."""
        for name in (SUMMARY, EVIDENCE_FILE, APPROVAL_FILE) if self._gates else ():
            files.clear(self._path_of(*name.split("/")))

    def check(self, view: GateView) -> tuple[GateResult, ...]:
        results: list[GateResult] = []
        for gate in self._gates:
            title = f"gate {gate.name}"
            with spans.span("gate", title, words=f"iteration {view.iteration}: {title}") as step:
                result = gate.check(view.replace(earlier=tuple(results)))
                results.append(result.replace(reason=result.reason[:_REASON]))
                step.outcome = spans.DONE if result.verdict == PASSED else spans.FAILED
                step.details |= {"verdict": result.verdict, "reason": result.reason[:_REASON]}
        if results:
            text = f"iteration={view.iteration} {summary(results)}\n"
            files.write(self._path_of(*SUMMARY.split("/")), text.encode(), 0o600)
        return tuple(results)


def gates_of(
    context: FixContext,
    judge: ResultJudge,
    find: Callable[[str], str | None],
    gateway: Gateway | None,
    review: MakeGate | None,
) -> Iterator[Gate]:
    """Those that the options ask for; the last one asks a person, if all others pass.

    ``review`` makes the gate that asks a model, by ``gateway``.

    Raises UnavailableError for a program that is not there.
    """
    options, copy = context.options.gates, context.commands.workspace
    redactor = context.redactor
    if options.promise:
        yield PromiseGate(options.promise)
    if options.checklists:
        yield ChecklistGate(options.checklists, partial(_read, copy), redactor.text)
    if options.tests:
        yield CommandGate("tests", (options.tests,), context, judge, find, counted=True)
    if options.validation:
        yield CommandGate("validation", options.validation, context, judge, find)
    if options.review and gateway is not None and review is not None:
        yield review(context, gateway)
    if options.evidence:
        yield EvidenceGate(copy, context.path_of, redactor.without_known)
    if options.approval:
        yield ApprovalGate(
            options.approval, context.commands.visible_root, context.fact, context.path_of
        )


def _read(copy: Workspace, tree: str, path: str) -> bytes | None:
    """A regular file of a tree."""
    entry = copy.entries(tree).get(path)
    return copy.contents([entry.oid])[0] if entry and entry.is_file else None
