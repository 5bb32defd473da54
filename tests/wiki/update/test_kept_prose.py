"""Nothing that was paid for is lost: each sentence stays for as long as its quote stands."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.recursion.corpus import corpus as corpora
from rlm_ci.recursion.corpus.eligibility import EligibilityRules
from rlm_ci.wiki.update.state import WHOLE, ProseSentence, WikiState
from testing import wiki_stage as stage
from testing.wiki_sentences import FILES, SAID, TILL, Scripted, all_by, says, sentence, supports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rlm_ci.recursion.corpus.corpus import Corpus
    from testing.repositories.git_repo import GitRepo

    Edit = Callable[[GitRepo], object]


def refused(_place: str, _prompt: str) -> object:
    raise RemoteError("the key was refused")


def spent(_place: str, _prompt: str) -> object:
    raise LimitError("no room", budget="calls")


def refused_later(place: str, prompt: str) -> object:
    return says(place, prompt) if place == "tell-1" else refused(place, prompt)


def change(path: str, old: str, new: str) -> Edit:
    def edit(repo: GitRepo) -> None:
        text = repo.read(path).decode()
        assert old in text
        repo.write(path, text.replace(old, new, 1))

    return edit


def wrapped(repo: GitRepo) -> None:
    inner = "".join(f"    {line}\n" if line else "\n" for line in TILL.split("\n"))
    repo.write("till/desk.py", f"if True:\n{inner}")


def reordered(repo: GitRepo) -> None:
    head, pay, tax, rest = TILL.split("\n\n\n")
    repo.write("till/desk.py", "\n\n\n".join((head, rest.rstrip("\n"), tax, pay)) + "\n")


def renamed(old: str, new: str, more: str = "") -> Edit:
    def edit(repo: GitRepo) -> None:
        text = repo.read(old).decode()
        (repo.path / old).unlink()
        repo.write(new, more + text)

    return edit


def several(*edits: Edit) -> Edit:
    def edit(repo: GitRepo) -> None:
        for one in edits:
            one(repo)

    return edit


TAXES = "def tax(net):\n    return net\n\n\ndef other():\n    return 0\n"
SHOW = TILL[TILL.index("    def show") : TILL.index("    def send")]
TAX = TILL[TILL.index("def tax") : TILL.index("class Receipt")]
#: An edit, and the sentences that go with it, each with the reason.
EDITS: dict[str, tuple[Edit, dict[str, str]]] = {
    "a function is appended": (
        lambda repo: repo.append("till/desk.py", "\n\ndef refund(net):\n    return -net\n"), {}),
    "a function is removed": (
        change("till/desk.py", TAX, ""), {"Home has a rate.": "its lines are gone"}),
    "one of two that end alike is removed": (
        change("till/desk.py", SHOW, ""), {"Showing is for others.": "its lines are gone"}),
    "a file is renamed": (renamed("store/stock.py", "store/counting.py"), {}),
    "nothing": (lambda repo: repo.append("README.md", "More.\n"), {}),
    "a line above": (change("till/desk.py", "\n\n\ndef pay", "\n\nRATES = {}\n\n\ndef pay"), {}),
    "functions are reordered": (reordered, {}),
    "all is indented": (wrapped, {}),
    "a signature is changed": (change("till/desk.py", "pay(net)", "pay(net, *, tip=0)"), {}),
    "a class is renamed": (change("till/desk.py", "class Receipt", "class Slip"), {}),
    "a quoted line is changed": (
        change("till/desk.py", "net + tax(net)", "tax(net)"),
        {"Taxes are on top.": "its lines are gone"}),
    "a file is renamed and changed": (
        renamed("till/desk.py", "till/counter.py", '"""Takes more."""\n'), {}),
    "a folder is renamed": (
        several(renamed("store/stock.py", "depot/stock.py"),
                renamed("store/shelf.py", "depot/shelf.py")), {}),
    "a file is removed": (
        lambda repo: (repo.path / "store/stock.py").unlink(),
        {"All things count.": "its file is gone"}),
    "a file is cut in two": (
        several(renamed("till/desk.py", "till/receipt.py"), change("till/receipt.py", TAX, ""),
                lambda repo: repo.write("till/taxes.py", TAX)), {}),
    "a new module": (lambda repo: repo.write("door/bell.py", "def ring(times):\n    pass\n"), {}),
    "line ends": (lambda repo: repo.write("till/desk.py", TILL.replace("\n", "\r\n")), {}),
}  # fmt: skip
#: Who is asked, if anybody is.
MODELS: dict[str, Callable[[str, str], object] | None] = {
    "no model": None,
    "a refused endpoint": refused,
    "an endpoint that fails later": refused_later,
    "no budget": spent,
    "garbage": lambda _place, _prompt: "no",
    "lies": lambda _place, _prompt: {
        "sentences": [
            {**sentence("It flies.", "a", (1, 1), "nothing of this"), "rests_on": [999]}]},
    "a model": says,
}  # fmt: skip
CASES = [(edit, model) for model in MODELS for edit in EDITS]


@pytest.mark.sample(4)
@pytest.mark.parametrize(("edit", "model"), CASES)
def test_a_sentence_stays_while_its_quote_stands(
    repo: GitRepo, tmp_path: Path, edit: str, model: str
) -> None:
    out, ask = tmp_path / "wiki", Scripted(says)
    corpus = stage.corpus_of(repo, stage.commit_all(repo, FILES))
    pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=all_by(ask))
    assert pages.sentences.summary() == "7 new sentences"
    apply, lost = EDITS[edit]
    apply(repo)
    corpus = stage.corpus_of(repo, repo.commit(edit))
    answer = MODELS[model]
    asked = None if answer is None else Scripted(answer)
    way = None if asked is None else all_by(asked)
    pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=way)
    stage.judge(pages, corpus, out, stage.opened(repo))
    said = of(out)
    found = {one.text for one in said}
    if answer in (
        says,
        refused_later,
    ):  # it may say of another place what it said of the one that is gone
        found -= lost.keys()
    assert found == {*SAID, "It is a shop."} - lost.keys()
    dropped = {one.text: why[0] for one, why in pages.sentences.dropped}
    assert dropped.items() >= lost.items()
    assert_right_places(corpus, said)
    shown = "".join(text for name, text in stage.texts(out).items() if name.endswith(".md"))
    for text in SAID:
        assert (text in shown) == (text in {one.text for one in said}), text
    if model in ("no model", "a model"):  # else it is asked again, and may say something
        again, touched, read = stage.wiki(corpus, out, tmp_path, ask=way)
        assert (touched, read) == ((), 0)
        # What a quoted line called is gone: nobody is there to look at the line again.
        doubt = (
            ", 1 not judged yet" if (edit, model) == ("a function is removed", "no model") else ""
        )
        assert again.sentences.summary() == f"{len(said)} sentences kept{doubt}"


def of(out: Path) -> list[ProseSentence]:
    state = WikiState.read(str(out))
    assert state is not None
    return [said for one in state.prose.values() for said in one.said]


def assert_right_places(corpus: Corpus, said: list[ProseSentence]) -> None:
    contents = {
        file.path: content.decode()
        for file, content in zip(corpus.files, corpus.read(corpus.files), strict=True)
    }
    for one in said:
        if one.text in SAID:
            lines = contents[one.path].splitlines()
            there = [line.strip() for line in lines[one.line_start - 1 : one.line_end]]
            assert there == [line.strip() for line in SAID[one.text][1].split("\n")], one
            above = [line for line in lines[: one.line_start] if line.lstrip().startswith("def ")]
            if one.text == "Sending is for others.":
                assert "def send" in above[-1]


def test_only_what_changed_is_asked_about_also_in_a_fresh_checkout(
    repo: GitRepo, tmp_path: Path
) -> None:
    """What is kept between runs is not committed: a job in CI has ``wiki.json`` alone."""
    out = tmp_path / "wiki"
    corpus = stage.corpus_of(repo, stage.commit_all(repo, FILES))
    stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(says)))
    silent = Scripted(says)
    work = tmp_path / "elsewhere"
    work.mkdir()
    _, touched, read = stage.wiki(corpus, out, work, ask=all_by(silent))
    assert (silent.places, touched, read) == ([], (), len(FILES))
    EDITS["a function is appended"][0](repo)
    corpus = stage.corpus_of(repo, repo.commit("more"))
    prompts: list[str] = []

    def listens(place: str, prompt: str) -> object:
        prompts.append(prompt)
        return says(place, prompt)

    stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(listens)))
    [asked] = prompts
    assert "def refund" in asked
    assert "=== store/" not in asked
    assert "- till/desk.py:5: Taxes are on top." in asked


@pytest.mark.parametrize("at", [0, 250, 499])
@pytest.mark.full
def test_a_small_change_asks_at_most_what_shows_it(repo: GitRepo, tmp_path: Path, at: int) -> None:
    """Nine lines of one function change in one of two files: one call shows that part of it."""
    functions = [
        f"def step_{n}(state):\n    left = state - {n}\n    return left\n" for n in range(500)
    ]
    files = {"long.py": "\n".join(functions), "short.py": "def first(state):\n    return state\n"}
    out, prompts = tmp_path / "wiki", []

    def listens(place: str, prompt: str) -> object:
        prompts.append((place, prompt))
        return says(place, prompt)

    stage.wiki(stage.corpus_of(repo, stage.commit_all(repo, files)), out, tmp_path,
               ask=all_by(Scripted(listens)))  # fmt: skip
    assert [place for place, _ in prompts] == ["tell-1"]
    assert len(prompts.pop()[1]) < 0.7 * len(files["long.py"])
    new = "".join(f"    state += {n}\n" for n in range(9))
    functions[at] = functions[at].replace("    return", new + "    return")
    repo.write("long.py", "\n".join(functions)).commit("more")
    corpus = stage.corpus_of(repo, repo.commit("more"))
    stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(listens)))
    [(place, prompt)] = prompts
    assert place == "tell-1"
    assert new.count("\n") == sum(
        bool(re.search(r"\|    state \+= ", row)) for row in prompt.split("\n")
    )
    assert f"def step_{at}(" in prompt
    assert "short.py" not in prompt
    assert len(prompt) < 16_000


def test_a_line_that_fits_no_prompt_is_not_asked_about_for_ever(
    repo: GitRepo, tmp_path: Path
) -> None:
    text = "def price(net):\n    return net\n\n\nTABLE = " + repr("x" * 20_000) + "\n"
    corpus = stage.corpus_of(repo, stage.commit_all(repo, {"shop.py": text}))
    out, asked = tmp_path / "wiki", []
    for _ in range(2):
        ask = Scripted(lambda _place, _prompt: {"sentences": []})
        ask.max_bytes = 16_000
        stage.wiki(corpus, out, tmp_path, ask=all_by(ask))
        asked.append(len(ask.places))
    assert asked == [1, 0]


def test_new_sentences_about_the_same_lines_are_bounded(repo: GitRepo, tmp_path: Path) -> None:
    out, told = tmp_path / "wiki", ""
    stage.commit_all(repo, FILES)
    for turn in range(5):

        def more(place: str, prompt: str, turn: int = turn) -> object:
            answer: Any = says(place, prompt.replace(" on top.", ""))
            if place.startswith("tell-") and place != "tell-whole":
                found = [one for one in answer["sentences"] if one["text"] == "Taxes are on top."]
                answer = {"sentences": [{**one, "text": f"{turn} {n} {one['text']}"}
                                        for one in found for n in range(8)]}  # fmt: skip
            return answer

        repo.append("till/desk.py", f"# {turn}\n")
        corpus = stage.corpus_of(repo, repo.commit(str(turn)))
        pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(more)))
        assert len([one for one in of(out) if "on top" in one.text]) == min(16, 8 + 8 * turn)
        told = pages.sentences.summary()
    assert "8 replaced by newer ones" in told


def test_what_an_earlier_version_kept_by_folder_is_kept(repo: GitRepo, tmp_path: Path) -> None:
    out = tmp_path / "wiki"
    corpus = stage.corpus_of(repo, stage.commit_all(repo, FILES))
    stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(says)))
    record = json.loads((out / "wiki.json").read_text())
    rows = [[row[0], *row[1][0][:4]] for one in record["prose"].values() for row in one["said"]]
    record["version"] = 2
    record["prose"] = {"till": {"digest": "0" * 64, "model": "m", "said": rows}, WHOLE: {
        "digest": "", "model": "m", "said": rows[:1]}}  # fmt: skip
    (out / "wiki.json").write_text(json.dumps(record))
    pages, _, _ = stage.wiki(corpus, out, tmp_path)
    assert pages.sentences.summary() == "8 sentences kept, 8 not judged yet"
    assert {one.text for one in of(out)} == {*SAID, "It is a shop."}


def test_a_place_that_nobody_looked_up_is_marked_in_a_kept_sentence(
    repo: GitRepo, tmp_path: Path
) -> None:
    out = tmp_path / "wiki"
    corpus = stage.corpus_of(repo, stage.commit_all(repo, FILES))
    stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(says)))
    text = (out / "wiki.json").read_text()
    lie = "Audited: see store/shelf.py:4, till/desk.py:999 and /etc/passwd:1."
    (out / "wiki.json").write_text(text.replace("Taxes are on top.", lie))
    stage.wiki(corpus, out, tmp_path)
    told = "see store/shelf.py:4, [unverified: till/desk.py:999] and [unverified: /etc/passwd:1]."
    assert any(told in one.text for one in of(out))
    repo.append("store/shelf.py", "\n")
    stage.wiki(stage.corpus_of(repo, repo.commit("more")), out, tmp_path)
    assert any("see [unverified: store/shelf.py:4]" in one.text for one in of(out))


def test_what_is_outside_of_the_scope_goes_by_that_name(repo: GitRepo, tmp_path: Path) -> None:
    out = tmp_path / "wiki"
    commit = stage.commit_all(repo, FILES)
    stage.wiki(stage.corpus_of(repo, commit), out, tmp_path, ask=all_by(Scripted(says)))
    rules = EligibilityRules(exclude=("shelf.py",))
    corpus = corpora.at_commit(stage.opened(repo), commit, rules, "store")
    pages, _, _ = stage.wiki(corpus, out, tmp_path, under="store")
    told = pages.sentences.summary()
    assert "2 dropped: their files are left out" in told
    assert "4 dropped: their files are outside of the folder looked at" in told
    assert (
        "dropped: till/desk.py#L5-L5, its file is outside of the folder looked at: Taxes are"
        in ("\n".join(pages.sentences.rows()))
    )


CALLED = {
    "the function that a quoted line calls": (
        "store/tax.py", TAXES.replace("return net", "return 2 * net"), "return 2 * net"),
    "a function is added": ("store/tax.py", f"{TAXES}\n\ndef more():\n    pass\n", ""),
    "its place": ("store/tax.py", f"# Moved.\n\n{TAXES}", ""),
    "a function that it does not call": (
        "store/tax.py", TAXES.replace("return 0", "return 1"), ""),
    "it is gone": ("store/tax.py", TAXES.replace("def tax(net):\n    return net", ""), "gone"),
}  # fmt: skip


@pytest.mark.parametrize("edit", CALLED)
@pytest.mark.sample(2)
def test_a_sentence_whose_lines_call_what_changed_is_asked_about_again(
    repo: GitRepo, tmp_path: Path, edit: str
) -> None:
    files = {
        "till/pay.py": "from store.tax import tax\n\n\ndef pay(net):\n    return net + tax(net)\n",
        "store/__init__.py": "", "store/tax.py": TAXES,
    }  # fmt: skip
    out, told = tmp_path / "wiki", "The due is net with all that is due on it."
    quote = sentence(told, "till/pay.py", (5, 5), "    return net + tax(net)")

    def says(place: str, prompt: str) -> object:
        prompts.append((place, prompt))
        if place.startswith("support"):
            return supports(prompt, *lies)
        return {"sentences": [quote] if "def pay" in prompt and told not in prompt else []}

    prompts: list[tuple[str, str]] = []
    lies: list[str] = []
    corpus = stage.corpus_of(repo, stage.commit_all(repo, files))
    stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(says)))
    path, text, shown = CALLED[edit]
    repo.write(path, text)
    corpus = stage.corpus_of(repo, repo.commit(edit))
    # Without a model it stays, and the page says that nobody has looked at it again.
    pages, _, _ = stage.wiki(corpus, tmp_path / "wiki", tmp_path)
    assert pages.sentences.dropped == ()
    assert told in stage.texts(out)["modules/till.md"]
    assert ("nobody has asked" in stage.texts(out)["modules/till.md"]) == bool(shown)
    prompts.clear()
    lies.append("net with all")
    pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(says)))
    asked = [prompt for place, prompt in prompts if place.startswith("support")]
    assert len(asked) == bool(shown)
    assert len([place for place, _ in prompts if place.startswith("tell-1")]) <= 1
    if shown:
        assert f"[1] {told}\n    >     return net + tax(net)" in asked[0]
        assert (shown in asked[0]) == (edit != "it is gone")
        assert [why[0] for _, why in pages.sentences.dropped] == ["its lines do not support it"]
    again = Scripted(says)
    pages, touched, _ = stage.wiki(corpus, out, tmp_path, ask=all_by(again))
    assert (again.places, touched) == ([], ())
    assert (told in stage.texts(out)["modules/till.md"]) == (not shown)


def test_what_was_judged_again_is_tracked_again(repo: GitRepo, tmp_path: Path) -> None:
    files = {"shop.py": f"{TAXES}\n\ndef pay(net):\n    return net + tax(net)\n"}
    quote = sentence("It pays.", "shop.py", (10, 10), "    return net + tax(net)")

    def says(place: str, prompt: str) -> object:
        if place.startswith("support"):
            return supports(prompt)
        return {"sentences": [quote] if "It pays." not in prompt else []}

    for turn in range(3):
        ask = Scripted(says)
        corpus = stage.corpus_of(repo, stage.commit_all(repo, files))
        stage.wiki(corpus, tmp_path / "wiki", tmp_path, ask=all_by(ask))
        assert [place for place in ask.places if place == "support-1"] == ["support-1"], turn
        [said] = of(tmp_path / "wiki")
        assert [called.name for called in said.called] == ["tax"]
        assert said.is_supported
        tax = files["shop.py"].replace("def tax(net):\n", f"def tax(net):\n    net += {turn}\n")
        files = {"shop.py": tax}
