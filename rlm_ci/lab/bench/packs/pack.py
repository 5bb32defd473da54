"""Reads packs: files of benchmark cases, in five shapes.

``presets``: a mapping with the key ``presets``. Or a mapping from names to presets. ``cases``: a
data set of pydantic-evals. ``eval_cases``: an eval set of ADK. ``records``, ``items``, ``examples``
or ``data``: a list of records, which may also be the whole file.
"""

from __future__ import annotations

import os

from rlm_ci.lab.bench.packs import documents
from rlm_ci.lab.bench.packs.case_fields import case_of
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rlm_ci.lab.bench.packs.documents import PackDocument, Place
    from rlm_ci.lab.results import BenchmarkCase

_LISTS = ("records", "items", "examples", "data")
_SHAPES = (
    "a pack has `presets`, `cases`, `eval_cases`, a list `records`, `items`, `examples` or `data`, "
    "or maps names to lists of cases"
)
_PRESET_KEYS = {"cases", "description"}


class Preset(Value):
    """Cases under a name. Paths of contexts are relative to ``folder``; ``source`` is the file."""

    name: str
    description: str
    cases: tuple[BenchmarkCase, ...]
    source: str
    folder: str


def read(path: str) -> tuple[Preset, ...]:
    """The presets of a pack. Raises ConfigError, UnavailableError."""
    document = documents.read(path)
    presets = tuple(_presets(document))
    if not presets:
        raise document.wrong((), "there is no preset in it", _SHAPES)
    return presets


def alias(path: str) -> str:
    """The name of a pack: that of its file."""
    return os.path.splitext(os.path.basename(path))[0]


def _presets(document: PackDocument) -> Iterator[Preset]:
    value = document.value
    if isinstance(value, list):
        yield _preset(document, alias(document.path), "", value, (), is_strict=False)
        return
    if not isinstance(value, dict):
        raise document.wrong((), "the pack is neither a mapping nor a list", _SHAPES)
    if "presets" in value:
        if not isinstance(value["presets"], dict):
            raise document.wrong(("presets",), "must map names to presets", _SHAPES)
        yield from _presets_by_name(document, value["presets"], ("presets",))
        return
    for key in ("cases", "eval_cases", *_LISTS):
        if isinstance(value.get(key), list):
            names = [value.get(name) for name in ("eval_set_id", "name")]
            name = next((text for text in names if isinstance(text, str) and text), None)
            listed = value[key]
            if key == "eval_cases":
                listed = [_of_adk(document, record, (key, at)) for at, record in enumerate(listed)]
            text = value.get("description")
            description = text if isinstance(text, str) else ""
            title = name or alias(document.path)
            yield _preset(document, title, description, listed, (key,), is_strict=False)
            return
    yield from _presets_by_name(document, value, ())


def _presets_by_name(
    document: PackDocument, presets: dict[str, Any], place: Place
) -> Iterator[Preset]:
    for name, value in presets.items():
        at = (*place, name)
        if isinstance(value, list):
            yield _preset(document, name, "", value, at, is_strict=True)
        elif isinstance(value, dict) and isinstance(value.get("cases"), list):
            if strange := sorted(value.keys() - _PRESET_KEYS):
                keys = ", ".join(sorted(_PRESET_KEYS))
                raise document.wrong((*at, strange[0]), "unknown key", f"known: {keys}")
            text = value.get("description", "")
            if not isinstance(text, str):
                raise document.wrong((*at, "description"), "must be a text", "fix that value")
            yield _preset(document, name, text, value["cases"], (*at, "cases"), is_strict=True)
        else:
            raise document.wrong(at, "is neither a list of cases nor has one as `cases`", _SHAPES)


def _preset(
    document: PackDocument,
    name: str,
    description: str,
    listed: list[Any],
    place: Place,
    *,
    is_strict: bool,
) -> Preset:
    cases: list[BenchmarkCase] = []
    seen: set[str] = set()
    for number, record in enumerate(listed):
        at = (*place, number)
        case = case_of(document, record, at, number, is_strict=is_strict)
        if case.case_id in seen:
            raise document.wrong(at, f"the id {case.case_id!r} is there twice", "give it another")
        seen.add(case.case_id)
        cases.append(case)
    if not cases:
        raise document.wrong(place, f"the preset {name[:80]!r} has no case", "add one")
    folder = os.path.dirname(os.path.abspath(document.path))
    return Preset(name, description, tuple(cases), document.path, folder)


def _of_adk(document: PackDocument, record: Any, place: Place) -> dict[str, Any]:
    """A case of an eval set: its last question, with the turns before it as the context."""
    turns = record.get("conversation") if isinstance(record, dict) else None
    if (
        not isinstance(turns, list)
        or not turns
        or not all(isinstance(turn, dict) for turn in turns)
    ):
        raise document.wrong(place, "it has no conversation", "add `conversation`, a list of turns")
    exchanges = [
        (_text(turn.get("user_content")), _text(turn.get("final_response"))) for turn in turns
    ]
    *before, (question, expected) = exchanges
    dialogue = "".join(f"User: {user}\nAssistant: {reply}\n" for user, reply in before)
    return {
        "id": record.get("eval_id"),
        "task": question,
        "expected_answer": expected or None,
        "context": dialogue or None,
        "scorer": "f1",  # a reply in words is seldom the same twice
    }


def _text(content: Any) -> str:
    parts = content.get("parts") if isinstance(content, dict) else None
    texts = [part.get("text") for part in parts or () if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
