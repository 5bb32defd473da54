"""What a question about the whole is shown besides sentences."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from rlm_ci.wiki.facts.file_facts import facts_of
from rlm_ci.wiki.objective import survey, texts
from rlm_ci.wiki.prose.whole_prose import background, documents, ground_rows, grounds
from rlm_ci.wiki.update.state import FLOW, WHOLE, ProseSentence, QuotedLines
from testing import wiki_stage as stage
from testing.wiki_sentences import Scripted, all_by, of_flows, supports

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

FILES = {
    "README.md": "# Shop\n\nIt bakes.\n" + "long " * 2_000,
    "pyproject.toml": '[project]\nname = "shop"\n',
    "docs/README.md": "# Of the docs\n",
    "src/oven/heat.py": "def heat():\n    return 1\n",
    "src/till/pay.py": "from oven.heat import heat\n\ndef pay():\n    return heat()\n",
}
PROGRAM = {
    "README.md": "# Shop\n\nIt sells bread and rolls.\n",
    "pyproject.toml": '[project]\nname = "shop"\n[project.scripts]\nshop = "till:main"\n',
    "src/till.py": "def main():\n    return pay(3)\n\n\ndef pay(net):\n    return net * 2\n",
}


def sentence(path: str, text: str) -> ProseSentence:
    return ProseSentence(text, (QuotedLines(path, 1, 1, "x"),))


def shown(repo: GitRepo) -> str:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, FILES))
    read = texts(corpus, [file.path for file in corpus.files])
    facts = {path: facts_of(path, text.complete) for path, text in read.items()}
    found = survey(corpus, facts, None)
    return background(corpus, found.layout, found.graph)


def test_manifests_folders_and_imports(repo: GitRepo) -> None:
    told = shown(repo)
    assert told.startswith('=== pyproject.toml ===\n[project]\nname = "shop"\n')
    assert "src/oven: 1 file, " in told
    assert "=== imports of modules ===\nsrc/till: src/oven" in told
    assert "Of the docs" not in told
    assert "It bakes" not in told  # the whole may rest on it: it is among the grounds


def test_paragraphs_of_readme_and_contributing_are_grounds(repo: GitRepo) -> None:
    guides = {
        "CONTRIBUTING.md": "# How\n\nRun all tests with tox.\n\n- A fix has its test first.\n",
        "docs/contributing.md": "Older words that nobody reads.\n",
        "README.md": "# Shop\n\n[![x](y)](z)\n\nIt bakes bread and rolls\nfor all.\n",
    }
    corpus = stage.corpus_of(repo, stage.commit_all(repo, FILES | guides))
    found = documents(corpus)
    told = {
        path: [(row.text, row.line_start, row.line_end) for row in rows]
        for path, rows in found.items()
    }
    assert told == {
        "CONTRIBUTING.md": [("Run all tests with tox.", 3, 3), ("A fix has its test first.", 5, 5)],
        "README.md": [("It bakes bread and rolls for all.", 5, 6)],
    }
    said = {
        "a/heat.py": [sentence("a/heat.py", "It heats.")],
        f"{FLOW}a/heat.py#main": [sentence("a/heat.py", "Then it bakes.")],
        WHOLE: [sentence("a/heat.py", "It is all.")],
    }
    rows = ground_rows(grounds(said, found))
    assert rows == [
        "[1] a/heat.py: Then it bakes.", "[2] a/heat.py: It heats.",
        "[3] CONTRIBUTING.md: Run all tests with tox.",
        "[4] README.md: It bakes bread and rolls for all.",
        "[5] CONTRIBUTING.md: A fix has its test first.",
    ]  # fmt: skip
    assert grounds({}, found) == []  # what nobody looked at is no summary of the code


def test_a_sentence_about_the_whole_rests_on_a_flow_and_on_documents(
    repo: GitRepo, tmp_path: Path
) -> None:
    files = PROGRAM | {"CONTRIBUTING.md": "# How\n\nRun all tests with tox.\n"}
    out, prompts = tmp_path / "wiki", []

    def says(place: str, prompt: str) -> object:
        if place.startswith("support"):
            prompts.append(prompt)
            return supports(prompt)
        if place != "tell-whole":
            return {"sentences": of_flows(prompt)}
        rests = [int(row) for row in re.findall(r"(?m)^\[(\d+)\] (?:README|CONTRI|src)", prompt)]
        return {"sentences": [{"text": "It is a shop with a till.", "rests_on": rests}]}

    corpus = stage.corpus_of(repo, stage.commit_all(repo, files))
    pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(says)))
    stage.judge(pages, corpus, out, stage.opened(repo))
    [line] = [row for row in stage.texts(out)["index.md"].split("\n") if "with a till" in row]
    for place in ("src/till.py#L5", "CONTRIBUTING.md#L3", "README.md#L3"):
        assert place in line
    grounds_of_it = prompts[-1].partition("It is a shop with a till.")[2]
    for words in ("At the end", "Run all tests with tox.", "It sells bread and rolls."):
        assert f"    > {words}" in grounds_of_it
    # It stands as long as all of that does; a change of a document alone asks nothing about code.
    repo.write("CONTRIBUTING.md", "# How\n\nRun all tests with nox.\n")
    corpus = stage.corpus_of(repo, repo.commit("nox"))
    ask = Scripted(says)
    pages, _, _ = stage.wiki(corpus, out, tmp_path, ask=all_by(ask))
    assert [why[0] for _, why in pages.sentences.dropped] == ["its lines are gone"]
    assert ask.places == ["tell-whole", "support-whole-1"]
    assert "with a till" in stage.texts(out)["index.md"]


def test_a_document_is_no_ground_of_what_is_said_of_sources(repo: GitRepo, tmp_path: Path) -> None:
    out = tmp_path / "wiki"

    def says(place: str, prompt: str) -> object:
        if place.startswith("support"):
            return supports(prompt)
        return {"sentences": of_flows(prompt)}

    corpus = stage.corpus_of(repo, stage.commit_all(repo, PROGRAM))
    stage.wiki(corpus, out, tmp_path, ask=all_by(Scripted(says)))
    record = json.loads((out / "wiki.json").read_text())
    row = record["prose"][f"{FLOW}src/till.py#main"]["said"][0]
    quote = documents(corpus)["README.md"][0].quotes[0]
    record["prose"]["src/till.py"]["said"].append(["Audited.", [list(quote)[:4]], *row[2:]])
    (out / "wiki.json").write_text(json.dumps(record))
    pages, _, _ = stage.wiki(corpus, out, tmp_path)
    assert [why[0] for _, why in pages.sentences.dropped] == ["it quotes what is no source"]
    assert "Audited" not in "".join(page.text for page in pages.pages)


def test_each_file_has_a_sentence_before_one_has_a_second() -> None:
    said = {
        "a/big.py": [sentence("a/big.py", f"{at}") for at in range(300)],
        "a/two.py": [sentence("a/two.py", "two")],
        "b/three.py": [sentence("b/three.py", "three")],
    }
    found = [one.text for one in grounds(said)]
    assert found[:4] == ["0", "two", "three", "1"]
    assert len(found) == 240
