"""Dangling stubs repaired: the full text is found in the history, and put to the archive branch.

Only what is missing, empty, no regular file or itself a stub gives way; what people have put there
stays. Run again, it finds nothing left to do.
"""

from __future__ import annotations

from contextlib import suppress

from rlm_ci.archive.documents import is_document
from rlm_ci.archive.payloads import folders_of
from rlm_ci.archive.repair.full_texts import FullTexts
from rlm_ci.change import change_set
from rlm_ci.change.change_set import ChangeSet
from rlm_ci.checks._doc_archive.archive import IS_STUB, STUB_LIMIT, fetch_archive, read_policy
from rlm_ci.checks._doc_archive.documents import in_worktree
from rlm_ci.checks._doc_archive.stub import StubFormat, parse
from rlm_ci.errors import RemoteError, RlmCiError
from rlm_ci.text.neutralise import log
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Row, Value
from rlm_ci.workspace.private_git import object_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.checks._doc_archive.stub import LinkTarget
    from rlm_ci.git.clone import Clone
    from rlm_ci.git.remote_clone import RemoteUser
    from rlm_ci.git.repository import Repository

#: Restored texts that are named without ``--verbose``.
_NAMED = 10


class Repair(Row):
    """A stub without a full text: ``oid`` is the one that it gets, "" for none.

    ``why`` says where that is from, or why there is none.
    """

    path: str
    problem: str
    oid: str = ""
    why: str = ""


class RepairPlan(Value):
    """``stubs`` is how many there are; ``repairs`` are those without a full text."""

    branch: str
    stubs: int
    repairs: tuple[Repair, ...]
    pushed: str | None = None

    @property
    def archived_ids(self) -> dict[str, str]:
        return {repair.path: repair.oid for repair in self.repairs if repair.oid}

    @property
    def lost(self) -> list[Repair]:
        return [repair for repair in self.repairs if not repair.oid]

    def record(self, *, dry_run: bool) -> dict[str, Any]:
        """The report as JSON has it."""
        return {
            "version": 1,
            "dry_run": dry_run,
            "archive_branch": self.branch,
            "archive_commit": self.pushed,
            "stubs": self.stubs,
            "repaired": [
                {
                    "path": encodable(repair.path),
                    "oid": repair.oid,
                    "problem": repair.problem,
                    "origin": encodable(repair.why),
                }
                for repair in self.repairs
                if repair.oid
            ],
            "not_repaired": [
                {
                    "path": encodable(repair.path),
                    "problem": repair.problem,
                    "reason": encodable(repair.why),
                }
                for repair in self.lost
            ],
        }

    def text(self, *, dry_run: bool, verbose: bool) -> str:
        """The report for people."""
        lines = self._lines(dry_run=dry_run, verbose=verbose)
        return "".join(f"{log(printable(line))}\n" for line in lines)

    def _lines(self, *, dry_run: bool, verbose: bool) -> Iterator[str]:
        if not self.repairs:
            yield f"nothing to repair: {count(self.stubs, 'stub')}, each with its full text"
            return
        number = count(len(self.archived_ids), "full text")
        if dry_run:
            yield f"{number} would be restored on {self.branch}"
        else:
            commit = f" (pushed {self.pushed[:12]})" if self.pushed else ""
            yield f"{number} restored on {self.branch}{commit}"
        restored = [repair for repair in self.repairs if repair.oid]
        shown = restored if verbose else restored[:_NAMED]
        for repair in shown:
            yield f"  {repair.path}: {repair.problem}; {repair.why}"
        if len(shown) < len(restored):
            yield f"  and {len(restored) - len(shown):,} more; --verbose names them"
        if self.lost:
            yield f"{count(len(self.lost), 'stub')} cannot be repaired"
        for repair in self.lost:
            yield f"  {repair.path}: {repair.problem}; {repair.why}"


def repair(repository: Repository, user: RemoteUser, *, dry_run: bool) -> RepairPlan:
    """Restore the full texts that are found. Raises RlmCiError."""
    head = change_set.require(repository, "HEAD", "head", "HEAD")
    branch, target = read_policy(ChangeSet(repository, "worktree", head=head))
    with user.clone(repository) as clone:
        for folder in object_folders(repository):
            clone.borrow(folder)
        repairer = Repairer(repository, clone, branch, target)
        plan = repairer.plan()
        if dry_run or not plan.archived_ids:
            return plan
        plan = repairer.push(plan)
    with suppress(RlmCiError):  # the doc-archive check names the fetch if that is needed
        fetch_archive(repository, branch)
    return plan


class Repairer:
    """Repairs the stubs of the work tree of ``repository`` on ``branch``, through ``clone``."""

    def __init__(
        self, repository: Repository, clone: Clone, branch: str, target: LinkTarget
    ) -> None:
        self._repository, self._clone, self._branch = repository, clone, branch
        self._form = StubFormat(branch, target)

    def plan(self) -> RepairPlan:
        """Which stubs have no full text, and which texts of the history they can have."""
        flawed, sound = [], {}
        for path, data in self._stubs():
            is_stub, flaw = self._form.judge(path, data)
            if is_stub and flaw:
                why = f"the stub itself is wrong: {flaw.message}"
                flawed.append(Repair(path, flaw.condition, why=why))
            elif is_stub:
                sound[path] = data
        problems = self._problems(list(sound))
        texts = FullTexts(self._repository).find({path: sound[path] for path in problems})
        archived = self._clone.object_ids(self._branch)
        folders = {folder for path in archived for folder in folders_of(path)}
        repairs = []
        for path, problem in problems.items():
            oid, reason = texts.get(path, ("", "no full text of it is in the history"))
            if oid and (path in folders or any(folder in archived for folder in folders_of(path))):
                oid, reason = "", "a folder and a file have the same name on the archive branch"
            repairs.append(Repair(path, problem, oid, reason))
        return RepairPlan(self._branch, len(sound) + len(flawed), (*flawed, *repairs))

    def push(self, plan: RepairPlan) -> RepairPlan:
        """Put the texts to the branch, and find them there. Raises RemoteError."""
        oids = plan.archived_ids
        if not oids:
            return plan

        def choose(archived: Mapping[str, str]) -> Mapping[str, str]:
            still = self._problems([path for path in oids if path in archived])
            return {
                path: oid for path, oid in oids.items() if path not in archived or path in still
            }

        message = f"Restore {count(len(oids), 'full text')}"
        pushed = self._clone.add(self._branch, choose, message).commit
        self._clone.fetch()
        lost = self._problems(list(oids))
        if lost:
            raise RemoteError(
                f"{count(len(lost), 'full text')} cannot be found again on {self._branch}",
                where=printable(next(iter(lost))),
                hint="look at the branch, then run it again",
            )
        return plan.replace(pushed=pushed)

    def _stubs(self) -> Iterator[tuple[str, bytes]]:
        listed = self._repository.start_listing()
        with listed:
            names = listed.finish().decode("utf-8", "surrogateescape").split("\0")
        paths = dict.fromkeys(name for name in sorted(names) if is_document(name))
        return (
            document
            for document in in_worktree(self._repository, paths)
            if parse(document[1]) is not None
        )

    def _problems(self, paths: Sequence[str]) -> dict[str, str]:
        """What is wrong with the full texts of ``paths`` on the branch, as the check says it."""
        entries = self._clone.entries(self._branch)
        archived = [path for path in paths if path in entries]
        texts = self._small([entries[path][1] for path in archived])
        problems = {path: "does not exist" for path in paths if path not in entries}
        for path in archived:
            mode, oid = entries[path]
            if not mode.startswith("100"):
                problems[path] = "is not a regular file"
            elif (text := texts.get(oid)) == b"":
                problems[path] = "is empty"
            elif text is not None and parse(text) is not None:
                problems[path] = IS_STUB
        return {path: problems[path] for path in paths if path in problems}

    def _small(self, oids: Sequence[str]) -> dict[str, bytes | None]:
        """The texts that are small enough for a stub, from here or from the remote."""
        sizes = self._repository.sizes(oids) if oids else []
        local = [oid for oid, size in zip(oids, sizes, strict=True) if 0 <= size <= STUB_LIMIT]
        remote = [oid for oid, size in zip(oids, sizes, strict=True) if size < 0]
        contents = dict(zip(local, self._repository.read(*local) if local else (), strict=True))
        return {**contents, **dict(zip(remote, self._clone.contents(remote), strict=True))}
