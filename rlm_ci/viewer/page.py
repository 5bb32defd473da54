"""The page of a run: everything bounded, redacted and neutral, in one file that asks for nothing.

The run is data in the page, which the page's own script shows. The policy of the page allows this
script and its style by their hashes, and nothing else: no other script, no request.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import deque
from hashlib import sha256

from rlm_ci import __version__
from rlm_ci.report import wording
from rlm_ci.report.details import fixes_and_proofs
from rlm_ci.report.proof import ARGUED
from rlm_ci.resources import loader
from rlm_ci.text.printable import clip, count, printable
from rlm_ci.viewer.folder import mappings_in, number_in, text_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from rlm_ci.viewer.steps import ViewedRun, ViewedStep

#: Steps, findings, diffs and events that a page has; more make no reader wiser.
_STEPS = 20_000
_FINDINGS = 5_000
_DIFFS = 200
_EVENTS = 2_000
#: Characters of all long texts together, and of one of them: the first that fits.
_ALL = 24_000_000
_EACH = (200_000, 100_000, 50_000, 20_000, 8_000, 3_000, 1_000, 300)
#: Characters of a title, and of a fact.
_TITLE = 300
_FACT = 2_000
#: Places of a finding, and characters of a quote.
_PLACES, _QUOTE = 20, 4_000
_FINDING = ("rule", "severity", "message", "hint", "domain", "source", "suppression", "subject",
            "suggested_fix")  # fmt: skip
_PROOF = ("level", "reason", "command", "reproduction", "head", "base", "repair",
          "repair_reason")  # fmt: skip


def render(run: ViewedRun, redact: Callable[[str], str]) -> str:
    """The page as HTML. ``redact`` takes secrets out of a text."""
    shown = _Shown(run, redact)
    style, script = (loader.read_template(f"view/view.{name}") for name in ("css", "js"))
    page = loader.load_template("view/view.html.j2", autoescape=True)
    return page(
        {
            "title": f"{run.run_id} · rlm-ci",
            "style": style,
            "script": script,
            "style_hash": _hash(style),
            "script_hash": _hash(script),
            "data": _inert(shown.record()),
        }
    )


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def _inert(value: object) -> str:
    """JSON in which no text can end its element, or be a command to who prints it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("##[", "##\\u005b").replace("\x7f", "\\u007f")


class _Shown:
    """A run within bounds; ``left_out`` says what is not shown, and why."""

    def __init__(self, run: ViewedRun, redact: Callable[[str], str]) -> None:
        self._run = run
        self._redact = redact
        self._cut = 0
        self.left_out: list[str] = []
        self._kept = self._within()
        self._finders: dict[tuple[str, str, float | None], list[int]] = {}
        for row, step in self._kept.values():
            for finding in step.new_findings:
                self._finders.setdefault(_identity(finding), []).append(row)
        sizes = [len(text.text) for step in self._kept.values() for text in step[1].texts]
        sizes += [len(patch) for _, patch in run.diffs[:_DIFFS]]
        sizes += [len(text_in(document, "text")) for document in run.documents]
        fitting = (limit for limit in _EACH if sum(min(size, limit) for size in sizes) <= _ALL)
        self._each = next(fitting, _EACH[-1])

    def line(self, text: str, limit: int = _FACT) -> str:
        """Running text on one line."""
        text = self._redact(text)
        text = text if len(text) <= limit else f"{text[: limit - 1]}…"
        return printable(" ".join(text.split("\n")) if limit == _TITLE else text)

    def _lines(self, text: str, limit: int = _FACT) -> str:
        return _visible(clip(self._redact(text), limit))

    def _text(self, text: str) -> str:
        """A long text, whose middle may be left out."""
        text = self._redact(text)
        if len(text) > self._each:
            self._cut += 1
            text = clip(text, self._each)
        return _visible(text)

    def _within(self) -> dict[int, tuple[int, ViewedStep]]:
        """The steps that are shown by their identities, each with its place: the upper first."""
        waiting, shown = deque([self._run.root]), set[int]()
        total = sum(1 for _ in self._run.root.walk())
        while waiting and len(shown) < _STEPS:
            step = waiting.popleft()
            shown.add(id(step))
            waiting += step.children
        if total > len(shown):
            omission = f"{total - len(shown):,} of {total:,} steps, the lowest ones"
            self.left_out.append(omission)
        walked = (step for _, step in self._run.root.walk() if id(step) in shown)
        return {id(step): (row, step) for row, step in enumerate(walked)}

    def record(self) -> dict[str, Any]:
        run = self._run
        steps = list(self._steps())
        record = {
            "version": __version__,
            "id": run.run_id,
            "pipeline": run.pipeline,
            "title": self.line(run.title, _TITLE),
            "goal": self._lines(run.title),
            "status": run.status,
            "ended": run.has_ended,
            "summary": self._lines(run.summary),
            "began": run.began,
            "facts": [[name, self._lines(value)] for name, value in run.facts],
            "budgets": dict(run.budgets),
            "steps": steps,
            "findings": [self._finding(finding) for finding in self._findings()],
            "argued": wording.argued(sum(map(_is_argued, run.findings))),
            "documents": [
                [
                    self.line(text_in(document, "path"), _TITLE),
                    self._text(text_in(document, "text")),
                ]
                for document in run.documents
            ],
            "diffs": [
                [self.line(title, _TITLE), self._text(patch)]
                for title, patch in self._some(run.diffs, _DIFFS, "diffs")
            ],
            "events": [
                [round(at, 3), self.line(event, _TITLE)]
                for at, event in self._some(run.events, _EVENTS, "events")
            ],
            "problems": [self.line(problem) for problem in run.problems],
        }
        if self._cut:
            remark = f"at most {self._each:,} characters of each are shown"
            self.left_out.append(f"the middle of {count(self._cut, 'long text')}: {remark}")
        return {**record, "left_out": self.left_out}

    def _some(self, many: tuple[Any, ...], limit: int, name: str) -> Iterable[Any]:
        if len(many) > limit:
            self.left_out.append(f"{len(many) - limit:,} of {len(many):,} {name}")
        return many[:limit]

    def _steps(self) -> Iterable[list[Any]]:
        """Each step as a row; children follow their parent, whose place each names."""
        above = {id(child): row for row, step in self._kept.values() for child in step.children}
        for step in (step for _, step in self._kept.values()):
            hidden = sum(id(child) not in self._kept for child in step.children)
            facts = [[name, self._lines(value)] for name, value in step.facts]
            facts += [["not shown", f"{count(hidden, 'step')} below"]] if hidden else []
            yield [
                above.get(id(step), -1),
                step.kind,
                self.line(step.title, _TITLE),
                step.status,
                _rounded(step.start),
                _rounded(step.seconds),
                step.calls,
                step.prompt_tokens,
                step.completion_tokens,
                step.cost,
                step.order,
                self.line(step.model, _TITLE),
                facts,
                [[text.label, self._text(text.text), text.form] for text in step.texts],
            ]

    def _findings(self) -> list[Mapping[str, Any]]:
        """Those that are only argued come last, and people need no more than some of them."""
        argued = sorted(filter(_is_argued, self._run.findings), key=_surest_first)
        others = tuple(finding for finding in self._run.findings if not _is_argued(finding))
        return [*self._some(others, _FINDINGS, "findings"), *argued[: wording.ARGUED_SHOWN]]

    def _finding(self, row: Mapping[str, Any]) -> dict[str, Any]:
        by = self._finders.get(_identity(row), [])
        finding: dict[str, Any] = {name: self._lines(text_in(row, name)) for name in _FINDING}
        places = [self._location(location) for location in mappings_in(row, "evidence")[:_PLACES]]
        fix = fixes_and_proofs.pieces(text_in(row, "suggested_fix"))
        if len(fix) == 1:  # what is copied is the code, without its fence
            finding["suggested_fix"] = self._text(fix[0][1])
        recorded = row.get("proof")
        proof = None
        if isinstance(recorded, dict):
            proof = {name: self._text(text_in(recorded, name)) for name in _PROOF}
        return {
            **finding,
            "confidence": number_in(row, "confidence"),
            "places": places,
            "steps": by,
            "proof": proof,
            "argued": _is_argued(row),
        }

    def _location(self, location: Mapping[str, Any]) -> dict[str, Any]:
        start, end = (number_in(location, name) for name in ("line_start", "line_end"))
        key = (text_in(location, "path"), int(start or 0), int(end or 0))
        before, after = self._run.around.get(key, ((), ()))
        return {
            "path": self.line(key[0], _TITLE),
            "start": start,
            "end": end,
            "quote": self._lines(text_in(location, "quote"), _QUOTE),
            "before": [self.line(line) for line in before],
            "after": [self.line(line) for line in after],
        }


def _surest_first(row: Mapping[str, Any]) -> tuple[bool, float]:
    stated = row.get("confidence")
    confidence = float(stated) if isinstance(stated, int | float) else 0.0
    return wording.order_of_argued(text_in(row, "domain"), confidence)


def _is_argued(finding: Mapping[str, Any]) -> bool:
    proof = finding.get("proof")
    is_open = finding.get("suppression") is None
    return isinstance(proof, dict) and text_in(proof, "level") == ARGUED and is_open


def _identity(finding: Mapping[str, Any]) -> tuple[str, str, float | None]:
    """What tells a finding from others, in the record of a step and in the report."""
    location = next(iter(mappings_in(finding, "evidence")), {})
    return text_in(finding, "rule"), text_in(location, "path"), number_in(location, "line_start")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _visible(text: str) -> str:
    """A text whose lines stay lines, with what cannot be seen written out."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines)
