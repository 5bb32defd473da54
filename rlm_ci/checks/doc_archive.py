"""doc-archive: does every archive stub lead to its full text?

A stub stands for a document whose full text was moved to the archive branch. It is valid
only if it keeps to the grammar, names its own path and the archive of the policy, and if
``<archive branch>:<path>`` is a regular, non-empty file that is not itself a stub.
"""

from __future__ import annotations

import json
import os

from rlm_ci import files
from rlm_ci.checks._stub import MARKER, Flaw, Stub, Target, open_items, parse
from rlm_ci.errors import ConfigError
from rlm_ci.findings import NOT_RUN, Evidence, Finding, Location, Part, Severity, explain, printable
from rlm_ci.settings import Setting
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlm_ci.changes import ChangeSet
    from rlm_ci.git import Entry, Repository
    from rlm_ci.runs.store import Store
    from rlm_ci.settings import Settings

ID = "doc-archive"
SUMMARY = "archive stubs lead to their full text"
OPTIONS = (
    Setting("doc_archive.all", "judge every stub, also those that the change does not touch",
            default=False, kind="boolean", flag="--all"),
    Setting("doc_archive.fetch", "fetch the archive branch where the clone does not have it",
            default=False, kind="boolean", flag="--fetch"),
)  # fmt: skip
HOOKS = {ID: {"args": ("--",), "stages": ("pre-commit",), "files": r"\.(md|markdown|mdx)$"}}
POLICY = "docs/implementation-docs-archive-policy.json"
POLICY_FILES = (POLICY,)

DEFAULT_BRANCH = "doc-archives"
_ENDINGS = (".md", ".markdown", ".mdx")
#: A stub has about eight lines; a file above this size is a document.
_STUB_LIMIT = 16 << 10
_POLICY_LIMIT = 1 << 20
_SHOWN_ITEMS = 3


class Document(Value):
    """A file with a stub's marker: what it says, or why it is malformed."""

    path: str
    data: bytes
    stub: Stub | None
    flaw: Flaw | None = None


def run(changes: ChangeSet, options: Settings, _runs: Store) -> Part:
    """One part; ``not_run`` when stubs are to be judged and the archive is not in the clone."""
    repository = changes.repository
    branch, target = _policy(changes)
    if changes.target == branch and not changes.worktree:
        return _judge_archive(changes, branch, target)
    documents = _documents(changes, options.paths)
    if not documents:
        return Part(ID, "no stubs", _metrics([], {}))
    judged = _judged(changes, options, documents)
    error = None
    archive = _archive(repository, branch, fetch=options.doc_archive.fetch)
    if archive is None and judged:
        remote = repository.remote()
        error = ConfigError(
            f"the archive branch {branch!r} is not in this clone",
            where=POLICY,
            hint=f"git fetch {remote} {branch}:refs/remotes/{remote}/{branch} "
            "(or let it be done: --fetch)",
        )
    entries = repository.tree(archive) if archive else None
    broken = _examine(repository, documents, branch, target, entries)
    findings = _findings(changes, documents, broken, judged) + _open_items(changes, judged)
    metrics = _metrics(documents, broken)
    summary = _summary(documents, broken, judged, archived=archive is not None)
    places = sum(len(finding.evidence) for finding in findings)
    part = Part(ID, summary, metrics, tuple(findings), evidence=Evidence(places, places))
    if error is not None:
        return part.replace(state=NOT_RUN, error=error, summary=explain(error))
    return part


# ── what the policy says ──


def _policy(changes: ChangeSet) -> tuple[str, Target]:
    """The archive branch, and where the links must lead; from the base on a pull request."""
    record: object = {}
    data = _read_policy(changes)
    if data is not None:
        try:
            record = json.loads(data)
        except (ValueError, RecursionError):
            record = None
    if not isinstance(record, dict):
        raise ConfigError(
            "the archive policy is not a JSON object",
            where=POLICY,
            hint="mend it on the base branch",
        )
    branch = record.get("archive_branch", DEFAULT_BRANCH)
    url = record.get("repo_url")
    if url is None and changes.repository.git_dir:
        url = changes.repository.config(f"remote.{changes.repository.remote()}.url")
    if not isinstance(branch, str) or not _is_branch(branch):
        raise ConfigError(
            "archive_branch is not the name of a branch",
            where=POLICY,
            hint="mend it on the base branch",
        )
    target = Target.from_url(url) if isinstance(url, str) else None
    if target is None and "repo_url" in record:
        raise ConfigError(
            "repo_url is not the address of a repository",
            where=POLICY,
            hint="write it as https://HOST/OWNER/NAME",
        )
    return branch, target or Target()


def _read_policy(changes: ChangeSet) -> bytes | None:
    commit = changes.policy_commit
    if commit is not None:
        return changes.repository.read(f"{commit}:{POLICY}")[0]
    try:
        return files.read_inside(changes.repository.root, POLICY, _POLICY_LIMIT)
    except files.UnreadableError as error:
        if error.missing:
            return None
        raise ConfigError(
            f"the archive policy cannot be read: {error}", where=POLICY, hint="mend or remove it"
        ) from None


def _is_branch(name: str) -> bool:
    parts = name.split("/")
    return (
        bool(name)
        and name.isprintable()
        and not set(name) & set(" ~^:?*[\\")
        and ".." not in name
        and not name.startswith("-")
        and all(part and part[0] != "." and not part.endswith((".", ".lock")) for part in parts)
    )


def _archive(repository: Repository, branch: str, *, fetch: bool) -> str | None:
    """The archive's commit: what others can reach, else the local branch, else None."""
    remote = repository.remote()
    places = (f"refs/remotes/{remote}/{branch}", f"refs/heads/{branch}")
    found = repository.resolve(*places)
    if not any(found) and fetch:
        refspec = f"+refs/heads/{branch}:{places[0]}"
        repository.run("fetch", "--no-tags", remote, refspec, network=True)
        found = repository.resolve(*places)
    return found[0] or found[1]


# ── which documents there are, and which are judged ──


def _documents(changes: ChangeSet, only: Sequence[str]) -> list[Document]:
    """All files with a stub's marker, in the order of their paths."""
    if changes.trigger == "worktree":
        return _in_worktree(changes.repository, only)
    staged = changes.trigger == "index"
    entries = changes.repository.staged() if staged else changes.repository.tree(changes.head or "")
    wanted = set(only)
    paths = sorted(
        path
        for path, entry in entries.items()
        if path.endswith(_ENDINGS) and entry.is_file and (not wanted or path in wanted)
    )
    return _from_blobs(changes.repository, {path: entries[path].oid for path in paths})


def _in_worktree(repository: Repository, only: Sequence[str]) -> list[Document]:
    if repository.git_dir is None:
        repository.run("status")  # says that this is no repository
    paths = only or repository.tracked()
    prefix = repository.root + os.sep
    found = []
    for path in sorted(paths):
        if path.endswith(_ENDINGS):
            try:
                data = files.read(prefix + path, _STUB_LIMIT)
            except files.UnreadableError:
                continue  # deleted, a link, or larger than any stub
            if MARKER in data:
                found.append((path, data))
    return _parsed(found)


def _from_blobs(repository: Repository, oids: Mapping[str, str]) -> list[Document]:
    sizes = repository.sizes(list(oids.values()))
    small = [path for path, size in zip(oids, sizes, strict=True) if 0 < size <= _STUB_LIMIT]
    contents = repository.read(*(oids[path] for path in small))
    return _parsed(
        (path, data) for path, data in zip(small, contents, strict=True) if data and MARKER in data
    )


def _parsed(found: Iterable[tuple[str, bytes]]) -> list[Document]:
    documents = []
    for path, data in found:
        parsed = parse(data)
        if isinstance(parsed, Stub):
            documents.append(Document(path, data, parsed))
        elif parsed is not None:
            documents.append(Document(path, data, None, parsed))
    return documents


def _judged(
    changes: ChangeSet, options: Settings, documents: Sequence[Document]
) -> dict[str, Document]:
    """Without a change all, else those that it adds or edits."""
    if changes.trigger == "worktree" or options.doc_archive.all:
        return {document.path: document for document in documents}
    touched = {change.path for change in changes.files(renames=False) if change.status != "D"}
    return {document.path: document for document in documents if document.path in touched}


# ── judging ──


def _examine(
    repository: Repository,
    documents: Sequence[Document],
    branch: str,
    target: Target,
    archive: Mapping[str, Entry] | None,
) -> dict[str, Flaw]:
    """What is wrong with each document, by path; without an archive, what shows without it."""
    broken: dict[str, Flaw] = {}
    payloads: dict[str, str] = {}
    for document in documents:
        flaw = document.flaw
        if document.stub is not None:
            flaw = document.stub.flaw_at(document.path, branch, target)
            if flaw is None and archive is not None:
                entry = archive.get(document.path)
                if entry is not None and entry.is_file:
                    payloads[document.path] = entry.oid
                else:
                    what = "is not a regular file" if entry else "does not exist"
                    flaw = document.stub.dangling(f"{branch}:{document.path} {what}")
        if flaw is not None:
            broken[document.path] = flaw
    stubs = {one.path: one.stub for one in documents if one.stub}
    for path, problem in _bad_payloads(repository, payloads).items():
        stub = stubs[path]
        if problem == "empty":
            broken[path] = stub.dangling(f"{branch}:{path} is empty")
        else:
            broken[path] = stub.payload_is_stub(f"{branch}:{path} is itself a stub")
    return broken


def _bad_payloads(repository: Repository, oids: Mapping[str, str]) -> dict[str, str]:
    """The payloads that are ``empty``, or a ``stub``: read only where small enough to be one."""
    if not oids:
        return {}
    sizes = dict(zip(oids, repository.sizes(list(oids.values())), strict=True))
    bad = {path: "empty" for path, size in sizes.items() if size <= 0}
    small = [path for path, size in sizes.items() if 0 < size <= _STUB_LIMIT]
    contents = repository.read(*(oids[path] for path in small)) if small else []
    for path, data in zip(small, contents, strict=True):
        if data and MARKER in data and parse(data) is not None:
            bad[path] = "stub"
    return bad


def _findings(
    changes: ChangeSet,
    documents: Sequence[Document],
    broken: Mapping[str, Flaw],
    judged: Mapping[str, Document],
) -> list[Finding]:
    findings = []
    for document in documents:
        flaw = broken.get(document.path)
        if flaw is not None:
            severity = Severity.HIGH if document.path in judged else Severity.INFO
            place = _place(changes, document, flaw.line)
            findings.append(
                Finding(
                    f"{ID}/{flaw.condition}",
                    severity,
                    printable(flaw.message),
                    hint=printable(flaw.hint),
                    evidence=(place,),
                )
            )
    return findings


def _place(changes: ChangeSet, document: Document, number: int) -> Location:
    lines = document.data.decode("utf-8", "surrogateescape").split("\n")
    return Location(
        document.path,
        number,
        number,
        blob=changes.repository.blob_id(document.data),
        quote=lines[number - 1].rstrip("\r"),
    )


def _open_items(changes: ChangeSet, judged: Mapping[str, Document]) -> list[Finding]:
    """Documents that the change turns into stubs while they still have open items."""
    if changes.worktree and changes.trigger != "index":
        return []
    before = changes.merge_base
    paths = [path for path, document in judged.items() if document.stub]
    if before is None or not paths:
        return []
    findings = []
    contents = changes.repository.read(*(f"{before}:{path}" for path in paths))
    for path, data in zip(paths, contents, strict=True):
        if data is None or parse(data) is not None:
            continue  # it is new, or was a stub before
        items = open_items(data)
        if items:
            blob = changes.repository.blob_id(data)
            findings.append(
                Finding(
                    f"{ID}/open-items",
                    Severity.MEDIUM,
                    f"the document that becomes this stub still has {len(items)} open items",
                    hint="finish or move them before the document is archived",
                    evidence=tuple(
                        Location(path, line, line, side="old", blob=blob, quote=text)
                        for line, text in items[:_SHOWN_ITEMS]
                    ),
                )
            )
    return findings


def _judge_archive(changes: ChangeSet, branch: str, target: Target) -> Part:
    """A change of the archive branch itself: which stubs does it leave without their text?"""
    repository = changes.repository
    default = repository.default_branch()
    if default is None:
        raise ConfigError(
            "the default branch, which holds the stubs, is not in this clone",
            where=branch,
            hint=f"git fetch {repository.remote()}",
        )
    touched = set(changes.names())
    oids = {
        path: entry.oid
        for path, entry in repository.tree(default[1]).items()
        if path in touched and path.endswith(_ENDINGS) and entry.is_file
    }
    documents = _from_blobs(repository, oids) if oids else []
    broken = _examine(repository, documents, branch, target, repository.tree(changes.head or ""))
    judged = {document.path: document for document in documents}
    findings = _findings(changes, documents, broken, judged)
    summary = f"the change of {branch} leaves {_count(len(findings), 'stub')} without a text"
    places = Evidence(len(findings), len(findings))
    return Part(ID, summary, _metrics(documents, broken), tuple(findings), evidence=places)


# ── telling ──


def _metrics(documents: Sequence[Document], broken: Mapping[str, Flaw]) -> dict[str, int]:
    conditions = [flaw.condition for flaw in broken.values()]
    return {
        "stubs": len(documents),
        "valid": len(documents) - len(broken),
        "dangling": conditions.count("dangling"),
        "malformed": conditions.count("malformed"),
    }


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _summary(
    documents: Sequence[Document],
    broken: Mapping[str, Flaw],
    judged: Mapping[str, Document],
    *,
    archived: bool,
) -> str:
    stubs = _count(len(documents), "stub")
    bad = sum(path in judged for path in broken)
    if len(judged) == len(documents):
        return f"{stubs}, {bad:,} broken" if bad else f"{stubs}, all valid"
    older = len(broken) - bad
    text = f"{stubs}, {len(judged):,} touched, {bad:,} of them broken"
    if not archived:
        return f"{text}; the others were not judged: the archive branch is not in this clone"
    return text + (f"; {older:,} older ones are broken" if older else "")
