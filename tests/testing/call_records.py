"""A journal of calls, and what the tests of it know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from rlm_ci.models.record.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping


ROOT = Path(__file__).parents[2]
SCHEMA = jsonschema_rs.validator_for(json.loads((ROOT / "schemas/calls.schema.json").read_text()))
DIME = {"m-1": {"input_per_million": 0, "output_per_million": 100}}
SECRET = "hunter2-hunter2"


def plain(text: str) -> str:
    return text


def opened(path: Path, **more: Any) -> Record:
    return Record.open(str(path), **{"redact": plain, **more})


def never() -> Mapping[str, Any]:
    raise AssertionError("this was answered before")


def lines(path: Path) -> list[dict[str, Any]]:
    """What stands in a journal; each line is held against the schema."""
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    for record in found:
        SCHEMA.validate(record)
    return found
