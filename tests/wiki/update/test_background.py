"""What a question about the whole is shown besides sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlm_ci.wiki.facts.file_facts import facts_of
from rlm_ci.wiki.prose.whole_prose import grounds, sum_up
from rlm_ci.wiki.update.background import background
from rlm_ci.wiki.update.state import ProseSentence, QuotedLines
from rlm_ci.wiki.update.survey import survey, texts
from testing import wiki_stage as stage
from testing.wiki_sentences import Scripted

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo

FILES = {
    "README.md": "# Shop\n\nIt bakes.\n" + "long " * 2_000,
    "pyproject.toml": '[project]\nname = "shop"\n',
    "docs/README.md": "# Of the docs\n",
    "src/oven/heat.py": "def heat():\n    return 1\n",
    "src/till/pay.py": "from oven.heat import heat\n\ndef pay():\n    return heat()\n",
}


def sentence(path: str, text: str) -> ProseSentence:
    return ProseSentence(text, (QuotedLines(path, 1, 1, "x"),))


def shown(repo: GitRepo) -> str:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, FILES))
    read = texts(corpus, [file.path for file in corpus.files])
    facts = {path: facts_of(path, text.complete) for path, text in read.items()}
    found = survey(corpus, facts, None)
    return background(corpus, found.layout, found.graph)


def test_readme_manifests_folders_and_imports(repo: GitRepo) -> None:
    told = shown(repo)
    assert told.startswith("=== README.md ===\n# Shop\n\nIt bakes.\n")
    assert '=== pyproject.toml ===\n[project]\nname = "shop"\n' in told
    assert "src/oven: 1 file, " in told
    assert "=== imports of modules ===\nsrc/till: src/oven" in told
    assert "Of the docs" not in told
    assert len(told) < 5_000


def test_the_question_about_the_whole_has_it_and_nothing_rests_on_it(repo: GitRepo) -> None:
    prompts: list[str] = []

    def say(_place: str, prompt: str) -> object:
        prompts.append(prompt)
        return {"sentences": [{"text": "It pays.", "rests_on": []}]}

    told = sum_up(Scripted(say), (sentence("a.py", "It is."),), shown(repo))
    assert "=== README.md ===" in prompts[0]
    assert "nothing rests on it" in " ".join(prompts[0].split())
    assert told.data["whole"]["said"] == []


def test_each_file_has_a_sentence_before_one_has_a_second() -> None:
    said = {
        "a/big.py": [sentence("a/big.py", f"{at}") for at in range(300)],
        "a/two.py": [sentence("a/two.py", "two")],
        "b/three.py": [sentence("b/three.py", "three")],
    }
    found = [one.text for one in grounds(said)]
    assert found[:4] == ["0", "two", "three", "1"]
    assert len(found) == 240
