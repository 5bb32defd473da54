"""Pages brought to a folder, to a branch, to a pull request, or to GitHub's own wiki.

The text of a pull request says which pages changed and why, what was lost, and what it cost.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from functools import partial

from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.git.objects import is_branch
from rlm_ci.git.remote_clone import RemoteUser
from rlm_ci.github.proposal import Proposal
from rlm_ci.judge.judge import from_remote
from rlm_ci.report import wording
from rlm_ci.report.findings import Usage
from rlm_ci.system import files
from rlm_ci.text.neutralise import clip, code, prose
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value
from rlm_ci.wiki.update.state import NAME, WikiState, is_page, lost, page_changes, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from rlm_ci.git.clone import Clone, Delivery
    from rlm_ci.git.repository import Repository
    from rlm_ci.github.session import Access
    from rlm_ci.wiki.update.state import ProseSentence


#: Pages and lost sentences that are listed; characters of a sentence.
_PAGES, _LOST, _SHORT = 50, 20, 200

_HEAD = (
    "`rlm-ci wiki` made the pages in {folder} from the sources. The next run brings this pull "
    "request and its text up to date. Close it to keep the pages as they are."
)


class RefreshCost(Value):
    """What the last refresh used, and why it dropped sentences, by their text."""

    usage: Usage = Usage()
    dropped: Mapping[str, str] = {}


def body_of(folder: str, old: WikiState | None, new: WikiState | None, spent: RefreshCost) -> str:
    """The text, in Markdown: ``old`` is the state in the branch to merge into, None for none."""
    parts = [_HEAD.format(folder=code(folder))]
    if new is not None:
        parts += _page_rows(old, new)
        parts += _sentences(old, new, spent.dropped)
    parts.append(_cost(spent.usage))
    return "\n\n".join(parts) + "\n"


def _page_rows(old: WikiState | None, new: WikiState) -> Iterator[str]:
    changes = page_changes(old, new)
    rows = [
        f"| {code(change.name, cell=True)} | {change.reason(lambda path: code(path, cell=True))} |"
        for change in changes[:_PAGES]
    ]
    if rows:
        yield "\n".join(["| page | why |", "|---|---|", *rows])
    if changes[_PAGES:]:
        yield f"And {count(len(changes) - _PAGES, 'other page')}."


def _sentences(old: WikiState | None, new: WikiState, dropped: Mapping[str, str]) -> Iterator[str]:
    gone, added = lost(old, new), lost(new, old) if old is not None else ()
    present = sum(len(entry.said) for entry in new.prose.values())
    if not (gone or present):
        return
    fresh = len(added) if old is not None else present
    counts = [f"{present - fresh:,} kept", f"{fresh:,} new", f"{len(gone):,} lost"]
    yield f"**Sentences of a model:** {', '.join(counts)}."
    rows = [_lost_row(sentence, dropped.get(sentence.text, "")) for sentence in gone[:_LOST]]
    if gone[_LOST:]:
        rows.append(f"- and {count(len(gone) - _LOST, 'other')}")
    if rows:
        yield "\n".join(rows)


def _lost_row(sentence: ProseSentence, why: str) -> str:
    location = code(f"{sentence.path}#L{sentence.line_start}-L{sentence.line_end}")
    return f"- {location}{f', {why}' if why else ''}: {prose(clip(sentence.text, _SHORT))}"


def _cost(usage: Usage) -> str:
    if not usage.calls:
        return "**Cost:** none, no model was asked."
    return f"**Cost of the last refresh:** {wording.spent(usage)}."


#: The branch of our pull request.
OURS = "rlm-ci/wiki"
_BRANCH, PR, _WIKI = "branch:", "pr", "wiki"
#: The names of branches to which pages go.
_NAME = re.compile(r"[A-Za-z0-9._/-]+")
_MESSAGE = "Refresh the wiki"
_LIMIT = 256 << 20
#: What does not mean itself in a name: to a link, to a page, or on some system.
_SPECIAL = frozenset('\\:*?"<>|`[]()#%')
#: GitHub's wiki has no folders: the pages as they were made are kept beside those that it shows.
_KEPT = "rlm-ci-pages.json"
#: What GitHub shows first: a page that is there before our first delivery, the text with which
#: GitHub begins it, and the name that it gets if people wrote it.
_FIRST_PAGE = re.compile(
    r"home\.(?:md|mkdn?|mdown|markdown|textile|rdoc|org|creole|re?st(?:\.txt)?|asciidoc|adoc|asc|pod"
    r"|(?:media)?wiki)",
    re.ASCII | re.IGNORECASE,
)
_UNTOUCHED = re.compile(r"Welcome to the \S+ wiki!?")
_EARLIER = "Earlier-Home"
_LINK = re.compile(r"\]\((\.\./)?(modules/)?([A-Za-z0-9_][A-Za-z0-9._-]*)\.md(#[^)\s]*)?\)")


class WikiTarget(Value):
    """Where the pages go.

    ``target``: ``pr``, ``wiki`` or ``branch:NAME``; ``folder``: that of the pages in a pull
    request; ``repository``: ``owner/name`` on GitHub, "" to read it from the remote.
    """

    target: str
    folder: str
    repository: str
    access: Access
    environ: Mapping[str, str]


def last_pages(wiki_target: WikiTarget, repository: Repository) -> dict[str, bytes]:
    """The pages that were delivered last, by the names that they have in a folder."""
    target = wiki_target.target
    with _clone(wiki_target, repository) as clone:
        if target == _WIKI:
            packed = clone.read(clone.head() or "", "").get(_KEPT)
            return {} if packed is None else _unpacked(packed)
        if target == PR:
            name = OURS if clone.branch(OURS) else clone.head() or ""
            return _own_pages(clone.read(name, wiki_target.folder))
        return _own_pages(clone.read(target.removeprefix(_BRANCH), ""))


def push(
    wiki_target: WikiTarget, repository: Repository, source: str, spent: RefreshCost
) -> Iterator[str]:
    """Deliver the pages in ``source``; what became of it, a line each.

    ``spent`` is told in a pull request.

    Raises ConfigError, RemoteError, UnavailableError.
    """
    target, pages = wiki_target.target, _pages(source)
    with _clone(wiki_target, repository) as clone:
        if target == _WIKI:
            move = partial(_moved_first_page, clone)
            name = clone.head() or "master"
            yield clone.deliver(name, flat(pages), _MESSAGE, displace=move).summary()
        elif target != PR:
            yield clone.deliver(target.removeprefix(_BRANCH), pages, _MESSAGE).summary()
        else:
            base = clone.head()
            if base is None:
                raise ConfigError(
                    "the remote has no commit that a pull request could be based on",
                    where="--to pr",
                    hint="push the repository first",
                )
            placed = {f"{wiki_target.folder}/{name}": data for name, data in pages.items()}
            delivered = clone.deliver(OURS, placed, _MESSAGE, base=base)
            yield delivered.summary()
            if delivered.differs:
                last = clone.read(base, wiki_target.folder).get(NAME)
                body = body_of(wiki_target.folder, _state_of(last), WikiState.read(source), spent)
                yield _pull(wiki_target, repository, delivered, base, body)


def checked_target(target: str, source: str) -> str:
    """``pr``, ``wiki`` or ``branch:NAME``. Raises ConfigError, which names ``source``."""
    if target in (PR, _WIKI):
        return target
    name = target.removeprefix(_BRANCH)
    is_name = target.startswith(_BRANCH) and _NAME.fullmatch(name) and is_branch(name)
    if not is_name or name == "HEAD" or name.startswith("refs/") or name == "refs":
        raise ConfigError(
            f"there is no target {target[:80]!r}",
            where=source,
            hint="pr, wiki, or branch:NAME",
        )
    return target


def checked_folder(name: str, source: str) -> str:
    """The folder of the wiki, as git names it. Raises ConfigError, which names ``source``."""
    parts = name.removesuffix("/").split("/")
    if not all(map(_is_plain, parts)):
        raise ConfigError(
            f"{printable(name)[:80]!r} cannot be the folder of the wiki",
            where=source,
            hint="a path inside of the repository, such as docs/wiki; no part of it begins with "
            "a dot",
        )
    return "/".join(parts)


def _is_plain(part: str) -> bool:
    is_named = part.isprintable() and not _SPECIAL & set(part)
    return is_named and part[:1] not in ("", ".", " ") and part[-1] not in (".", " ")


def _moved_first_page(clone: Clone, foreign: Mapping[str, str]) -> dict[str, str]:
    """Where the first page of others goes, if the wiki has one; "" for one that nobody edited."""
    moved = {}
    for path, oid in foreign.items():
        if _FIRST_PAGE.fullmatch(path):
            text = clone.contents([oid])[0].decode("utf-8", "replace").strip()
            ending = path.rpartition(".")[2]
            new, number = f"{_EARLIER}.{ending}", 2
            while new in foreign:
                new, number = f"{_EARLIER}-{number}.{ending}", number + 1
            moved[path] = new if text and not _UNTOUCHED.fullmatch(text) else ""
    return moved


def flat(pages: dict[str, bytes]) -> dict[str, bytes]:
    """The pages as GitHub's wiki wants them: no folders, links without endings."""
    names = {name: _flat(name) for name in pages if name.endswith(".md")}

    def lead(match: re.Match[str], *, deep: bool) -> str:
        up, folder, name, anchor = match.groups()
        is_inside = folder or (deep and not up)
        inner = f"modules/{name}.md" if is_inside else f"{name}.md"
        if inner not in names:
            return match.group()
        return f"]({names[inner].removesuffix('.md')}{anchor or ''})"

    texts = {name: data.decode("utf-8", "surrogateescape") for name, data in pages.items()}
    flat_pages = {
        flat_name: _LINK.sub(partial(lead, deep="/" in name), texts[name]).encode(
            "utf-8", "surrogateescape"
        )
        for name, flat_name in names.items()
    }
    record = json.dumps({"version": 1, "pages": texts}, indent=1, sort_keys=True)
    return {**flat_pages, _KEPT: f"{record}\n".encode("ascii")}


def _flat(name: str) -> str:
    return "Home.md" if name == "index.md" else name.replace("/", "-")


def _unpacked(data: bytes) -> dict[str, bytes]:
    try:
        pages = json.loads(data)["pages"]
        return _own_pages(
            {name: text.encode("utf-8", "surrogateescape") for name, text in pages.items()}
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DamagedError(
            "it does not have the pages that were delivered last",
            where=_KEPT,
            hint="remove it from the wiki",
        ) from None


def _own_pages(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name == NAME or is_page(name)}


def _pages(folder: str) -> dict[str, bytes]:
    """The pages of a run and their state. Raises DamagedError where one is gone."""
    state = WikiState.read(folder)
    pages = {}
    for name in (*sorted(state.pages if state else ()), NAME):
        data = files.read_or_none(place_of(folder, name), _LIMIT)
        if data is None:
            raise DamagedError(
                "it is gone", where=os.path.join(folder, name), hint="make the pages again"
            )
        pages[name] = data
    return pages


def _clone(target: WikiTarget, repository: Repository) -> AbstractContextManager[Clone]:
    suffix = ".wiki.git" if target.target == _WIKI else ""
    access = target.access
    hint = "or write the pages to a folder: --out DIR"
    who = RemoteUser(access.token, access.server_url, target.environ, "--push", hint, "wiki")
    return who.clone(repository, suffix)


def _state_of(data: bytes | None) -> WikiState | None:
    """The state that the base has; None without one that can be read."""
    with suppress(DamagedError):
        return WikiState.from_bytes(data) if data is not None else None
    return None


def _pull(
    target: WikiTarget, repository: Repository, delivered: Delivery, base: str, body: str
) -> str:
    access = target.access
    name = target.repository or from_remote(repository, access.server_url) or ""
    proposal = Proposal(name, delivered.branch, base, _MESSAGE, body, follows=True)
    return proposal.open(access, is_new=delivered.commit is not None)
