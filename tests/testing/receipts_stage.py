"""A pull request with a receipt: a base with a task and a workflow, a commit, and who signs it."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from rlm_ci.change.change_set import ChangeSet, PullRequest
from rlm_ci.receipts.judge import JudgedReceipt, ReceiptPolicy, judge
from rlm_ci.receipts.make import receipt_of
from rlm_ci.receipts.receipt import Receipt, ReceiptRun, WorkflowRun, path_of
from testing.change_sets import repository
from testing.repositories.delegated_runs import TASK, registered, run_id, write_index
from testing.repositories.events import NAME, NUMBER, OWNER

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo
    from testing.token_issuer import TokenIssuer

SLUG = f"{OWNER}/{NAME}"
WORKFLOW = ".github/workflows/agents.yml"
SIBLING = f"{TASK}-extra"
ENDED = "2026-01-05T09:04:00Z"
#: A minute after the runs' end.
ISSUED = 1_767_603_840 + 60


class Scene:
    """``base`` and ``work`` are commits; a receipt goes on top, as the head."""

    def __init__(self, repo: GitRepo, issuer: TokenIssuer) -> None:
        self.repo, self.issuer = repo, issuer
        write_index(repo.path, registered(TASK, SIBLING))
        self.base = repo.write(WORKFLOW, "on: push\n").commit("Index")
        repo.checkout("feature", new=True)
        self.work = repo.write("a", "x").commit("Work")
        self.opened = repository(repo)
        self.policy = ReceiptPolicy(
            succeeded=False, server_url=issuer.server_url, why_unchecked="", must_be_verified=False
        )

    def run(self, task: str = f"{TASK}-docs", number: int = 0, **fields: Any) -> ReceiptRun:
        known = {"status": "succeeded", "completed_at": ENDED, "manifest_sha256": "0" * 64}
        return ReceiptRun(**({"task_id": task, "run_id": run_id(number)} | known | fields))

    def receipt(self, commit: str = "", *runs: ReceiptRun) -> Receipt:
        return receipt_of(self.opened, TASK, commit or self.work, runs or (self.run(),))

    def made_by_job(self, sha: str = "", **fields: Any) -> WorkflowRun:
        made = WorkflowRun(
            SLUG, "77", "1", f"{SLUG}/{WORKFLOW}@refs/heads/feature", sha or self.work,
            "refs/heads/feature",
        )  # fmt: skip
        return made.replace(**fields)

    def merge(self, head: str) -> str:
        """GitHub's merge of the pull request."""
        tree = self.repo.text("rev-parse", f"{head}^{{tree}}")
        return self.repo.commit_tree(tree, [self.base, head], f"Merge {head}")

    def encoded(self, commit: str) -> str:
        return b64encode(self.repo.run("cat-file", "commit", commit)).decode()

    def claims(self, receipt: Receipt, **changed: Any) -> dict[str, Any]:
        assert receipt.workflow is not None
        told = receipt.workflow.to_dict()
        del told["merge_commit"]
        return {
            "iss": self.issuer.issuer, "aud": receipt.audience(), "iat": ISSUED, "nbf": ISSUED,
            "exp": ISSUED + 300, "job_workflow_ref": told["workflow_ref"], **told, **changed,
        }  # fmt: skip

    def signed(self, receipt: Receipt | None = None, **changed: Any) -> Receipt:
        receipt = receipt or self.receipt()
        receipt = receipt.replace(workflow=receipt.workflow or self.made_by_job())
        return receipt.replace(token=self.issuer.sign(self.claims(receipt, **changed)))

    def commit(self, content: Receipt | bytes, task: str = TASK) -> str:
        data = content if isinstance(content, bytes) else content.to_bytes()
        return self.repo.write(path_of(task), data).commit("Receipt")

    def change(self, head: str, *, number: int | None = NUMBER) -> ChangeSet:
        pull = PullRequest(number) if number else None
        trigger = "pull_request" if pull else "range"
        return ChangeSet(self.opened, trigger, self.base, head, self.base, SLUG, pull_request=pull)

    def judged(self, head: str, *, number: int | None = NUMBER, **policy: Any) -> JudgedReceipt:
        found = judge(
            self.change(head, number=number), TASK, self.owner, self.policy.replace(**policy)
        )
        assert found is not None
        return found

    @staticmethod
    def owner(name: str) -> str | None:
        if name.startswith(SIBLING):
            return SIBLING
        return TASK if name.startswith(TASK) else None
