"""A change that edits the files that judge it: it is told so, and was not obeyed."""

from __future__ import annotations

from rlm_ci import checks, settings
from rlm_ci.cli import configuration
from rlm_ci.errors import ConfigError
from rlm_ci.findings import Evidence, Finding, Location, Part, Severity, printable
from rlm_ci.settings import CONFIG_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.changes import ChangeSet
    from rlm_ci.settings import Settings

_SHOWN = 5


def edited(change: ChangeSet, options: Settings, ran: Sequence[str]) -> list[Part]:
    """The part that names them, for a change from outside; nothing when there are none.

    ``ran`` are the checks whose own policy files count.
    """
    commit = change.policy_commit
    if commit is None:
        return []
    root = change.repository.root
    named = [configuration.inside(root, options.config)] if options.config else []
    decisive = {CONFIG_FILES[0], *checks.policy_files(ran), *named}
    templates = options.templates.rstrip("/") + "/"
    paths = [
        path
        for path in change.names()
        if path in decisive
        or path.rpartition("/")[2] == ".gitattributes"
        or path.startswith(templates)
        or (path == CONFIG_FILES[1] and _table_differs(change))
    ]
    if not paths:
        return []
    contents = change.repository.read(*(f"{change.head}:{path}" for path in paths))
    findings = tuple(
        Finding(
            "policy/edited",
            Severity.INFO,
            f"the change edits {printable(path)}; it was judged by the one of its base",
            # A file that the change deletes has no place to point to.
            evidence=(Location(path),) if data is not None else (),
            subject=path,
        )
        for path, data in zip(paths, contents, strict=True)
    )
    listed = ", ".join(printable(path) for path in paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    places = sum(len(finding.evidence) for finding in findings)
    return [
        Part(
            "policy",
            f"edited here, and not obeyed: {listed}{more}",
            {"edited": len(paths)},
            findings,
            evidence=Evidence(places, places),
        )
    ]


def _table_differs(change: ChangeSet) -> bool:
    """Whether the change touches our table of ``pyproject.toml``, not just the file."""
    path = CONFIG_FILES[1]
    said = []
    # Not the base's own commit: that may have gone on since.
    for data in change.repository.read(f"{change.merge_base}:{path}", f"{change.head}:{path}"):
        try:
            said.append(settings.parse_config(data or b"", path, configuration.TABLE))
        except ConfigError:
            said.append({"unreadable": data})
    return said[0] != said[1]
