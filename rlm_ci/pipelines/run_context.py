"""The context of a run: an object built from what the settings name, and found again."""

from __future__ import annotations

import io
import os
import sys

from rlm_ci.context.builder.build import POINTERS, EmptyError, build
from rlm_ci.context.builder.gather import NoTextError
from rlm_ci.context.context import Context
from rlm_ci.context.own_files import is_object
from rlm_ci.errors import ConfigError, DamagedError, RlmCiError
from rlm_ci.pipelines.attempt import NoContextError
from rlm_ci.system import files
from rlm_ci.text.encodings import BYTES
from rlm_ci.text.printable import encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, BinaryIO

    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.attempt import PipelineJob
    from rlm_ci.runs.run import Run

STDIN = "-"
_POINTERS_LIMIT = 64 << 20


class RunContext:
    """The context of ``run``. ``step`` shows that it is read.

    ``is_adopted``: it was given as an object, with a table of files from elsewhere.
    """

    def __init__(
        self, work: PipelineJob, run: Run, record: Record, step: Callable[[str], None]
    ) -> None:
        self.is_adopted = False
        self._work = work
        self._run = run
        self._record = record
        self._step = step

    def open(self, text: str, *, required: bool) -> Context:
        """The object that the settings name, or of ``text``; it is the one that the run began with.

        Raises NoContextError where there is none, unless it is ``required``; DamagedError.
        """
        folder = self._run.path_of("rlm", "context")
        new_context = None

        def produce() -> Mapping[str, Any]:
            nonlocal new_context
            try:
                new_context = self._built(folder, text)
                self._hide_names(folder)
            except (EmptyError, NoTextError):  # what was named is an error in any mode
                raise
            except RlmCiError as error:
                if required or not isinstance(error, ConfigError | DamagedError):
                    raise
                return {"object_id": None, "why": str(error)}
            source = self._work.settings.context.source
            adopted = bool(source) and source != STDIN and is_object(os.path.abspath(source))
            return {
                "object_id": new_context.object_id,
                "stamp": new_context.stamp(),
                "adopted": adopted,
                "notes": list(new_context.notes),
            }

        fact = self._record.fact("context", "start", {}, produce)
        self.is_adopted = fact.get("adopted", False)
        if fact["object_id"] is None:
            raise NoContextError(fact["why"])
        if new_context is not None:
            return new_context
        context = self._again(folder, fact)
        # A run from before there were notes has none in its prompts.
        context.notes = tuple(fact.get("notes", ()))
        return context

    def _again(self, folder: str, recorded: Mapping[str, Any]) -> Context:
        """The context that the record knows. Raises DamagedError for another one."""
        if self._work.replay:
            replayed = os.path.join(os.path.dirname(self._work.replay), "rlm", "context")
            context = build(replayed, folder, adopt=True)
        else:
            context = Context.open(folder)
        if context.object_id != recorded["object_id"]:
            context.close()
            raise DamagedError(
                "the context is not the one that the run began with",
                where=folder,
                hint="restore it, or start a new run",
            )
        if not self._work.replay and context.stamp() != recorded["stamp"]:
            context.verify()
        return context

    def _built(self, folder: str, text: str) -> Context:
        """The object of the source, or of the text; a killed process leaves a whole one or none."""
        if is_object(folder):
            context = Context.open(folder)
            context.verify()
            return context
        settings = self._work.settings
        self._step("reading the context")
        source = settings.context.source
        return build(
            self._opened(source) if source else io.BytesIO(encodable(text).encode()),
            folder,
            target_bytes=settings.context.target_bytes,
            overlap_bytes=settings.context.overlap_bytes,
            root=self._work.repository.root,
            without=self._work.skipped,
            required=True,
            adopt=True,
            encoding=settings.context.encoding if source else BYTES,
            environ=settings.environ,
        )

    def _hide_names(self, folder: str) -> None:
        """Redact the list of pointers, which is for people; the index keeps names as they are."""
        try:
            listed = files.read(os.path.join(folder, POINTERS), _POINTERS_LIMIT).decode()
        except (files.UnreadableError, ValueError):  # nothing needs it
            return
        clean = self._run.redactor.text(listed)
        if clean != listed:
            path = self._run.path_of("rlm", "context", POINTERS)
            files.write(path, clean.encode(), 0o600)

    def _opened(self, source: str) -> Any:
        if source != STDIN:
            return _from_here(os.path.abspath(source))
        if sys.stdin is None or sys.stdin.isatty() or not _holds_any(sys.stdin.buffer):
            raise ConfigError(
                "the context is to come from standard input, and nothing is there",
                where=self._work.settings.sources["context.source"],
                hint="pipe a text into rlm-ci, or name a file; a run that is resumed has no input",
            )
        return sys.stdin.buffer


def _from_here(path: str) -> str:
    """The path relative to the working folder, unless they share nothing: a model need not know
    where on the machine it is.
    """
    cwd = os.getcwd()
    steps = os.path.relpath(path, cwd)
    up = steps.split(os.sep).count(os.pardir)
    return steps if up < len(cwd.strip(os.sep).split(os.sep)) else path


def _holds_any(stream: BinaryIO) -> bool:
    """Whether a byte follows; waits for it. Errors are left to the reader."""
    try:
        return not isinstance(stream, io.BufferedReader) or bool(stream.peek(1))
    except OSError:
        return True
