"""A model's words on top: only what its quotes hold, and nobody pays for them twice."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import LimitError
from rlm_ci.recursion.corpus import corpus as corpora
from rlm_ci.recursion.corpus.eligibility import EligibilityRules
from rlm_ci.recursion.nodes import LeafText
from rlm_ci.recursion.scheduler import Constraints
from rlm_ci.recursion.tree_split import TreeShape
from rlm_ci.wiki.facts.readme import heading
from rlm_ci.wiki.pages.citations import quote_hash
from rlm_ci.wiki.prose.model_prose import tell
from rlm_ci.wiki.prose.whole_prose import sum_up
from rlm_ci.wiki.update.state import ProseSentence, QuotedLines, WikiState
from testing import wiki_stage as stage
from testing.wiki_sentences import Scripted, all_by, numbered, sentence, supports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rlm_ci.models import Completion
    from rlm_ci.recursion.nodes import Node
    from testing.repositories.git_repo import GitRepo

    Answer = Callable[[str, str], object]

HEAT = "Heats the oven before anything else."


def of_shop(place: str, prompt: str) -> object:
    """Of the oven something that holds, something moved and lies; of the rest nothing."""
    if place.startswith("support"):
        return supports(prompt)
    if place == "tell-whole":
        return {
            "sentences": [
                {"text": "The shop heats an oven.", "rests_on": [1]},
                {"text": "It flies to the moon.", "rests_on": [99]},
                {"text": "It has no reason.", "rests_on": []},
            ]
        }
    path = "src/shop/oven/control.py"
    if path not in prompt:
        return {"sentences": []}
    refused = '    if degrees > 300:\n        raise ValueError("too hot")'
    return {
        "sentences": [
            sentence(HEAT, path, (10, 10), "def heat(degrees: int) -> None:"),
            sentence("Too much heat is refused @alice <b>.", path, (1, 2), refused),
            sentence("It deletes the disk.", path, (10, 10), "rm -rf /"),
            sentence("It is held by a word.", path, (10, 10), "def"),
            sentence("It is in a file that is not there.", "src/nowhere.py", (1, 1), "import os"),
            sentence("Its lines are invented.", path, (900, 901), "import invented"),
        ]
    }


def test_only_what_its_quote_holds_is_on_the_page(repo: GitRepo, tmp_path: Path) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))
    ask = Scripted(of_shop)
    out = tmp_path / "wiki"
    pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=lambda _node: ask)
    stage.judge(pages, corpus, out, stage.opened(repo))
    made = stage.texts(out)
    oven = made["modules/src.shop.oven.md"]
    assert "## In words" in oven
    assert f"- {HEAT} [`src/shop/oven/control.py#L10`]" in oven
    assert (
        "Too much heat is refused @\u200balice \\<b\\>. [`src/shop/oven/control.py#L15-L16`]"
        in oven
    )
    assert "- The shop heats an oven. [`src/shop/oven/control.py#L10`]" in made["index.md"]
    everything = "".join(made.values())
    for lie in ("deletes the disk", "not there", "invented", "moon", "no reason", "by a word"):
        assert lie not in everything
    # What the sources tell is there as without a model.
    plain = tmp_path / "plain"
    stage.wiki(corpus, plain, tmp_path / "other")
    for name, text in stage.texts(plain).items():
        if name.endswith(".md"):
            assert set(text.splitlines()) <= set(made[name].splitlines())


def test_an_unchanged_page_costs_no_call(repo: GitRepo, tmp_path: Path) -> None:
    files = stage.shop()
    first = stage.commit_all(repo, files)
    out = tmp_path / "wiki"
    ask = Scripted(of_shop)
    stage.wiki(stage.corpus_of(repo, first), out, tmp_path, ask=lambda _node: ask)
    assert ask.places == ["tell-1", "support-1", "tell-whole", "support-whole-1"]
    before = stage.texts(out)
    silent = Scripted(of_shop)
    second = repo.commit("nothing")
    corpus = stage.corpus_of(repo, second)
    _, touched, read = stage.wiki(corpus, out, tmp_path, ask=lambda _node: silent)
    assert (silent.places, touched, read) == ([], (), 0)
    # One file changes: it alone is asked about, and the whole not, as it rests on the same.
    third = stage.commit_all(repo, {"src/web/order.js": files["src/web/order.js"] + "// more\n"})
    corpus = stage.corpus_of(repo, third)
    _, touched, read = stage.wiki(corpus, out, tmp_path, ask=lambda _node: silent)
    assert silent.places == ["tell-1"]
    assert read == 1
    assert stage.texts(out)["modules/src.shop.oven.md"] == before["modules/src.shop.oven.md"]
    assert "The shop heats an oven" in stage.texts(out)["index.md"]
    # Without a model what was said stays, as long as its sources do.
    oven = "src/shop/oven/control.py"
    fourth = stage.commit_all(repo, {oven: files[oven].replace("heat", "cool")})
    stage.wiki(stage.corpus_of(repo, fourth), out, tmp_path)
    page = stage.texts(out)["modules/src.shop.oven.md"]
    assert (HEAT in page, "Too much heat is refused" in page) == (False, True)


def test_what_the_budget_cut_off_is_told_and_asked_for_again(repo: GitRepo, tmp_path: Path) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))

    def broke(_place: str, _prompt: str) -> object:
        raise LimitError("no room", budget="calls")

    out = tmp_path / "wiki"
    pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=lambda _node: Scripted(broke))
    assert "In words" not in pages.pages[0].text
    state = WikiState.read(str(out))
    assert state is not None
    assert not any(one.said for one in state.prose.values())
    ask = Scripted(of_shop)
    stage.wiki(corpus, out, tmp_path, ask=lambda _node: ask)
    assert HEAT in stage.texts(out)["modules/src.shop.oven.md"]


def test_an_answer_that_is_none_is_told_and_asked_for_again(repo: GitRepo, tmp_path: Path) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))
    oven = LeafText(
        "src/shop/oven/control.py", "", stage.shop()["src/shop/oven/control.py"].encode()
    )
    told = tell(Scripted(lambda _place, _prompt: "no"), [oven])
    assert told.uncovered == (
        (oven.path, "no_answer: what the model said could not be read, twice"),
    )
    out = tmp_path / "wiki"
    for broken in ("tell-", "tell-whole"):  # first words of folders are missing, then the whole

        def mute(place: str, prompt: str, broken: str = broken) -> object:
            return "no" if place.startswith(broken) else of_shop(place, prompt)

        ask = Scripted(mute)
        stage.wiki(corpus, out, tmp_path, ask=all_by(ask))
        assert any(place.startswith(broken) for place in ask.places)
        assert any(place.endswith("-repair") for place in ask.places)
    again = Scripted(of_shop)
    stage.wiki(corpus, out, tmp_path, ask=lambda _node: again)
    assert "tell-whole" in again.places
    assert "The shop heats an oven" in stage.texts(out)["index.md"]
    silent = Scripted(of_shop)
    assert stage.wiki(corpus, out, tmp_path, ask=lambda _node: silent)[1:] == ((), 0)
    assert silent.places == []


def test_one_sentence_out_of_form_costs_no_other(repo: GitRepo, tmp_path: Path) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))

    def odd(place: str, prompt: str) -> object:
        answer: Any = of_shop(place, prompt)
        if place.startswith("support"):
            return answer
        wrong = [{"text": "y" * 12_000}, "no sentence", {"text": "It is.", "rests_on": "1"}]
        return {"sentences": [*answer["sentences"][:2], *wrong]}

    ask = Scripted(odd)
    out = tmp_path / "wiki"
    stage.wiki(corpus, out, tmp_path, ask=lambda _node: ask)
    assert HEAT in stage.texts(out)["modules/src.shop.oven.md"]
    assert "The shop heats an oven" in stage.texts(out)["index.md"]
    oven = LeafText(
        "src/shop/oven/control.py", "", stage.shop()["src/shop/oven/control.py"].encode()
    )
    told = tell(Scripted(odd), [oven])
    assert told.counts.rejected == 3
    assert told.uncovered == ()


LIE = "This was audited [here](https://evil.example) <b>and</b> is safe @alice."
OVEN = "src/shop/oven/control.py"


def forged(*quote: object, text: str = LIE) -> list[Any]:
    """A row of ``wiki.json`` that nobody but a change has written."""
    return [text, [list(quote)], [], "m-1", "", True]


HOSTILE: dict[str, Callable[[list[Any]], Any]] = {
    "a line that says nothing": lambda rows: rows.append(forged(OVEN, 3, 3, quote_hash(""))),
    "a file of another kind": lambda rows: rows.append(forged("README.md", 1, 1, held(rows)[3])),
    "a file that is not there": lambda rows: rows.append(forged("../secret.py", *held(rows)[1:4])),
    "lines that are not there": lambda rows: rows.append(forged(OVEN, 900, 901, "0" * 16)),
    "a sentence with no place of its own": lambda rows: rows.append(forged(OVEN, 10, 10, "0" * 16)),
    "another definition": lambda rows: rows.append(forged(OVEN, *held(rows)[1:4], "cool")),
    "a second quote that is none": lambda rows: rows.append(
        [LIE, [held(rows), [OVEN, 11, 11, "0" * 16]], *rows[0][2:]]
    ),
    "a function that is another": lambda rows: rows.append(
        [LIE, [held(rows)], [[OVEN, "heat", "0" * 16]], *rows[0][3:]]
    ),
    "half a character": lambda rows: rows.append(forged(OVEN, 10, 10, "0" * 16, text="\ud800")),
    "many lines": lambda rows: rows.append(forged(OVEN, 1, 900, held(rows)[3])),
    "many quotes": lambda rows: rows.append([LIE, [held(rows)] * 99, *rows[0][2:]]),
    "a flood": lambda rows: rows.extend([[f"{LIE} {n}", *rows[0][1:]] for n in range(999)]),
    "a book": lambda rows: rows.append([LIE * 999, *rows[0][1:]]),
}


def held(rows: list[Any]) -> list[Any]:
    """The quote of a sentence that holds."""
    [quote] = rows[0][1]
    return list(quote)


@pytest.mark.parametrize("how", HOSTILE)
@pytest.mark.full
def test_what_a_change_writes_into_the_state_is_judged_sentence_by_sentence(
    repo: GitRepo, tmp_path: Path, how: str
) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))
    out = tmp_path / "wiki"
    stage.wiki(corpus, out, tmp_path, ask=lambda _node: Scripted(of_shop))
    before = stage.texts(out)["modules/src.shop.oven.md"]
    record = json.loads((out / "wiki.json").read_text())
    HOSTILE[how](record["prose"][OVEN]["said"])
    (out / "wiki.json").write_text(json.dumps(record))
    pages, _, _ = stage.wiki(corpus, out, tmp_path)
    page = stage.texts(out)["modules/src.shop.oven.md"]
    # A sentence that is held by lines is text, however it came here; of those there are few.
    assert page.count("audited") == (14 if how == "a flood" else 0)
    assert [line for line in page.splitlines() if "audited" not in line] == before.splitlines()
    assert pages.sentences.dropped


def test_a_sentence_of_the_state_is_no_more_than_text(repo: GitRepo, tmp_path: Path) -> None:
    """Who knows the lines can say of them what a model could: in plain words, led to them."""
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))
    out = tmp_path / "wiki"
    stage.wiki(corpus, out, tmp_path, ask=lambda _node: Scripted(of_shop))
    text = (out / "wiki.json").read_text()
    (out / "wiki.json").write_text(text.replace(json.dumps(HEAT), json.dumps(LIE)))
    pages, _, _ = stage.wiki(corpus, out, tmp_path)
    stage.judge(pages, corpus, out, stage.opened(repo))
    page = stage.texts(out)["modules/src.shop.oven.md"]
    assert "<b>" not in page.replace("\\<b>", "")
    assert "](https://evil" not in page


LEAVES = Constraints(shape=TreeShape(leaf_files=1, leaf_bytes=200_000))


def module(words: str, size: int) -> str:
    """A file of which a prompt shows about as many bytes; some of its pieces are small."""
    rows = (f"def {words}_{n}(state):\n    return state + {n}\n\n\n" for n in range(size // 40))
    return "".join(rows)


def test_small_parts_of_several_folders_share_a_question(repo: GitRepo, tmp_path: Path) -> None:
    files = {f"part{n}/one.py": module(f"do{n}", 400) for n in range(5)}
    corpus = stage.corpus_of(repo, stage.commit_all(repo, {"README.md": "# Parts\n", **files}))
    asked: list[tuple[int, str]] = []

    def ask(node: Node) -> Scripted:
        def listens(place: str, prompt: str) -> object:
            asked.append((node.depth, place))
            return every_first(place, prompt)

        return Scripted(listens)

    out = tmp_path / "wiki"
    pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=ask, constraints=LEAVES)
    stage.judge(pages, corpus, out, stage.opened(repo))
    assert asked == [(0, "tell-1"), (0, "support-1"), (0, "tell-whole"), (0, "support-whole-1")]
    # Small changes of all of them do, too.
    asked.clear()
    changed = {path: text.replace("+ 1\n", "+ 100\n") for path, text in files.items()}
    corpus = stage.corpus_of(repo, stage.commit_all(repo, changed))
    stage.wiki(corpus, out, tmp_path, ask=ask, constraints=LEAVES)
    assert [place for _, place in asked if not place.startswith("support")] == ["tell-1"]


class Crowded(Scripted):
    """Counts how many questions wait at the same time: none is answered before so many do."""

    def __init__(self, answer: Answer, together: int) -> None:
        super().__init__(answer)
        self.barrier = threading.Barrier(together)
        self.most = self.waiting = 0
        self.lock = threading.Lock()

    def __call__(self, step: str, *rest: Any, **more: Any) -> Completion:
        with self.lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        if step in {f"tell-{number}" for number in range(2, 2 + self.barrier.parties)}:
            self.barrier.wait(30)
        try:
            return super().__call__(step, *rest, **more)
        finally:
            with self.lock:
                self.waiting -= 1


def test_questions_are_asked_side_by_side_behind_the_first() -> None:
    texts = [LeafText(f"part{n}/one.py", f"{n}" * 40, module(f"do{n}", 80_000).encode())
             for n in range(4)]  # fmt: skip
    ask = Crowded(every_first, 3)
    told = tell(ask, texts, concurrency=3)
    assert ask.places[0] == "tell-1"
    assert ask.most == 3
    assert told.uncovered == ()
    alone = Scripted(every_first)
    assert tell(alone, texts).data == told.data  # whatever the order of the answers
    assert sorted(alone.places) == sorted(ask.places)
    assert len(ask.places) == 4


@pytest.mark.full
def test_who_refuses_is_not_asked_in_another_round() -> None:
    texts = [LeafText(f"part{n}/one.py", f"{n:x}" * 40, module(f"do{n}", 80_000).encode())
             for n in range(16)]  # fmt: skip

    def spent(place: str, prompt: str) -> object:
        if place == "tell-4":
            raise LimitError("no room", budget="calls")
        return every_first(place, prompt)

    ask = Scripted(spent)
    told = tell(ask, texts, concurrency=2)
    assert len(ask.places) == 9
    assert {why.partition(":")[0] for _, why in told.uncovered} == {"budget"}
    assert 0 < len(told.data["prose"]) < 16


@pytest.mark.parametrize(
    ("files", "most"),
    [({"a.py": 400}, 8), ({"a.py": 80_000}, 13), ({f"{n}.py": 4_000 for n in range(30)}, 24)],
)
def test_a_prompt_has_as_many_sentences_as_its_files_need(files: dict[str, int], most: int) -> None:
    texts = [LeafText(path, "0" * 40, module("do", size).encode()) for path, size in files.items()]
    asked: list[int] = []

    def many(place: str, prompt: str) -> object:
        asked.extend(int(number) for number in re.findall(r"at most (\d+) sentences, and", prompt))
        rows = [
            sentence(f"`{line}`", path, (at, at), line)
            for (path, at), line in numbered(prompt).items()
            if line.startswith("def ")
        ]
        return {"sentences": rows} if place == "tell-1" else {"sentences": []}

    told = tell(Scripted(many), texts)
    assert asked[0] == most
    kept = sum(map(len, told.data["prose"].values()))
    assert kept == min(most, kept)
    beyond = [row for row in told.data["rejected"] if row[1][0].startswith("the answer has more")]
    assert bool(beyond) == (kept == most)


def test_what_is_no_part_of_the_program_costs_nothing(repo: GitRepo, tmp_path: Path) -> None:
    files = {
        "src/shop/sell.py": module("sell", 400),
        "tests/test_sell.py": module("test", 400),
        "tests/fixtures/broken.py": module("broken", 400),
        "src/shop/testdata/sample.py": module("sample", 400),
        "src/shop/_vendor/yaml.py": module("vendored", 400),
        "third_party/lib.py": module("third", 400),
        "src/shop/wire_pb2.py": "# @generated by a compiler. DO NOT EDIT.\n" + module("wire", 400),
        "mocks/oven.py": module("mocked", 400),
        "scripts/release.py": module("release", 400),
        "src/shop/templates/main.go": "package main\n\nfunc template() int {\n\treturn 1\n}\n",
    }  # fmt: skip
    prompts: list[str] = []

    def says(place: str, prompt: str) -> object:
        prompts.append(prompt)
        return every_first(place, prompt)

    rules = EligibilityRules(guess=True)
    corpus = corpora.at_commit(stage.opened(repo), stage.commit_all(repo, files), rules)
    out = tmp_path / "wiki"
    stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(says)))
    shown = {path for prompt in prompts for path, _ in numbered(prompt)}
    assert shown == {"src/shop/sell.py"}
    silent = Scripted(says)
    _, touched, read = stage.wiki(corpus, out, tmp_path, ask=all_by(silent))
    assert (silent.places, touched, read) == ([], (), 0)


def every_first(place: str, prompt: str) -> object:
    """Of each file in a prompt that its first line is there."""
    if place.startswith("support"):
        return supports(prompt)
    if place == "tell-whole":
        return {"sentences": [{"text": "It has parts.", "rests_on": [1]}]}
    first: dict[str, dict[str, Any]] = {}
    for (path, at), line in numbered(prompt).items():
        if line.startswith("def "):
            first.setdefault(path, sentence(f"{path[:5]} begins.", path, (at, at), line))
    return {"sentences": list(first.values())[:8]}


def test_the_whole_is_summed_up_in_the_question_that_is_asked_anyway(
    repo: GitRepo, tmp_path: Path
) -> None:
    files = stage.shop()
    out, oven = tmp_path / "wiki", "src/shop/oven/control.py"
    corpus = stage.corpus_of(repo, stage.commit_all(repo, files))
    stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(of_shop)))

    def both(place: str, prompt: str) -> object:
        answer: Any = of_shop(place, prompt)
        if place.startswith("support"):
            return supports(prompt, "lies")
        if "=== about the whole ===" in prompt:
            answer["whole"] = [
                {"text": "The shop bakes.", "rests_on": [1]},
                {"text": "The shop lies.", "rests_on": [1]},
                {"text": "The shop flies.", "rests_on": [1, 99]},
            ]
        return answer

    # What the whole rests on goes, and something else stays.
    changed = files[oven].replace("def heat(degrees: int)", "def heat(degrees: int, fast: bool)")
    corpus = stage.corpus_of(repo, stage.commit_all(repo, {oven: changed}))
    ask = Scripted(both)
    pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=all_by(ask))
    stage.judge(pages, corpus, out, stage.opened(repo))
    assert ask.places == ["tell-1", "support-1"]
    front = stage.texts(out)["index.md"]
    assert "The shop bakes." in front
    assert "The shop heats" not in front
    assert {one.text: why[0] for one, why in pages.sentences.dropped}.items() >= {
        "The shop lies.": "what it rests on does not support it",
        "The shop flies.": "it rests on a number that was not shown",
    }.items()
    for lie in ("The shop lies", "The shop flies"):
        assert lie not in front
    silent = Scripted(both)
    stage.wiki(corpus, out, tmp_path, ask=all_by(silent))
    assert silent.places == []
    # An answer that says nothing of the whole leaves the question open.
    corpus = stage.corpus_of(repo, stage.commit_all(repo, {oven: files[oven] + "\n# More.\n"}))
    stage.wiki(corpus, out, tmp_path)
    ask = Scripted(of_shop)
    stage.wiki(corpus, out, tmp_path, ask=all_by(ask))
    assert "tell-whole" in ask.places


def test_answers_that_are_none_are_asked_for_once_more() -> None:
    said = (ProseSentence("It is.", (QuotedLines("src/a.py", 1, 2, ""),)),)
    ask = Scripted(lambda place, _: "no" if "whole" in place else {"sentences": []})
    told = sum_up(ask, said)
    assert told.data == {}
    assert [path for path, _ in told.uncovered] == [""]
    assert ask.places == ["tell-whole", "tell-whole-repair"]
    assert tell(ask, ()).data["prose"] == {}


def test_a_place_that_the_model_was_not_shown_is_marked_in_a_sentence() -> None:
    """A sentence is held by its quote, and not for what else it names."""
    shown = LeafText("src/a.py", "0" * 40, b"def heat_the_oven():\n    return 1\n")
    claim = sentence("See src/a.py:2 and src/b.py:9.", "src/a.py", (1, 1), "def heat_the_oven():")
    ask = Scripted(lambda *_: {"sentences": [claim]})
    said = ProseSentence.from_dict(tell(ask, [shown]).data["prose"]["src/a.py"][0])
    assert said.text == "See src/a.py:2 and [unverified: src/b.py:9]."
    whole = Scripted(lambda *_: {"sentences": [{"text": "As a.py:1 does.", "rests_on": [1]}]})
    [row] = sum_up(whole, (said,)).data["whole"]["said"]
    assert row[0] == "As [unverified: a.py:1] does."


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        ("README.md", "\n# Shop #\n\nSells.\n", "Shop"),
        ("README.md", "---\na: b\n---\n[![x](y)](z)\n<br>\n# *The* `Shop`\n", "The `Shop`"),
        ("README.rst", "Shop\n====\n\nSells.\n", "Shop"),
        ("README.md", "Sells.\n# Shop\n", ""),
        ("README.md", "## Shop\n", ""),
        ("README.md", "# A heading that is a whole sentence\n", ""),
        ("docs/README.md", "# Shop\n", ""),
        ("README.md", "", ""),
    ],
)
def test_a_readme_names_the_project_by_its_first_heading(path: str, text: str, name: str) -> None:
    assert heading(text.encode(), path) == name
