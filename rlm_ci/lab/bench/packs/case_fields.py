"""A record of a pack as a case: names of other formats are known, values are checked."""

from __future__ import annotations

import json

from rlm_ci.config.settings import nearest
from rlm_ci.errors import ConfigError
from rlm_ci.lab.bench import generators
from rlm_ci.lab.bench.scoring import scorers
from rlm_ci.lab.results import BenchmarkCase
from rlm_ci.report.rules import SITE

TYPE_CHECKING = False
if TYPE_CHECKING:
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
