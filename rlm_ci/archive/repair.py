"""Repair dangling stubs: find the full text in the history, and put it on the archive branch.

Only what is missing, empty, no regular file or itself a stub gives way; what people have put there
stays. Run again, it finds nothing left to do.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

from rlm_ci.archive.documents import LIMIT, is_document
from rlm_ci.archive.payloads import folders_of
from rlm_ci.change import change_set
from rlm_ci.change.change_set import ChangeSet
from rlm_ci.checks._doc_archive.archive import IS_STUB, STUB_LIMIT, fetch_archive, read_policy
from rlm_ci.checks._doc_archive.documents import in_worktree
from rlm_ci.checks._doc_archive.stub import StubFormat, parse
from rlm_ci.checks._shown_markdown import heading_of
from rlm_ci.errors import RemoteError, RlmCiError
from rlm_ci.git.objects import batches
from rlm_ci.text.neutralise import log
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Row, Value
from rlm_ci.workspace.snapshot import object_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.checks._doc_archive.stub import LinkTarget
    from rlm_ci.git.clone import Clone
    from rlm_ci.git.remote_clone import RemoteUser
    from rlm_ci.git.repository import Repository


#: Paths by which a log is cut, and versions of a document that are read.
_FEW, _VERSIONS = 8, 1000
#: Commits that are searched for what they moved.
_MOVES = 200
#: Bytes that are read at once.
_ROOM = 64 << 20
_RAW = ("--raw", "-z", "--no-abbrev", "--no-renames", "--diff-merges=separate")


class FullTexts:
    """The last full texts of stubs, from the history of HEAD, then of every branch."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        #: Objects that the clone does not have.
        self._absent: set[str] = set()

    def find(self, stubs: Mapping[str, bytes]) -> dict[str, tuple[str, str]]:
        """Object id and origin of each full text; "" and the reason where there is none."""
        sources: dict[str, tuple[str, str]] = {}
        for refs in ("HEAD", "--all"):
            left = [path for path in stubs if path not in sources]
            for path, oid in self._newest(self._versions(refs, left)).items():
                sources[path] = oid, "its last version before the stub"
        left = [path for path in stubs if path not in sources]
        for path, candidates in self._moved(left, stubs).items():
            if len(candidates) == 1:
                sources[path] = candidates.popitem()
            elif candidates:
                names = ", ".join(sorted(candidates.values()))
                sources[path] = "", f"more than one document may be its full text: {names}"
        return {path: sources.get(path, ("", self._reason())) for path in stubs}

    def _reason(self) -> str:
        why = "no full text of it is in the history"
        if self._repository.is_shallow():
            return f"{why} that this clone has: git fetch --unshallow"
        if self._absent:
            return f"{why} that this clone has: git fetch --refetch --no-filter"
        return why

    def _versions(self, refs: str, paths: Sequence[str]) -> dict[str, list[str]]:
        """The object ids that each of ``paths`` has had, newest first."""
        versions: dict[str, dict[str, None]] = {path: {} for path in paths}
        listed = self._log(paths, "--topo-order", "--format=", refs)
        for modes, oids, path in _rows(listed):
            # As it became, then as it was before.
            for mode, oid in reversed([*zip(modes, oids, strict=True)]):
                if mode.startswith("100") and path in versions:
                    versions[path][oid] = None
        return {path: list(oids) for path, oids in versions.items()}

    def _log(self, paths: Sequence[str], *options: str) -> bytes:
        """The log of ``paths``, and of what lies beside them: git is slow with many paths."""
        places = paths if len(paths) <= _FEW else {path.partition("/")[0] for path in paths}
        if not places:
            return b""
        options = (*_RAW, "--full-history", *options)
        return self._repository.run("log", *options, "--", *sorted(places))

    def _newest(self, versions: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """The newest of each list that is a full text."""
        newest: dict[str, str] = {}
        for number in range(_VERSIONS):
            candidates = {
                path: oids[number]
                for path, oids in versions.items()
                if path not in newest and number < len(oids)
            }
            if not candidates:
                break
            texts = self._texts(candidates.values())
            newest.update(
                (path, oid) for path, oid in candidates.items() if is_full(texts.get(oid))
            )
        return newest

    def _texts(self, oids: Iterable[str]) -> dict[str, bytes]:
        unique = list(dict.fromkeys(oids))
        sizes = self._repository.sizes(unique) if unique else []
        self._absent.update(oid for oid, size in zip(unique, sizes, strict=True) if size < 0)
        text_by_oid: dict[str, bytes] = {}
        small = ((oid, size) for oid, size in zip(unique, sizes, strict=True) if 0 < size <= LIMIT)
        for batch in batches(small, _ROOM):
            texts = zip(batch, self._repository.read(*batch), strict=True)
            text_by_oid.update((oid, text) for oid, text in texts if text is not None)
        return text_by_oid

    def _moved(self, paths: Sequence[str], stubs: Mapping[str, bytes]) -> dict[str, dict[str, str]]:
        """Texts, and their origins, of documents that went when each of ``paths`` came as a stub.

        A document has the name of the stub, or its heading, which a stub takes over.
        """
        added: dict[str, list[str]] = {}
        listed = self._log(paths, "--format=%x00%H", "--diff-filter=A", "--all")
        for commit, path in _commits(listed):
            if path in stubs:
                added.setdefault(commit, []).append(path)
        moved: dict[str, dict[str, str]] = {}
        for commit, names in islice(added.items(), _MOVES):
            gone = self._gone(commit)
            for path in names:
                texts = _alike(path, heading_of(stubs[path]), gone)
                moved.setdefault(path, {}).update(texts)
        return moved

    def _gone(self, commit: str) -> list[tuple[str, str, bytes]]:
        """Path, object id and full text of the documents that ``commit`` removed."""
        listed = self._repository.run(
            "diff-tree", "-r", "-m", "--no-commit-id", *_RAW, "--diff-filter=D", commit
        )
        removed = {path: oids[0] for _, oids, path in _rows(listed) if is_document(path)}
        texts = self._texts(removed.values())
        stubs = [path for path, oid in removed.items() if not is_full(texts.get(oid))]
        earlier = self._newest(self._versions(f"{commit}^", stubs)) if stubs else {}
        removed.update(earlier)
        texts.update(self._texts(earlier.values()))
        rows = ((path, oid, texts.get(oid)) for path, oid in removed.items())
        return [(path, oid, text) for path, oid, text in rows if text and is_full(text)]


def _alike(path: str, heading: str, gone: Iterable[tuple[str, str, bytes]]) -> dict[str, str]:
    name = path.rpartition("/")[2]
    return {
        oid: f"{old_path}, before it was moved"
        for old_path, oid, text in gone
        if old_path.rpartition("/")[2] == name or heading_of(text) == heading
    }


def is_full(text: bytes | None) -> bool:
    """Whether ``text`` is a document, and no stub."""
    return bool(text) and parse(text or b"") is None


def _rows(listed: bytes) -> Iterator[tuple[tuple[str, str], tuple[str, str], str]]:
    """Modes, object ids (before and after) and path of each row of ``--raw -z``."""
    fields = iter(listed.decode("utf-8", "surrogateescape").split("\0"))
    for field in fields:
        words = field.lstrip("\n").split(" ")
        if words[0].startswith(":") and len(words) == 5:
            yield (words[0][1:], words[1]), (words[2], words[3]), next(fields, "")


def _commits(listed: bytes) -> Iterator[tuple[str, str]]:
    """Commit and path of each row of a log whose commits are ids of their own."""
    commit = ""
    fields = iter(listed.decode("utf-8", "surrogateescape").split("\0"))
    for field in fields:
        if field.lstrip("\n").startswith(":"):
            yield commit, next(fields, "")
        elif is_object_id(field.strip()):
            commit = field.strip()


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
