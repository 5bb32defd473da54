"""doc-archive: does every archive stub lead to its full text?

A stub replaces a document whose full text was moved to the archive branch. It is valid only if it
keeps to the grammar, names its own path and the archive of the policy, and if ``<archive
branch>:<path>`` is a regular, non-empty file that is not itself a stub.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from itertools import islice

from rlm_ci.checks._doc_archive.archive import (
    DEFAULT_BRANCH,
    ENDINGS,
    IS_STUB,
    POLICY,
    ArchivePayloads,
    ask_archive,
    fetch_archive,
    find_archive,
    missing_archive,
    read_policy,
    tips,
)
from rlm_ci.checks._doc_archive.documents import LinkingTexts, in_git, in_worktree
from rlm_ci.checks._doc_archive.stub import (
    RULES,
    LinkTarget,
    Stub,
    StubFlaw,
    StubFormat,
    parse,
)
from rlm_ci.config.settings import Setting
from rlm_ci.errors import ConfigError
from rlm_ci.git.objects import parse_closed
from rlm_ci.report.findings import NOT_RUN, Evidence, Finding, Location, Part, Severity
from rlm_ci.text.error_text import explain
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterator, Mapping, Sequence

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Settings
    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.git.repository import Repository, RunningGit
    from rlm_ci.runs.store import RunStore

ID = "doc-archive"
SUMMARY = "archive stubs lead to their full text"
OPTIONS = (
    Setting("doc_archive.all", "check every stub, not only those that the change touches",
            default=False, kind="boolean", flag="--all", file=False),
    Setting("doc_archive.fetch", "fetch the archive branch where it is missing",
            default=False, kind="boolean", flag="--fetch", file=False),
)  # fmt: skip
HOOKS = {ID: {"args": ("--",), "stages": ("pre-commit",), "files": r"\.(md|markdown|mdx)$"}}
POLICY_FILES = (POLICY,)

_SHOWN_ITEMS = 3
#: Commits of a change to search for the last full text of a document.
_LOOKED_BACK = 50
#: One file in so many is read while git lists the archive, which takes about as long.
_AHEAD = 3
#: What becomes of a stub when the archive changes.
_PAYLOAD_CONDITIONS = ("dangling", "payload-is-stub")


class StubFile(Row):
    """A file that is, or was meant to be, a stub, and what is wrong with it by itself."""

    path: str
    data: bytes
    flaw: StubFlaw | None = None


def run(changes: ChangeSet, options: Settings, _runs: RunStore) -> Part:
    """One part; ``not_run`` if there are stubs to judge and the archive is not in the clone."""
    repository = changes.repository
    with ExitStack() as running:
        # git lists the files and reads the archive while we read the policy and the stubs.
        listing = _start_listing(changes, options.paths)
        if listing:
            running.enter_context(listing)
        asking = running.enter_context(ask_archive(repository, DEFAULT_BRANCH))
        branch, target = read_policy(changes)
        if branch != DEFAULT_BRANCH:
            asking = running.enter_context(ask_archive(repository, branch))
        refs = asking.finish()
        archive = find_archive(repository, branch, refs)
        if not changes.worktree and _is_of_archive(changes, branch, tips(refs)):
            return _judge_archive(changes, branch, target)
        archived = None
        if archive:
            archived = running.enter_context(repository.start_tree(archive, sizes=True))
        places = _places(changes, options.paths, listing)
        linking = LinkingTexts(branch)
        reading = _documents(repository, places, StubFormat(branch, target), linking)
        # Git lists the archive while we read the first files, its full texts during the others.
        ahead = len(places) // _AHEAD if changes.trigger == "worktree" else 0
        documents = list(islice(reading, ahead))
        paths = places if len(documents) == ahead else {document.path for document in documents}
        payloads = None
        if archive and archived and paths:
            payloads = ArchivePayloads(repository, archive, archived.finish(), paths)
            running.enter_context(payloads)
        documents += reading
        documents.sort(key=lambda file: file.path)
        if not documents:
            return Part(ID, "no stubs", _metrics([], {}, archived=True))
        if archive is None and options.doc_archive.fetch:
            archive = fetch_archive(repository, branch)
            if archive:
                payloads = running.enter_context(_payloads(repository, archive, places))
        broken = _examine(documents, branch, payloads)
    judged = _judged(changes, options, documents)
    error = missing_archive(repository, branch) if archive is None and judged else None
    findings = _findings(changes, documents, broken, judged) + _open_items(changes, judged)
    if linking.texts:
        from rlm_ci.checks._doc_archive.inbound_links import LinkSearch, of_change

        stubs = {document.path: document.data for document in documents}
        search = LinkSearch(linking, target, stubs)
        findings += of_change(changes, search, _touched(changes, options), archive)
    metrics = _metrics(documents, broken, archived=archive is not None)
    summary = _summary(documents, broken, judged, archived=archive is not None)
    pointers = sum(len(finding.evidence) for finding in findings)
    part = Part(ID, summary, metrics, tuple(findings), evidence=Evidence(pointers, pointers))
    if error is not None:
        return part.replace(state=NOT_RUN, error=error, summary=explain(error))
    return part


def _is_of_archive(changes: ChangeSet, branch: str, ends: frozenset[str]) -> bool:
    """Whether the change targets the archive branch or is on it; ``ends`` are its known commits."""
    if changes.target is not None or changes.head not in ends:
        return changes.target == branch
    default = changes.repository.default_branch()
    return default is not None and default[1] != changes.head


# ── which documents there are, and which are judged ──


def _start_listing(changes: ChangeSet, only: Sequence[str]) -> RunningGit | None:
    """Begin to list the files of the work tree; None if they are not needed."""
    repository = changes.repository
    if changes.trigger != "worktree":
        return None
    if only and all(os.path.isfile(os.path.join(repository.root, path)) for path in only):
        return None
    return repository.start_listing()


def _places(
    changes: ChangeSet, only: Sequence[str], listing: RunningGit | None
) -> dict[str, str | None]:
    """The documents: object ids by path, None for one on the disk."""
    repository = changes.repository
    chosen = frozenset(only)
    if changes.trigger == "worktree":
        oids: dict[str, str | None] = dict.fromkeys(only)
        if listing:
            present = listing.finish().decode("utf-8", "surrogateescape").split("\0")
            _require_open(parse_closed(listing.warned), chosen)
            if only:
                _require_known(only, frozenset(present), repository.root)
            oids.update(dict.fromkeys(present))
    else:
        staged = changes.trigger == "index"
        entries = repository.staged() if staged else repository.tree(changes.head or "")
        _require_resolved(entries, chosen)
        oids = {path: entry.oid for path, entry in entries.items() if entry.is_file}
    return {
        path: oids[path]
        for path in sorted(oids)
        if path.lower().endswith(ENDINGS) and (not chosen or _is_wanted(path, chosen))
    }


def _documents(
    repository: Repository,
    places: Mapping[str, str | None],
    form: StubFormat,
    linking: LinkingTexts | None = None,
) -> Iterator[StubFile]:
    oids = {path: oid for path, oid in places.items() if oid is not None}
    texts = in_git(repository, oids) if oids else in_worktree(repository, places)
    for path, data in texts:
        is_stub, flaw = form.judge(path, data)
        if is_stub:
            yield StubFile.of((path, data, flaw))
        elif linking:
            linking.add(path, data)


def _payloads(repository: Repository, archive: str, container: Container[str]) -> ArchivePayloads:
    with repository.start_tree(archive, sizes=True) as listing:
        return ArchivePayloads(repository, archive, listing.finish(), container)


def _is_wanted(path: str, requested: frozenset[str]) -> bool:
    while path and path not in requested:
        path = path.rpartition("/")[0]
    return bool(path)


def _require_open(closed: Sequence[str], requested: frozenset[str]) -> None:
    for folder in closed:
        if not requested or _is_wanted(folder.rstrip("/"), requested):
            raise ConfigError(
                "a folder cannot be opened, and may have documents",
                where=printable(folder)[:200],
                hint="make it readable, or add it to .gitignore",
            )


def _require_resolved(entries: Mapping[str, TreeEntry], requested: frozenset[str]) -> None:
    for path, entry in entries.items():
        is_document = entry.kind == "conflict" and path.lower().endswith(ENDINGS)
        if is_document and (not requested or _is_wanted(path, requested)):
            raise ConfigError(
                "a document has an unresolved conflict",
                where=printable(path)[:200],
                hint="resolve the conflict, then git add it",
            )


def _require_known(only: Sequence[str], tracked: frozenset[str], root: str) -> None:
    for path in only:
        if os.path.lexists(os.path.join(root, path)) or path in tracked:
            continue
        if not any(file.startswith(f"{path}/") for file in tracked):
            raise ConfigError(
                f"there is no file {path[:80]!r}",
                where="the paths after --",
                hint="name files or folders of the repository",
            )


def _judged(
    changes: ChangeSet, options: Settings, documents: Sequence[StubFile]
) -> dict[str, StubFile]:
    """The stubs that the change adds or edits; all, without a change."""
    touched = _touched(changes, options)
    return {
        document.path: document
        for document in documents
        if touched is None or document.path in touched
    }


def _touched(changes: ChangeSet, options: Settings) -> frozenset[str] | None:
    """The paths of the change; None if every document counts."""
    is_all = changes.trigger == "worktree" or options.doc_archive.all
    return None if is_all else frozenset(changes.names())


# ── judging ──


def _examine(
    documents: Sequence[StubFile], branch: str, payloads: ArchivePayloads | None
) -> dict[str, StubFlaw]:
    """What is wrong with each document, by path, as far as ``payloads`` are known."""
    broken = {document.path: document.flaw for document in documents if document.flaw}
    sound = {document.path: document.data for document in documents if not document.flaw}
    problems = payloads.problems(sound) if payloads else {}
    for path, problem in problems.items():
        why = f"{branch}:{path} {problem}"
        stub = parse(sound[path])
        if isinstance(stub, Stub):
            broken[path] = stub.payload_is_stub(why) if problem == IS_STUB else stub.dangling(why)
    return broken


def _findings(
    changes: ChangeSet,
    documents: Sequence[StubFile],
    broken: Mapping[str, StubFlaw],
    judged: Mapping[str, StubFile],
) -> list[Finding]:
    return [
        Finding(
            f"{ID}/{flaw.condition}",
            RULES[flaw.condition] if document.path in judged else Severity.INFO,
            printable(flaw.message),
            hint=printable(flaw.hint),
            evidence=(_location(changes, document, flaw.line),),
        )
        for document in documents
        if (flaw := broken.get(document.path))
    ]


def _location(changes: ChangeSet, document: StubFile, number: int) -> Location:
    lines = document.data.decode("utf-8", "surrogateescape").split("\n")
    return Location(
        document.path,
        number,
        number,
        blob=changes.repository.blob_id(document.data),
        quote=lines[number - 1].rstrip("\r"),
    )


def _open_items(changes: ChangeSet, judged: Mapping[str, StubFile]) -> list[Finding]:
    """Documents that the change turns into stubs while they still have open items."""
    if changes.worktree and changes.trigger != "index":
        return []
    before = changes.merge_base
    paths = [
        path for path, file in judged.items() if not file.flaw or file.flaw.condition != "malformed"
    ]
    if before is None or not paths:
        return []
    findings = []
    contents = changes.repository.read(*(f"{before}:{path}" for path in paths))
    # Without new documents, and those that were stubs before.
    earlier = {
        path: data
        for path, data in zip(paths, contents, strict=True)
        if data is not None and parse(data) is None
    }
    if not earlier:
        return []
    from rlm_ci.checks._shown_markdown import open_items

    newest = _last_full_texts(changes, earlier)
    for path, data in earlier.items():
        last = newest.get(path, data)
        items = open_items(last)
        if items:
            amount = count(len(items), "open item")
            blob = changes.repository.blob_id(data)
            old = tuple(
                Location(path, line, line, side="old", blob=blob, quote=text)
                for line, text in items[:_SHOWN_ITEMS]
            )
            findings.append(
                Finding(
                    f"{ID}/open-items",
                    RULES["open-items"],
                    f"the document that becomes this stub still has {amount}",
                    hint="finish or move them before the document is archived",
                    # A text between base and head is on neither side.
                    evidence=old if last == data else (Location(path),),
                )
            )
    return findings


def _last_full_texts(changes: ChangeSet, paths: Collection[str]) -> dict[str, bytes]:
    """The newest text of each of ``paths`` within the change that is no stub."""
    if changes.worktree or changes.trigger == "commit":
        return {}
    repository = changes.repository
    log = repository.run(
        "log", "--format=", "--raw", "-z", "--no-abbrev", "--no-renames", "--diff-merges=separate",
        f"{changes.merge_base}..{changes.head}", "--",
    ).decode("utf-8", "surrogateescape")  # fmt: skip
    versions: dict[str, list[str]] = {path: [] for path in paths}
    fields = iter(log.split("\0"))
    for head in fields:
        if not head.lstrip("\n").startswith(":"):
            continue
        oids = versions.get(next(fields, ""))
        oid = head.split(" ")[3]
        if oids is not None and len(oids) < _LOOKED_BACK and oid.strip("0"):
            oids.append(oid)
    newest: dict[str, bytes] = {}
    for number in range(_LOOKED_BACK):  # the newest of all at once: most often it is the second
        left = {
            path: oids[number]
            for path, oids in versions.items()
            if path not in newest and len(oids) > number
        }
        if not left:
            break
        texts = zip(left, repository.read(*left.values()), strict=True)
        newest.update((path, data) for path, data in texts if data and parse(data) is None)
    return newest


def _judge_archive(changes: ChangeSet, branch: str, target: LinkTarget) -> Part:
    """A change of the archive branch itself: which stubs does it leave without their text?"""
    repository = changes.repository
    default = repository.default_branch()
    if default is None:
        raise ConfigError(
            "the default branch, which has the stubs, is not in this clone",
            where=branch,
            hint=f"git fetch {repository.remote()}",
        )
    touched = set(changes.names())
    oids = {
        path: entry.oid
        for path, entry in repository.tree(default[1]).items()
        if path in touched and path.lower().endswith(ENDINGS) and entry.is_file
    }
    documents = list(_documents(repository, oids, StubFormat(branch, target)))
    with _payloads(repository, changes.head or "", oids) as payloads:
        flaws = _examine(documents, branch, payloads)
    # What else is wrong with a stub is not this change's doing.
    broken = {path: flaw for path, flaw in flaws.items() if flaw.condition in _PAYLOAD_CONDITIONS}
    findings = [
        Finding(
            f"{ID}/{flaw.condition}",
            RULES[flaw.condition],
            printable(f"the stub on {default[0]} needs this file: {flaw.message}"),
            hint=printable(flaw.hint),
            evidence=(Location(path, side="new" if path in payloads else "old"),),
        )
        for path, flaw in broken.items()
    ]
    summary = f"the change of {branch} leaves {count(len(findings), 'stub')} without a text"
    places = Evidence(len(findings), len(findings))
    metrics = _metrics(documents, flaws, archived=True)
    return Part(ID, printable(summary), metrics, tuple(findings), evidence=places)


def _metrics(
    documents: Sequence[StubFile], broken: Mapping[str, StubFlaw], *, archived: bool
) -> dict[str, int]:
    conditions = [flaw.condition for flaw in broken.values()]
    return {
        "stubs": len(documents),
        "valid": len(documents) - len(broken) if archived else 0,
        "dangling": conditions.count("dangling"),
        "malformed": conditions.count("malformed"),
    }


def _summary(
    documents: Sequence[StubFile],
    broken: Mapping[str, StubFlaw],
    judged: Mapping[str, StubFile],
    *,
    archived: bool,
) -> str:
    stubs = count(len(documents), "stub")
    bad = sum(path in judged for path in broken)
    if len(judged) == len(documents):
        return f"{stubs}, {bad:,} broken" if bad else f"{stubs}, all valid"
    older = len(broken) - bad
    text = f"{stubs}, {len(judged):,} touched, {bad:,} of them broken"
    if not archived:
        return f"{text}; the others were not checked: the archive branch is not in this clone"
    return text + (f"; {count(older, 'older stub')} broken" if older else "")
