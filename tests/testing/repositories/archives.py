"""Repositories with archived documents: stubs on main, the full texts on another branch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from testing.repositories.git_repo import GITLINK, SYMLINK, History

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from testing.repositories.git_repo import Change, GitRepo, Name

MARKER = "<!-- docs-archive:stub -->"
POLICY_PATH = "docs/implementation-docs-archive-policy.json"
REPO_URL = "https://github.com/acme/shop"
BRANCH = "doc-archives"

_FORMS = (
    "{url}", "<{url}>", "[full text]({url})", "[{path}]({url})", "{url}", "[`{path}`]({url})",
)  # fmt: skip
_FOLDERS = (
    "docs/PRD-{n:04}-checkout.md", "docs/TECH_SPEC-{n:04}-stock.md", "docs/ACTION_PLAN-{n:04}.md",
    "tasks/{n:04}-prd-returns.md", "tasks/tasks-{n:04}-returns.md", "tasks/specs/{n:04}-returns.md",
    ".agent/task/{n:04}-returns.md",
)  # fmt: skip
_ODD_PATHS = ("docs/PRD-café menu.md", "docs/PRD-100% (draft) #2.md", "docs/PRD-日本 語?.md")


def document(
    title: str, *, open_items: bool = False, words: str = "The stock is counted nightly."
) -> str:
    """A full document, with a finished checklist or one that has open items."""
    last = "- [ ] Tell the warehouse\n" if open_items else "- [x] Tell the warehouse\n"
    return f"# {title}\n\n{words}\n\n## Checklist\n- [x] Count twice\n{last}"


def stub(
    path: str,
    *,
    heading: str = "# Archived document",
    date: str = "2026-05-18",
    form: str = "{url}",
    branch: str = BRANCH,
    url: str | None = None,
    url_path: str | None = None,
    stated_path: str | None = None,
    last_review: str | None = None,
    repo_url: str = REPO_URL,
) -> str:
    """The text of an archive stub for ``path``; each part can be bent."""
    if url is None:
        url = f"{repo_url}/blob/{quote(branch)}/{quote(path if url_path is None else url_path)}"
    if last_review is None and path.startswith("tasks/specs/"):
        last_review = date
    review = f"last_review: {last_review}\n\n" if last_review else ""
    link = form.format(url=url, path=path)
    stated = path if stated_path is None else stated_path
    return (
        f"{heading}\n\n{review}{MARKER}\n> Archived on {date}. Full content: {link}\n\n"
        f"- Archive branch: {branch}\n- Archive path: {stated}\n"
    )


#: Documents that talk about the marker and are no stubs: path to text.
MENTIONS: dict[str, str] = {
    "docs/mentions/backticks.md": f"# How we archive\n\nA stub carries `{MARKER}` in its head.\n",
    "docs/mentions/fence.md": "# Example\n\n```markdown\n" + stub("docs/x.md") + "```\n",
    "docs/mentions/tilde_fence.md": "# Example\n\n~~~~\n```\n" + stub("docs/x.md") + "```\n~~~~\n",
    "docs/mentions/mid_line.md": f"# Notes\n\nThe line {MARKER} marks a stub.\n",
    "docs/mentions/quoted.md": f"# Mail\n\n> {MARKER}\n> as it stood there\n",
    "docs/mentions/archiver.py": f'MARKER = "{MARKER}"\n',
}


@dataclass(frozen=True)
class Broken:
    """A stub that is wrong in one way: ``rules`` are the rules that may name it, best first."""

    rules: tuple[str, ...]
    text: Callable[[str], str]
    payload: Change | None = "# The whole text\n\nOnce more.\n"


_MALFORMED, _PATH, _TARGET = "malformed", "path-mismatch", "wrong-target"
_DANGLING, _PAYLOAD = "dangling", "payload-is-stub"


def _rules(*names: str) -> tuple[str, ...]:
    return tuple(f"doc-archive/{name}" for name in names)


def _bent(*rules: str, **parts: str) -> Broken:
    """A stub made with other parts; ``{path}`` in one stands for the stub's own path."""

    def text(path: str) -> str:
        return stub(path, **{name: part.replace("{path}", path) for name, part in parts.items()})

    return Broken(_rules(*rules), text)


def _edited(rule: str, old: str, new: str) -> Broken:
    """A good stub in which ``old`` is replaced."""

    def text(path: str) -> str:
        good = stub(path)
        assert good.count(old) == 1, f"not exactly one {old!r}"
        return good.replace(old, new)

    return Broken(_rules(rule), text)


def _payload(rule: str, payload: Change | None) -> Broken:
    """A good stub with a wrong ``payload``, None for none."""
    return Broken(_rules(rule), stub, payload)


_BRANCH_LINE = f"- Archive branch: {BRANCH}\n"

#: What can be wrong with a stub, by name.
BROKEN: dict[str, Broken] = {
    "no-heading": _edited(_MALFORMED, "# Archived document\n\n", ""),
    "no-quote-line": _edited(_MALFORMED, "> Archived on", "Archived on"),
    "no-url": _bent(_MALFORMED, form="see the archive"),
    "no-branch": _edited(_MALFORMED, _BRANCH_LINE, ""),
    "empty-branch": _edited(_MALFORMED, _BRANCH_LINE, "- Archive branch: \n"),
    "two-branches": _edited(_MALFORMED, _BRANCH_LINE, _BRANCH_LINE * 2),
    "no-path": _edited(_MALFORMED, "- Archive path: ", "- Somewhere: "),
    "no-date": _edited(_MALFORMED, "Archived on 2026-05-18", "Archived"),
    "impossible-date": _bent(_MALFORMED, date="2026-02-30"),
    "two-markers": _edited(_MALFORMED, MARKER, f"{MARKER}\n{MARKER}"),
    "text-between": _edited(_MALFORMED, "- Archive path: ", "And more.\n\n- Archive path: "),
    "text-after": Broken(_rules(_MALFORMED), lambda path: stub(path) + "\nAnd more.\n"),
    "other-path": _bent(_PATH, url_path="README.md", stated_path="README.md"),
    "other-stated-path": _bent(_PATH, stated_path="README.md"),
    "other-url-path": _bent(_TARGET, _PATH, url_path="README.md"),
    "climbing-path": _bent(_PATH, _MALFORMED, stated_path="../shop/{path}"),
    "absolute-path": _bent(_PATH, _MALFORMED, stated_path="/{path}"),
    "other-host": _bent(_TARGET, repo_url="https://evil.example/acme/shop"),
    "host-in-userinfo": _bent(_TARGET, repo_url="https://github.com@evil.example/acme/shop"),
    "host-prefix": _bent(_TARGET, repo_url="https://github.com.evil.example/acme/shop"),
    "other-owner": _bent(_TARGET, repo_url="https://github.com/mallory/shop"),
    "other-repository": _bent(_TARGET, repo_url="https://github.com/acme/shopping"),
    "other-branch": _bent(_TARGET, branch="main"),
    "other-url-branch": _bent(_TARGET, url=f"{REPO_URL}/blob/main/{{path}}"),
    "other-stated-branch": _edited(_TARGET, _BRANCH_LINE, "- Archive branch: main\n"),
    "payload-missing": _payload(_DANGLING, None),
    "payload-empty": _payload(_DANGLING, ""),
    "payload-symlink": _payload(_DANGLING, (SYMLINK, "README.md")),
    "payload-submodule": _payload(_DANGLING, (GITLINK, "1" * 40)),
    # These two payloads depend on the path: see _payload_of.
    "payload-folder": _payload(_DANGLING, None),
    "payload-is-stub": _payload(_PAYLOAD, None),
}


@dataclass(frozen=True)
class Archive(History):
    """``base`` has every document in full, ``head`` (main) has the stubs; ``commits["archive"]``
    is the tip of the archive branch.

    ``stubs``: every well-formed path, the ``dangling`` ones among them; ``broken``: path to
    its kind in :data:`BROKEN`; ``open_items``: stubs whose last full text was not finished.
    """

    stubs: tuple[str, ...] = ()
    dangling: frozenset[str] = frozenset()
    broken: Mapping[str, str] = field(default_factory=dict)
    open_items: frozenset[str] = frozenset()


def policy(repo_url: str = REPO_URL, branch: str = BRANCH) -> str:
    """The policy file of an archive, as its owners keep it."""
    fields = {
        "version": 1, "archive_branch": branch, "repo_url": repo_url, "retain_days": 14,
        "stray_retain_days": 90, "max_lines": 300, "archived_cadence_days": 365,
        "doc_patterns": ["docs/PRD-*", "docs/TECH_SPEC-*", "docs/ACTION_PLAN-*", "tasks/*-prd-*",
                         "tasks/tasks-*", "tasks/specs/*", ".agent/task/*"],
        "exclude_paths": [], "allowlist_task_keys": [], "allowlist_paths": [],
    }  # fmt: skip
    return json.dumps(fields, indent=2) + "\n"


def archive_stubs(
    repo: GitRepo,
    count: int = 3127,
    dangling: int = 227,
    *,
    broken: Iterable[str] = (),
    open_items: int = 0,
    odd_paths: bool = False,
    mentions: bool = True,
    with_policy: bool = True,
    with_archive: bool = True,
    checkout: bool = False,
) -> Archive:
    """``count`` legal stubs on main, of which the archive lacks ``dangling`` payloads.

    The archive branch was forked from main, so it is a whole tree, whose payloads lie under
    the stubs' own paths. ``broken`` adds a stub of each of these kinds; ``odd_paths`` adds
    names that a URL has to escape; of the valid stubs, ``open_items`` hide unfinished work.
    Without ``with_policy`` only the remote's URL tells where the archive is.
    """
    paths = [_FOLDERS[n % len(_FOLDERS)].format(n=n) for n in range(count)]
    # Spread over the folders and forms, not at one end.
    missing = (
        frozenset(paths[n * count // dangling] for n in range(dangling))
        if dangling
        else frozenset()
    )
    unfinished = frozenset([path for path in paths if path not in missing][:open_items])
    paths += _ODD_PATHS if odd_paths else ()
    kinds = {f"docs/PRD-broken-{kind}.md": kind for kind in broken}

    start: dict[Name, Change] = {"README.md": "# Shop\n", "src/shop.py": "PRICE = 3\n"}
    if with_policy:
        start[POLICY_PATH] = policy()
    else:
        repo.remote(f"{REPO_URL}.git")
    full: dict[Name, Change] = {
        path: document(f"Document {path}", open_items=path in unfinished)
        for path in (*paths, *kinds)
    }
    payloads: dict[Name, Change] = {
        path: text for path, text in full.items() if path not in missing
    }
    stubs: dict[Name, Change] = {
        path: stub(
            path,
            heading=f"# Document {path}" if n % 3 else "# Archived document",
            form=_FORMS[n % len(_FORMS)],
            date=f"2026-{n % 12 + 1:02}-{n % 28 + 1:02}",
        )
        for n, path in enumerate(paths)
    }
    for path, kind in kinds.items():
        del payloads[path]
        payloads |= _payload_of(path, kind)
        stubs[path] = BROKEN[kind].text(path)

    with repo.bulk() as bulk:
        fork = bulk.commit("main", start, "Open the shop", ())
        made = {"fork": fork}
        if with_archive:
            made["archive"] = bulk.commit(BRANCH, payloads, "Update archive payload", [fork])
        written = bulk.commit("main", full | (MENTIONS if mentions else {}), "Write it all down")
        stubbed = bulk.commit("main", stubs, "Archive what is done")
    if checkout:
        repo.run("reset", "--hard", "-q")
    return Archive(
        repo,
        bulk[written],
        bulk[stubbed],
        {name: bulk[number] for name, number in made.items()},
        stubs=tuple(sorted(paths)),
        dangling=missing,
        broken=kinds,
        open_items=unfinished,
    )


def _payload_of(path: str, kind: str) -> dict[Name, Change]:
    if kind == "payload-folder":
        return {f"{path}/inner.md": "below the path\n"}
    if kind == "payload-is-stub":
        return {path: stub(path)}
    payload = BROKEN[kind].payload
    return {} if payload is None else {path: payload}
