"""The prover of a review: what it shows a model of a claim, and where its reproductions run."""

from __future__ import annotations

import shutil
from functools import lru_cache, partial

from rlm_ci import sandbox
from rlm_ci.report import suppressions
from rlm_ci.report.details import claim_mark
from rlm_ci.report.findings import Part, RefutedClaim, Severity, fingerprints
from rlm_ci.review.guidelines import Guidelines
from rlm_ci.review.model.claim_context import Sources
from rlm_ci.review.model.prove import Prover
from rlm_ci.review.proofs import reproduction
from rlm_ci.review.proofs.reproduction import StoredProof
from rlm_ci.review.proofs.runner import ProofRunner
from rlm_ci.system.command_line import Command
from rlm_ci.trials.trees import ProofPlace, validators_of
from rlm_ci.values import Value
from rlm_ci.workspace.sandboxed_commands import ReplaySandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.repository.plan import RecursionResult
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.recursion.nodes import NodeResult
    from rlm_ci.report.findings import Finding
    from rlm_ci.review.model.claim_context import Hunks
    from rlm_ci.runs.run import Run
    from rlm_ci.sandbox.job import Sandbox

_SETUP = "loop.setup"


def options(
    proofs: str, setup: str | None, validator: str, change: ChangeSet | None, *, may_write: bool
) -> dict[str, Any]:
    """What proofs depend on besides the trees: why nothing is run, "" if it is, and commands.

    Raises UsageError for a setup or a validator that is no command.
    """
    lacking = ""
    if proofs == "off":
        lacking = "review.proofs is off"
    elif change is None:
        lacking = "there is no change to compare with"
    elif not may_write:
        lacking = "nothing of a change is run that a comment asks to review"
    if setup:
        Command.parse(setup, where=_SETUP)
    judges = () if change is None else validators_of(validator, change.repository.root)
    return {
        "lacking": lacking,
        "setup": setup or "",
        "validators": [judge.text for judge in judges],
    }


class ProverPlace(Value):
    """What a prover is made for; ``exit_stack`` closes at the end of the job what it opens.

    ``tell`` hears what is run, where that may take minutes.
    """

    sandbox: str
    environ: Mapping[str, str]
    change: ChangeSet | None
    run: Run
    record: Record
    exit_stack: ExitStack
    is_replay: bool
    tell: Callable[[str], object]


def prover(at: ProverPlace, chosen: Mapping[str, Any], corpus: Corpus) -> Prover:
    """The prover of a review with the options ``chosen``."""
    levels = [
        None if label == "off" else Severity.from_label(label)
        for label in (chosen["refute_level"], chosen["repair_level"])
    ]
    change, proofs = at.change, chosen["proofs"]
    sources = sources_of(change, corpus, Guidelines(chosen.get("guidelines", ())))
    accepted = partial(_accepted, chosen.get("accepted"), at.run.redactor.finding)
    if proofs["lacking"] or change is None or change.merge_base is None:
        return Prover(sources, None, proofs["lacking"], *levels, accepted=accepted)

    def choose() -> Sandbox:
        box = sandbox.choose(at.sandbox, at.environ)
        at.run.set_sandbox(box.name)
        return box

    proof_place = ProofPlace(
        change.repository,
        change.merge_base,
        change.head,
        ReplaySandbox if at.is_replay else choose,
        at.environ,
        Command.parse(proofs["setup"], where=_SETUP) if proofs["setup"] else None,
        tuple(map(Command.parse, proofs["validators"])),
    )
    runner = at.exit_stack.enter_context(ProofRunner(proof_place, at.record.fact, tell=at.tell))
    return Prover(sources, runner, "", *levels, accepted=accepted)


def _accepted(
    settled: Mapping[str, Any] | None, redact: Callable[[Finding], Finding], finding: Finding
) -> str | None:
    """Why a finding does not count, as people have settled or suppressed it.

    The report finds it out once more: here it spares the work of showing such a claim.
    """
    if settled is None:
        return None
    part = Part("review", "", findings=(finding.replace(suppression=None),))
    part = suppressions.apply(
        part, settled["entries"], today=lambda: str(settled["day"]), redact=redact
    )
    (mark,) = fingerprints([redact(finding)])
    if part.findings[0].suppression is not None:
        return part.findings[0].suppression
    settlements = [claim_mark.Settlement(*row) for row in settled["settled"]]
    before, is_worse = claim_mark.settled(finding, mark, settlements)
    return None if before is None or is_worse else before.reason


def sources_of(
    change: ChangeSet | None, corpus: Corpus, guidelines: Guidelines | None = None
) -> Sources:
    """The files of ``corpus``, with what ``change`` did to them."""
    by_path = {file.path: file for file in corpus.files}

    @lru_cache(maxsize=256)
    def read(path: str) -> bytes | None:
        return corpus.read([by_path[path]])[0] if path in by_path else None

    def hunks() -> Hunks:
        return {} if change is None else change.hunks()[0]

    return Sources(list(by_path), read, hunks, guidelines or Guidelines(()))


def refuted(result: NodeResult) -> tuple[RefutedClaim, ...]:
    return tuple(map(RefutedClaim.from_dict, result.data.get("refuted", ())))


def write(result: NodeResult, done: RecursionResult) -> None:
    """Write what was run for the findings; an earlier attempt may have left other files."""
    folder = done.run.path_of("rlm", "artifacts", "review", reproduction.FOLDER)
    shutil.rmtree(folder, ignore_errors=True)
    for mark, record in result.data.get("proofs", {}).items():
        StoredProof.from_dict(record).write(mark, done.write)
