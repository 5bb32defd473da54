"""The static site, as a browser shows it that reaches no other machine."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.wiki import static_site
from rlm_ci.wiki.pages.build import PageOptions
from rlm_ci.wiki.pages.citations import LinkDestination
from testing import browser
from testing import wiki_stage as stage
from testing.hostile_wiki import EVIL, hostile
from testing.markup_judges import Page

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

#: Opens the search, types, and leaves what it finds in the page.
SEARCH = """
<script>
addEventListener('load', async () => {
  const wait = () => fetch('/slowly').catch(() => null);
  const roots = () => [document, ...[...document.querySelectorAll('*')]
    .map(one => one.shadowRoot).filter(Boolean)];
  const all = what => roots().flatMap(root => [...root.querySelectorAll(what)]);
  let hits = [];
  for (let turn = 0; turn < 40 && !hits.length; turn++) {
    await wait();
    if (!all('input').some(one => one.type !== 'checkbox' && one.offsetHeight))
      all('[class*=search] button, button[class*=search]').forEach(one => one.click());
    for (const input of all('input')) {
      if (input.type === 'checkbox' || input.value === 'degrees') continue;
      input.focus(); input.value = 'degrees';
      input.dispatchEvent(new Event('input', {bubbles: true}));
      input.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
    }
    hits = all('a').map(one => one.href)
      .filter(href => /src\\.shop\\.oven/.test(href) && /[?&]h=|#/.test(href));
  }
  // What is drawn stands in closed shadow roots: that it takes room is all that can be seen.
  const drawn = [...document.querySelectorAll('div.mermaid')]
    .filter(one => one.offsetHeight > 40 && !one.textContent.includes('flowchart')).length;
  const map = document.querySelector('div.mermaid');
  const top = map.parentNode;
  top.style.maxWidth = '120px';
  await wait();
  const room = map.offsetWidth;
  const fits = map.scrollWidth <= room && document.documentElement.scrollWidth <= innerWidth;
  map.click();
  const zooms = !!document.querySelector('dialog[open] div.mermaid') && map.offsetWidth > room;
  map.click();
  const returns = map.parentNode === top && map.offsetWidth === room;
  const cells = [...document.querySelectorAll('article table[data-cards] td:nth-child(3)')];
  const cards = cells.length > 3 && cells.every(one => one.dataset.label
    && getComputedStyle(one).display.endsWith('block'));
  const [red] = getComputedStyle(document.body).backgroundColor.match(/\\d+/);
  const told = document.createElement('pre');
  told.id = 'told';
  told.textContent = JSON.stringify({hits, drawn, fits, zooms, returns, dark: red < 128, cards});
  document.body.append(told);
});
</script>
"""


def made(
    repo: GitRepo, tmp_path: Path, files: dict[str, str], options: PageOptions = stage.OPTIONS
) -> Path:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, files))
    stage.wiki(corpus, tmp_path / "wiki", tmp_path, options=options)
    built = static_site.build(str(tmp_path / "wiki"), str(tmp_path / "site"), os.environ)
    assert built == len(list((tmp_path / "wiki").rglob("*.md")))
    return tmp_path / "site"


@pytest.mark.full
def test_pages_diagrams_and_search_work_with_nothing_from_elsewhere(
    repo: GitRepo, tmp_path: Path
) -> None:
    folded = "".join(f"def f{number}(): ...\n" for number in range(20))
    out = made(repo, tmp_path, {**stage.shop(), "src/fold/a.py": folded})
    inside = (out / "modules/src.fold.html").read_text(encoding="utf-8").partition("<details")[2]
    assert "<code>f19</code>" in inside.partition("</details>")[0]
    text = (out / "index.html").read_text(encoding="utf-8")
    assert "Shop keeps orders of a small bakery" in text
    words = (out / "search.json").read_text(encoding="utf-8")
    assert "Heats the oven" in words
    assert not re.search("autonumber|flowchart|participant", words)
    page = out / "facts.html"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("</body>", f"{SEARCH}</body>"), encoding="utf-8")
    with browser.served(out) as (url, asked):
        said = browser.chromium(
            f"{url}/facts.html", tmp_path, "--dump-dom", "--window-size=500,900",
            "--blink-settings=preferredColorScheme=0",
        )  # fmt: skip
        picture = tmp_path / "site.png"
        browser.chromium(f"{url}/facts.html", tmp_path, f"--screenshot={picture}")
    told = re.search(r'<pre id="told">(.*?)</pre>', said)
    assert told is not None
    assert '"hits":["' in told[1]
    assert '"drawn":1,' in told[1]
    assert '"fits":true,"zooms":true,"returns":true,"dark":true,"cards":true' in told[1]
    assert any(path.startswith("/assets/mermaid") for path in asked)
    assert picture.stat().st_size > 20_000


#: Opens each page in a frame of 400 pixels, and leaves those in the page that need more, or have a
#: table that does.
FRAMES = """
<script>
addEventListener('load', async () => {
  const wide = [];
  for (const name of PAGES) {
    const frame = document.createElement('iframe');
    frame.style.cssText = 'width:400px;height:900px;border:0';
    frame.src = name;
    const loaded = new Promise(done => frame.onload = done);
    document.body.append(frame);
    await loaded;
    await fetch('/slowly').catch(() => null);
    const needs = frame.contentDocument.documentElement.scrollWidth;
    if (needs > 400) wide.push(`${name} ${needs}`);
    for (const table of frame.contentDocument.querySelectorAll('.md-typeset__scrollwrap'))
      if (table.scrollWidth > table.clientWidth)
        wide.push(`${name}: ${table.textContent.trim().slice(0, 40)}`);
    frame.remove();
  }
  const told = document.createElement('pre');
  told.id = 'told';
  told.textContent = JSON.stringify(wide);
  document.body.append(told);
});
</script>
"""


@pytest.mark.full
def test_no_page_is_wider_than_a_phone(repo: GitRepo, tmp_path: Path) -> None:
    folder = "a_folder_with_a_long_name/another_folder_with_a_long_name"
    name = "a_function_whose_name_is_longer_than_the_screen_of_any_phone_has_room_for"
    files = {
        **stage.shop(),
        f"{folder}/module_with_a_long_name.py": f"import os\n\n\ndef {name}():\n"
        f"    return os.environ['{name.upper()}']\n" * 4,
    }
    out = made(repo, tmp_path, files)
    pages = sorted(str(path.relative_to(out)) for path in out.rglob("*.html"))
    script = FRAMES.replace("PAGES", json.dumps([f"/{page}" for page in pages]))
    (out / "frames.html").write_text(f"<body>{script}</body>", encoding="utf-8")
    with browser.served(out) as (url, _):
        said = browser.chromium(
            f"{url}/frames.html", tmp_path, "--dump-dom", "--window-size=900,900"
        )
    assert '<pre id="told">[]</pre>' in said, re.findall(r'<pre id="told">(.*?)</pre>', said)


@pytest.mark.full
def test_a_hostile_repository_is_text_on_the_site_too(repo: GitRepo, tmp_path: Path) -> None:
    out = made(repo, tmp_path, hostile(), PageOptions(f"evil</title>{EVIL}", LinkDestination()))
    pages = list(out.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert EVIL not in text
        inside = [one for one in Page(text).root.all("script") if "document.title" in one.text()]
        assert inside == []
        for element in Page(text).root.all():
            assert not any(name.startswith("on") for name in element.attributes)
            for name in ("href", "src"):
                value = element.attributes.get(name) or ""
                assert "evil.example" not in value
                assert not value.startswith(("javascript", "http://evil"))
                if element.tag == "a" and "://" not in value and value[:1] not in ("#", "/", ""):
                    assert (page.parent / value.partition("#")[0]).exists(), value
    with browser.served(out) as (url, _):
        for name in ("index.html", "modules/pkg.plain.html"):
            said = browser.chromium(f"{url}/{name}", tmp_path, "--dump-dom")
            assert "<title>broken</title>" not in said
            assert "@alice" in said.replace("\u200b", "")


def test_a_folder_that_holds_something_else_is_left_alone(repo: GitRepo, tmp_path: Path) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))
    stage.wiki(corpus, tmp_path / "wiki", tmp_path)
    out = tmp_path / "site"
    out.mkdir()
    (out / "thesis.txt").write_text("the only copy")
    with pytest.raises(ConfigError, match="has other content"):
        static_site.build(str(tmp_path / "wiki"), str(out), os.environ)
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]
    with pytest.raises(ConfigError, match="no wiki"):
        static_site.build(str(out), str(tmp_path / "other"), os.environ)


@pytest.mark.full
def test_a_site_is_made_anew_over_the_last_one(repo: GitRepo, tmp_path: Path) -> None:
    out = made(repo, tmp_path, stage.shop())
    (out / "left-over.html").write_text("old")
    static_site.build(str(tmp_path / "wiki"), str(out), os.environ)
    assert not (out / "left-over.html").exists()
    assert (out / "modules" / "src.shop.html").is_file()


def test_without_the_extra_the_way_to_it_is_told(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))
    stage.wiki(corpus, tmp_path / "wiki", tmp_path)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(UnavailableError) as caught:
        static_site.build(str(tmp_path / "wiki"), str(tmp_path / "site"), os.environ)
    assert "[site]'" in caught.value.hint


def test_what_leads_to_no_page_is_told_by_its_place() -> None:
    from rlm_ci.wiki.static_site import _for_site

    text = (
        "- [`def f(x: list[int])`](../../../a/b.py#L3-L4) — Makes `x[0]`. "
        "[`a/b.py#L9`](../../a/b.py#L9)\n"
        "  - [`g`](../../a%20c/b.py#L5), ([import](../../a/b.py#L1)), [``h`i``](../../a/b.py#L2)\n"
        "- [page](modules/a.md) [`k`](https://github.com/a/b/blob/0/a.py#L1)\n"
    )
    assert _for_site(text) == (
        "- `def f(x: list[int])` `a/b.py#L3-L4` — Makes `x[0]`. `a/b.py#L9`\n"
        "    - `g` `a c/b.py#L5`, (import `a/b.py#L1`), ``h`i`` `a/b.py#L2`\n"
        "- [page](modules/a.md) [`k`](https://github.com/a/b/blob/0/a.py#L1)\n"
    )


def test_many_pages_are_listed_by_folder() -> None:
    from rlm_ci.wiki.static_site import _sections

    few = [(f"src/p{number:02}", f"{number}.md") for number in range(24)]
    assert _sections(few) == [{heading: name} for heading, name in few]
    many = [
        ("hooks", "h.md"),
        *(
            (f"src/p{n:02}{end}", f"{n}{end[:2]}.md")
            for n in range(9)
            for end in ("", "/a", "/b/c")
        ),
    ]
    found = _sections(many)
    assert found[0] == {"hooks": "h.md"}
    assert found[1] == {"src/p00": [{"src/p00": "0.md"}, {"a": "0/a.md"}, {"b/c": "0/b.md"}]}
    assert len(found) == 10
