"""The first page, as its template sees it: what a newcomer needs, in about two screens."""

from __future__ import annotations

import re

from rlm_ci.text.neutralise import prose
from rlm_ci.wiki.front_page.agreed_commands import agreed_commands
from rlm_ci.wiki.front_page.configuration import brief
from rlm_ci.wiki.front_page.main_flow import main_flow
from rlm_ci.wiki.front_page.own_docs import own_docs
from rlm_ci.wiki.front_page.parts import part_rows
from rlm_ci.wiki.front_page.registries import registries
from rlm_ci.wiki.front_page.routes import example_tests, routes
from rlm_ci.wiki.pages.facts_page import unparsed
from rlm_ci.wiki.pages.flow_page import flow_names
from rlm_ci.wiki.pages.module_page import sentence_groups
from rlm_ci.wiki.update.state import WHOLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.module_page import PageSources

#: Characters of the introduction, where it has several sentences.
_INTRODUCTION = 260
#: What a model said of its sentences about the whole.
_HELD = "they follow from its sentences about the linked lines"


def overview(world: PageSources) -> dict[str, Any]:
    parts, others = part_rows(world)
    return {
        "about": _about(world.files, world),
        "said": sentence_groups(world.prose.get(WHOLE, ()), world, _HELD),
        "commands": agreed_commands(world, example_tests(world)),
        **main_flow(world),
        "flows": flow_names(world.flows),
        "parts": parts,
        "parts_others": others,
        "tasks": routes(world),
        "configuration": brief(world),
        "registries": registries(world),
        "docs": own_docs(world),
        "unparsed": unparsed(world.program),
        "is_part": world.outside is not None,
        "is_empty": not world.layout.modules,
    }


def _about(files: Mapping[str, FileFacts], world: PageSources) -> dict[str, str] | None:
    introductions = [
        (not path.lower().endswith(".md"), path, file.about)
        for path, file in files.items()
        if file.about is not None and "/" not in path
    ]
    if not introductions:
        return None
    _, path, about = min(introductions)
    return {
        "text": _beginning(about.text),
        "link": world.register.link(path, about.line_start, about.line_end),
    }


def _beginning(text: str) -> str:
    """As many of the first sentences as a reader takes in at once."""
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z`])", text)
    shown = sentences[0]
    for sentence in sentences[1:]:
        if len(shown) + len(sentence) >= _INTRODUCTION:
            break
        shown = f"{shown} {sentence}"
    return prose(shown)
