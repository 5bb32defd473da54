"""The records that systems take, made of the settings: no system sees all of these."""

from __future__ import annotations

import os

from rlm_ci.change.trigger import ChangeChoice
from rlm_ci.config.core_options import LONGEST_NAME
from rlm_ci.console.output import RULE_PAGES, STDOUT, Output
from rlm_ci.errors import ConfigError
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from rlm_ci.config.settings import Settings
    from rlm_ci.github.posting.outcome import PostingOptions
    from rlm_ci.github.session import Access
    from rlm_ci.models.gateway import ModelOptions
    from rlm_ci.models.providers import Endpoint


class ReviewerOptions(Value):
    """Who may look at a change besides the checks: a model, ruff, other analyzers.

    ``enabled`` is ``auto``, ``on`` or ``off``, by the setting ``source``; so is ``ruff``. ``model``
    is "" for none; ``lack()`` says why none can be asked, and raises ConfigError for an unknown
    provider. ``analyzers``: further ones may run, the installed ones for ``auto_analyzers``.
    """

    enabled: str
    source: str
    model: str
    takes_model: bool
    lack: Callable[[], str]
    ruff: str
    analyzers: bool
    auto_analyzers: bool


def reviewer_of(settings: Settings) -> ReviewerOptions:
    """Who may look at a change besides the checks."""
    review = settings.review
    return ReviewerOptions(
        enabled=review.enabled,
        source=settings.sources["review.enabled"],
        model=settings.model or "",
        takes_model=review.model != "off",
        lack=lambda: endpoint_of(settings).lack,
        ruff=review.ruff,
        analyzers=bool(review.analyzers),
        auto_analyzers=review.analyzers == "auto",
    )


def change_choice(settings: Settings) -> ChangeChoice:
    """The change that the settings name; some commands lack a row or two."""
    event = settings.event or (settings.github.actions and settings.github.event_path)
    return ChangeChoice(
        settings.base,
        settings.head,
        (settings.sources["base"], settings.sources["head"]),
        event or None,
        "" if settings.event else settings.github.event_name or "",
        settings.base_sha,
        settings.pre_commit,
        getattr(settings, "commit", None),
        getattr(settings, "staged", False),
        getattr(settings, "hook", None),
    )


def access_of(settings: Settings) -> Access:
    """Where GitHub is, and by which token."""
    from rlm_ci.github.session import Access

    github = settings.github
    urls = {"api_url": github.api_url, "server_url": github.server_url}
    return Access(github.token, **{name: url for name, url in urls.items() if url})


def posting_of(settings: Settings) -> PostingOptions:
    """What is posted on a pull request. Raises ConfigError for the invalid name of a run."""
    from rlm_ci.github.posting.outcome import PostingOptions
    from rlm_ci.redaction.redactor import Redactor

    publish, github, sources = settings.publish, settings.github, settings.sources
    in_actions = bool(github.actions)
    return PostingOptions(
        comment=publish.comment,
        check_run=publish.check_run,
        is_enabled=publish.enabled,
        sources=(sources["publish.enabled"], sources["publish.comment"]),
        name=run_name(settings) if publish.name else "",
        config=fingerprint(settings),
        access=access_of(settings),
        label_token=github.label_token or "",
        redact=Redactor(settings.environ).text,
        event=settings.event or (github.event_path if in_actions else "") or "",
        outputs=github.output or "",
        step_summary=(github.step_summary if in_actions else "") or "",
    )


def endpoint_of(settings: Settings) -> Endpoint:
    """Where a model is asked; ``lack`` says why none can be."""
    from rlm_ci.models.providers import Endpoint, choose

    by_hand = {"RLM_CI_MODEL", "RLM_CI_MODELS_PROVIDER", "default"}
    provider = settings.models.provider or ""
    source = settings.sources["models.provider" if provider else "model"]
    openai = settings.openai
    return choose(
        settings.model or "",
        provider,
        Endpoint(openai.base_url or "", openai.api_key or "", openai.api_version or ""),
        settings.environ,
        from_file=not (source in by_hand or source.startswith("--")),
    )


def models_of(settings: Settings) -> ModelOptions:
    """Where a model is asked, and what it may cost."""
    from decimal import Decimal

    from rlm_ci.models.gateway import ModelOptions

    money = settings.budget_usd
    return ModelOptions(
        endpoint_of(settings),
        settings.models.timeout,
        {
            name: {key: value for key, value in figures.items() if value is not None}
            for name, figures in settings.models.prices.items()
        },
        settings.max_calls,
        settings.max_tokens,
        None if money is None else Decimal(str(money)),
        settings.models.recording or "",
        settings.models.context_tokens or None,
    )


def output_of(settings: Settings) -> Output:
    """Where results go; a command that lacks a row has its default."""
    output, github = getattr(settings, "output", None), getattr(settings, "github", None)
    plain = getattr(settings, "no_color", False) or getattr(settings, "term", "") == "dumb"
    return Output(
        getattr(settings, "format", "text"),
        None if output in (None, "", STDOUT) else str(output),
        colour=getattr(settings, "color", False) and not plain,
        verbose=getattr(settings, "verbose", False),
        quiet=getattr(settings, "quiet", False),
        server_url=getattr(github, "server_url", None) or "https://github.com",
        rule_pages=settings.values.get(RULE_PAGES, True),
        repository=str(settings.repo) if settings.sources["repo"].startswith("-") else "",
    )


def rests_on(settings: Settings, root: str) -> dict[str, Any]:
    """What the files of a run depend on besides its record, for its last event.

    A folder for pages in the repository is relative to ``folder``: a clone elsewhere has it, too.
    """
    from rlm_ci.report.wording import WORDS

    folder, values = os.getcwd(), settings.changed_values()
    pages, source = values.get("wiki.out", ("", ""))
    pages = os.path.realpath(pages) if pages else ""
    if pages and files.below(os.path.realpath(root), pages) is not None:
        values["wiki.out"] = [os.path.relpath(pages, folder), source]
    relative = os.path.relpath(folder, root)
    return {"settings": values, "folder": relative, RULE_PAGES: True, "words": WORDS}


def fingerprint(settings: Settings) -> str:
    """The identity of the settings that judge: 16 hex digits. Secrets are no part of it."""
    import json
    from hashlib import sha256

    from rlm_ci.config.options import BUDGET_OF_PR, PUBLISH

    # Who raises the budget of a pull request does not want all of it reviewed again.
    posting = {row.key for row in (*PUBLISH, *BUDGET_OF_PR)}
    judging = {
        row.key: value
        for row, value, _ in settings.items()
        if row.file and not row.secret and row.key not in posting
    }
    text = json.dumps(judging, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:16]


#: What a name may have: it stands in a marker, in the name of a check run and on GitHub's pages.
_NAME = r"[\w(](?:[\w ./,()+@=#-]*[\w)])?"
_UNFIT = r"[^\w ./,()+@=#-]+"
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
    import json

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
    import re  # not for a hook

    return (
        isinstance(text, str)
        and len(text) <= LONGEST_NAME
        and bool(re.fullmatch(_NAME, text, re.ASCII))
    )


def fitted(name: str) -> str:
    """``name``, or if it cannot be one, the closest that can, told apart from all others."""
    import re
    from hashlib import sha256

    if is_name(name):
        return name
    short = re.sub(_UNFIT, "-", name, flags=re.ASCII).strip(" ./,+@=#-)")[: LONGEST_NAME - 9]
    return f"{short}-{sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def artifact_name(name: str) -> str:
    """The name of the artifact with the report of the run ``name``; an artifact takes no slash."""
    return "-".join(filter(None, (REPORT_NAME, fitted(name.replace("/", ":")) if name else "")))


def _texts(value: Any) -> Iterator[str]:
    """The values of a matrix, as GitHub shows them after the job's name."""
    import json

    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
    elif value is not None:
        yield value if isinstance(value, str) else json.dumps(value)
