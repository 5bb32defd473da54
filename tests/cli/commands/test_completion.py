"""``rlm-ci completion``: the scripts, tried in the shells that are here."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from rlm_ci import checks
from rlm_ci.cli import COMMANDS
from rlm_ci.cli.commands import completion
from rlm_ci.config.arguments import Arguments
from rlm_ci.config.core_options import FORMATS
from rlm_ci.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")

#: The words so far, the last one begun; and all that may follow, parted by blanks.
CASES = {
    ("",): " ".join((*COMMANDS, "help")),
    ("chec",): "check",
    ("-C", "some dir", "chec"): "check",
    ("--vers",): "--version",
    ("check", "d"): " ".join(one for one in checks.names() if one[0] == "d"),
    ("check", "--task", "x", "di"): "diff-budget",
    ("check", "--format", ""): " ".join(FORMATS),
    ("check", "--no-col"): "--no-color",
    ("pr", "--stag"): "",
    ("check", "--base", "READ"): "README.md",
    ("-q", "context", ""): "build search read info",
    ("bench", "run", "--mode", ""): "native harness direct-llm",
    ("explain", "diff-budget/f"): "diff-budget/files",
    ("help", "exp"): "explain export",
    ("completion", ""): "bash zsh fish",
    ("view", ""): "latest",
    ("status", "l"): "latest",
    ("verify", ""): "latest",
    ("rlm", "--agent", "c"): "codex claude",
    ("run", "--environment", "pure"): "pure_rlm pure-rlm",
    ("list", "--format", ""): "text json",
    ("explain", "--format", ""): "text",
}
_TRY = """
source "$1"
shift
while (($#)); do
  COMP_WORDS=(rlm-ci) COMPREPLY=()
  while [[ $1 != '|' ]]; do COMP_WORDS+=("$1"); shift; done
  shift
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _shtab_rlm_ci
  echo "${COMPREPLY[*]}"
done
"""


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert completion.run(Arguments({}, (shell,), ())) == 0
    return capsys.readouterr().out


def test_in_bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "rlm-ci"
    place.write_text(script("bash", capsys))
    words = [word for case in CASES for word in (*case, "|")]
    told = subprocess.run(
        ["bash", "--norc", "-uc", _TRY, "bash", str(place), *words],
        check=True, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert dict(zip(CASES, told.stdout.splitlines(), strict=True)) == CASES
    assert told.stderr == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_what_other_shells_read(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script(shell, capsys)
    for word in (*COMMANDS, *checks.names(), "staged", "direct-llm", "diff-budget/files"):
        assert word in text.replace("\\", "")
    if shutil.which(shell):
        place = tmp_path / "_rlm-ci"
        place.write_text(text)
        subprocess.run([shell, "-n", str(place)], check=True, timeout=30)


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
@pytest.mark.parametrize(
    ("line", "found"),
    [("rlm-ci chec", "check"), ("rlm-ci check --format ht", "html"), ("rlm-ci context b", "build")],
)
def test_in_fish(line: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "rlm-ci.fish"
    place.write_text(script("fish", capsys))
    said = subprocess.run(
        ["fish", "--no-config", "-c", f"source {place}; complete -C '{line}'"],
        check=True, capture_output=True, text=True, timeout=30,
    ).stdout  # fmt: skip
    assert [one.partition("\t")[0] for one in said.splitlines()] == [found]


def test_no_description_is_cut_within_parentheses(capsys: pytest.CaptureFixture[str]) -> None:
    text = script("fish", capsys)
    described = re.findall(r"-d (?:'([^']*)'|(\w+)$)", text, re.MULTILINE)
    summaries = [quoted or word for quoted, word in described]
    assert len(summaries) > 100
    assert [text for text in summaries if text.count("(") != text.count(")") or not text] == []
    assert "the repository" in summaries


def test_no_other_shell() -> None:
    with pytest.raises(UsageError) as caught:
        completion.run(Arguments({}, ("tcsh\n::error::x",), ()))
    assert caught.value.hint == "one of bash, zsh, fish"
