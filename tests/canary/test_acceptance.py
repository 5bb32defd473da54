"""What near lies and honest designs come to, whatever is drawn: each case with several secrets."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rlm_ci.report.findings import Severity
from testing.canary_project import Project, secrets

CASES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("near_lies.toml").read_text())
#: Runs where nothing is in doubt: the three copies.
_COPIES = 3


@pytest.mark.parametrize("name", CASES)
def test_near_lies_and_honest_designs(name: str) -> None:
    case = CASES[name]
    for secret in secrets(10):
        project = Project(case["result"], case["tests"], start=case["start"])
        probed = project.probe(secret)
        worst = {finding.severity for finding in probed.findings}
        outcome = "red" if Severity.HIGH in worst else "told" if worst else "kept"
        said = (secret, probed.line, [finding.message for finding in probed.findings])
        assert outcome == case["expected"], (said, project.labels)
        assert len(project.labels) <= case.get("runs", 99), project.labels
