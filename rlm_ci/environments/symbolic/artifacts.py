"""The files that a question to a model leaves in a run, and their digests in its record."""

from __future__ import annotations

import json
from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.models import Completion
    from rlm_ci.runs import Fact

#: The kind of the fact that holds the digests.
ARTIFACTS = "artifacts"
#: The files, by their names in the record.
FILES: Mapping[str, str] = {
    "input": "input.json", "prompt": "prompt.txt", "output": "output.txt", "meta": "meta.json",
}  # fmt: skip


def vouch(fact: Fact, step: str, written: Mapping[str, bytes]) -> None:
    """Record the digests of the files of the question at ``step``, by name."""
    digests = {name: digest(data) for name, data in written.items()}
    fact(ARTIFACTS, step, digests, lambda: digests)


def answer_meta(completion: Completion | None) -> dict[str, Any]:
    """What a meta.json has of an answer; None for none."""
    return {
        "model": completion and completion.model,
        "finish_reason": completion and completion.finish_reason,
        "usage": completion and completion.usage and completion.usage.to_dict(),
    }


def as_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


def digest(data: bytes) -> dict[str, Any]:
    """The size and SHA-256 of a file, as a meta.json has them."""
    return {"bytes": len(data), "sha256": sha256(data).hexdigest()}
