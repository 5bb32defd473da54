"""Sentences by several quotes: when one goes, who said it, and whether that was asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import LimitError
from rlm_ci.wiki.update.state import WikiState
from testing import wiki_stage as stage
from testing.wiki_sentences import Scripted, all_by, supports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rlm_ci.wiki.update.state import ProseSentence
    from testing.repositories.git_repo import GitRepo

OVEN = "def heat_up(to):\n    check(to, LIMIT)\n    return to * 2\n"
CHECK = """def check(to, limit):
    strict = limit > 0
    if strict and to > limit:
        raise ValueError(to)


def other(to):
    return to + 1
"""
FILES = {
    "README.md": "# Kitchen\n\nA kitchen that bakes.\n",
    "oven/heat.py": OVEN,
    "oven/check.py": CHECK,
}
TEXT = "What `check` refuses is never heated."
LIE = "It never raises."


def quote(path: str, line: int, text: str) -> dict[str, object]:
    return {"path": path, "line_start": line, "line_end": line, "quote": text}


QUOTES = [
    quote("oven/heat.py", 2, "    check(to, LIMIT)"),
    quote("oven/check.py", 4, "        raise ValueError(to)"),
]
STRICT = quote("oven/check.py", 2, "    strict = limit > 0")


def says(place: str, prompt: str) -> object:
    if place.startswith("support"):
        return supports(prompt, "never raises")
    if place == "tell-whole":
        return {"sentences": [{"text": "It is a kitchen.", "rests_on": [1]}]}
    texts = {TEXT: QUOTES, LIE: [STRICT]}
    told = [{"text": text, "quotes": quotes} for text, quotes in texts.items()]
    return {"sentences": told if "def heat_up" in prompt else []}


def spent_later(place: str, prompt: str) -> object:
    if place != "tell-1":
        raise LimitError("no room", budget="calls")
    return says(place, prompt)


def said_in(out: Path) -> list[ProseSentence]:
    state = WikiState.read(str(out))
    assert state is not None
    return [said for one in state.prose.values() for said in one.said]


def test_all_grounds_are_shown_and_a_lie_is_dropped(repo: GitRepo, tmp_path: Path) -> None:
    out = tmp_path / "wiki"
    commit = stage.commit_all(repo, FILES)
    corpus = stage.corpus_of(repo, commit)
    pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(says)))
    stage.judge(pages, corpus, out, stage.opened(repo))
    made = stage.texts(out)
    page = made["modules/oven.md"]
    [line] = [line for line in page.split("\n") if "never heated" in line]
    assert "oven/heat.py#L2" in line
    assert "oven/check.py#L4" in line
    by = f"Sentences by the model `loopback` at commit `{commit[:12]}`. Asked again, it said that"
    assert f"{by} the linked lines support them:" in page
    assert f"{by} they follow from its sentences about the linked lines:" in made["index.md"]
    assert LIE not in "".join(made.values())
    assert pages.sentences.summary() == "2 new sentences, 1 dropped: its lines do not support it"
    assert pages.sentences.rows() == [
        f"dropped: oven/check.py#L2-L2, its lines do not support it: {LIE}"
    ]
    again, touched, read = stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(says)))
    assert (touched, read, again.sentences.summary()) == ((), 0, "2 sentences kept")


def edited(path: str, old: str, new: str) -> Callable[[GitRepo], object]:
    return lambda repo: repo.write(path, FILES[path].replace(old, new))


def renamed(repo: GitRepo) -> None:
    (repo.path / "oven/check.py").unlink()
    repo.write("oven/refuse.py", f'"""Refuses."""\n\n{CHECK}')


HEAD, TAIL = CHECK.split("\n\n\n")
#: An edit, and why the sentence goes; "" where it stays.
EDITS: dict[str, tuple[Callable[[GitRepo], object], str]] = {
    "the first quote changes": (
        edited("oven/heat.py", "LIMIT)", "3)"), "its lines are gone"),
    "the second quote changes": (
        edited("oven/check.py", "ValueError", "TypeError"), "its lines are gone"),
    "the function that it names changes": (
        edited("oven/check.py", "limit > 0", "limit > 9"), "a function that it names has changed"),
    "a function that it does not name changes": (edited("oven/check.py", "to + 1", "to + 2"), ""),
    "functions are reordered": (
        lambda repo: repo.write("oven/check.py", f"{TAIL}\n\n{HEAD}\n"), ""),
    "the file of the second quote is renamed": (renamed, ""),
    "the file of the second quote is removed": (
        lambda repo: (repo.path / "oven/check.py").unlink(), "its file is gone"),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_a_sentence_is_stale_when_any_of_its_grounds_changes(
    repo: GitRepo, tmp_path: Path, edit: str
) -> None:
    out = tmp_path / "wiki"
    commit = stage.commit_all(repo, FILES)
    stage.wiki(stage.corpus_of(repo, commit), out, tmp_path, ask=all_by(Scripted(says)))
    apply, why = EDITS[edit]
    apply(repo)
    corpus = stage.corpus_of(repo, repo.commit(edit))
    pages, _, _ = stage.wiki(corpus, out, tmp_path)
    stage.judge(pages, corpus, out, stage.opened(repo))
    # What is said of the whole rests on the same.
    assert {said.text for said in said_in(out)} == (set() if why else {TEXT, "It is a kitchen."})
    assert {reason[0] for _, reason in pages.sentences.dropped} == ({why} if why else set())
    assert {said.commit for said in said_in(out)} <= {commit}


def test_what_nobody_asked_about_is_kept_marked_and_asked_later(
    repo: GitRepo, tmp_path: Path
) -> None:
    """A budget may end between the two questions, and earlier versions asked one alone."""
    out = tmp_path / "wiki"
    corpus = stage.corpus_of(repo, stage.commit_all(repo, FILES))
    pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(spent_later)))
    stage.judge(pages, corpus, out, stage.opened(repo))
    assert pages.sentences.summary() == "2 new sentences, 2 not judged yet"
    page = stage.texts(out)["modules/oven.md"]
    open_words = "were found; nobody has asked whether they support them:"
    assert open_words in page
    assert TEXT in page
    assert LIE in page
    record = json.loads((out / "wiki.json").read_text())
    record["version"] = 3
    for one in record["prose"].values():
        one["said"] = [[row[0], *row[1][0]] for row in one["said"]]
    older = json.dumps(record)
    for state in ((out / "wiki.json").read_text(), older):
        (out / "wiki.json").write_text(state)
        ask = Scripted(says)
        pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=all_by(ask))
        assert ask.places == ["support-1", "tell-whole", "support-whole-1"]
        assert "1 dropped: its lines do not support it" in pages.sentences.summary()
        assert {said.text for said in said_in(out)} == {TEXT, "It is a kitchen."}
        assert all(said.is_supported for said in said_in(out))
        assert open_words not in stage.texts(out)["modules/oven.md"]
