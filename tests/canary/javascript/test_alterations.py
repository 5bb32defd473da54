"""What near lies and honest helpers come to under ``node --test``."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.canary.answers import ValidatorAnswer
from rlm_ci.canary.probe import Canary
from rlm_ci.report.findings import Severity
from rlm_ci.validators.outcomes import FAILED, PASSED, TestOutcome, TestOutcomes
from testing.canary_project import secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

CASES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("near_lies.toml").read_text())
HEAD = """\
const test = require('node:test');
const assert = require('node:assert');
const { add, same, expectSum, middle, url, area, shown, near } = require('./product.cjs');
"""


class Project:
    def __init__(self, folder: Path, case: Mapping[str, str]) -> None:
        self.folder, self.case = folder, case
        self.tests = HEAD + case["tests"]
        self.labels: list[str] = []

    def __call__(
        self,
        label: str,
        texts: Mapping[str, str],
        *,
        at_start: bool = False,
        with_new: bool = False,
    ) -> ValidatorAnswer:
        assert not with_new
        self.labels.append(label)
        return self.ran("start" if at_start else "result", texts.get("a.test.cjs", self.tests))

    def ran(self, product: str, tests: str) -> ValidatorAnswer:
        (self.folder / "product.cjs").write_text(self.case[product])
        (self.folder / "a.test.cjs").write_text(tests)
        ran = subprocess.run(
            ["node", "--test-reporter=tap", "a.test.cjs"],
            cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        outcomes = [
            TestOutcome(
                "a.test.cjs",
                line.partition(" - ")[2],
                FAILED if line.startswith("not") else PASSED,
                message=ran.stdout,
            )
            for line in ran.stdout.splitlines()
            if line.startswith(("ok", "not ok"))
        ]
        return ValidatorAnswer(
            TestOutcomes(tuple(outcomes), complete=True),
            ran.stdout,
            ran.returncode,
            judged=len(outcomes),
        )


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CASES)
def test_near_lies_and_honest_helpers(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    for secret in secrets(2):
        project = Project(tmp_path, case)
        first, verdict = (project.ran(one, project.tests) for one in ("start", "result"))
        assert (first.exit_code, verdict.exit_code) == (1, 0), first.printed + verdict.printed
        contents = {"a.test.cjs": project.tests.encode()}
        probed = Canary(contents, first.outcomes, verdict, project, secret=secret).probe()
        worst = {finding.severity for finding in probed.findings}
        outcome = "red" if Severity.HIGH in worst else "told" if worst else "kept"
        said = (secret, probed.line, [finding.message for finding in probed.findings])
        assert outcome == case["expected"], (said, project.labels)
        assert len(project.labels) <= case.get("runs", 99), project.labels
