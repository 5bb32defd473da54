"""Chat sessions on disk: what was said, the old of it in short.

``<runs>/<task>/sessions/<id>.json``. Each turn is an episode; the session changes at its end.
"""

from __future__ import annotations

import json
import os

from rlm_ci.decoding import DecodeError
from rlm_ci.environments.quoting import quoted, visible
from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.runs import is_task_id
from rlm_ci.system import files
from rlm_ci.system.lock import exclusive
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

#: Beside the folder of a task's runs.
FOLDER = "sessions"
_LIMIT = 16 << 20
#: Summaries that a session keeps, and a prompt shows; characters of one.
_SUMMARIES, _SHOWN_SUMMARIES, _SUMMARY = 20, 4, 2_500
#: Characters of a message in a prompt, and in a summary without a model.
_SAID, _LINE = 4_000, 160
COMPACT = (
    "Summarize this part of a conversation for the one who goes on with it. Keep facts, decisions,"
    " names, numbers and open questions. Answer with at most 12 short bullet points."
)


class CompactionRules(Value):
    """Beyond ``limit`` exchanges, all but the newest ``keep`` become a summary."""

    enabled: bool = True
    limit: int = 6
    keep: int = 4


class ChatTurn(Value):
    """A message and its answer, by the run of an episode; it may have more."""

    _ignores = True

    timestamp: str
    user: str
    assistant: str
    run_id: str


class ChatRecord(Value):
    """What the file of a session needs; it has more, for people."""

    _ignores = True

    histories: tuple[ChatTurn, ...]
    contexts: tuple[str, ...]
    compacted_summaries: tuple[str, ...]


class ChatSession:
    """The session ``session_id`` in ``folder``, that of a task. Raises ConfigError for a bad id."""

    def __init__(self, folder: str, session_id: str) -> None:
        if not is_task_id(session_id):
            raise ConfigError(
                f"{printable(session_id)[:80]!r} is not the id of a session",
                where="session_id",
                hint="use letters, digits, '-', '_' and '.', at most 128",
            )
        self.id = session_id
        self._folder = os.path.join(folder, FOLDER)
        self._path = os.path.join(self._folder, f"{session_id}.json")

    def read(self) -> dict[str, Any] | None:
        """What is kept; None for a session that has not begun. Raises DamagedError."""
        try:
            record: dict[str, Any] = json.loads(files.read(self._path, _LIMIT))
            ChatRecord.from_dict(record)
        except files.UnreadableError as error:
            if error.missing:
                return None
            raise self._damaged(str(error)) from None
        except DecodeError as error:
            raise self._damaged(f"it is not what rlm-ci writes: {error}") from None
        except (ValueError, RecursionError):
            raise self._damaged("it is not JSON") from None
        return record

    def forget(self) -> bool:
        """Remove it; whether there was one. Raises StorageError."""
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise files.storage_error(error, self._path) from None
        return True

    def add(
        self,
        turn: Mapping[str, Any],
        head: Mapping[str, Any],
        rules: CompactionRules,
        summarize: Callable[[str], str],
    ) -> None:
        """Add the turn of a run, or put it in the place of its earlier one, and compact.

        ``summarize`` asks a model, and is "" if it cannot.
        Raises LockedError, StorageError, DamagedError.
        """
        with exclusive(self._folder, "is writing to the sessions of this task"):
            at = turn["timestamp"]
            empty: dict[str, Any] = {"histories": [], "contexts": [], "compacted_summaries": []}
            new = {"session_id": self.id, "created_at": at, **empty}
            record = self.read() or new
            histories: list[Any] = record["histories"]
            record |= {**head, "updated_at": at, "last_run_id": turn["run_id"]}
            run_ids = [history["run_id"] for history in histories]
            if turn["run_id"] in run_ids:  # it has gone on since
                histories[run_ids.index(turn["run_id"])] = dict(turn)
            else:
                record["histories"] = [*histories, dict(turn)]
                record["contexts"] = [*record["contexts"], turn["user"]]
                if rules.enabled:
                    _compact(record, rules, summarize)
            text = json.dumps(record, indent=2)
            files.write(self._path, f"{text}\n".encode(), 0o600)

    def _damaged(self, why: str) -> DamagedError:
        return DamagedError(
            f"the chat session cannot be read: {why}",
            where=self._path,
            hint=f"restore it, or forget it: rlm-ci chat --session-id {self.id} --reset",
        )


def metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    """What ``get_chat_session`` tells of a session."""
    names = ("session_id", "environment", "framework", "created_at", "updated_at", "last_run_id")
    return {
        **{name: record.get(name) for name in names},
        "context_count": len(record["contexts"]),
        "history_count": len(record["histories"]),
        "compacted_count": len(record["compacted_summaries"]),
    }


def told_so_far(session: Mapping[str, Any]) -> str:
    """What was said before, for a prompt; "" at the beginning."""
    summaries = session["summaries"][-_SHOWN_SUMMARIES:]
    parts = [quoted("Earlier, in short", "\n".join(map(str, summaries)))] if summaries else []
    if session["history"]:
        parts.append(quoted("The conversation so far", _dialogue(session["history"], _SAID)))
    return "\n\n".join(parts)


def _compact(
    record: dict[str, Any], rules: CompactionRules, summarize: Callable[[str], str]
) -> None:
    histories = record["histories"]
    if len(histories) <= max(rules.limit, rules.keep):
        return
    old = histories[: -rules.keep]
    prompt = f"{COMPACT}\n\n{quoted('The conversation', _dialogue(old, _SAID))}"
    summary = summarize(prompt).strip() or _dialogue(old, _LINE)
    record["compacted_summaries"] = [*record["compacted_summaries"], summary[:_SUMMARY]][
        -_SUMMARIES:
    ]
    record["histories"] = histories[-rules.keep :]
    record["contexts"] = record["contexts"][-rules.keep :]


def _dialogue(histories: Sequence[Mapping[str, Any]], room: int) -> str:
    return "\n".join(
        f"{who}: {_line(history.get(key, ''), room)}"
        for history in histories
        for who, key in (("User", "user"), ("Assistant", "assistant"))
    )


def _line(text: object, room: int) -> str:
    shown = "\n".join(map(visible, str(text).split("\n")))
    return shown if len(shown) <= room else f"{shown[:room]}…"
