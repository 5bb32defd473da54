"""What a model says of how a call flows: held by the lines of its steps, kept, and asked once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.recursion.nodes import LeafText
from rlm_ci.wiki.pages.flow_page import NAME
from rlm_ci.wiki.prose.shown_sources import FlowText, shares
from rlm_ci.wiki.update.state import FLOW, ProseSentence, QuotedLines, WikiState
from testing import wiki_stage as stage
from testing.wiki_sentences import Scripted, all_by, numbered, of_flows, sentence, supports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rlm_ci.wiki.pages.build import WikiPages
    from testing.repositories.git_repo import GitRepo

    Answer = Callable[[str, str], object]

STORE = """\
class Store:
    def save(self, key):
        self.check(key)
        return key

    def check(self, key):
        if not key:
            raise KeyError(key)
"""
CLI = '''\
import sys
from kept.store import Store


def main(argv=None):
    """Save what was asked for."""
    Store().save(sys.argv)


def aside():
    return sys.argv
'''
RENDER = """\
def grid(rows):
    return wide(rows)


def wide(rows):
    return len(rows) * 2
"""
FILES = {
    "README.md": "# Kept\n\nKeeps what it gets.\n",
    "pyproject.toml": '[project]\nname = "kept"\n[project.scripts]\nkept = "kept.cli:main"\n',
    "src/kept/__init__.py": "from .render import grid\n\n__all__ = ['grid']\n",
    "src/kept/cli.py": CLI,
    "src/kept/store.py": STORE,
    "src/kept/render.py": RENDER,
    "tests/test_render.py": "import kept\n\ndef test_it():\n    kept.grid(1)\n    kept.grid(2)\n",
}
KEPT = "An empty key is refused with a KeyError."
GRID = "Twice as many as there are rows come back."
LIE = "The key is written to the disk."
STRAY = "The arguments are read aside."
FLOWS = {
    KEPT: ("src/kept/store.py", "        if not key:\n            raise KeyError(key)"),
    LIE: ("src/kept/store.py", "        self.check(key)"),
    STRAY: ("src/kept/cli.py", "    return sys.argv"),
    GRID: ("src/kept/render.py", "    return len(rows) * 2"),
}
#: What begins each flow.
STARTS = {"main": (KEPT, LIE, STRAY), "grid": (GRID,)}


def says(place: str, prompt: str) -> object:
    """Of the flows what holds and what does not, of the files one sentence, of the whole one."""
    if place.startswith("support"):
        return supports(prompt, LIE)
    if place == "tell-whole":
        return {"sentences": [{"text": "It keeps.", "rests_on": [1]}]}
    lines = numbered(prompt)
    found: list[dict[str, Any]] = []
    if ("src/kept/cli.py", 1) in lines and "Arguments" not in prompt:
        found.append(sentence("Arguments.", "src/kept/cli.py", (1, 1), "import sys"))
    flows = prompt.partition("=== how calls flow ===")[2].partition("=== about the whole ===")[0]
    told = flows.split("\n")
    numbers = {told[at + 1].split("`")[1]: int(row[1:-1]) for at, row in enumerate(told)
               if row.startswith("[")}  # fmt: skip
    for start, number in numbers.items():
        for text in STARTS.get(start, ()):
            path, quote = FLOWS[text]
            first = [at for (where, at), line in lines.items()
                     if where == path and line == quote.split("\n")[0]]  # fmt: skip
            if first:
                end = first[0] + quote.count("\n")
                found.append(sentence(text, path, (first[0], end), quote) | {"flow": number})
    return {"sentences": found}


def made(
    repo: GitRepo, tmp_path: Path, ask: Scripted | None, files: dict[str, str] | None = None
) -> tuple[WikiPages, str]:
    """A refresh of the wiki of these files, judged, and its page of flows."""
    corpus = stage.corpus_of(repo, stage.commit_all(repo, files or {}))
    out = tmp_path / "wiki"
    pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=None if ask is None else all_by(ask))
    stage.judge(pages, corpus, out, stage.opened(repo))
    return pages, stage.texts(out).get(NAME, "")


class Listening(Scripted):
    """Remembers which starts of flows it was asked about."""

    def __init__(self, answer: Answer = says) -> None:
        super().__init__(self._heard)
        self.said = answer
        self.starts: list[str] = []

    def _heard(self, place: str, prompt: str) -> object:
        told = prompt.partition("=== how calls flow ===")[2].split("\n")
        self.starts += [row.split("`")[1] for row in told if row.startswith("  step 1:")]
        return self.said(place, prompt)


def flows_of(out: Path) -> dict[str, list[str]]:
    state = WikiState.read(str(out))
    assert state is not None
    return {
        key.removeprefix(FLOW): [said.text for said in one.said]
        for key, one in state.prose.items()
        if key.startswith(FLOW)
    }


def test_flows_are_worded_in_the_question_about_the_sources(repo: GitRepo, tmp_path: Path) -> None:
    ask = Listening()
    pages, page = made(repo, tmp_path, ask, FILES)
    assert ask.places == ["tell-1", "support-1", "tell-whole", "support-whole-1"]
    assert ask.starts == ["main", "grid"]
    main, grid = page.split("## function ")
    assert f"- {KEPT} [`src/kept/store.py#L7-L8`]" in main
    assert f"- {GRID} [`src/kept/render.py#L6`]" in grid
    origin = "Sentences by the model `loopback` at commit `"
    assert main.count(origin) == grid.count(origin) == 1
    for lie in (LIE, STRAY):  # not supported; not in the lines of a step
        assert lie not in page
    assert pages.sentences.rows() == [
        f"dropped: src/kept/cli.py#L11-L11, its lines are in no step of the flow: {STRAY}",
        f"dropped: src/kept/store.py#L3-L3, its lines do not support it: {LIE}",
    ]
    assert flows_of(tmp_path / "wiki") == {
        "src/kept/cli.py#main": [KEPT], "src/kept/render.py#grid": [GRID],
    }  # fmt: skip
    # What the sources tell is there as without a model.
    plain = tmp_path / "plain"
    stage.wiki(stage.corpus_of(repo, repo.commit("nothing")), plain, tmp_path / "other")
    assert KEPT not in stage.texts(plain)[NAME]


#: An edit, the starts of flows that are asked about after it, and the sentences that go.
EDITS: dict[str, tuple[dict[str, str], list[str], dict[str, str]]] = {
    "nothing": ({"README.md": "# Kept\n\nKeeps more.\n"}, [], {}),
    "a function that is no step": (
        {"src/kept/cli.py": CLI.replace("return sys.argv", "return sys.argv[1:]")}, [], {}),
    "moved lines": ({"src/kept/store.py": f"# Moved.\n\n{STORE}"}, [], {}),
    "a test": ({"tests/test_render.py": "import kept\n\nkept.grid(3)\n"}, [], {}),
    "a line of a step": (
        {"src/kept/render.py": RENDER.replace("return wide(rows)", "return wide(rows or ())")},
        ["grid"], {}),
    "a quoted line": (
        {"src/kept/render.py": RENDER.replace("* 2", "* 3")}, ["grid"],
        {GRID: "its lines are gone"}),
    "a further step": (
        {"src/kept/cli.py": CLI.replace("(sys.argv)\n\n", "(sys.argv)\n    aside()\n\n")},
        ["main"], {}),
    "the start is gone": (
        {"pyproject.toml": '[project]\nname = "kept"\n'}, ["Store.save"],
        {KEPT: "its flow of calls is on no page"}),
}  # fmt: skip
REFUSALS: dict[str, Exception | None] = {
    "no model": None,
    "a refused endpoint": RemoteError("the key was refused"),
    "no budget": LimitError("no room", budget="calls"),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.sample(4)
@pytest.mark.full
def test_only_a_flow_of_which_something_changed_is_asked_about(
    repo: GitRepo, tmp_path: Path, edit: str
) -> None:
    made(repo, tmp_path, Listening(), FILES)
    changed, starts, lost = EDITS[edit]
    ask = Listening()
    pages, page = made(repo, tmp_path, ask, changed)
    assert ask.starts == starts
    assert len([place for place in ask.places if not place.startswith("support")]) <= 1
    assert {one.text: why[0] for one, why in pages.sentences.dropped if one.text != LIE} == lost
    for text in {KEPT, GRID} - lost.keys():
        assert text in page
    silent = Listening()
    again, _ = made(repo, tmp_path, silent)
    assert silent.places == []
    assert again.sentences.dropped == ()


@pytest.mark.sample(8)
@pytest.mark.parametrize("who", REFUSALS)
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.sample(3)
def test_what_was_said_of_a_flow_stays_without_a_model(
    repo: GitRepo, tmp_path: Path, edit: str, who: str
) -> None:
    made(repo, tmp_path, Listening(), FILES)
    error = REFUSALS[who]

    def fails(_place: str, _prompt: str) -> object:
        assert error is not None
        raise error

    changed, starts, lost = EDITS[edit]
    pages, page = made(repo, tmp_path, Scripted(fails) if error else None, changed)
    for text in (KEPT, GRID):
        assert (text in page) == (text not in lost)
    assert {one.text: why[0] for one, why in pages.sentences.dropped} == lost
    later = Listening()
    made(repo, tmp_path, later)
    assert later.starts == starts


def test_a_renamed_file_costs_no_question_about_its_flows(repo: GitRepo, tmp_path: Path) -> None:
    made(repo, tmp_path, Listening(), FILES)
    for old, new in (("store", "shelf"), ("render", "draw"), ("cli", "entry")):
        repo.write(f"src/kept/{new}.py", repo.read(f"src/kept/{old}.py").decode())
        (repo.path / f"src/kept/{old}.py").unlink()
    moved = {
        "src/kept/__init__.py": "from .draw import grid\n\n__all__ = ['grid']\n",
        "src/kept/entry.py": CLI.replace("kept.store", "kept.shelf"),
        "pyproject.toml": FILES["pyproject.toml"].replace("kept.cli", "kept.entry"),
    }
    ask = Listening()
    pages, page = made(repo, tmp_path, ask, moved)
    assert (ask.starts, pages.sentences.dropped) == ([], ())
    assert flows_of(tmp_path / "wiki") == {
        "src/kept/draw.py#grid": [GRID], "src/kept/entry.py#main": [KEPT],
    }  # fmt: skip
    assert f"- {KEPT} [`src/kept/shelf.py#L7-L8`]" in page


def test_new_words_replace_the_old_ones_of_the_flow(repo: GitRepo, tmp_path: Path) -> None:
    made(repo, tmp_path, Listening(), FILES)

    def other(place: str, prompt: str) -> object:
        return supports(prompt) if "support" in place else {"sentences": of_flows(prompt)}

    changed = {"src/kept/render.py": RENDER.replace("return wide(rows)", "return wide(rows or 1)")}
    pages, page = made(repo, tmp_path, Scripted(other), changed)
    assert GRID not in page
    assert "At the end `wide` runs." in page
    assert "1 new, 1 replaced by newer ones" in pages.sentences.summary()

    # Nobody judges what is new: what was judged stays beside it.
    def unjudged(place: str, prompt: str) -> object:
        if place.startswith("support"):
            raise RemoteError("the key was refused")
        return json.loads(json.dumps(other(place, prompt)).replace("At the end", "At last"))

    changed = {"src/kept/render.py": RENDER.replace("return wide(rows)", "return wide(rows or 3)")}
    pages, page = made(repo, tmp_path, Scripted(unjudged), changed)
    assert "At the end `wide` runs." in page
    assert "At last `wide` runs." in page
    # Nothing that holds is said: what stands stays.
    changed = {"src/kept/render.py": RENDER.replace("return wide(rows)", "return wide(rows or 2)")}
    pages, page = made(repo, tmp_path, Scripted(lambda *_: {"sentences": []}), changed)
    assert "At the end `wide` runs." in page


def test_sentences_about_no_flow_and_too_many_are_rejected(repo: GitRepo, tmp_path: Path) -> None:
    def much(place: str, prompt: str) -> object:
        if place.startswith("support"):
            return supports(prompt)
        one = {**of_flows(prompt)[0], "flow": 1} if "how calls flow" in prompt else None
        told = [{**one, "text": f"Told {n}."} for n in range(9)] if one else []
        return {"sentences": [*told, *({**row, "flow": at} for row in told for at in (0, 99, -1))]}

    pages, _ = made(repo, tmp_path, Scripted(much), FILES)
    why = [row.partition(": ")[2] for row in pages.sentences.rows()]
    assert sum("its flow of calls has three already" in row for row in why) == 6
    assert flows_of(tmp_path / "wiki")["src/kept/cli.py#main"] == ["Told 0.", "Told 1.", "Told 2."]


def test_what_a_change_writes_of_flows_into_the_state_is_judged(
    repo: GitRepo, tmp_path: Path
) -> None:
    made(repo, tmp_path, Listening(), FILES)
    path = tmp_path / "wiki" / "wiki.json"
    record = json.loads(path.read_text())
    key = f"{FLOW}src/kept/cli.py#main"
    [row] = record["prose"][key]["said"]
    lies = [[f"Audited {n}.", *row[1:]] for n in range(99)]
    outside = ["Audited aside.", [["src/kept/render.py", 6, 6, "0" * 16]], *row[2:]]
    stray = ["Audited apart.", record["prose"][f"{FLOW}src/kept/render.py#grid"]["said"][0][1],
             *row[2:]]  # fmt: skip
    record["prose"][key]["said"] += [outside, stray, *lies]
    record["prose"][f"{FLOW}../../etc/passwd#main"] = record["prose"][key]
    path.write_text(json.dumps(record))
    pages, page = made(repo, tmp_path, None)
    assert page.count("Audited ") <= 8
    assert "Audited aside" not in page
    assert "Audited apart" not in page
    assert set(flows_of(tmp_path / "wiki")) == {"src/kept/cli.py#main", "src/kept/render.py#grid"}
    assert len(pages.sentences.dropped) > 99


def flow(number: int, lines: int) -> FlowText:
    text = LeafText(f"f{number}.py", "0" * 40, b"total = total + 1\n" * lines)
    held = {text.path: frozenset(range(1, lines + 1))}
    spans = {text.path: frozenset({(1, lines)})}
    return FlowText(f"{FLOW}{text.path}#f", str(number), ("  step 1: `f`",), held, spans,
                    {text.path: text})  # fmt: skip


@pytest.mark.parametrize(
    ("path", "first", "last", "is_held"),
    [
        ("f1.py", 2, 4, True),  # between lines that are shown, as what is left out is true, too
        ("f1.py", 1, 9, True),
        ("f1.py", 9, 10, False),  # beyond the function
        ("f2.py", 2, 4, False),
    ],
)
def test_a_sentence_may_quote_any_line_of_a_function_that_is_a_step(
    path: str, first: int, last: int, *, is_held: bool
) -> None:
    shown = flow(1, 9).replace(lines={"f1.py": frozenset({1, 3, 5})})
    said = ProseSentence("It adds.", (QuotedLines(path, first, last, "0" * 16),))
    assert shown.holds(said) == is_held


def test_flows_share_as_few_prompts_as_they_fit() -> None:
    found = shares((), [flow(n, 20) for n in range(10)], 2_000)
    assert [len(one.flows) for one in found] == [4, 4, 2]
    assert all(one.used <= 2_000 for one in found)
    assert [len(one.flows) for one in shares((), [flow(n, 2) for n in range(10)], 9_000)] == [8, 2]
    # The lines of a flow that no prompt has room for are cut off, and it is asked about.
    [one, _] = shares((), [flow(1, 900), flow(2, 20)], 2_000)
    assert len(one.flows) == 1
    assert 0 < one.used <= 2_000
    # Lines that are shown already are not shown twice.
    [one] = shares((), [flow(1, 60), flow(1, 60)], 2_000)
    assert sum(len(piece.lines) for piece in one.pieces) == 60


def test_what_was_not_judged_is_marked_and_judged_later(repo: GitRepo, tmp_path: Path) -> None:
    def spent_later(place: str, prompt: str) -> object:
        if place != "tell-1":
            raise LimitError("no room", budget="calls")
        return says(place, prompt)

    pages, page = made(repo, tmp_path, Scripted(spent_later), FILES)
    assert "nobody has asked whether they support them:" in page
    assert LIE in page
    assert "4 not judged yet" in pages.sentences.summary()
    ask = Listening()
    pages, page = made(repo, tmp_path, ask)
    assert ask.places == ["support-1", "tell-whole", "support-whole-1"]
    assert ask.starts == []
    assert "nobody has asked" not in page
    assert (KEPT in page, LIE in page) == (True, False)


def test_flows_that_could_not_be_asked_about_are_asked_about_later(
    repo: GitRepo, tmp_path: Path
) -> None:
    def mute(place: str, prompt: str) -> object:
        return "no" if place.startswith("tell-1") else says(place, prompt)

    made(repo, tmp_path, Scripted(mute), FILES)
    assert flows_of(tmp_path / "wiki") == {}
    ask = Listening()
    _, page = made(repo, tmp_path, ask)
    assert ask.starts == ["main", "grid"]
    assert KEPT in page
