"""Is an issue that a change names one that the project has accepted? GitHub is asked.

Accepted is an open issue of the change's own repository, with a label where the project wants one.
What could not be looked up is neither accepted nor refused.
"""

from __future__ import annotations

import re

from rlm_ci.errors import RemoteError, UnavailableError
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rlm_ci.github.session import Access

#: Issues that are looked up, in the order in which they are named.
_MOST = 5
_REFERENCE = re.compile(
    r"(?<![\w#&/])(?P<name>[\w.-]{1,60}/[\w.-]{1,90})?#(?P<number>[1-9]\d{0,8})\b|"
    r"/(?P<owner>[\w.-]{1,60})/(?P<short>[\w.-]{1,90})/issues/(?P<of>[1-9]\d{0,8})\b"
)
_REPOSITORY = re.compile(r"[A-Za-z0-9_-][\w.-]{0,60}/[\w-][\w.-]{0,90}", re.ASCII)
#: Of a refusal: there is no such issue, or none that the token may see; it has moved or is gone.
_NO_ISSUE = (404, 410)


class IssueLookup(Value):
    """What GitHub said of the issues: one is ``accepted``, or why each is not (``refused``).

    ``unknown`` says why it is not settled; "" where it is.
    """

    accepted: int = 0
    refused: tuple[str, ...] = ()
    unknown: str = ""


def names_issue(texts: Sequence[str]) -> bool:
    """Whether a text names an issue of any repository by its number or address."""
    return any(_REFERENCE.search(text) for text in texts)


def numbers(texts: Sequence[str], repository: str) -> list[int]:
    """The numbers of the issues of ``repository`` (owner/name) in ``texts``, each once."""
    results: dict[int, None] = {}
    for text in texts:
        for match in _REFERENCE.finditer(text):
            owner = f"{match['owner']}/{match['short']}" if match["of"] else match["name"]
            if owner is None or owner.lower() == repository.lower():
                results[int(match["number"] or match["of"])] = None
    return list(results)


def look_up(
    texts: Sequence[str], repository: str, label: str, access: Access | None
) -> IssueLookup:
    """Look for an accepted issue of ``repository`` among those that ``texts`` name.

    Without ``access`` nothing is looked up. ``label`` is what it must have, "" for none.
    """
    if not _REPOSITORY.fullmatch(repository):
        return IssueLookup(unknown="the repository's name on GitHub is not known")
    candidates = numbers(texts, repository)
    if not candidates:
        return IssueLookup(refused=(f"none of {repository} is named",))
    if access is None:
        return IssueLookup(unknown="there is no token (GITHUB_TOKEN)")
    from rlm_ci.github import session

    refused = []
    try:
        with session.client(access) as client:
            for number in candidates[:_MOST]:
                flaw = _flaw(client, repository, number, label)
                if not flaw:
                    return IssueLookup(accepted=number)
                refused.append(f"#{number} {flaw}")
    except UnavailableError as error:
        return IssueLookup(unknown=f"a library is missing: {error.hint}")
    except RemoteError as error:
        return IssueLookup(unknown=str(error))
    left = len(candidates) - _MOST
    if left > 0:
        refused.append(f"{count(left, 'more issue')} not looked up")
    return IssueLookup(refused=tuple(refused))


def _flaw(client: Any, repository: str, number: int, label: str) -> str:
    """Why an issue is not accepted; "" for one that is. Raises RemoteError."""
    from rlm_ci.github.api.errors import GitHubRefusedError, record, rows, text

    try:
        issue = client.get(f"/repos/{repository}/issues/{number}")
    except GitHubRefusedError as error:
        if error.status not in _NO_ISSUE:
            raise
        return f"is no issue of {repository} that the token may see"
    if issue.get("pull_request"):
        return "is a pull request"
    state = text(issue.get("state"))
    if state != "open":
        return f"is {printable(state)[:20] or 'in no known state'}"
    labels = {text(record(item).get("name")).lower() for item in rows(issue.get("labels"))}
    return f"has no label {label}" if label and label.lower() not in labels else ""
