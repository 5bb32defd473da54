"""Open what a claim points to, at its commit, and see whether it is what the claim says."""

from __future__ import annotations

from rlm_ci import files
from rlm_ci.changes import require
from rlm_ci.findings import Evidence
from rlm_ci.texts import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from rlm_ci.findings import Location, Report, Subject
    from rlm_ci.git import Repository

#: Bytes of a file of the work tree that are read to check a pointer into it.
_LIMIT = 64 << 20


def flaw(place: Location, content: bytes | None, blob: str | None) -> str | None:
    """Why ``place`` does not hold in ``content``, whose object id is ``blob``; None if it does."""
    if content is None:
        return "the path is not there"
    if place.blob is not None and place.blob != blob:
        return "the file has other content than the one that was quoted"
    if place.line_start is None:
        return None
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    if lines[-1] == "":
        lines.pop()
    end = place.line_end or place.line_start
    if not 1 <= place.line_start <= end <= len(lines):
        one = place.line_start == end
        asked = f"line {end} is" if one else f"lines {place.line_start}-{end} are"
        return f"{asked} not in the file, which has {len(lines)}"
    said = "\n".join(line.rstrip("\r") for line in lines[place.line_start - 1 : end])
    if place.quote is not None and encodable(said) != encodable(place.quote):
        return "the quote is not what stands in these lines"
    return None


class Checked(Value):
    """What became of a report's pointers: ``problems`` and ``notes`` are a line for each.

    A note tells of one that holds in what a run kept, and in the work tree no more.
    """

    counts: Evidence
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def verify(report: Report, repository: Repository, kept: Container[Location] = ()) -> Checked:
    """Check every pointer of a report; ``kept`` are places known to hold in the run's own copy.

    Needs no network. Raises ConfigError when a commit of the report is not in the clone.
    """
    places = [(finding.rule, place) for finding in report.findings for place in finding.evidence]
    places += [
        (document.path, place) for document in report.documents for place in document.evidence
    ]
    contents = _contents(report.subject, [place for _, place in places], repository)
    problems, notes = [], []
    for (claim, place), content in zip(places, contents, strict=True):
        blob = None if content is None or place.blob is None else repository.blob_id(content)
        why = flaw(place, content, blob)
        if why is None:
            continue
        line = f":{place.line_start}" if place.line_start else ""
        told = printable(f"{place.path}{line} ({claim}): {why}")
        if place in kept:
            notes.append(f"{told}; what was quoted stands in the run's own copy")
        else:
            problems.append(told)
    rejected = len(problems)
    counts = Evidence(len(places), len(places) - rejected, 0, rejected)
    return Checked(counts, tuple(problems), tuple(notes))


def _contents(
    subject: Subject, places: Sequence[Location], repository: Repository
) -> list[bytes | None]:
    if not places:
        return []
    commits: dict[str, str] = {}
    for side, commit in (("new", subject.head), ("old", subject.merge_base or subject.base)):
        needed = any(place.side == side for place in places)
        if needed and commit is not None and not (side == "new" and subject.worktree):
            # The empty tree, before a first commit, is a tree and stands for itself.
            known = commit == repository.empty_tree()
            commits[side] = (
                commit if known else require(repository, commit, f"{side} side", "report")
            )
    asked = {
        place: _object(repository, commits[place.side], place.path)
        for place in places
        if place.side in commits and _is_name(place.path)
    }
    read = dict(zip(asked, repository.read(*asked.values()), strict=True)) if asked else {}
    if subject.worktree or subject.head is None:
        ours = [place for place in places if place.side == "new" and _is_name(place.path)]
        read.update(_uncommitted(repository, ours))
    return [read.get(place) for place in places]


def _is_name(path: str) -> bool:
    """Whether ``path`` can be a path of a tree: a report may hold any text."""
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def _object(repository: Repository, commit: str, path: str) -> str:
    if "\n" not in path:
        return f"{commit}:{path}"
    entry = repository.tree(commit).get(path)  # git reads what it is asked for line by line
    return entry.oid if entry else commit


def _uncommitted(
    repository: Repository, places: Sequence[Location]
) -> dict[Location, bytes | None]:
    """The files of the work tree; in place of one, what is staged if only that has its blob."""
    found = {place: _from_worktree(repository, place.path) for place in places}

    def holds(place: Location, content: bytes | None) -> bool:
        return content is not None and place.blob in (None, repository.blob_id(content))

    others = [one for one, content in found.items() if one.blob and not holds(one, content)]
    if repository.git_dir is None:  # nothing is staged
        return found
    staged = repository.read(*(f":0:{one.path}" for one in others)) if others else []
    pairs = zip(others, staged, strict=True)
    return found | {place: content for place, content in pairs if holds(place, content)}


def _from_worktree(repository: Repository, path: str) -> bytes | None:
    try:
        return files.read_inside(repository.root, path, _LIMIT)
    except files.UnreadableError:
        return None
