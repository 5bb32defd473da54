"""What a model has shown of itself: how many bytes a token has, and how many tokens it reads.

``endpoints.json`` beside the runs keeps it for later ones. Its figures only decide how long prompts
are; what is no such file counts as none.
"""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress
from hashlib import sha256

from rlm_ci.errors import StorageError
from rlm_ci.models import context_length
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Its name in the folder of all runs, its version and most bytes.
FILE = "endpoints.json"
_VERSION = 1
_LIMIT = 1 << 20
#: Models that it has, the latest, and for how many seconds what they read counts: a week. Then a
#: server may have been started with another context.
_MODELS = 100
_VALID = 7 * 86_400
#: Bytes of a prompt whose tokens say something: a template adds some to each.
_COUNTED = 2_000
#: A density that is written replaces one that differs by more, so that prompts stay the same.
_SAME = 0.2
#: No text has more bytes a token.
_MOST = 1_000


class ModelFigures(Value):
    """The bytes of a token, and the tokens that the model reads; None for what is not known."""

    bytes_per_token: float | None = None
    context_tokens: int | None = None


NO_FIGURES = ModelFigures()


class EndpointFigures:
    """The figures of one model at one endpoint, for all threads of a run.

    ``folder`` is that of all runs, "" to keep nothing.
    """

    def __init__(
        self, folder: str, base_url: str, model: str, now: Callable[[], float] = time.time
    ) -> None:
        self._path = os.path.join(folder, FILE) if folder else ""
        # An address may hold a secret.
        self._key = sha256(f"{base_url}\0{model}".encode()).hexdigest()[:32]
        self._model, self._now = model, now
        self._lock = threading.Lock()
        #: Those of earlier runs, and what is written for later ones.
        self.stored = self._read()
        self._size = self._tokens = 0
        self._refused: int | None = None
        #: Held by the one part of a run that asks before the model has shown anything.
        self.first = threading.Lock()
        self.is_asked = False

    @property
    def shown(self) -> ModelFigures:
        """The bytes of a token, else those of an earlier run; and what this run had refused."""
        with self._lock:
            ratio = self.stored.bytes_per_token
            if self._tokens:
                ratio = round(self._size / self._tokens, 3)
            return ModelFigures(ratio, self._refused)

    def count(self, size: int, tokens: int) -> None:
        """Take the ``tokens`` that the endpoint has counted in a prompt of ``size`` bytes."""
        if size < _COUNTED or tokens < 1:
            return
        with self._lock:
            self._size, self._tokens = self._size + size, self._tokens + tokens
            ratio, before = self._size / self._tokens, self.stored.bytes_per_token
            if before is None or abs(before - ratio) > _SAME:
                self._keep(self.stored.replace(bytes_per_token=round(ratio, 1)))

    def refuse(self, tokens: int) -> None:
        """Take the ``tokens`` that a refusal says the model reads."""
        with self._lock:
            self._refused = tokens
            if self.stored.context_tokens != tokens:
                self._keep(self.stored.replace(context_tokens=tokens))

    def _read(self) -> ModelFigures:
        row = self._rows().get(self._key)
        if not isinstance(row, dict):
            return NO_FIGURES
        ratio, tokens, at = map(row.get, ("bytes_per_token", "context_tokens", "at"))
        is_valid = type(at) is int and 0 <= self._now() - at < _VALID
        return ModelFigures(
            ratio if isinstance(ratio, float) and 0 < ratio < _MOST else None,
            tokens if is_valid and context_length.is_context(tokens) else None,
        )

    def _rows(self) -> dict[str, Any]:
        data = files.read_or_none(self._path, _LIMIT) if self._path else None
        if data is None:
            return {}
        with suppress(ValueError, RecursionError):
            value = json.loads(data)
            if isinstance(value, dict) and value.get("version") == _VERSION:
                rows = value.get("models")
                return rows if isinstance(rows, dict) else {}
        return {}

    def _keep(self, figures: ModelFigures) -> None:
        """Write the figures for later runs; what cannot be written is learned again."""
        self.stored = figures
        if not self._path:
            return
        rows = self._rows()
        rows.pop(self._key, None)
        row = {"model": self._model, "at": int(self._now()), **figures.to_dict()}
        latest = [*rows.items()][-_MODELS + 1 :]
        models = {**dict(latest), self._key: row}
        text = json.dumps({"version": _VERSION, "models": models}, indent=1)
        with suppress(StorageError):
            files.write(self._path, f"{text}\n".encode(), 0o600)
