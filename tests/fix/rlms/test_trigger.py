"""Whether an analysis runs before a role's turn: the decision, what it rests on."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from rlm_ci.fix.rlms.trigger import (
    SWITCHES,
    ContextFigures,
    Requests,
    RlmsOptions,
    context_files,
    decide,
    measure,
    paths_named,
)
from rlm_ci.fix.roles import MODES, RoleBrief
from rlm_ci.git.objects import TreeEntry

OPTIONS = RlmsOptions(
    enabled=True,
    mode="hybrid",
    request_keyword="RLMS_REQUEST",
    context="changed",
    max_lines=2500,
    max_estimated_tokens=120_000,
    max_files=40,
    roles=RlmsOptions.switches,
)
SMALL, LARGE = ContextFigures(2500, 480_000, 40), ContextFigures(2501, 0, 0)
#: Mode, request and size, with the decision where nothing stands above them.
TABLE = {
    ("auto", False, False): "skip auto_not_met",
    ("auto", False, True): "run auto_threshold",
    ("auto", True, False): "skip auto_not_met",
    ("auto", True, True): "run auto_threshold",
    ("requested", False, False): "skip request_not_found",
    ("requested", False, True): "skip request_not_found",
    ("requested", True, False): "run requested_keyword",
    ("requested", True, True): "run requested_keyword",
    ("manual", False, False): "skip request_not_found",
    ("manual", False, True): "skip request_not_found",
    ("manual", True, False): "run requested_keyword",
    ("manual", True, True): "run requested_keyword",
    ("hybrid", False, False): "skip hybrid_not_met",
    ("hybrid", False, True): "run hybrid_auto",
    ("hybrid", True, False): "run hybrid_requested",
    ("hybrid", True, True): "run hybrid_requested",
}
#: What stands above: enabled, the role's switch, force_off, force_on. None asks the table.
ABOVE = {
    (False, False, False, False): "skip disabled",
    (False, False, False, True): "skip disabled",
    (False, False, True, False): "skip disabled",
    (False, True, False, False): "skip disabled",
    (False, True, False, True): "skip disabled",
    (False, True, True, False): "skip disabled",
    (True, False, False, False): "skip role_disabled",
    (True, False, False, True): "skip role_disabled",
    (True, False, True, False): "skip role_disabled",
    (True, True, False, False): None,
    (True, True, False, True): "run force_on",
    (True, True, True, False): "skip force_off",
}


def told(options: RlmsOptions, switch: str, figures: ContextFigures, *, asked: bool) -> str:
    found = decide(options, switch, figures, requested=asked)
    assert found.figures == figures
    return f"{'run' if found.run else 'skip'} {found.reason}"


def test_each_case_has_its_decision_and_reason() -> None:
    for (case, above), switch in product(product(TABLE, ABOVE), RlmsOptions.switches):
        mode, asked, is_large = case
        enabled, is_on, off, on = above
        roles = tuple(name for name in RlmsOptions.switches if is_on or name != switch)
        options = OPTIONS.replace(
            mode=mode, enabled=enabled, roles=roles, force_off=off, force_on=on
        )
        figures = LARGE if is_large else SMALL
        wanted = ABOVE[above] or TABLE[case]
        assert told(options, switch, figures, asked=asked) == wanted, (case, above, switch)


def test_one_figure_above_its_threshold_is_enough() -> None:
    for figures in (LARGE, ContextFigures(0, 480_001, 0), ContextFigures(0, 0, 41)):
        assert told(OPTIONS, "planner", figures, asked=False) == "run hybrid_auto"


def test_each_role_of_a_mode_has_a_switch() -> None:
    assert set(MODES) <= set(SWITCHES)
    for roles in SWITCHES.values():
        assert set(roles.values()) <= set(RlmsOptions.switches)


@pytest.mark.parametrize(
    ("said", "is_request"),
    [
        ("RLMS_REQUEST", True),
        ("I see.\n  RLMS_REQUEST: the parser is long\r\nDone.", True),
        ("", False),
        ("RLMS_REQUESTED", False),
        ("Say RLMS_REQUEST to ask for an analysis.", False),
        ("`RLMS_REQUEST` asks for one", False),
        ("rlms_request", False),
    ],
)
def test_a_role_asks_by_the_keyword_that_begins_a_line(said: str, *, is_request: bool) -> None:
    assert Requests("RLMS_REQUEST", standing=False).is_requested(said) is is_request
    assert Requests("RLMS_REQUEST", standing=True).is_requested(said)


def test_our_own_documents_and_prompts_ask_for_nothing() -> None:
    """A role may print whatever it has read."""
    top = Path(__file__).parents[3]
    texts = [
        *top.glob("docs/*.md"),
        *top.glob("templates/prompts/*"),
        *top.glob("rlm_ci/fix/**/*.py"),
    ]
    assert len(texts) > 50
    for path in texts:
        assert not Requests("RLMS_REQUEST", standing=False).is_requested(path.read_text("utf-8")), (
            path
        )


def test_a_goal_names_files_by_path_or_by_a_name_that_only_one_has() -> None:
    paths = ["a.py", "src/b.py", "src/c/x.py", "d/x.py", "Makefile", "src/test"]
    goal = "Mend `./a.py`, (b.py:12:3). Not x.py, nor test; but d/x.py: see Makefile."
    assert paths_named(goal, paths) == {"a.py", "src/b.py", "d/x.py", "Makefile"}


def test_while_nothing_is_named_a_role_is_about_to_read_the_own_sources() -> None:
    paths = ["README.md", "docs/a.md", "lib/a.rs", "package-lock.json", "src/a.py",
             "tests/test_a.py", "vendor/b.py", "web/jquery.min.js"]  # fmt: skip
    entries = {path: TreeEntry("100644", "blob", path) for path in paths}

    def read(goal: str = "Make it work.", feedback: str = "", *changed: str) -> list[str]:
        return context_files(entries, changed, RoleBrief(goal, 1, feedback=feedback), "relevant")

    assert read() == ["lib/a.rs", "src/a.py", "tests/test_a.py"]
    assert read("Say more in README.md.") == ["README.md"]
    assert read(feedback="tests/test_a.py::test_one - assert 1 == 2") == ["tests/test_a.py"]
    traceback = '  File "/tmp/copy/src/a.py", line 3, in add'
    assert read(feedback=traceback) == ["src/a.py"]
    assert read("Make it work.", traceback, "docs/a.md") == ["docs/a.md", "src/a.py"]
    assert read(feedback="nothing of ours: /usr/lib/python3/a.py") == read()
    for path in ("lib/a.rs", "src/a.py", "tests/test_a.py"):
        del entries[path]
    assert read() == ["README.md", "docs/a.md", "package-lock.json"], "no code: what there is"


def test_nothing_is_cut_before_it_is_measured() -> None:
    blobs = {"1": b"one\ntwo", "2": b"", "3": b"\0binary\n", "4": b"x\n" * 3000}
    entries = {f"f{oid}": TreeEntry("100644", "blob", oid) for oid in blobs}
    entries["link"] = TreeEntry("120000", "blob", "1")
    entries["gone"] = TreeEntry("100644", "blob", "5")
    paths = context_files(entries, (), RoleBrief("", 1), "all")
    assert paths == ["f1", "f2", "f3", "f4", "gone"]
    brief = RoleBrief("f1", 1, feedback="f2:3: it fails")
    changed = ["f4", "link", "deleted"]
    assert context_files(entries, changed, brief, "changed") == ["f1", "f4"]
    assert context_files(entries, changed, brief, "relevant") == ["f1", "f2", "f4"]
    sizes = {oid: len(data) for oid, data in blobs.items()}
    found = measure(
        paths,
        entries,
        lambda oids: [sizes.get(oid, -1) for oid in oids],
        lambda oids: [blobs.get(oid) for oid in oids],
    )
    assert found == ContextFigures(3002, 6007, 3)
    assert found.estimated_tokens == 1502
