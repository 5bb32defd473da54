"""The name of a run on a pull request: it keeps two jobs from writing over each other."""

from __future__ import annotations

import json
import re

from rlm_ci.errors import ConfigError
from rlm_ci.github.posting.checkpoint import LONGEST_NAME
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rlm_ci.config.settings import Settings

#: What a name may have: it stands in a marker, in the name of a check run and on GitHub's pages.
_NAME = re.compile(r"[\w(](?:[\w ./,()+@=#-]*[\w)])?", re.ASCII)
_UNFIT = re.compile(r"[^\w ./,()+@=#-]+", re.ASCII)
#: The file that ``init`` writes; jobs of other ones are named with it.
_OWN_WORKFLOW = "rlm-ci"
#: How the name of an artifact with a report begins: the first of two jobs leaves it.
REPORT_NAME = "rlm-ci-report"


def run_name(settings: Settings) -> str:
    """The name that the settings give, else the workflow's job, with what tells its runs apart:
    the values of its matrix, the config file and the checks that the job gives.

    Outside of a workflow it is what tells the runs apart, or "". Raises ConfigError for an
    invalid one.
    """
    set_name, github = settings.publish.name, settings.github
    if set_name:
        if not is_name(set_name):
            raise ConfigError(
                f"{printable(set_name)[:80]!r} is not the name of a run",
                where=settings.sources["publish.name"],
                hint=f"give 1 to {LONGEST_NAME} letters, digits, blanks and ./,()+@=#_-",
            )
        return str(set_name)
    file = (github.workflow_ref or "").partition("@")[0].rpartition("/")[2].rpartition(".")[0]
    name = github.job if file in ("", _OWN_WORKFLOW) else f"{file}/{github.job}"
    name = name if github.actions and github.job else ""
    try:
        values = list(_texts(json.loads(github.matrix or "null")))
    except (ValueError, RecursionError):
        values = [github.matrix]
    for key in ("config", "checks"):
        if settings.sources[key].startswith(("--", "RLM_CI_")):
            value = settings.values[key]
            values += [value] if isinstance(value, str) else value
    values = list(dict.fromkeys(values))
    shown = ", ".join(values)
    full = f"{name} ({shown})" if name and shown else name or shown
    return fitted(full) if full else ""


def is_name(text: object) -> bool:
    """Whether ``text``, of a report for instance, can be the name of a run."""
    return isinstance(text, str) and len(text) <= LONGEST_NAME and bool(_NAME.fullmatch(text))


def fitted(name: str) -> str:
    """``name``, or if it cannot be one, the closest that can, told apart from all others."""
    from hashlib import sha256

    if is_name(name):
        return name
    short = _UNFIT.sub("-", name).strip(" ./,+@=#-)")[: LONGEST_NAME - 9]
    return f"{short}-{sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def artifact_name(name: str) -> str:
    """The name of the artifact with the report of the run ``name``; an artifact takes no slash."""
    return "-".join(filter(None, (REPORT_NAME, fitted(name.replace("/", ":")) if name else "")))


def _texts(value: Any) -> Iterator[str]:
    """The values of a matrix, as GitHub shows them after the job's name."""
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
    elif value is not None:
        yield value if isinstance(value, str) else json.dumps(value)
