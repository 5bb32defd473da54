"""Verifies the maps of a symbolic run: their parts, and the result of their answers."""

from __future__ import annotations

from rlm_ci.ask.verify.artifacts import WrongError
from rlm_ci.context.pointers import PointerError
from rlm_ci.context.scope import Scope
from rlm_ci.environments.symbolic import subcalls
from rlm_ci.environments.symbolic.iteration import REFUSED, SubcallResult, subcall_pointer
from rlm_ci.environments.symbolic.map_reduce.maps import MAP, map_id, outcome
from rlm_ci.environments.symbolic.map_reduce.parts import parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.ask.verify.artifacts import RunArtifacts
    from rlm_ci.ask.verify.recorded_answers import RecordedAnswers
    from rlm_ci.context.context import Context


class MapCheck:
    """Compares maps in a state with the files, the journal and the context."""

    def __init__(self, files: RunArtifacts, context: Context, answers: RecordedAnswers) -> None:
        self._files = files
        self._context = context
        self._answers = answers

    def require(self, iteration: int, number: int, entry: Mapping[str, Any], most: int) -> None:
        """Raise WrongError unless an ``entry`` has all parts, and its result is theirs.

        Each sub-call is verified for itself. ``most`` are the bytes of a part.
        """
        ident = map_id(number)
        place = f"{iteration}/{ident}"
        if (entry["id"], entry["pointer"]) != (ident, subcall_pointer(iteration, ident)):
            raise WrongError(f"it is not the map {place}")
        if self._answers.results.get(f"{MAP}/{place}") != entry["forecast"]:
            raise WrongError("its forecast is not the one in the journal")
        refused = entry["forecast"]["error"]
        if (entry["status"] == REFUSED) != (refused is not None):
            raise WrongError("it does not say whether it was refused")
        if refused is not None:
            if entry["error"] != refused or entry["parts"] or entry["reductions"]:
                raise WrongError("it was refused, and has parts")
            return
        self._require_parts(ident, entry, most)
        folder = f"{subcalls.NAME}/{place}"
        self._files.require_vouched(folder, f"subcall/{place}", self._answers)
        output = self._files.bytes_of(f"{folder}/output.txt")
        answered = [self._result(iteration, one) for one in entry["parts"]]
        reductions = [self._result(iteration, one) for one in entry["reductions"]]
        text, error = outcome(entry["reduce"], entry["field"], answered, reductions)
        if (text.encode(), error) != (output, entry["error"]):
            raise WrongError(f"{folder}/output.txt is not the result of the answers")
        if len(output) != entry["output_bytes"]:
            raise WrongError(f"{folder}/output.txt is not as long as the state says")

    def _require_parts(self, ident: str, entry: Mapping[str, Any], most: int) -> None:
        scope = Scope(entry["scope"]["chunks"], tuple(entry["scope"]["files"]))
        prefix = f"ctx:{self._context.object_id}#bytes:"
        try:
            expected = [
                (f"{ident}-{one.name}", [f"{prefix}{one.start}-{one.end}"])
                for one in parts(scope, self._context, most)
            ]
        except PointerError as error:
            raise WrongError(str(error)) from None
        asked = [(one["id"], one["pointers"]) for one in entry["parts"]]
        unasked = [one.partition("#bytes:")[2] for _, [one] in expected[len(asked) :]]
        if asked != expected[: len(asked)] or unasked != entry["unasked"]:
            raise WrongError("its parts are not those of the text that it names")

    def _result(self, iteration: int, entry: Mapping[str, Any]) -> SubcallResult:
        """As much of a sub-call's result as the result of a map depends on."""
        _, output = self._files.output(subcall_pointer(iteration, entry["id"]))
        names = ("id", "purpose", "pointer", "status", "error", "input_bytes", "output_bytes")
        known = {name: entry[name] for name in names}
        return SubcallResult(**known, output=output.decode(), clamped=(), artifact_paths={})
