"""Stubs on branches, each small enough for the diff budget; the work tree is left alone."""

from __future__ import annotations

from itertools import count as numbers

from rlm_ci.archive.plan import SkippedDocument
from rlm_ci.archive.tasks import REGISTRY, Registry
from rlm_ci.change.change_set import ChangeSet
from rlm_ci.checks import diff_budget
from rlm_ci.checks._doc_archive.stub import parse
from rlm_ci.git.hardening import without_hook
from rlm_ci.git.repository import Repository
from rlm_ci.judge.judge import judge
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.archive.plan import ArchivePlan, PlannedDocument
    from rlm_ci.git.clone import Clone

FOLDER = "archive/"


class Batch(Value):
    """A branch with the stubs of ``paths``; ``over`` says by how much it exceeds the budget."""

    branch: str
    commit: str
    paths: tuple[str, ...]
    over: str = ""


class Batches:
    """The branches of a plan, made in ``clone``, which reads the objects of ``repository``."""

    def __init__(
        self,
        repository: Repository,
        clone: Clone,
        plan: ArchivePlan,
        environ: Mapping[str, str],
    ) -> None:
        self._repository, self._clone, self._plan = repository, clone, plan
        self._registry = Registry(repository.read(f"{plan.head}:{REGISTRY}")[0])
        self._there = Repository(clone.folder, clone.folder, without_hook(environ))

    def make(self) -> list[Batch]:
        """Make the branches, as few as the documents allow in their order."""
        taken = {*self._repository.refs("refs/heads"), *self._there.refs("refs/heads")}
        names = (f"{FOLDER}{self._plan.day}-{number}" for number in numbers(1))
        free = (name for name in names if f"refs/heads/{name}" not in taken)
        documents = list(self._plan.documents)
        batches: list[Batch] = []
        size = len(documents)
        while documents:
            batch, size = self._largest(documents, size, next(free))
            batches.append(batch)
            documents = documents[len(batch.paths) :]
        if batches:
            self._bring(batches)
        return batches

    def over_budget(self) -> str:
        """What the diff budget finds wrong with all the stubs as one change."""
        return self._try(self._plan.documents, "")[1]

    def _bring(self, batches: Sequence[Batch]) -> None:
        """Take the branches over from the clone: all or none."""
        for batch in batches:
            self._clone.begin(batch.branch, batch.commit)
        self._repository.run(
            "fetch", "--quiet", "--atomic", "--no-tags", "--no-write-fetch-head", "--no-auto-gc",
            "--", self._clone.folder,
            *(f"refs/heads/{batch.branch}:refs/heads/{batch.branch}" for batch in batches),
            network=True,
        )  # fmt: skip

    def _largest(
        self, documents: Sequence[PlannedDocument], guess: int, branch: str
    ) -> tuple[Batch, int]:
        """The largest batch from the start of ``documents`` within the budget; at least one.

        ``guess`` is the size to try first. Returns the size that was found with the batch.
        """
        low, high, at = 0, len(documents), guess
        best: Batch | None = None
        while low < high:
            at = min(max(at, low + 1), high)
            batch, over = self._try(documents[:at], branch)
            if not over:
                best, low = batch, at
            elif at == 1:
                return batch.replace(over=over), guess
            else:
                high = at - 1
            at = at + 1 if at == guess == low else (low + high + 1) // 2
        if best is None:
            raise AssertionError("a single document is a batch")
        return best, low

    def _try(self, documents: Sequence[PlannedDocument], branch: str) -> tuple[Batch, str]:
        """A batch of these documents, and what the diff budget finds wrong with it."""
        paths = [document.path for document in documents]
        plan, clone = self._plan, self._clone
        contents = {document.path: document.stub for document in documents}
        rows = self._registry.marked(paths, plan.day, plan.policy.archived_cadence_days)
        if rows is not None:
            contents[REGISTRY] = rows
        oids = clone.store(*contents.values())
        message = f"Archive {count(len(paths), 'document')}"
        commit = clone.commit(plan.head, dict(zip(contents, oids, strict=True)), message)
        return Batch(branch, commit, tuple(paths)), self._excess(commit)

    def _excess(self, commit: str) -> str:
        return excess(self._there, self._repository.root, self._plan.head, commit)


def excess(repository: Repository, root: str, head: str, commit: str) -> str:
    """What the diff budget of ``root`` finds wrong with the change from ``head`` to ``commit``."""
    change = ChangeSet(repository, "range", base=head, head=commit, merge_base=head)
    judged = judge({"repo": root}, (diff_budget.ID,), lambda _: change, changes=(change,))
    (part, *_) = judged.report.parts
    if part.error is not None:
        raise part.error
    return "; ".join(finding.message for finding in part.findings)


def on_branches(
    repository: Repository, documents: Sequence[PlannedDocument]
) -> list[SkippedDocument]:
    """Those of ``documents`` whose stubs stand on a branch of an earlier split."""
    remote = repository.remote()
    places = (f"refs/heads/{FOLDER}", f"refs/remotes/{remote}/{FOLDER}")
    skipped: dict[str, SkippedDocument] = {}
    for ref, (commit, _) in repository.refs(*places).items():
        entries = repository.tree(commit)
        left = [document for document in documents if document.path not in skipped]
        other = [
            document
            for document in left
            if (entry := entries.get(document.path)) is not None and entry.oid != document.oid
        ]
        texts = (
            repository.read(*(entries[document.path].oid for document in other)) if other else []
        )
        for document, text in zip(other, texts, strict=True):
            if text is not None and parse(text) is not None:
                name = printable(ref.removeprefix("refs/heads/").removeprefix("refs/remotes/"))
                detail = f"its stub is on {name}: merge that branch, or delete it"
                skipped[document.path] = SkippedDocument(
                    document.path, "already_on_branch", detail, document.task
                )
    return list(skipped.values())
