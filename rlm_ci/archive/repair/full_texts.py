"""The full texts that stubs stand for, found in the history: at their paths, or before a move."""

from __future__ import annotations

from itertools import islice

from rlm_ci.archive.documents import LIMIT, is_document
from rlm_ci.checks._doc_archive.stub import parse
from rlm_ci.checks._shown_markdown import heading_of
from rlm_ci.git.objects import batches
from rlm_ci.text.object_id import is_object_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
