"""The review of a fix: does it mend the cause, or special-case the test? Claims are run."""

from __future__ import annotations

from rlm_ci.pipelines.repository import plan
from rlm_ci.pipelines.repository.plan import RepositoryScope
from rlm_ci.recursion.nodes import LeafText, TracedFinding
from rlm_ci.recursion.prompt_windows import LEAST
from rlm_ci.report.proof import ARGUED
from rlm_ci.resources import loader
from rlm_ci.review.change.base_comparison import changed_of, marked
from rlm_ci.review.change_prompts.prompts import near_of, prompts_of
from rlm_ci.review.guidelines import Guidelines
from rlm_ci.review.model import metered
from rlm_ci.review.model.finder import Finder, room_for_change
from rlm_ci.review.model.metered import MeteredAsk
from rlm_ci.review.model.prove import UNMENDED, Prover
from rlm_ci.review.proofs.runner import ProofRunner
from rlm_ci.review.prover import sources_of
from rlm_ci.review.results import merge
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.models.json_question import Ask
    from rlm_ci.report.findings import Finding
    from rlm_ci.runs import Fact
    from rlm_ci.trials.trees import ProofPlace

#: What a fix may break. Documents and style are no reason to send it back.
_DOMAINS = ("quality", "security", "performance")


class FixReview(Value):
    """``objections`` were shown by a run, ``remarks`` are argued; so many claims were refuted.

    ``lacking`` says why not all was reviewed, "" if it was.
    """

    objections: tuple[Finding, ...] = ()
    remarks: tuple[Finding, ...] = ()
    refuted: int = 0
    lacking: str = ""


def review(proof_place: ProofPlace, ask: Ask, fact: Fact) -> FixReview:
    """Review the change from the base to the head of ``proof_place``, which may be trees.

    Raises RemoteError, StorageError, ConfigError.
    """
    fix_scope = RepositoryScope(
        commit=proof_place.head,
        head=proof_place.head,
        base=proof_place.base,
        merge_base=proof_place.base,
    )
    change = plan.change_of(fix_scope, proof_place.repository)
    if change is None:
        raise AssertionError("a fix has two sides")
    affected_files, changed = near_of(fix_scope, proof_place.repository, ()), changed_of(change)
    more = loader.load_template("prompts/review-fix.md.j2")({})
    room = room_for_change(ask.max_bytes, ask.repair, Guidelines(())) - len(more.encode())
    shown = prompts_of(change, affected_files, fix_scope, room, minimum=2 * min(LEAST, ask.repair))
    limit = metered.limit_of(changed, {})
    counted = MeteredAsk(ask, None, limit)
    findings: list[TracedFinding] = []
    # What no prompt can show is where a special case would hide.
    lacking = [(path, f"{path}: {why}") for path, why in shown.missing]
    for prompt in shown.prompts:
        files = affected_files.files(dict.fromkeys((*prompt.paths, *prompt.files)))
        contents = zip(files, affected_files.corpus.read(files), strict=True)
        texts = [LeafText(file.path, file.oid, content) for file, content in contents]
        looked = Finder(counted, _DOMAINS, more=more).look_at_change(prompt, texts)
        lacking += looked.uncovered
        findings += (
            TracedFinding(
                finding if finding.rule == UNMENDED else marked(finding, changed), (prompt.label,)
            )
            for finding in looked.findings
        )
    with ProofRunner(proof_place, fact) as runner:
        prover = Prover(sources_of(change, affected_files.corpus), runner, of_fix=True)
        settled, proved = prover.settle(merge.apart(findings), ask, limit, counted.spent())
    standing = [
        _unfiled(finding.finding) for finding in settled if finding.finding.suppression is None
    ]
    lacking += proved.uncovered
    return FixReview(
        tuple(
            finding
            for finding in standing
            if finding.proof is not None and finding.proof.level != ARGUED
        ),
        tuple(
            finding
            for finding in standing
            if finding.proof is None or finding.proof.level == ARGUED
        ),
        len(proved.refuted),
        lacking[0][1] if lacking else "",
    )


def _unfiled(finding: Finding) -> Finding:
    """A finding without the folder of its proof: a loop keeps none."""
    return (
        finding if finding.proof is None else finding.replace(proof=finding.proof.replace(path=""))
    )
