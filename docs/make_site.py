"""Build the documentation as a static site: ``make docs``. An argument names a new folder for it.

The pages are those that GitHub shows. A link that leaves them, to a source or a schema, leads to
GitHub on the site. Nothing is loaded from elsewhere: Mermaid's script comes from a package.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from rlm_ci.wiki.static_site import mermaid_script

TOP = Path(__file__).resolve().parent.parent
CONFIG = TOP / "docs" / "zensical.toml"
#: Pages of the site that stand at the top of the repository.
NAMES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
STYLE = """\
.md-typeset table:not([class]) th { min-width: 0; }
.md-typeset table:not([class]) td:first-child code { white-space: nowrap; }
.md-typeset table:not([class]) td code { overflow-wrap: anywhere; }
.md-typeset .mermaid { overflow-x: auto; }
"""
#: Code, in which nothing is a link, or the target of a link.
_LINKS = re.compile(
    r"^ *(?P<fence>`{3,}).*?^ *(?P=fence)$"
    r"|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
    r"|\]\((?P<target>[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


def sources() -> dict[str, Path]:
    """The pages of the site, by their names there."""
    docs = TOP / "docs"
    pages = {path.relative_to(docs).as_posix(): path for path in docs.rglob("*.md")}
    return pages | {name: TOP / path for path, name in NAMES.items()}


def page(source: Path, repository: str) -> str:
    """The text of a page with the links of the site; ``repository`` is the address of the files."""
    folder = source.parent.relative_to(TOP).as_posix()
    docs = {path.relative_to(TOP).as_posix() for path in sources().values()}
    pictures = {f"docs/{path.name}" for path in (TOP / "docs").glob("*.png")}
    own_folder = folder.removeprefix("docs").removeprefix("/") or "."

    def link(match: re.Match[str]) -> str:
        target = match["target"]
        if target is None or target.startswith("#") or "://" in target:
            return match[0]
        path, mark, anchor = target.partition("#")
        place = posixpath.normpath(posixpath.join(folder, path))
        on_site = NAMES.get(place) or (
            place.removeprefix("docs/") if place in docs | pictures else ""
        )
        relative = posixpath.relpath(on_site, own_folder) if on_site else f"{repository}/{place}"
        return f"]({relative}{mark}{anchor})"

    return _LINKS.sub(link, source.read_text(encoding="utf-8"))


def main() -> int:
    work = TOP / "build" / "docs"
    if len(sys.argv) > 1:
        work = Path(sys.argv[1]).resolve()
    else:
        shutil.rmtree(work, ignore_errors=True)
    repository = tomllib.loads(CONFIG.read_text("utf-8"))["project"]["repo_url"] + "/blob/main"
    assets = work / "pages" / "assets"
    assets.mkdir(parents=True)
    for name, path in sources().items():
        target = work / "pages" / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(page(path, repository), "utf-8")
    for path in (TOP / "docs").glob("*.png"):
        shutil.copy(path, work / "pages")
    script = mermaid_script()
    if script is None:
        print("error: mermaidx brings no script that is Mermaid's own", file=sys.stderr)
        return 4
    (assets / "mermaid.min.js").write_bytes(script)
    (assets / "site.css").write_text(STYLE, "utf-8")
    shutil.copy(CONFIG, work)
    argv = [sys.executable, "-I", "-m", "zensical", "build", "--strict", "-f", "zensical.toml"]
    ended = subprocess.run(argv, cwd=work, check=False)
    if ended.returncode == 0:
        print(f"open {os.path.relpath(work / 'site' / 'index.html')}")
    return ended.returncode


if __name__ == "__main__":
    raise SystemExit(main())
