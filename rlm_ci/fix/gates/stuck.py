"""Whether a loop is stuck: turns in a row that leave the same failures, and a report of them."""

from __future__ import annotations

import re
from hashlib import sha256

from rlm_ci.runs.state import NO_PROGRESS
from rlm_ci.system import files
from rlm_ci.text.printable import clip, count, fenced, printable, printable_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.runs.state import FinalState

FILE = "rlm/stuck-report.md"
#: What differs from one run of the same tests to the next: times and addresses.
_NOISE = re.compile(r"\b[0-9]{1,9}\.[0-9]{1,9} ?(?:m?s|sec(?:onds)?)\b|\b0x[0-9a-fA-F]{4,16}\b")
_SHOWN, _SAID, _FAILURES = 10, 600, 4_000


class FailureStreak:
    """How many turns in a row have left the same failures."""

    def __init__(self) -> None:
        self._last = ""
        self._length = 0

    def add(self, failures: str) -> int:
        """The length with a turn that has left these; "" is none, or none that is known."""
        signature = sha256(_NOISE.sub("", failures).encode("utf-8", "replace")).hexdigest()
        same = bool(failures) and signature == self._last
        self._length = self._length + 1 if same else int(bool(failures))
        self._last = signature
        return self._length


def keep(
    path_of: Callable[..., str],
    final: FinalState,
    turns: Sequence[Mapping[str, Any]],
    failures: str,
) -> None:
    """Write the report of a loop that has ended without progress."""
    if final.status == NO_PROGRESS:
        text = _report(final.reason, turns, failures)
        files.write(path_of(*FILE.split("/")), printable_file(text), 0o600)


def _report(reason: str, turns: Sequence[Mapping[str, Any]], failures: str) -> str:
    """What a person needs to go on, from the turns of the state."""
    rows = []
    for turn in turns[-_SHOWN:]:
        changes = "; ".join(str(turn["diffSummary"]).splitlines()[:3]) or "no change"
        rows += [
            f"## Iteration {turn['n']}",
            "",
            f"- the agent: {printable(clip(str(turn['summary']), _SAID))}",
            f"- against the start: {printable(changes)}",
            f"- the validator: {printable(str(turn['validatorReason'] or 'there is none'))}",
            *(f"- gate {gate['name']}: {gate['verdict']}, {printable(gate['reason'])}"
              for gate in turn.get("gates", ())),
            "",
        ]  # fmt: skip
    left = fenced("What fails", clip(failures, _FAILURES)) if failures else ""
    head = f"The loop made no progress: {printable(reason)}. It took {count(len(turns), 'turn')}."
    advice = (
        "To go on: read what the agent tried, apply the patch if it is of use, then start a new run"
        " with a clearer goal, a plan (`--roles superloop`) or another model."
        " `loop.gates.stuck.turns` says after how many turns with the same failures a loop ends; 0"
        " turns that off."
    )
    return "\n".join(["# Stuck", "", head, "", *rows, left, "", advice, ""])
