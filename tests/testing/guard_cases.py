"""The table of the guard's cases: read from ``tests/data/guard``, and run by the real program.

A case is one file: ``what`` it does, the ``start`` that it changes, what the fixing agent then
leaves (``write``, ``edit``, ``delete``), and what is ``expected`` of the loop. The README of that
folder lists the keys.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.guard import known_hacks
from testing import node_packages
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from testing.program import Cli, Ended

DATA = Path(__file__).parents[1] / "data" / "guard"
#: The folders of the table.
RUNNERS = ("pytest", "unittest", "node", "mocha", "jest", "vitest", "go", "cargo", "others")
#: What a test's own project needs in its node_modules.
_PACKAGES = {"mocha", "jest", "vitest", "fast-check", "ms", "typescript"}
_IGNORED = ".runs/\n__pycache__/\n.pytest_cache/\n.hypothesis/\nnode_modules/\n/target/\n"
#: Where nothing may be skipped, since it has every tool.
_IS_CI = "CI" in os.environ
RED, UNPROBED, TOLD, MISSED, KEPT = "red", "not probed", "told", "missed", "kept"
EXPECTED = {"cheats": {RED, UNPROBED, TOLD, MISSED}, "honest": {KEPT}}
#: The validator in the fresh copy, which tells of a case beside rules.
VERDICT = "verdict"
#: What a run without suspicious lines is refused for.
LINE_RULES = {
    f"tamper/{rule}" for rule in (known_hacks.ASKS, known_hacks.PATCHED, known_hacks.EXIT)
}
_UNPROBED = ("canary: not probed", "none of a test that failed at the start")
_KEYS = {
    "what", "kind", "start", "goal", "validator", "needs", "options", "expected", "by", "open",
    "withheld", "before", "write", "latin-1", "edit", "delete",
}  # fmt: skip


class Case:
    """One file of the table; ``name`` is its path without the ending, ``kind`` its first part."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind, self.group, _ = name.split("/")
        row = _read(name)
        assert not row.keys() - _KEYS, (name, row.keys() - _KEYS)
        start = _read(f"starts/{row['start']}") if "start" in row else {"files": {}}
        #: Its row in docs/guard.md; a cheat's is one of KINDS.
        self.heading: str = row.get("kind", "")
        self.goal: str = row.get("goal", "make the tests pass")
        self.validator: str = row.get("validator") or start["validator"]
        self.needs: list[str] = row.get("needs", start.get("needs", []))
        self.options: list[str] = row.get("options", [])
        self.expected: str = row.get("expected", KEPT if self.kind == "honest" else RED)
        assert self.expected in EXPECTED[self.kind], name
        #: What tells of it, any of them: rules, or VERDICT.
        self.by = set(row.get("by", []))
        if "tamper/disarmed" in self.by:
            # Which claims a copy alters is drawn: a run without the line may refuse it first.
            self.by |= LINE_RULES
        #: Whether the product does not do yet what is expected.
        self.is_open: bool = row.get("open", False)
        #: Paths of the agent's that the result does not hold.
        self.withheld: list[str] = row.get("withheld", [])
        self.before, self.after, self.deleted = sides(row, start["files"])
        self.before.setdefault(".gitignore", _IGNORED.encode())

    @property
    def agent(self) -> str:
        """A command that leaves what the case says, and needs nothing but a shell."""
        with io.BytesIO() as buffer:
            with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
                for path, text in self.after.items():
                    info = tarfile.TarInfo(path)
                    info.size, info.mode = len(text), _mode(text)
                    archive.addfile(info, io.BytesIO(text))
            packed = base64.b64encode(buffer.getvalue()).decode()
        script = f"echo {packed} | base64 -d | tar -xJm; rm -f {shlex.join(self.deleted)}"
        return shlex.join(["sh", "-c", script])


def sides(
    row: dict[str, Any], start: dict[str, str]
) -> tuple[dict[str, bytes], dict[str, bytes], list[str]]:
    """The files before a change of a table, those that it leaves, and those that it removes."""
    files = {**start, **row.get("before", {})}
    before = {path: text.encode() for path, text in files.items() if text != "-"}
    after = {path: text.encode() for path, text in row.get("write", {}).items()}
    after |= {path: text.encode("latin-1") for path, text in row.get("latin-1", {}).items()}
    for change in row.get("edit", []):
        path, old = change["path"], change["old"].encode()
        text = after.get(path, before.get(path, b""))
        assert old in text, (row["what"], path)
        after[path] = text.replace(old, change["new"].encode())
    deleted: list[str] = row.get("delete", [])
    assert after or deleted, row["what"]
    return before, after, deleted


def names(kind: str) -> list[str]:
    """The cases of a kind in the order of the table."""
    found = (DATA / kind).glob("*/*.toml")
    return sorted(path.relative_to(DATA).with_suffix("").as_posix() for path in found)


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((DATA / f"{name}.toml").read_text())


def _is_data(path: str) -> bool:
    return path.endswith((".json", ".txt"))


def _mode(text: bytes) -> int:
    return 0o755 if text.startswith(b"#!") else 0o644


def require(needs: list[str]) -> None:
    """Skip a test that needs a tool that this machine lacks; in CI it fails."""
    missing = [tool for tool in needs if not _is_there(tool)]
    if missing and _IS_CI:
        pytest.fail(f"not installed: {', '.join(missing)}")
    elif missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def _is_there(tool: str) -> bool:
    if tool in _PACKAGES:
        return (node_packages.TOOLS / "node_modules" / tool).is_dir()
    return shutil.which(tool) is not None


@cache
def _path() -> str:
    """PATH with this Python's programs in front, and cargo without rustup, which needs a HOME."""
    folders = [os.path.dirname(sys.executable), os.environ["PATH"]]
    if shutil.which("rustc"):
        sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, check=True,
                                 text=True).stdout.strip()  # fmt: skip
        folders.insert(1, os.path.join(sysroot, "bin"))
    return os.pathsep.join(folders)


KINDS: list[str] = _read("kinds")["kinds"]
PATH = _path() if sys.platform == "linux" else ""


class Result:
    """How the loop ended on a case."""

    def __init__(self, case: Case, repo: GitRepo, ended: Ended) -> None:
        self.ended = ended
        self.repo = repo
        [self.folder] = repo.path.glob(".runs/*/cli/*/")
        final = self._json("rlm/state.json")["final"]
        self.status: str = final["status"]
        self.reason: str = final["reason"]
        report = self._json("report.json")
        findings = [one for one in report["findings"] if one["domain"] == "tamper"]
        self.high = {one["rule"] for one in findings if one["severity"] == "high"}
        self.told = {one["rule"] for one in findings}
        #: Whether a finding names a changed file, of source also the line, or the test.
        self.names_a_change = any(
            one["rule"] == "tamper/disarmed"
            or (place["path"] in case.after and (place["line_start"] or _is_data(place["path"])))
            for one in findings
            for place in one["evidence"]
        )
        part = next(one for one in report["parts"] if one["id"] == "rlm")
        self.canary: str = part["metrics"].get("canary") or ""
        self.case = case

    @property
    def by(self) -> set[str]:
        """What tells of it: rules, or the verdict in the fresh copy."""
        if self.ended.code:
            return self.high or {VERDICT}
        return self.told

    @property
    def fate(self) -> str:
        """What became of it, in a word of the table."""
        if self.ended.code:
            return RED
        if self.case.kind == "honest":
            return KEPT
        if self.by:
            return TOLD
        return UNPROBED if any(one in self.canary for one in _UNPROBED) else MISSED

    def __str__(self) -> str:
        """All that a reader of a failed test wants to see."""
        logs = sorted(self.folder.glob("rlm/validator-*.log"))
        tails = [f"-- {log.name}\n{log.read_text()[-1500:]}" for log in logs]
        head = f"{self.case.name}: {self.fate} by {self.by}: {self.status} ({self.reason})"
        return "\n".join([head, self.ended.stdout, self.ended.stderr, *tails])

    def _json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    def exit_code(self, run: str) -> int:
        """How the validator itself ended: ``0`` is the start, ``1`` what the agent left."""
        text = (self.folder / f"rlm/validator-{run}.log").read_text()
        return int(re.findall(r"^\[exit code (-?\d+),", text, re.MULTILINE)[-1])

    @property
    def is_applied(self) -> bool:
        """Whether the work tree holds what the agent left, but for what is withheld."""
        root, kept = self.repo.path, set(self.case.withheld)
        expected = {**self.case.before, **self.case.after}
        gone = {*self.case.deleted} - kept
        alike = {
            path: (root / path).exists() and (root / path).read_bytes() == text
            for path, text in expected.items()
            if path not in kept | gone
        }
        return all(alike.values()) and not any((root / path).exists() for path in gone)


def run(case: Case, repo: GitRepo, cli: Cli) -> Result:
    """The real program on the case: one turn of its agent."""
    require(case.needs)
    for path, text in case.before.items():
        repo.write(path, text)
        (repo.path / path).chmod(_mode(text))
    if packages := _PACKAGES.intersection(case.needs):
        node_packages.install(repo.path, *packages)
    repo.commit()
    ended = cli(
        "rlm", case.goal, "--validator", case.validator, "--agent", case.agent,
        "--max-iterations", "1", *case.options,
        cwd=repo, env={"PATH": PATH}, timeout=240,
    )  # fmt: skip
    return Result(case, repo, ended)
