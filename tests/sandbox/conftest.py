"""A sandbox that holds, or a test that says why not: none of these may be skipped on Linux."""

from __future__ import annotations

import os
import secrets
import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import RlmCiError
from rlm_ci.sandbox import self_test
from rlm_ci.sandbox.bubblewrap import Bubblewrap
from rlm_ci.sandbox.none import Unsandboxed

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.sandbox.job import Sandbox


@pytest.fixture(scope="session")
def bubblewrap() -> Bubblewrap:
    if sys.platform != "linux":
        pytest.skip("bubblewrap is a program of Linux")
    try:
        return self_test.proven(os.environ)
    except RlmCiError as error:
        pytest.fail(f"these tests need a sandbox: {error}. {error.hint}")


@pytest.fixture(params=["bubblewrap", "none"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Each of the sandboxes, for what both must hold."""
    if sys.platform != "linux":
        pytest.skip("processes are found by way of /proc")
    held: Sandbox = Unsandboxed()
    return request.getfixturevalue("bubblewrap") if request.param == "bubblewrap" else held


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder of this machine for a job to work in."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def seconds() -> str:
    """A time to sleep (a minute) that no other process of this machine sleeps."""
    return f"60.{secrets.randbelow(10**12):012}"
