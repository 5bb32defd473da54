"""Presets of benchmark cases: bundled ones, and those of packs that the user names.

A pack is a file in one of five shapes. ``presets``: a mapping with the key ``presets``. Or a
mapping from names to presets. ``cases``: a data set of pydantic-evals. ``eval_cases``: an eval set
of ADK. ``records``, ``items``, ``examples`` or ``data``: a list of records, which may also be the
whole file.
"""

from __future__ import annotations

import json
import os

from rlm_ci.config.settings import nearest
from rlm_ci.errors import ConfigError
from rlm_ci.lab.bench import generators
from rlm_ci.lab.bench.packs import documents
from rlm_ci.lab.bench.scoring import scorers
from rlm_ci.lab.results import BenchmarkCase
from rlm_ci.report.rules import SITE
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from rlm_ci.lab.bench.packs.documents import PackDocument, Place


#: What a field is called in this and in other formats; the first name that is there counts.
_NAMES = {
    "case_id": ("id", "case_id", "name", "qid"),
    "description": ("description",),
    "task": ("task", "question", "query", "prompt", "inputs", "input", "instruction"),
    "environment": ("environment",),
    "max_steps": ("max_steps", "steps"),
    "exec_timeout": ("exec_timeout", "timeout"),
    "context": ("context", "passage", "document"),
    "expected_answer": (
        "expected_answer", "expected_output", "expected", "answer", "answers", "output", "target",
    ),
    "scorer": ("scorer",),
    "rubric": ("rubric",),
    "pass_score": ("pass_score",),
}  # fmt: skip
#: Allowed everywhere, and not used.
_NOTES = ("metadata", "tags", "task_family", "domain", "split", "length_bucket")
_KNOWN = {*_NOTES, *(name for names in _NAMES.values() for name in names)}
_TITLE = 70


def case_of(
    document: PackDocument, record: Any, place: Place, number: int, *, is_strict: bool
) -> BenchmarkCase:
    """The case of a record; one of another program may have keys that are not ours.

    Raises ConfigError.
    """
    if not isinstance(record, dict):
        raise document.wrong(place, "a case must be a mapping", "write it with `id` and `task`")
    strange = sorted(str(name) for name in record if name not in _KNOWN)
    if is_strict and strange:
        keys = sorted(_KNOWN)
        raise document.wrong((*place, strange[0]), "unknown key", nearest(strange[0], keys))
    reader = _CaseReader(document, record, place)
    case = reader.case(number)
    wrong = scorers.misfit(case.scorer, case.expected_answer, case.rubric)
    if wrong and not (reader.is_generated and case.expected_answer is None):
        hint = "add `expected_answer`, or a `rubric` for a judge model"
        raise document.wrong(place, wrong, hint)
    return case


class _CaseReader:
    def __init__(self, document: PackDocument, record: dict[str, Any], place: Place) -> None:
        self._document = document
        self._place = place
        self._found: dict[str, Any] = {}
        self._keys: dict[str, str] = {}
        for field, names in _NAMES.items():
            key = next((name for name in names if record.get(name) is not None), None)
            if key is not None:
                self._found[field], self._keys[field] = record[key], key
        self._unwrap_inputs()
        if "rubric" not in self._found and (judge := _judge_of(record.get("evaluators"))):
            self._found["rubric"] = judge
        context = self._found.get("context")
        self.is_generated = isinstance(context, dict) and "generator" in context

    def _unwrap_inputs(self) -> None:
        """The inputs of pydantic-evals may be a mapping with a question, and its context."""
        inputs = self._found.get("task")
        if self._keys.get("task") in ("inputs", "input") and isinstance(inputs, dict):
            names = (*_NAMES["task"][:4], "text")
            question = next(
                (inputs[name] for name in names if isinstance(inputs.get(name), str)), None
            )
            self._found["task"] = question or json.dumps(inputs, ensure_ascii=False)
            if question and isinstance(inputs.get("context"), str):
                self._found.setdefault("context", inputs["context"])

    def wrong(self, field: str, what: str, hint: str = "fix that value") -> ConfigError:
        return self._document.wrong((*self._place, self._keys.get(field, field)), what, hint)

    def case(self, number: int) -> BenchmarkCase:
        case_id = self._found.get("case_id")
        task = self._text("task", default="" if self.is_generated else None)
        context = self._context()
        return BenchmarkCase(
            case_id=str(number + 1) if case_id is None else str(case_id)[:200],
            description=self._text("description", default=task.partition("\n")[0][:_TITLE]),
            task=task,
            environment=self._text("environment", default=self._environment()),
            max_steps=self._number("max_steps", 4),
            exec_timeout=self._number("exec_timeout", 30),
            context=context,
            expected_answer=self._found.get("expected_answer"),
            scorer=self._scorer(),
            rubric=self._text("rubric", default="") or None,
            pass_score=self._share("pass_score", 1.0),
        )

    def _environment(self) -> str:
        context = self._found.get("context")
        if isinstance(context, dict) and context.get("generator") == "broken-repository":
            return "dspy"
        return "generic" if context is None else "pure_rlm"

    def _context(self) -> str | dict[str, Any] | None:
        context = self._found.get("context")
        if context is None or isinstance(context, str):
            return context
        if isinstance(context, list):  # passages
            return "\n\n".join(
                passage if isinstance(passage, str) else json.dumps(passage) for passage in context
            )
        if not isinstance(context, dict):
            raise self.wrong(
                "context", "must be a text, or a mapping", f"see {SITE}benchmarks.html"
            )
        if self.is_generated:
            try:
                generators.arguments(context)
            except ConfigError as error:
                raise self.wrong("context", error.what, error.hint) from None
        elif context.keys() != {"path"} or not isinstance(context["path"], str):
            raise self.wrong("context", "needs `path` or `generator`", f"see {SITE}benchmarks.html")
        return context

    def _scorer(self) -> str:
        name = self._text("scorer", default="")
        if name and name not in scorers.SCORERS:
            hint = nearest(name, sorted(scorers.SCORERS))
            raise self.wrong("scorer", f"there is no scorer {name[:80]!r}", hint)
        if not name and "rubric" in self._found:
            return "rubric"
        if self.is_generated and "expected_answer" not in self._found:
            return name  # without one, the generator's
        return name or ("f1" if _is_pairs(self._found.get("expected_answer")) else "exact")

    def _text(self, field: str, *, default: str | None) -> str:
        value = self._found.get(field, default)
        if value is None:
            raise self.wrong(field, "is missing", f"add `{field}`")
        if not isinstance(value, str):
            raise self.wrong(field, "must be a text")
        return value

    def _number(self, field: str, default: int) -> int:
        value = self._found.get(field, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
            raise self.wrong(field, "must be a whole number of at least 1")
        return value

    def _share(self, field: str, default: float) -> float:
        value = self._found.get(field, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
            raise self.wrong(field, "must be a number above 0, and at most 1")
        return float(value)


def _is_pairs(expected: Any) -> bool:
    return isinstance(expected, list) and any(isinstance(item, list) for item in expected)


def _judge_of(evaluators: Any) -> str:
    """The rubric of a judge among the evaluators of pydantic-evals."""
    for evaluator in evaluators if isinstance(evaluators, list) else ():
        judge = evaluator.get("LLMJudge") if isinstance(evaluator, dict) else None
        rubric = judge.get("rubric") if isinstance(judge, dict) else judge
        if isinstance(rubric, str):
            return rubric
    return ""


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


_FOLDER = os.path.join(os.path.dirname(__file__), "bundled")


def aliases() -> dict[str, str]:
    """The bundled packs by name, with their files."""
    names = sorted(name for name in os.listdir(_FOLDER) if name.endswith(".json"))
    return {alias(name): os.path.join(_FOLDER, name) for name in names}


def load(paths: Iterable[str | os.PathLike[str]] = ()) -> dict[str, Preset]:
    """All presets by name: bundled ones, and those of the packs at ``paths``.

    A path may be the alias of a bundled pack. Raises ConfigError for a pack that cannot be read,
    and for a name that is there twice.
    """
    bundled = aliases()
    presets: dict[str, Preset] = {}
    for path in dict.fromkeys(
        (*bundled.values(), *(bundled.get(str(path), str(path)) for path in paths))
    ):
        for preset in read(path):
            other = presets.get(preset.name)
            if other is not None:
                raise ConfigError(
                    f"the preset {preset.name[:80]!r} is in {printable(other.source)} too",
                    where=printable(path),
                    hint="rename one of the two",
                )
            presets[preset.name] = preset
    return presets


def choose(name: str, paths: Iterable[str | os.PathLike[str]] = ()) -> Preset:
    """The preset ``name``: a name, or the path of a pack with one preset. Raises ConfigError."""
    packs = [str(path) for path in paths]
    is_path = name.lower().endswith(documents.ENDINGS) and name not in aliases()
    if is_path:
        of_pack = read(name)
        if len(of_pack) == 1:
            return of_pack[0]
        names = ", ".join(printable(preset.name)[:40] for preset in of_pack[:20])
        raise ConfigError(
            f"the pack has {len(of_pack)} presets: {names}",
            where=printable(name),
            hint=f"name one, and the pack: rlm-ci bench run NAME --pack {printable(name)}",
        )
    presets = load(packs)
    if name in presets:
        return presets[name]
    close, all_names = nearest(name, sorted(presets)), f"known are: {', '.join(sorted(presets))}"
    raise ConfigError(
        f"there is no preset {printable(name)[:80]!r}",
        where="PACK",
        hint=close if close == all_names else f"{close} {all_names}",
    )


def presets(paths: Iterable[str | os.PathLike[str]] = ()) -> list[dict[str, Any]]:
    """All presets, described."""
    return [described(preset) for preset in load(paths).values()]


def described(preset: Preset) -> dict[str, Any]:
    scorers = {case.scorer or "as generated" for case in preset.cases}
    return {
        "preset": preset.name,
        "description": preset.description,
        "total_cases": len(preset.cases),
        "environments": sorted({case.environment for case in preset.cases}),
        "scorers": sorted(scorers),
        "source": preset.source,
    }
