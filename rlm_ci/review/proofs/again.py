"""The proofs of a stored review, run once more: ``rlm-ci verify RUN --run-proofs``."""

from __future__ import annotations

import os

from rlm_ci.errors import DamagedError, UsageError
from rlm_ci.review.proofs import reproduction
from rlm_ci.review.proofs.runner import ProofRunner
from rlm_ci.runs import checksums
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.review.proofs.reproduction import ProofOutcome, StoredProof
    from rlm_ci.trials.trees import ProofPlace


class ProofsAgain(Value):
    """How many proofs were run, and those that ended otherwise than the run says."""

    ran: int = 0
    problems: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """In a line, for people."""
        if not self.ran:
            return "no proof was run again" if self.problems else "the run has no proofs"
        outcome = f"{len(self.problems):,} not as before" if self.problems else "as before"
        return f"{count(self.ran, 'proof')} run again: {outcome}"


def run(
    folder: str, proof_place: ProofPlace, tell: Callable[[str], object], only: str | None = None
) -> ProofsAgain:
    """Run the proofs of the run in ``folder``, or ``only`` one; ``tell`` hears of each.

    Raises UnavailableError, and UsageError where there is no such proof.
    """
    records: dict[str, Mapping[str, Any]] = {}

    def remembered(
        kind: str, where: str, _key: Mapping[str, Any], produce: Callable[[], Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        name = f"{kind} {where}"
        if name not in records:
            records[name] = produce()
        return records[name]

    # A run of several parts has its review as a run within.
    folders = (folder, *(os.path.join(folder, inner) for inner in checksums.children(folder)))
    try:
        stored = [
            pair
            for name in folders
            for pair in reproduction.read(os.path.join(name, *reproduction.PLACE))
        ]
    except DamagedError as error:
        return ProofsAgain(0, (printable(str(error)),))
    if only is not None:
        stored = _chosen(stored, only)
    problems: list[str] = []
    with ProofRunner(proof_place, remembered) as runner:
        if stored and (why := runner.available):
            return ProofsAgain(0, (f"proofs: none can be run here: {why}",))
        for name, proof in stored:
            tell(f"running the proof of {printable(name)[:80]}")
            problems += [
                f"proof of {printable(name)[:80]}: {why}" for why in _unlike(proof, runner)
            ]
    return ProofsAgain(len(stored), tuple(problems))


def _chosen(stored: list[tuple[str, StoredProof]], only: str) -> list[tuple[str, StoredProof]]:
    """The proof that ``only`` names, by its id or its beginning. Raises UsageError."""
    begun = [pair for pair in stored if pair[0].startswith(only)]
    matches = [pair for pair in begun if pair[0] == only] or begun
    if len(matches) == 1:
        return matches
    ids = ", ".join(printable(name) for name, _ in matches or stored)
    name = printable(only)
    what = f"{name} is the beginning of several" if matches else f"the run has no proof {name}"
    raise UsageError(what, where="--proof", hint=f"its proofs: {ids or 'none'}")


def _unlike(proof: StoredProof, runner: ProofRunner) -> list[str]:
    """What is not as it was. The level may be lower than the runs say, and so does not count."""
    differences = []
    before, now = _outcome_words(proof.outcome), _outcome_words(runner.check(proof.reproduction))
    if now != before:
        differences.append(f"now {now}; it was {before}")
    if proof.repair and not (tried := runner.try_repair(proof.repair, proof.reproduction)).ok:
        differences.append(f"its repair does not hold: {tried.reason}")
    return differences


def _outcome_words(outcome: ProofOutcome) -> str:
    base = "not run" if outcome.base is None else printable(outcome.base.status)
    return f"{printable(outcome.head.status)} at head, {base} at the base"
