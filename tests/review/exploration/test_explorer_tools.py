"""What a reviewer's tools run: each side in the sandbox, and nothing that it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlm_ci.environments.quoting import OUTPUT_LIMIT
from rlm_ci.review.exploration import explorer as exploration
from rlm_ci.review.exploration.explorer import ReviewTools, ReviewTrees
from rlm_ci.review.proofs.runner import ProofRunner
from rlm_ci.sandbox.none import Unsandboxed
from rlm_ci.trials.trees import BASE, HEAD
from testing.proofs_stage import HEAD as FAULT
from testing.proofs_stage import Facts, changed

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.trials.trees import ProofPlace


def tools_of(place: ProofPlace, runner: ProofRunner, seconds: float = 60) -> ReviewTools:
    trees = ReviewTrees(place.repository, {HEAD: place.head, BASE: place.base})
    return ReviewTools(trees, place.repository, place.head, runner, seconds)


def names(tools: ReviewTools) -> set[str]:
    return {one["function"]["name"] for one in tools.tools()}


def test_both_sides_are_run_and_not_changed(tmp_path: Path) -> None:
    place = changed(tmp_path, FAULT)
    ask = "import shop; print(shop.password('a:b:c'))"
    line = f'python3 -c "{ask}"; echo x > new.txt; env | grep -c hush; exit 3'
    with ProofRunner(place, Facts()) as runner, tools_of(place, runner) as tools:
        assert names(tools) >= {"read", "history", "run", "compare"}
        head = tools.act("run", {"command": line}).text
        base = tools.act("run", {"command": line, "side": "base"}).text
        assert head.startswith("The command ended: exit code 3")
        assert [line for line in head.split("\n") if line in {"c", "b:c", "0"}] == ["c", "0"]
        assert "\nb:c\n" in base
        assert "Read-only" in head
        told = tools.act("compare", {"script": ask}).text
        assert told.startswith("What differs, - is printed at base, + at head:\n```\n")
        assert "\n-b:c\n+c\n" in told
        told = tools.act("compare", {"script": "import shop; print(shop.LIMIT)"}).text
        assert told.startswith("The same at head and at base")
        assert tools.act("run", {"command": " "}).text.startswith("Refused: ")
        assert "new.txt" not in tools.act("list", {}).text
        late = tools_of(place, runner, 0)
        assert late.act("run", {"command": "ls"}).text == "Refused: no time is left to run code"
    assert not (tmp_path / "new.txt").exists()
    bare = place.replace(sandbox=Unsandboxed)
    with ProofRunner(bare, Facts()) as runner, tools_of(bare, runner) as tools:
        assert not names(tools) & {"run", "compare"}


def test_of_a_long_comparison_the_difference_is_shown_alone() -> None:
    """Two outputs that differ late, and one side that prints far more than the other."""
    rows = [f"row {number}" for number in range(4_000)]
    late = "\n".join([*rows[:3_000], "changed", *rows[3_001:]])
    told = exploration._compared(late, "\n".join(rows))
    assert "[… 2,997 lines, the same on both sides …]" in told
    assert "\n row 2999\n-row 3000\n+changed\n row 3001\n" in told
    assert len(told) < 400
    told = exploration._compared("done", "\n".join(rows))
    assert "\n-row 0\n" in told
    assert "[… 3,000 more lines, not compared …]" in told
    assert len(told) < OUTPUT_LIMIT + 200
    assert "\n-end\r\n+end\n" in exploration._compared("end", "end\r")
    far = exploration._compared("a\n" + "x\n" * 9 + "b", "A\n" + "x\n" * 9 + "B")
    assert "\n-A\n+a\n x\n x\n x\n[…]\n" in far
