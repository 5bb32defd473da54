"""Verifies a question that was answered by code: its prompts, and the citations of its answer.

Code reads all of the text, so nothing can bound what it saw. What models saw is in their prompts:
each must be what was asked, by its hash in the journal. That the answers to the turns' prompts lead
to the same report is checked by repeating the run from its record (``solve/verify_record``).
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from hashlib import sha256

from rlm_ci.ask.citations.citations import cite
from rlm_ci.ask.citations.compare_files import refuted_by
from rlm_ci.ask.citations.shown_text import ShownText
from rlm_ci.ask.compute import FOLDER
from rlm_ci.ask.verify.answer import AnswerCheck
from rlm_ci.ask.verify.artifacts import RunArtifacts, WrongError
from rlm_ci.ask.verify.recorded_answers import MisshapenError, RecordedAnswers
from rlm_ci.environments.repl.environment import is_prompt
from rlm_ci.environments.repl.host.query_log import is_log, place_of, questions
from rlm_ci.environments.repl.host.run_files import LIMIT
from rlm_ci.environments.symbolic.artifacts import FILES, digest
from rlm_ci.errors import DamagedError, StorageError
from rlm_ci.models import ModelRequest
from rlm_ci.models.record.record import completion_key
from rlm_ci.report.findings import Location
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from rlm_ci.context.context import Context

_TURN = "turn-"
#: Problems that are reported at most.
_MOST = 100


class ComputedExposure(Value):
    """What models were shown: ``prompts`` of those that write code, ``subcalls`` of others.

    ``largest`` has the bytes of the longest, ``prompt_bytes`` those of all; ``blocks`` are those of
    code that ran. ``problems`` name the file and what is wrong.
    """

    prompts: int
    subcalls: int
    largest: int
    prompt_bytes: int
    blocks: int
    problems: tuple[str, ...]


def examine(folder: str, context: Context) -> tuple[ComputedExposure, AnswerCheck]:
    """Check the files in ``folder``, the ``rlm/`` of a run, with the journal beside it.

    Raises StorageError, DamagedError for a file that no run has written.
    """
    return _Examination(folder, context).run()


class _Examination:
    def __init__(self, folder: str, context: Context) -> None:
        self._run = os.path.dirname(os.path.abspath(folder))
        self._context = context
        self._files = RunArtifacts(self._run, context)
        self._answers = RecordedAnswers()
        self._problems: list[str] = []
        self._sizes: list[int] = []
        self._turns = 0

    def run(self) -> tuple[ComputedExposure, AnswerCheck]:
        try:
            self._answers = RecordedAnswers.read(os.path.join(self._run, "rlm"))
        except MisshapenError:
            raise
        except (DamagedError, StorageError) as error:
            self._problems.append(printable(str(error)))
        for path in self._prompts():
            if is_log(path):
                self._check_log(path)
            else:
                self._check(os.path.dirname(path))
        exposure = ComputedExposure(
            self._turns,
            len(self._sizes) - self._turns,
            max(self._sizes, default=0),
            sum(self._sizes),
            sum(place.startswith(f"{FOLDER}/") for place in self._answers.blocks),
            tuple(self._problems[:_MOST]),
        )
        return exposure, self._cited()

    def _problem(self, place: str, what: str) -> None:
        self._problems.append(printable(f"{place}: {what}"))

    def _prompts(self) -> list[str]:
        """The prompts of turns and of blocks' questions; a killed block may have left others."""
        turns = (one for one in self._answers.keys if one.startswith(f"{FOLDER}/{_TURN}"))
        found = {f"{place}/{FILES['prompt']}" for place in turns}
        for told in self._own_blocks().values():
            found.update(path for path in told["files"] if is_prompt(path))
        return sorted(found)

    def _own_blocks(self) -> dict[int, Mapping[str, Any]]:
        """The blocks of the run itself, by number: each names the files of its children, too."""
        return {
            int(number): told
            for place, told in self._answers.blocks.items()
            if (number := place.removeprefix(f"{FOLDER}/block-")).isdecimal()
        }

    def _check(self, place: str) -> None:
        """A question with a folder of its own: a turn's; of an older run also that of a block."""
        with self._naming(place):
            meta = self._files.record(f"{place}/{FILES['meta']}")
            prompt = self._files.as_told(f"{place}/{FILES['prompt']}", meta["prompt"])
            self._files.as_told(f"{place}/{FILES['output']}", meta["output"])
            self._compare(place, prompt, meta)

    def _check_log(self, path: str) -> None:
        """The questions of a block."""
        with self._naming(path):
            data = self._files.bytes_of(path, LIMIT)
            written = {told["files"].get(path) for told in self._own_blocks().values()}
            if sha256(data).hexdigest() not in written:
                raise WrongError(f"{path} is not what was written")
            for one in questions(data):
                place = place_of(path, one)
                with self._naming(place):
                    meta = {**one, "output": digest(one["output"].encode())}
                    self._compare(place, one["prompt"].encode(), meta)

    @contextmanager
    def _naming(self, place: str) -> Iterator[None]:
        """Make what is wrong at ``place`` a problem."""
        try:
            yield
        except WrongError as error:
            self._problem(place, str(error))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            self._problem(place, f"it is not as it was written ({type(error).__name__})")

    def _compare(self, place: str, prompt: bytes, meta: Mapping[str, Any]) -> None:
        """Compare a question to the journal. Raises WrongError."""
        if meta["finish_reason"] is None:  # no model has answered; perhaps a child has
            return
        if not self._answers.has(place, meta):
            raise WrongError("it names an answer that is not in the journal")
        self._sizes.append(len(prompt))
        if place.rpartition("/")[2].startswith(_TURN):
            self._turns += 1
        elif self._key(meta["asked"], prompt.decode()) not in self._answers.keys[place]:
            raise WrongError("its prompt is not what was asked")

    def _key(self, model: str, prompt: str) -> str:
        terms = self._answers.terms or {}
        messages = ({"role": "user", "content": prompt},)
        request = ModelRequest(model, messages, terms["max_completion_tokens"])
        return completion_key(terms["provider"], request)

    def _cited(self) -> AnswerCheck:
        """The citations of the last answer that code has given."""
        own = self._own_blocks()
        answer = own[max(own)]["answer"] if own else None
        if not answer:
            return AnswerCheck(None, (), ())
        seen = ShownText(self._context, self._run, self._prompts()).parts
        refute = refuted_by(self._answers.refuted)
        cited = cite(answer, self._context, seen, refute=refute)
        held = tuple(Location.from_dict(place.to_dict()) for place in cited.locations)
        return AnswerCheck(cited.verified, held, (), cited.offered - cited.verified)
