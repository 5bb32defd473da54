"""A manifest is read strictly, and means the same to us as to its published schema."""

from __future__ import annotations

import json
import os
import stat
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from rlm_ci.errors import DamagedError
from rlm_ci.resources import loader
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.manifest import ChildRun, Manifest, Recorder, StepRecord

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_800_000_000.25
AT = "2027-01-15T08:00:00.250Z"
BEGUN = Manifest("t", "r", "ci", AT, AT, ".runs/t/cli/r", ".runs/t/cli/r/runner.log")
FULL = BEGUN.replace(
    status="succeeded",
    completed_at=AT,
    exit_code=0,
    summary="all is well",
    sandbox="bubblewrap",
    commands=(StepRecord(0, "a", "A", "true", exit_code=0, status="succeeded", started_at=AT),),
    child_runs=(ChildRun("r2", "sub", "failed", ".runs/t/cli/r2/manifest.json"),),
)
RECORDER = Recorder("Claude Code", "2.1.197", "s-1", "a9d7", "Explore", "0" * 64, 1200)
RECORDED = FULL.replace(recorded_by=RECORDER, exit_code=None)


def schema_takes(record: object) -> bool:
    validator = jsonschema.Draft202012Validator(loader.read_schema("manifest.schema.json"))
    return validator.is_valid(record)


def we_take(record: object) -> bool:
    try:
        manifests.from_record(record, "here")
    except DamagedError:
        return False
    return True


@pytest.mark.parametrize(
    "manifest",
    [
        BEGUN,
        FULL,
        FULL.replace(status="cancelled"),
        FULL.replace(allowed=("tamper/mode",)),
        RECORDED,
        FULL.replace(recorded_by=RECORDER.replace(version=None, transcript_sha256=None)),
    ],
)
def test_it_comes_back_as_it_was_written(tmp_path: Path, manifest: Manifest) -> None:
    manifests.write(str(tmp_path), manifest)
    assert manifests.read(str(tmp_path)) == manifest
    assert stat.S_IMODE((tmp_path / "manifest.json").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["manifest.json"]
    assert schema_takes(json.loads((tmp_path / "manifest.json").read_text()))


def places(record: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value in ``record``."""
    found = [way] if way else []
    if isinstance(record, (dict, list)):
        inner = record.items() if isinstance(record, dict) else enumerate(record)
        for key, value in inner:
            found += places(value, (*way, key))
    return found


def changed(way: tuple[Any, ...], value: Any) -> Any:
    record = deepcopy(RECORDED.to_dict())
    inner = record
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = value
    return record


ODD: tuple[Any, ...] = (
    None, True, 0, 1, -1, 7.5, 1 << 60, "", "x", "succeeded", "queued", "running", "subpipeline",
    AT, "2027-01-15", "2027-01-15T08:00:00", "2027-01-15T08:00:00Z\n", "2027-13-15T08:00:00Z",
    "x" * 70_000, [], {}, [[]], [{}],
)  # fmt: skip


@pytest.mark.parametrize("way", places(RECORDED.to_dict()), ids=str)
def test_we_and_the_schema_agree_on_every_odd_value(way: tuple[Any, ...]) -> None:
    for value in ODD:
        record = changed(way, value)
        if value == "2027-13-15T08:00:00Z":  # a pattern knows no calendar
            continue
        assert we_take(record) == schema_takes(record), (way, value)


def test_no_month_is_the_thirteenth() -> None:
    assert not we_take(changed(("started_at",), "2027-13-15T08:00:00Z"))


def test_every_key_is_needed_and_no_other_is_known() -> None:
    record = FULL.to_dict()
    for name in record:
        less = {key: value for key, value in record.items() if key != name}
        assert not we_take(less), name
        assert not schema_takes(less), name
    assert not we_take(record | {"task_slug": "x"})
    assert not schema_takes(record | {"task_slug": "x"})


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not valid JSON"),
        (b"[]", "is not valid: expected an object, got a list"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 200_000, "not valid JSON"),
        (b'{"version": 2}', "has version 2, this rlm-ci knows 1"),
        (b'{"version": 1}', "is not valid: task_id: it is missing"),
        (b'{"version": true}', "version: expected one of 1, got true or false"),
        (b'"' + b"x" * (5 << 20), "bytes, more than"),
        (None, "it does not exist"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_damage_is_named_with_its_file(tmp_path: Path, data: bytes | None, what: str) -> None:
    if data is not None:
        (tmp_path / "manifest.json").write_bytes(data)
    with pytest.raises(DamagedError, match=what) as caught:
        manifests.read(str(tmp_path))
    assert caught.value.where == str(tmp_path / "manifest.json")
    assert caught.value.hint
    assert str(caught.value).isprintable()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    manifests.write(str(tmp_path), FULL)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").symlink_to(tmp_path / "manifest.json")
    with pytest.raises(DamagedError, match="a link"):
        manifests.read(str(tmp_path / "run"))


@pytest.mark.parametrize(
    ("before", "code", "detail", "after", "allowed"),
    [
        ("queued", None, None, "in_progress", True),
        ("queued", None, None, "succeeded", False),
        ("queued", None, None, "cancelled", True),
        ("in_progress", None, None, "in_progress", True),
        ("in_progress", None, None, "queued", False),
        ("succeeded", 0, None, "in_progress", False),
        ("succeeded", 0, None, "failed", False),
        ("cancelled", 143, "interrupted", "in_progress", True),
        ("cancelled", 143, "interrupted", "cancelled", True),
        ("cancelled", 143, "cancelled", "in_progress", False),
        ("cancelled", 143, "interrupted", "succeeded", False),
        ("failed", 1, None, "in_progress", False),
        ("failed", 8, None, "in_progress", True),
        ("failed", 9, None, "in_progress", True),
        ("failed", 8, None, "succeeded", False),
    ],
)
def test_transitions(
    before: str, code: int | None, detail: str | None, after: str, *, allowed: bool
) -> None:
    ended = AT if before in manifests.ENDED else None
    run = BEGUN.replace(status=before, exit_code=code, status_detail=detail, completed_at=ended)
    if not allowed:
        with pytest.raises(ValueError, match=f"from {before} to {after}"):
            run.moved(after, NOW)
        return
    moved = run.moved(after, NOW)
    assert moved.status == after
    assert moved.updated_at == AT
    assert (moved.completed_at is not None) == (after in manifests.ENDED)
    if after == "in_progress":
        assert (moved.exit_code, moved.status_detail) == (None, None)


def test_times_come_back() -> None:
    assert manifests.timestamp(NOW) == AT
    assert manifests.moment(AT) == NOW
    assert BEGUN.replace(heartbeat_at=AT).silent_for(NOW + 12) == 12
    assert BEGUN.silent_for(NOW - 5) == 0
