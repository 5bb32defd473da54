#!/usr/bin/env python3
"""Says whether rlm-ci behaved in ``make demo`` as it should; called by ``demo.sh``.

    judge_demo.py own OUT CODE            any verdict, if the exit code agrees with it
    judge_demo.py example OUT CODE REPO   the example: exactly the rules that it breaks
    judge_demo.py mend OUT CODE REPO      a fix: green, in the work tree, and the tests do pass
    judge_demo.py cheat OUT CODE REPO     tests that cannot fail: found, and the work tree as it was

``OUT`` is the folder that rlm-ci wrote its report to, ``CODE`` what it ended with. Prints what
differs and ends with 1, else ends with 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import demo_shop as shop

_CODES = {"clean": 0, "findings": 1, "incomplete": 3}
_FILES = ("report.json", "comment.md", "report.sarif", "report.html")


def _load(out: Path, code: int) -> tuple[dict[str, Any], list[str]]:
    """The report, and what is wrong with the run that wrote it."""
    absent = ", ".join(name for name in _FILES if not (out / name).is_file())
    if absent:
        return {}, [f"it ended with {code} and did not write {absent}"]
    report: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    expected = _CODES.get(report["verdict"])
    if code != expected:
        return report, [f"the report says {report['verdict']}, the exit code was {code}"]
    return report, []


def _counted(repository: str, subject: dict[str, Any]) -> tuple[int, int]:
    """Files and lines of the change as git counts them, less the two that main has ignored."""
    commits = f"{subject['base']}...{subject['head']}"
    argv = ["git", "-C", repository, "diff", "--numstat", "-M", commits]
    rows = subprocess.run(argv, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    counted = [row.split("\t") for row in rows if not row.endswith(("uv.lock", "htmx.js"))]
    return len(counted), sum(int(added) + int(deleted) for added, deleted, _ in counted)


def _differences(report: dict[str, Any], repository: str) -> list[str]:
    """What the example's report says that it should not, or fails to say."""
    expected = set(shop.EXPECTED_RULES)
    found = {
        finding["rule"]
        for finding in report["findings"]
        # Where ruff is installed, it has its say as well: nothing in the example is grave to it.
        if finding["suppression"] is None
        and not (finding["rule"].startswith("review/") and finding["severity"] in ("info", "low"))
    }
    wrong = [f"{rule} was not found" for rule in sorted(expected - found)]
    wrong += [f"{rule} was found, and nothing breaks it" for rule in sorted(found - expected)]
    budget = next(part["metrics"] for part in report["parts"] if part["id"] == "diff-budget")
    if (limits := (budget["max_files"], budget["max_lines"])) != (25, 1200):
        wrong.append(f"the branch's own limits were used: {limits}")
    measured = budget["files"], budget["lines"]
    if (counted := _counted(repository, report["subject"])) != measured:
        wrong.append(f"measured {measured} files and lines, git counts {counted}")
    return wrong


def _status(report: dict[str, Any]) -> str:
    """How the fix loop of the report ended."""
    return next(str(part["metrics"]["status"]) for part in report["parts"] if part["id"] == "rlm")


def _mended(report: dict[str, Any], out: Path, repository: str) -> list[str]:
    """What is wrong with a fix that should be in the work tree."""
    wrong = [] if _status(report) == "passed" else [f"the loop ended with {_status(report)}"]
    argv = [sys.executable, "-m", "unittest", "--quiet"]
    if subprocess.run(argv, cwd=repository, capture_output=True, check=False).returncode:
        wrong.append("the tests fail in the work tree")
    patch = out / "rlm" / "result.patch"
    undo = ["git", "-C", repository, "apply", "--check", "--reverse", str(patch)]
    if subprocess.run(undo, capture_output=True, check=False).returncode:
        wrong.append("result.patch is not what is in the work tree")
    return wrong


def _refused(report: dict[str, Any], repository: str) -> list[str]:
    """What is wrong with a fix that must not be taken over."""
    wrong = [] if _status(report) == "tampered" else [f"the loop ended with {_status(report)}"]
    if "tamper/disarmed" not in {finding["rule"] for finding in report["findings"]}:
        wrong.append("tamper/disarmed was not found")
    argv = ["git", "-C", repository, "diff", "--name-only", "HEAD"]
    changed = subprocess.run(argv, capture_output=True, check=True, text=True).stdout.split()
    if changed:
        wrong.append(f"the work tree was changed: {', '.join(changed)}")
    return wrong


def main(arguments: list[str]) -> int:
    what, out, code, *repository = arguments
    report, wrong = _load(Path(out), int(code))
    if what == "example" and not wrong:
        if report["verdict"] != "findings":
            wrong.append(f"the verdict is {report['verdict']}, not findings")
        wrong += _differences(report, *repository)
    elif what == "mend" and not wrong:
        wrong += _mended(report, Path(out), *repository)
    elif what == "cheat" and not wrong:
        wrong += _refused(report, *repository)
    for line in wrong:
        print(f"differs: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
