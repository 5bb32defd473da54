"""The records that systems take, made of the settings: no system sees all of these."""

from __future__ import annotations

import os

from rlm_ci.change.trigger import ChangeChoice
from rlm_ci.console.output import RULE_PAGES, STDOUT, Output
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
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
    from rlm_ci.github.posting.outcome import CommentLimits, PostingOptions
    from rlm_ci.judge.run_name import run_name
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.report.findings import Severity

    publish, github, sources = settings.publish, settings.github, settings.sources
    in_actions = bool(github.actions)
    return PostingOptions(
        comment=publish.comment,
        check_run=publish.check_run,
        unfinished=publish.unfinished,
        caps=CommentLimits(publish.max_comments, publish.max_per_file, publish.max_on_files),
        least=Severity.from_label(publish.least),
        annotations=publish.max_annotations,
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

    folder, values = os.getcwd(), settings.told()
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
