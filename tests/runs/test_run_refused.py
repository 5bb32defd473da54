"""A run that was let go on, and could not for something that is wrong outside of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import ConfigError, DamagedError, LimitError, RlmCiError, UsageError
from rlm_ci.runs import manifest as manifests

if TYPE_CHECKING:
    from testing.run_store import Place

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")

ENDS = (
    ("failed", 3, "paused"),
    ("failed", 3, "max_calls"),
    ("failed", 8, None),
    ("cancelled", 130, "interrupted"),
)


@pytest.mark.parametrize("error", [ConfigError("no key"), UsageError("no such flag")])
@pytest.mark.parametrize(("status", "code", "detail"), ENDS)
def test_what_is_refused_leaves_it_as_it_was(
    place: Place, error: RlmCiError, status: str, code: int, detail: str | None
) -> None:
    with place.create() as run:
        run.begin()
        run.finish(status, exit_code=code, summary="so far", detail=detail)
        path = run.path
    for _ in range(2):
        with place.open(path) as run:
            run.raised = detail == "max_calls"
            run.begin()
            assert run.stop(error) is None
        found = manifests.read(path)
        assert (found.status, found.exit_code, found.status_detail) == (status, code, detail)
        assert found.summary == "so far"
        assert found.is_resumable or found.spent_budget == detail


def test_one_whose_process_was_gone_waits(place: Place) -> None:
    with place.create() as run:
        run.begin()
        path = run.path
    with place.open(path) as run:
        run.begin()
        run.stop(ConfigError("no key"))
        assert (run.manifest.status, run.manifest.exit_code) == ("failed", 5)
        assert run.manifest.is_resumable
        assert run.manifest.summary == "no key"


@pytest.mark.parametrize("error", [LimitError("spent", budget="max_calls"), DamagedError("torn")])
def test_what_went_wrong_in_it_ends_it(place: Place, error: RlmCiError) -> None:
    with place.create() as run:
        run.begin()
        run.finish("cancelled", exit_code=130, detail="interrupted")
        path = run.path
    with place.open(path) as run:
        run.begin()
        run.stop(error)
        assert (run.manifest.status, run.manifest.exit_code) == ("failed", error.code)


def test_one_that_was_just_begun_ends_by_it(place: Place) -> None:
    with place.create() as run:
        run.begin()
        run.stop(ConfigError("no key"))
        assert not run.manifest.is_resumable
