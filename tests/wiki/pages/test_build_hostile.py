"""A repository that wants to be more than data: nothing of it does anything on a page."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.text.mermaid import DiagramBox, Message, flowchart, sequence
from rlm_ci.wiki import static_site
from rlm_ci.wiki.facts.file_facts import facts_of
from rlm_ci.wiki.pages.paths import page_names
from testing import browser
from testing import wiki_stage as stage
from testing.hostile_wiki import NAMES, hostile

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo


@pytest.fixture
def wiki(repo: GitRepo, tmp_path: Path) -> tuple[Path, list[str]]:
    commit = stage.commit_all(repo, hostile())
    corpus = stage.corpus_of(repo, commit)
    out = tmp_path / "wiki"
    pages, _, _ = stage.wiki(corpus, out, tmp_path)
    stage.judge(pages, corpus, out, stage.opened(repo))
    names = [page.name for page in pages.pages]
    assert len({name.lower() for name in names}) == len(names) >= len(NAMES)
    assert all(re.fullmatch(r"(modules/)?[\w][\w.-]*\.md", name, re.ASCII) for name in names)
    return out, [diagram for page in pages.pages for diagram in stage.diagrams(page.text)]


PAGE = """<!doctype html><meta charset="utf-8"><title>whole</title><body>
<script src="mermaid.js"></script>
<script>
const diagrams = @DIAGRAMS@;
mermaid.initialize({startOnLoad: false});
(async () => {
  const found = [];
  for (const [number, text] of diagrams.entries()) {
    try {
      await mermaid.parse(text);
      const {svg} = await mermaid.render('d' + number, text);
      const box = document.createElement('div');
      box.innerHTML = svg;
      found.push({
        labels: [...box.querySelectorAll('.node .nodeLabel')].map(one => one.textContent),
        tags: [...new Set([...box.querySelectorAll('*')].map(one => one.tagName.toLowerCase()))],
        messages: [...box.querySelectorAll('.messageText, .noteText')].map(one => one.textContent),
        arrows: box.querySelectorAll('.edgePaths path').length,
      });
    } catch (error) { found.push({error: String(error)}); }
  }
  document.body.innerHTML = '<pre id="found"></pre>';
  document.getElementById('found').textContent = JSON.stringify(found);
})();
</script>
"""


@pytest.mark.full
def test_diagrams_of_hostile_names_are_boxes_and_arrows_to_the_real_mermaid(
    wiki: tuple[Path, list[str]], tmp_path: Path
) -> None:
    diagrams = [
        *wiki[1],
        *(flowchart([DiagramBox("a", name)], ()) for name in NAMES),
        *(
            sequence([Message("", name, name), Message(name, "b", name, note=name)])
            for name in NAMES
        ),
    ]
    diagrams = [one.removeprefix("```mermaid\n").removesuffix("\n```") for one in diagrams]
    assert len(diagrams) > len(NAMES)
    script = static_site.mermaid_script()
    assert script is not None
    (tmp_path / "mermaid.js").write_bytes(script)
    listed = json.dumps(diagrams).replace("<", "\\u003c")
    (tmp_path / "page.html").write_text(PAGE.replace("@DIAGRAMS@", listed), encoding="utf-8")
    said = browser.chromium((tmp_path / "page.html").as_uri(), tmp_path, "--dump-dom")
    assert "<title>whole</title>" in said
    printed = re.search(r'<pre id="found">(.*?)</pre>', said, re.DOTALL)
    assert printed is not None
    for text, drawn in zip(diagrams, json.loads(unescape(printed[1])), strict=True):
        assert "error" not in drawn, (drawn["error"], text)
        if text.startswith("sequenceDiagram"):
            wanted = re.findall(r"^  (?:p\d+-+>>p\d+|Note over p\d+): (.*)$", text, re.MULTILINE)
            # What looks like an entity in a name is decoded, too, and stays text.
            shown = sorted(as_shown(one) for one in drawn["messages"])
            assert shown == sorted(as_shown(as_shown(one)) for one in wanted)
            assert not {"script", "a", "img", "iframe", "image"} & set(drawn["tags"])
            continue
        wanted = re.findall(r'^ +n\d+\["(.*)"\]$', text, re.MULTILINE)
        shown = [re.sub(r"#(\d+);", lambda found: chr(int(found[1])), one) for one in wanted]
        assert sorted(" ".join(one.split()) for one in drawn["labels"]) == sorted(
            " ".join(one.split()) for one in shown
        )
        assert drawn["arrows"] == len(re.findall(r"^  n\d+ --> n\d+$", text, re.MULTILINE))
        assert not {"script", "a", "img", "iframe", "image"} & set(drawn["tags"])


def as_shown(text: str) -> str:
    """A label without entities and without runs of blanks."""
    return " ".join(re.sub(r"#(\d+);", lambda found: chr(int(found[1])), text).split())


CALL = re.compile(
    r"sequenceDiagram|  autonumber|  participant p\d+ as [\w ./#;-]+"
    r"|  (?:p\d+->>p\d+|Note over p\d+): [\w ./#;-]+",
    re.ASCII,
)


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
def test_a_sequence_is_made_of_nothing_but_our_own_lines(names: list[str]) -> None:
    made = sequence([Message("", name, name, note=name) for name in names])
    lines = made.split("\n")
    assert (lines[0], lines[-1]) == ("```mermaid", "```")
    for line in lines[1:-1]:
        assert CALL.fullmatch(line), line


LINE = re.compile(
    r'flowchart TD| +subgraph g\d+\["[\w ./#;-]+"\]| +n\d+\["[\w ./#;-]+"\]|  end|  n\d+ --> n\d+',
    re.ASCII,
)


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5), st.text(max_size=30))
def test_a_diagram_is_made_of_nothing_but_our_own_lines(names: list[str], group: str) -> None:
    boxes = [DiagramBox(str(n), name, group) for n, name in enumerate(names)]
    lines = flowchart(boxes, [("0", str(n)) for n in range(len(names))]).split("\n")
    assert (lines[0], lines[-1]) == ("```mermaid", "```")
    for line in lines[1:-1]:
        assert LINE.fullmatch(line), line


@given(st.sets(st.text(max_size=130), max_size=8))
def test_pages_have_names_that_every_file_system_has(keys: set[str]) -> None:
    names = page_names(keys)
    assert len({name.lower() for name in names.values()}) == len(keys)
    for name in names.values():
        assert re.fullmatch(r"[A-Za-z0-9_][\w.-]{0,110}", name, re.ASCII), name
        assert name.split(".")[0].lower() not in ("con", "nul", "aux", "prn")


@given(st.binary(max_size=400))
def test_no_content_is_too_much(content: bytes) -> None:
    for path in ("a.py", "README.md", "pyproject.toml", "package.json", "b.js"):
        one = facts_of(path, content)
        assert all(note.line_end <= one.outline.lines + 1 for note in one.notes)
