"""``rlm-ci doctor --rlms``: one analysis of two small files, to see that it works here.

It must run, answer, and cite a line of a file. Without a model's endpoint, a scripted model answers
in this process: sandbox, budgets and citations are tried, and no model.
"""

from __future__ import annotations

import json
import os

from rlm_ci.errors import ConfigError, RlmCiError
from rlm_ci.fix.rlms.analysis import Analysis, AnalysisContext, AnalysisTask
from rlm_ci.fix.rlms.before_turn import question
from rlm_ci.fix.rlms.trigger import decide, measure
from rlm_ci.fix.roles import RoleBrief
from rlm_ci.git.repository import Repository
from rlm_ci.models import Completion, TokenUsage
from rlm_ci.models.gateway import CONNECTOR, Gateway, context_of
from rlm_ci.models.record.clock import RunClock
from rlm_ci.models.record.record import FILE, Record
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.sandbox import choose
from rlm_ci.system import files
from rlm_ci.text.printable import count
from rlm_ci.values import Value
from rlm_ci.workspace.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.fix.rlms.analysis import AnalysisEnd
    from rlm_ci.fix.rlms.trigger import RlmsOptions
    from rlm_ci.models import ModelRequest
    from rlm_ci.models.gateway import ModelOptions

_FILES = {
    "shop/prices.py": "def total(prices, discount):\n    return sum(prices) + discount\n",
    "shop/till.py": "from shop.prices import total\n\n\ndef pay(bill):\n    return total(bill, 5)",
}
_GOAL = "A discount must lower the total. Find the line that is wrong."
_ANSWER = {
    "summary": "The discount is added, and must be subtracted.",
    "findings": [
        {
            "title": "The discount is added",
            "citations": [{"path": "shop/prices.py", "start_line": 2}],
        }
    ],
}
#: The turns of the scripted model.
_TURNS = (
    "hit = search('+ discount')['hits'][0]\nprint(hit['where'], llm_query(hit['text']))",
    f"FINAL({json.dumps(_ANSWER)!r})",
)
_TOKENS = 4096


class AnalysisTrial(Value):
    """What an analysis that is tried out shows: names and texts; ``problem`` is why it failed."""

    lines: tuple[tuple[str, str], ...]
    problem: RlmCiError | None = None


class _ScriptedModel:
    """Says its turns; a question of the code has one answer."""

    name = CONNECTOR

    def complete(self, request: ModelRequest) -> Completion:
        turns = sum(message["role"] == "assistant" for message in request.messages)
        is_turn = request.messages[0]["role"] == "system"
        text = f"```repl\n{_TURNS[min(turns, 1)]}\n```" if is_turn else "It adds."
        return Completion(text, (), "stop", request.model, TokenUsage(1, 1))


def try_out(
    options: RlmsOptions,
    models: ModelOptions,
    *,
    model: str | None,
    sandbox: str,
    environ: Mapping[str, str],
) -> AnalysisTrial:
    """Carry out the analysis; ``model`` None asks the scripted one."""
    options = options.replace(enabled=True, force_on=True, force_off=False, require_citations=True,
                              roles=options.switches)  # fmt: skip
    try:
        kind = choose(sandbox, environ).name
        with files.scratch("rlm-ci-canary-") as folder:
            copy = _copy(folder, environ)
            redactor = Redactor(environ)
            with Record.open(os.path.join(folder, FILE), redact=redactor.text) as record:
                clock = RunClock(record.fact)
                gateway = Gateway(
                    models, record, clock, model=model or "scripted", max_minutes=None,
                    provider=None if model else CONNECTOR,
                    connector=None if model else _ScriptedModel(),
                )  # fmt: skip
                shared = AnalysisContext(
                    options, gateway, _TOKENS, None, record, clock, redactor, copy, kind, environ,
                    folder, lambda _text: None, context_of(models, model).tokens if model else None,
                )  # fmt: skip
                prompt = question("planner", "planner", RoleBrief(_GOAL, 1), options)
                tree = copy.snapshot.tree
                task = AnalysisTask("rlm/rlms/canary", prompt, tree, tuple(_FILES))
                ended = Analysis(shared, task).run()
            return _judged(ended, _decided(options, copy), model, kind)
    except RlmCiError as error:
        return AnalysisTrial((), error)


def _copy(folder: str, environ: Mapping[str, str]) -> Workspace:
    """The files, as a run has them."""
    top, run = os.path.join(folder, "tree"), os.path.join(folder, "rlm")
    for name, text in _FILES.items():
        path = os.path.join(top, *name.split("/"))
        files.make_folder(os.path.dirname(path), 0o700)
        files.write(path, text.encode(), 0o600)
    files.make_folder(run, 0o700)
    return Workspace(run, Repository(top, None, environ), environ)


def _decided(options: RlmsOptions, copy: Workspace) -> str:
    figures = measure(
        _FILES, copy.entries(copy.snapshot.tree),
        lambda oids: [copy.sizes(oids)[oid] for oid in oids], copy.contents,
    )  # fmt: skip
    decision = decide(options, "planner", figures, requested=False)
    size = f"{count(figures.files, 'file')}, {count(figures.lines, 'line')}"
    return f"{'run' if decision.run else 'skip'} ({decision.reason}), {size}"


def _judged(ended: AnalysisEnd, decided: str, model: str | None, sandbox: str) -> AnalysisTrial:
    requests = (
        f"model {model}"
        if model
        else "scripted in this process, as no endpoint with a model is set up"
    )
    stats = ended.stats
    work = f"{count(stats['steps'], 'step')}, {count(stats['subcalls'], 'sub-call')}"
    lines = [("decision", decided), ("analysis", f"{work}, sandbox {sandbox}; {requests}")]
    answer = ended.answer
    if ended.cause is not None:
        return AnalysisTrial((lines[0],), ended.cause)
    if answer is None:
        message = f"the analysis failed: {ended.error}"
        hint = "try another model, or raise the limit that it names"
        return AnalysisTrial(tuple(lines), ConfigError(message, where=ended.code, hint=hint))
    first = answer.citations[0]
    where = f"{first['path']}:{first['start_line']}"
    citations = f"{answer.verified} of {answer.offered} held, first {where}"
    return AnalysisTrial((*lines, ("citations", citations)))
