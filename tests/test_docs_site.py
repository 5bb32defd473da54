"""The site of the documentation: all of it works in a browser that reaches no other machine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from test_links import TOP, anchors

from testing import browser
from testing.markup_judges import Page

CONFIG = tomllib.loads((TOP / "docs" / "zensical.toml").read_text("utf-8"))["project"]
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
    if (!all('input').some(one => one.type !== 'radio' && one.offsetHeight))
      all('[class*=search] button, button[class*=search]').forEach(one => one.click());
    for (const input of all('input')) {
      if (input.type === 'radio' || input.type === 'checkbox' || input.value) continue;
      input.focus(); input.value = 'bubblewrap';
      input.dispatchEvent(new Event('input', {bubbles: true}));
      input.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
    }
    hits = all('a').map(one => one.href).filter(href => /sandbox\\.html\\?h=/.test(href));
  }
  // What is drawn stands in closed shadow roots: that it takes room is all that can be seen.
  const drawn = [...document.querySelectorAll('div.mermaid')]
    .filter(one => one.offsetHeight > 40 && !one.textContent.includes('flowchart')).length;
  const told = document.createElement('pre');
  told.id = 'told';
  told.textContent = JSON.stringify({hits: hits.length, drawn,
    scheme: document.body.getAttribute('data-md-color-scheme')});
  document.body.append(told);
});
</script>
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("docs")
    argv = [sys.executable, str(TOP / "docs" / "make_site.py"), str(work)]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return work / "site"


def pages(nav: Any) -> list[str]:
    """The pages of the navigation, in order."""
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [page for entry in entries for page in pages(entry)]


def test_the_navigation_has_every_page_once() -> None:
    top = {"index.md", "contributing.md", "changelog.md"}
    docs = TOP / "docs"
    known = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} | top
    assert sorted(pages(CONFIG["nav"])) == sorted(known), "docs/zensical.toml: nav"


def test_how_it_works_draws_each_walk_of_the_architecture() -> None:
    """Under the same title, what happens."""
    text = (TOP / "docs" / "architecture.md").read_text("utf-8")
    drawn = (TOP / "docs" / "how-it-works.md").read_text("utf-8")
    walks = re.findall(r"^## Walk (.+)$", text, re.MULTILINE)
    assert walks
    assert re.findall(r"^## (.+)$", drawn, re.MULTILINE) == walks
    for section in drawn.split("\n## ")[1:]:
        assert section.count("\nflowchart ") == 1, section.partition("\n")[0]


@pytest.mark.full
def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    ids: dict[Path, set[str]] = {}
    trees = {path: Page(path.read_text("utf-8")).root for path in site.rglob("*.html")}
    for path, root in trees.items():
        elements = root.all()
        ids[path] = {one.attributes.get("id") or "" for one in elements}
    for path, root in trees.items():
        for element in root.all("a", "img", "link", "script"):
            target = element.attributes.get("href") or element.attributes.get("src") or ""
            if path.name == "404.html" or not target:
                continue
            if re.match(r"[a-z]+:|//", target):
                # A link may lead elsewhere; what a page loads may not.
                assert element.tag in ("a", "link"), target
                assert element.attributes.get("rel") != "stylesheet", target
                continue
            name, _, anchor = target.partition("#")
            place = (path.parent / unquote(name).partition("?")[0]).resolve() if name else path
            place = place / "index.html" if place.is_dir() else place
            assert place.exists(), f"{path.name}: {target}"
            if anchor and place in ids:
                assert unquote(anchor) in ids[place], f"{path.name}: {target}"


@pytest.mark.full
def test_headings_have_the_anchors_that_github_gives_them(site: Path) -> None:
    for source in (TOP / "docs").rglob("*.md"):
        built = site / source.relative_to(TOP / "docs").with_suffix(".html")
        made = Page(built.read_text("utf-8")).root.all()
        known = {one.attributes.get("id") for one in made}
        assert anchors(source.read_text("utf-8")) <= known, source.name


@pytest.mark.full
def test_search_diagrams_and_dark_mode_work_with_nothing_from_elsewhere(
    site: Path, tmp_path: Path
) -> None:
    page = site / "how-it-works.html"
    text = page.read_text("utf-8")
    (site / "tried.html").write_text(text.replace("</body>", f"{SEARCH}</body>"), "utf-8")
    told = []
    with browser.served(site) as (url, asked):
        for dark in ("1", "0"):
            scheme = f"--blink-settings=preferredColorScheme={dark}"
            said = browser.chromium(f"{url}/tried.html", tmp_path / dark, "--dump-dom", scheme)
            found = re.search(r'<pre id="told">(.*?)</pre>', said)
            assert found is not None
            told.append(json.loads(found[1]))
    assert [one["scheme"] for one in told] == ["default", "slate"]
    assert all(one["drawn"] == 4 and one["hits"] for one in told), told
    assert "/assets/mermaid.min.js" in asked
