"""A static site with search from the pages, made by zensical: it loads nothing from elsewhere.

Mermaid's script comes from an installed package, if it is the one that Mermaid published.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from hashlib import sha256
from importlib.util import find_spec
from urllib.parse import unquote

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.resources.loader import read_template
from rlm_ci.system import files, installation, lock, process
from rlm_ci.text.neutralise import GAP, code
from rlm_ci.text.printable import printable
from rlm_ci.wiki.pages.build import INDEX
from rlm_ci.wiki.pages.facts_page import FACTS
from rlm_ci.wiki.pages.flow_page import NAME as FLOWS
from rlm_ci.wiki.update.state import NAME as STATE
from rlm_ci.wiki.update.state import WikiState, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Found in a folder that an earlier build has made, and that a new one may empty.
MARKER = ".rlm-ci-site"
_MARKED = b"made by rlm-ci wiki --site, and emptied by it\n"
#: ``dist/mermaid.min.js`` of mermaid 11.16.0, as npm has it.
_MERMAID = "74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b"
_DRAWS = "assets/mermaid.min.js"
#: On a phone, a row of a table is a card, whose cells say what they are. A diagram is drawn into a
#: closed shadow root: how large it would be is seen by its height, which grows with the room that
#: it has, up to that.
_OWN = "assets/wiki.js"
#: Zensical writes titles into its pages as they are.
_NO_MARKUP = str.maketrans({"<": "‹", ">": "›", "&": "＆", '"': "”", "'": "’"})
#: A link to a file of the repository: on the site there is none, and its place is shown instead.
_OUTSIDE = re.compile(
    r"\[(import|`[^`\n]+`|(`{2,})(?:(?!\2)[^\n])+\2|<code>[^<\n]*</code>)\]"
    r"\((?!https?://)(?:\.\./)*([^)\s]*)#(L\d+(?:-L\d+)?)\)"
)
#: What the search knows, and a diagram in it.
_SEARCH = "search.json"
_SOURCE = re.compile(r"<pre><code>(?:sequenceDiagram|flowchart)\s.*?</code></pre>", re.DOTALL)
#: Pages of modules that the navigation lists as they are, and the folders that it looks into.
_FLAT, _DEEPEST = 24, 5
_SECONDS = 600.0
_LIMIT = 64 << 20
_FENCES = (
    'custom_fences = [{ name = "mermaid", class = "mermaid", '
    'format = "pymdownx.superfences.fence_code_format" }]'
)


def build(folder: str, out: str, environment: Mapping[str, str]) -> int:
    """Make the site of the wiki in ``folder``, and empty ``out`` before; the number of its pages.

    Raises UnavailableError, StorageError; ConfigError without a wiki, or for a foreign ``out``.
    """
    state = WikiState.read(folder)
    if state is None or INDEX not in state.pages:
        raise ConfigError(
            "there is no wiki to make a site of",
            where=printable(folder),
            hint="write one first: rlm-ci wiki --out DIR",
        )
    if find_spec("zensical") is None:
        raise UnavailableError(
            "a site needs zensical, which is not installed",
            hint=installation.command("site"),
        )
    _require_ours(out)
    texts = {name: files.read(place_of(folder, name), _LIMIT).decode()
             for name in sorted(state.pages)}  # fmt: skip
    script = mermaid_script()
    with files.scratch("rlm-ci-site-") as work:
        pages = os.path.join(work, "pages")
        for name, text in texts.items():
            path = place_of(pages, name)
            files.make_folder(os.path.dirname(path))
            files.write(path, _for_site(text).encode())
        files.make_folder(os.path.join(pages, "assets"))
        files.write(place_of(pages, "assets/wiki.css"), read_template("wiki/site.css").encode())
        files.write(place_of(pages, _OWN), read_template("wiki/site.js").encode())
        if script is not None:
            files.write(place_of(pages, _DRAWS), script)
        config = os.path.join(work, "zensical.toml")
        files.write(config, _config(texts, diagrams=script is not None).encode())
        _run(config, work, environment)
        _search_words(os.path.join(work, "site", _SEARCH))
        _install(os.path.join(work, "site"), out, state)
    return len(texts)


def _for_site(text: str) -> str:
    """A page without links to files, and with Markdown in what is folded, as GitHub reads it."""
    text = _OUTSIDE.sub(_placed, text).replace("\n<details>\n", '\n<details markdown="1">\n')
    # What GitHub takes for a list within a list needs four spaces here.
    return text.replace("\n  - ", "\n    - ")


def _placed(link: re.Match[str]) -> str:
    shown, _, path, lines = link.groups()
    path = printable(unquote(path, errors="surrogateescape"))
    return shown if path in shown else f"{shown} {code(f'{path}#{lines}', cell=True)}"


def _config(texts: Mapping[str, str], *, diagrams: bool) -> str:
    tops = [name for name in (INDEX, FLOWS, FACTS) if name in texts]
    headings = sorted((_heading(texts[name]), name) for name in texts if name not in tops)
    titles = {INDEX: "Overview", FLOWS: "How a call flows", FACTS: "Facts"}
    nav: list[dict[str, object]] = [{titles[name]: name} for name in tops]
    if headings:
        nav.append({"Modules": _sections(headings)})
    return read_template("wiki/zensical.toml").format(
        title=_toml(_heading(texts[INDEX])),
        nav=_toml(nav),
        scripts=_toml([_DRAWS, _OWN] if diagrams else [_OWN]),
        fences=_FENCES if diagrams else "",
    )


def _sections(headings: list[tuple[str, str]]) -> list[dict[str, object]]:
    """The pages of modules; many of them by the folder that parts them."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for depth in range(len(headings) > _FLAT, _DEEPEST):
        groups = {}
        for heading, name in headings:
            key = "/".join(heading.split("/")[:depth]) if depth else heading
            groups.setdefault(key, []).append((heading, name))
        if 2 * max(map(len, groups.values())) <= len(headings) or not depth:
            break
    sections: list[dict[str, object]] = []
    for key, pages in groups.items():
        inner: list[object] = [{heading.removeprefix(f"{key}/"): name} for heading, name in pages]
        sections.append({key: inner} if len(pages) > 1 else dict(pages))
    return sections


def _heading(text: str) -> str:
    """The title of a page as a text without markup: what Markdown shows of its first line."""
    line = text.split("\n", 1)[0].removeprefix("# ").replace(GAP, "")
    line = re.sub(r"</?span>", "", line)
    return re.sub(r"\\(.)", r"\1", line).translate(_NO_MARKUP)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # Texts alone, none with a control character. TOML knows no surrogates, paired or not.
    return json.dumps(value, ensure_ascii=False)


def mermaid_script() -> bytes | None:
    """The script, from a package that has it; what is not Mermaid's own is not used."""
    spec = find_spec("mermaidx")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        data = files.read_or_none(os.path.join(folder, "assets", "mermaid.js"), _LIMIT)
        if data is not None and sha256(data).hexdigest() == _MERMAID:
            return data
    return None


def _run(config: str, work: str, environment: Mapping[str, str]) -> None:
    base = {name: environment[name] for name in ("PATH", "SYSTEMROOT") if name in environment}
    env = {**base, "HOME": work, "NO_COLOR": "1", "PYTHONUTF8": "1"}
    argv = [sys.executable, "-I", "-m", "zensical", "build", "-f", config]
    ended = process.run(argv, env=env, timeout=_SECONDS, limit=_LIMIT)
    if ended.returncode != 0 or not os.path.isfile(os.path.join(work, "site", "index.html")):
        output = printable((ended.stderr or ended.stdout).decode("utf-8", "replace").strip()[-300:])
        raise UnavailableError(
            f"zensical made no site: {output or f'it ended with {ended.returncode}'}",
            hint=installation.command("site", upgrade=True),
        )


def _search_words(path: str) -> None:
    """Take the sources of diagrams out of what the search knows: nobody looks for these."""
    index = json.loads(files.read(path, _LIMIT))
    for entry in index["items"]:
        entry["text"] = _SOURCE.sub("", entry["text"])
    files.write(path, json.dumps(index, ensure_ascii=False, separators=(",", ":")).encode())


def _require_ours(out: str) -> None:
    if not os.path.lexists(out):
        return
    if not os.path.isdir(out) or os.path.islink(out):
        raise ConfigError("the site needs a folder", where=printable(out), hint="name another one")
    names = set(os.listdir(out)) - {lock.TREE_NAME}
    if names and not os.path.isfile(os.path.join(out, MARKER)):
        raise ConfigError(
            "the folder for the site has other content",
            where=printable(out),
            hint="name an empty folder, or a new one",
        )


def _install(built: str, out: str, state: WikiState) -> None:
    """Put the site in its place, with the state by which the next run knows what was said."""
    try:
        with lock.exclusive(out):
            files.write(os.path.join(out, MARKER), _MARKED)
            files.write(os.path.join(out, STATE), state.pieces())
            for name in os.listdir(out):
                if name not in (MARKER, STATE, lock.TREE_NAME):
                    path = os.path.join(out, name)
                    if os.path.isdir(path) and not os.path.islink(path):
                        shutil.rmtree(path)
                    else:
                        os.unlink(path)
            shutil.copytree(built, out, dirs_exist_ok=True)
    except OSError as error:
        raise files.storage_error(error, out) from None
