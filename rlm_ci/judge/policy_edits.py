"""A change that edits the files that judge it: it is told so, and was not obeyed."""

from __future__ import annotations

from rlm_ci import checks
from rlm_ci.config.settings import CONFIG_FILES
from rlm_ci.judge import config_file
from rlm_ci.report.findings import Evidence, Finding, Location, Part, Severity
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Settings

_SHOWN = 5
TABLE = config_file.TABLE.encode()


def edited(change: ChangeSet, options: Settings, ran: Sequence[str]) -> list[Part]:
    """The part that names them, for a change from outside; nothing when there are none.

    ``ran`` are the checks whose own policy files count.
    """
    commit = change.policy_commit
    if commit is None:
        return []
    root = change.repository.root
    named = [config_file.inside(root, options.config)] if options.config else []
    decisive = {CONFIG_FILES[0], *checks.policy_files(ran), *named}
    templates = options.templates.rstrip("/") + "/"
    paths = [
        path
        for path in change.names()
        if path in decisive
        or (path.endswith(".gitattributes") and path.rpartition("/")[2] == ".gitattributes")
        or path.startswith(templates)
        or (path == CONFIG_FILES[1] and _table_differs(change))
    ]
    if not paths:
        return []
    sizes = change.repository.sizes([f"{change.head}:{path}" for path in paths])
    findings = tuple(
        Finding(
            "policy/edited",
            Severity.INFO,
            f"the change edits {printable(path)}; rlm-ci used the version of its base",
            # A file that the change deletes has no place to point to.
            evidence=(Location(path),) if size >= 0 else (),
            subject=path,
        )
        for path, size in zip(paths, sizes, strict=True)
    )
    listed = ", ".join(printable(path) for path in paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    places = sum(len(finding.evidence) for finding in findings)
    return [
        Part(
            "policy",
            f"edited here, and not used: {listed}{more}",
            {"edited": len(paths)},
            findings,
            evidence=Evidence(places, places),
        )
    ]


def _table_differs(change: ChangeSet) -> bool:
    """Whether the change touches our table of ``pyproject.toml``, not just the file.

    The text of it is compared: the head's may be made to be hard to parse.
    """
    path = CONFIG_FILES[1]
    # Not the base's own commit: that may have gone on since.
    specs = [f"{commit}:{path}" for commit in (change.merge_base, change.head)]
    if max(change.repository.sizes(specs)) > config_file.LIMIT:
        return True
    before, after = (_our_lines(data or b"") for data in change.repository.read(*specs))
    return before != after


def _our_lines(data: bytes) -> list[bytes]:
    ours = False
    found = []
    for line in data.split(b"\n"):
        text = line.strip()
        if text.startswith(b"["):
            ours = TABLE in text
        if (ours or TABLE in text) and text and not text.startswith(b"#"):
            found.append(text)
    return found
