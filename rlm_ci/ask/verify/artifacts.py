"""The files of a symbolic run, each checked against the others."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from rlm_ci.environments.symbolic import counts, subcalls
from rlm_ci.environments.symbolic.artifacts import FILES, digest
from rlm_ci.environments.symbolic.iteration import SUBCALL, count_pointer
from rlm_ci.environments.symbolic.secret_masking import is_masked
from rlm_ci.environments.symbolic.subcall_inputs import mark_of
from rlm_ci.errors import DamagedError
from rlm_ci.system import files
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.ask.verify.recorded_answers import RecordedAnswers
    from rlm_ci.context.context import Context

STATE = "state.json"
PLANNER = "planner"
#: Bytes of one file that are read; those that we write are far smaller.
_LIMIT = 64 << 20


class WrongError(Exception):
    """A problem, with its file."""


class RunArtifacts:
    """The files in ``folder``, the ``rlm/`` of a run over ``context``; paths are relative to it.

    Records may have another shape than we write: handle KeyError, TypeError, ValueError and
    AttributeError.
    """

    def __init__(self, folder: str, context: Context) -> None:
        self._folder = folder
        self._context = context

    def bytes_of(self, path: str, limit: int = _LIMIT) -> bytes:
        """The content. Raises WrongError, as all methods do; DamagedError for a file too large."""
        place, size = os.path.join(self._folder, path), 0
        with suppress(OSError):
            size = os.lstat(place).st_size
        if size > limit:
            raise _too_large(place, f"it has {size:,} bytes, more than {limit:,}")
        try:
            return files.read_inside(self._folder, path, limit)
        except files.UnreadableError as error:
            raise WrongError(f"{path}: {error}") from None

    def record(self, path: str) -> dict[str, Any]:
        try:
            record = json.loads(self.bytes_of(path))
        except (ValueError, RecursionError):
            raise WrongError(f"{path} is not JSON") from None
        except MemoryError:
            place = os.path.join(self._folder, path)
            raise _too_large(place, "it needs more memory than there is") from None
        if not isinstance(record, dict):
            raise WrongError(f"{path} is not a JSON object")
        return record

    def as_told(self, path: str, expected: Mapping[str, Any]) -> bytes:
        """The content of a file with the size and the hash in ``expected``."""
        data = self.bytes_of(path)
        if digest(data) != expected:
            raise WrongError(f"{path} is not what was written")
        return data

    def require_vouched(self, folder: str, place: str, answers: RecordedAnswers) -> None:
        """Raise unless the files in ``folder`` have the digests in the journal."""
        expected = answers.files.get(place, {})
        changed = [
            f"{folder}/{FILES[name]}"
            for name, one in expected.items()
            if digest(self.bytes_of(f"{folder}/{FILES[name]}")) != one
        ]
        if changed:
            verb = "is" if len(changed) == 1 else "are"
            raise WrongError(f"{', '.join(changed)} {verb} not what was written")

    def names(self, folder: str) -> list[str]:
        """The names in ``folder`` by number; none if it is missing."""
        try:
            return sorted(os.listdir(os.path.join(self._folder, folder)), key=_number)
        except OSError:
            return []

    def output(self, pointer: str) -> tuple[str, bytes]:
        """The path and the content of the output that ``pointer`` names."""
        kind, iteration, name = pointer.split(":")
        if f"{kind}:" != SUBCALL:
            raise WrongError(f"{pointer} names no output")
        path = f"{subcalls.NAME}/{int(iteration)}/{_plain(name)}/output.txt"
        return path, self.bytes_of(path)

    def require_excerpt(self, text: str, start: int, end: int, cap: int) -> None:
        """Raise unless ``text`` is these bytes of the source, and they are no more than ``cap``."""
        if not 0 <= start < end <= self._context.byte_length:
            raise WrongError(f"the source has no bytes {start}-{end}")
        if end - start > cap:
            raise WrongError(f"{end - start:,} bytes of the source are more than {cap:,}")
        try:
            source = self._context.raw(start, end).decode("utf-8", "replace")
        except DamagedError as error:
            raise WrongError(str(error)) from None
        if not is_masked(text, source):
            raise WrongError(f"it is not what bytes {start}-{end} of the source are")

    def require_count(
        self, iteration: int, number: int, entry: Mapping[str, Any], answers: RecordedAnswers
    ) -> None:
        """Raise unless the context has what an ``entry`` of the state counts.

        Only the journal knows why something was not counted.
        """
        found, pointer = entry["found"], count_pointer(iteration, number)
        if entry["pointer"] != pointer or answers.results.get(pointer) != found:
            raise WrongError(f"it is not what the journal has at {pointer}")
        if found["error"] is not None:
            return
        if counts.counted(counts.from_state(entry), self._context) != found:
            raise WrongError("the context has other hits")

    def require_rows(
        self, text: str, section: Mapping[str, Any], entry: Mapping[str, Any], most: int
    ) -> None:
        """Raise unless ``text`` has the rows of a count, and they are no more than ``most``."""
        found = counts.from_fact(entry["found"])
        if found is None or len(found.rows) > most:
            raise WrongError(f"more than {most} rows of a count")
        if [tuple(span) for span in section.get("spans", ())] != list(found.captured):
            raise WrongError("it does not say what of the source it shows")
        table = counts.table(
            found, self._context, lambda *span: self._context.raw(*span).decode("utf-8", "replace")
        )
        if not is_masked(text, table):
            raise WrongError(f"it is not what {entry['pointer']} counted")

    def require_subcall(
        self, iteration: int, entry: Mapping[str, Any], answers: RecordedAnswers
    ) -> None:
        """Raise unless the files of a sub-call agree with its ``entry`` in the state."""
        place = f"{int(iteration)}/{_plain(entry['id'])}"
        folder = f"{subcalls.NAME}/{place}"
        self.require_vouched(folder, f"subcall/{place}", answers)
        given, meta = self.record(f"{folder}/input.json"), self.record(f"{folder}/meta.json")
        prompt = self.as_told(f"{folder}/prompt.txt", meta["prompt"])
        output = self.as_told(f"{folder}/output.txt", meta["output"])
        names = ("id", "status", "error", "cut", "clamped")
        if _picked(meta, *names) != _picked(entry, *names):
            raise WrongError(f"{folder}/meta.json and the state do not say the same")
        if len(output) != entry["output_bytes"]:
            raise WrongError(f"{folder}/output.txt is not as long as the state says")
        pointers = [*given["pointers"], *(one["pointer"] for one in given["snippets"])]
        asked = ("id", "purpose", "clamped")
        is_same = _picked(given, *asked) == _picked(entry, *asked)
        if not is_same or pointers != entry["pointers"]:
            raise WrongError(f"{folder}/input.json and the state do not say the same")
        if entry["pointer"] != f"{SUBCALL}{iteration}:{entry['id']}":
            raise WrongError(f"{folder} is not where {entry['pointer']} leads")
        self._require_attempts(f"subcall/{place}", folder, prompt, meta, answers)
        text, cap = prompt.decode(), given["max_input_bytes"]
        sizes = [self._piece(f"{folder}/prompt.txt", text, piece, cap) for piece in given["pieces"]]
        if sum(sizes) != entry["input_bytes"]:
            raise WrongError(f"{folder}/input.json is not as long as the state says")

    def _require_attempts(
        self,
        place: str,
        folder: str,
        prompt: bytes,
        meta: Mapping[str, Any],
        answers: RecordedAnswers,
    ) -> None:
        """Raise unless each question begins the prompt, and each answer is in the journal."""
        attempts = meta["attempts"]
        names = ("prompt", "output", "model", "finish_reason", "usage")
        if _picked(meta, *names) != _picked(attempts[-1], *names):
            raise WrongError(f"{folder}/meta.json says two things of one answer")
        for attempt, name in zip(attempts, (place, f"{place}/again"), strict=False):
            if digest(prompt[: attempt["prompt"]["bytes"]]) != attempt["prompt"]:
                raise WrongError(f"{folder}/prompt.txt is not what was asked")
            if attempt["error"] is None and not answers.has(name, attempt):
                raise WrongError(f"{folder}/meta.json names an answer that is not in the journal")

    def _piece(self, path: str, prompt: str, piece: Mapping[str, Any], cap: int) -> int:
        """Check an excerpt in a sub-call's prompt; returns its bytes."""
        pointer, mark, label = piece["pointer"], piece["mark"], piece["label"]
        start, end = piece["start_byte"], piece["end_byte"]
        text, found, _ = prompt.partition(f"<<< {label} | {mark}\n")[2].partition(f"\n>>> {mark}\n")
        size = len(text.encode())
        is_labelled = label.startswith(f"{pointer} | bytes {start}-{end}")
        if not found or not is_labelled or mark_of(text) != mark or piece["bytes"] != size:
            raise WrongError(f"{path} does not show {pointer} as input.json says")
        if not pointer.startswith(SUBCALL):
            self.require_excerpt(text, start, end, cap)
        elif self.output(pointer)[1][start:end] != text.encode():
            raise WrongError(f"{path} does not show what {pointer} says")
        return size


def _too_large(path: str, what: str) -> DamagedError:
    return DamagedError(what, where=printable(path), hint="rlm-ci did not write it: restore it")


def _picked(record: Mapping[str, Any], *names: str) -> list[Any]:
    return [record[name] for name in names]


def _number(name: str) -> tuple[int, str]:
    """A sort key: names by the number at their end; those without come first."""
    digits = name.rpartition("-")[2]
    return (int(digits) if digits.isdecimal() and len(digits) < len("1" * 10) else -1, name)


def _plain(name: object) -> str:
    if not isinstance(name, str) or "/" in name or name in ("", ".", ".."):
        raise WrongError("it names no sub-call")
    return name
