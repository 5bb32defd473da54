"""The guidelines of a repository: found and read at its base, shown for the files they are about.

They never come from the head of a pull request. A claim that rests on one names its line.

Known are ``AGENTS.md``, ``CLAUDE.md`` and ``CONTRIBUTING.md`` of each folder, the files of GitHub
Copilot below ``.github`` and the rules of Cursor.
"""

from __future__ import annotations

import re
from itertools import product

from rlm_ci.change.evidence import anchor
from rlm_ci.config.settings import CONFIG_FILES
from rlm_ci.errors import ConfigError
from rlm_ci.recursion.nodes import LeafText
from rlm_ci.recursion.prompt_windows import fence, name, numbered
from rlm_ci.report.findings import Location
from rlm_ci.resources import loader
from rlm_ci.system import files as system_files
from rlm_ci.text.globs import matcher
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.git.repository import Repository
    from rlm_ci.report.findings import Finding


#: Ranks: what is about few files comes before what is about all.
SETTINGS, BY_PATTERN, BY_FOLDER, GENERAL = range(4)
_OF_FOLDER = ("AGENTS.md", "CLAUDE.md")
_GENERAL = "CONTRIBUTING.md"
_COPILOT = ".github/copilot-instructions.md"
_INSTRUCTIONS = ".github/instructions/"
_CURSOR = ".cursor/rules/"
_EVERYTHING = ("*", "**", "**/*")
#: Patterns of one file, braces written out.
_PATTERNS = 100
_BRACES = re.compile(r"\{([^{}]*)\}")
_FIELD = re.compile(r"([A-Za-z]+)[ \t]*:(.*)")


class GuidelineScope(Value):
    """The paths that a file is about: all below ``folder`` that ``patterns`` match, if any."""

    _is_row = True

    rank: int
    folder: str = ""
    patterns: tuple[str, ...] = ()

    def test(self) -> Callable[[str], bool]:
        """Raises ValueError for a pattern that cannot be read."""
        folder = self.folder
        matches = matcher(self.patterns) if self.patterns else None

        def is_about(path: str) -> bool:
            is_below = path.startswith(folder)
            return is_below and (matches is None or matches(path[len(folder) :]))

        return is_about


def candidate(path: str) -> bool:
    """Whether a file with this path may be a guideline."""
    name = path.rpartition("/")[2]
    is_rule = _CURSOR in path and name.endswith((".mdc", ".md"))
    is_instruction = path.startswith(_INSTRUCTIONS) and name.endswith(".instructions.md")
    return name in (*_OF_FOLDER, _GENERAL) or path == _COPILOT or is_instruction or is_rule


def folder_of(path: str) -> str:
    """The folder, with a slash, below which a candidate may be about files; "" for all."""
    if path.startswith(".github/"):
        return ""
    before, rules, _ = path.rpartition(_CURSOR)
    if rules and (not before or before.endswith("/")):
        return before
    folder = path[: path.rfind("/") + 1]
    return "" if folder == "docs/" and path.endswith(_GENERAL) else folder


def scope_of(path: str, head: Mapping[str, Sequence[str]]) -> GuidelineScope | None:
    """The scope of the candidate ``path`` whose front matter is ``head``; None for no file.

    A file of Copilot or Cursor that does not say what it is about is for requests by name.
    """
    name = path.rpartition("/")[2]
    folder = folder_of(path)
    if name in _OF_FOLDER or path == _COPILOT:
        return GuidelineScope(BY_FOLDER, folder)
    if name == _GENERAL:
        return GuidelineScope(GENERAL, folder)
    if path.startswith(_INSTRUCTIONS):
        if "code-review" in head.get("excludeAgent", ()):
            return None
        patterns = head.get("applyTo", ())
    elif [word.casefold() for word in head.get("alwaysApply", ())] == ["true"]:
        return GuidelineScope(BY_FOLDER, folder)
    else:
        patterns = head.get("globs", ())
    written = [glob for pattern in patterns for glob in _without_braces(pattern)][:_PATTERNS]
    if not written:
        return None
    if any(glob in _EVERYTHING for glob in written):
        return GuidelineScope(BY_FOLDER, folder)
    return GuidelineScope(BY_PATTERN, folder, tuple(written))


def front_matter(text: str) -> tuple[dict[str, tuple[str, ...]], int]:
    """The fields of a file's front matter, each as a list, and the number of its lines.

    It is read as Copilot and Cursor write it, which is not always YAML: ``globs: *.ts,*.tsx``.
    """
    lines = text.split("\n")
    if lines[0].strip() != "---":
        return {}, 0
    fields: dict[str, list[str]] = {}
    field: list[str] = []
    for number, line in enumerate(lines[1:], 2):
        if line.strip() == "---":
            return {name: tuple(words) for name, words in fields.items()}, number
        match = _FIELD.match(line)
        if match:
            field = fields.setdefault(match[1], [])
            field += _words(match[2])
        elif line.strip().startswith("- "):
            field += _words(line.strip()[2:])
    return {}, 0


def _words(value: str) -> list[str]:
    """The words of a list in brackets, in quotes, or with commas between them."""
    value = value.strip()
    if value.startswith("[") and value.endswith("]"):
        value = value[1:-1]
    words, word, depth = [], "", 0
    for char in value:
        depth += (char == "{") - (char == "}")
        if char == "," and depth <= 0:
            words.append(word)
            word = ""
        else:
            word += char
    bare = (raw.strip().strip("\"'").strip() for raw in (*words, word))
    return [entry for entry in bare if entry]


def _without_braces(pattern: str) -> list[str]:
    """``*.{ts,tsx}`` as two patterns; a pattern for too many is dropped."""
    done: list[str] = []
    left = [pattern]
    while left:
        glob = left.pop(0)
        match = _BRACES.search(glob)
        if not match:
            done.append(glob)
            continue
        left += [glob[: match.start()] + word + glob[match.end() :] for word in match[1].split(",")]
        if len(left) + len(done) > _PATTERNS:
            return []
    return done


#: Bytes of a prompt that guidelines may take, and their share of a small one.
ROOM = 8_000
_SHARE = 8
#: The most bytes of a file that is mostly about how to work, and not about lines of code.
_CONTRIBUTING = 3_000
#: The most bytes of a block without the guidelines.
_BLOCK = 1_500
#: Bytes of a file that is read, files, and characters of all that are kept for a run.
_FILE = 128 << 10
_FILES = 300
_KEPT = 256 << 10
#: Where the guidelines of the settings stand if their lines are not found.
_IN_SETTINGS = "review.guidelines"
_HEADER = re.compile(r"\[\[(?:tool\.rlm-ci\.)?review\.guidelines\]\]")
_TEMPLATE = "prompts/review-guidelines.md.j2"
_SHOWN = 160
#: How the hint of a finding begins that rests on a guideline; characters of the sentence in it.
_ASKED = "The maintainers ask for it, "
_SENTENCE = 400
#: Lines of a guideline that a finding points to again in a later review.
_QUOTED = 10


class Guideline(Value):
    """Lines of a file from ``line`` on, and what they are about.

    ``side`` is that of a pointer to them, "" where none can be given. ``level`` is the severity of
    a finding that rests on them.
    """

    path: str
    blob: str
    line: int
    text: str
    scope: GuidelineScope
    side: str = "old"
    level: str = "medium"

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "text": encodable(self.text)}

    @property
    def leaf_text(self) -> LeafText:
        content = self.text.encode("utf-8", "surrogateescape")
        return LeafText(self.path, self.blob, content, self.line)

    def is_quoted_by(self, hint: str) -> bool:
        """Whether ``hint`` is what a finding says that rests on these lines."""
        begins = _ASKED + name(self.path)
        sentence = hint[len(begins) :].partition(": ")[2].removesuffix("…")
        text = printable(" ".join(self.text.split()))
        return hint.startswith(begins) and sentence != "" and sentence in text

    def quoted_by(self, hint: str) -> Location | None:
        """The fewest lines that ``hint`` quotes, if a pointer to them can be given."""
        lines = self.text.split("\n") if self.side else []
        for number, first in product(range(1, _QUOTED + 1), range(len(lines))):
            quote = "\n".join(lines[first : first + number])
            if self.replace(text=quote).is_quoted_by(hint):
                start = self.line + first
                last = start + quote.count("\n")
                location = Location(self.path, start, last, self.side, self.blob, quote)
                return anchor(location, self.leaf_text.content, self.blob, self.line).location
        return None

    def heading(self) -> str:
        about = ", ".join((self.scope.folder + pattern) for pattern in self.scope.patterns)
        about = about or (f"{self.scope.folder}**" if self.scope.folder else "")
        return f"=== {name(self.path)}{f', for {printable(about)[:_SHOWN]}' if about else ''} ==="


# ── from the base ──


def in_files(
    repository: Repository, commit: str, changed: Sequence[str] | None, side: str
) -> list[Guideline]:
    """What the files of ``commit`` say, of those about ``changed`` paths, or of all.

    Links are not followed: they lead to a file that counts by itself, or to none.
    """
    tree = repository.tree(commit)
    paths = [path for path, entry in tree.items() if entry.is_file and candidate(path)]
    if changed is not None:
        folders = {path[: at + 1] for path in changed for at in _slashes(path)} | {""}
        paths = [path for path in paths if folder_of(path) in folders]
    paths = sorted(paths, key=lambda path: (path.count("/"), path))[:_FILES]
    oids = [tree[path].oid for path in paths]
    contents = repository.read_small(oids, _FILE) if oids else []
    guidelines = []
    for path, oid, content in zip(paths, oids, contents, strict=True):
        guideline = _read(path, oid, content or b"", side)
        if guideline is not None and (changed is None or any(map(_test(guideline), changed))):
            guidelines.append(guideline)
    return guidelines


def _slashes(path: str) -> Iterator[int]:
    return (at for at, char in enumerate(path) if char == "/")


def _test(guideline: Guideline) -> Callable[[str], bool]:
    try:
        return guideline.scope.test()
    except ValueError:  # a pattern that cannot be read is about nothing
        return lambda _path: False


def _read(path: str, blob: str, content: bytes, side: str) -> Guideline | None:
    text = content.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    text = text.removesuffix("\n")
    head, skipped = front_matter(text)
    scope = scope_of(path, head)
    lines = text.split("\n")[skipped:]
    while lines and not lines[0].strip():
        lines, skipped = lines[1:], skipped + 1
    if scope is None or not "".join(lines).strip() or "\0" in text:
        return None
    return Guideline(path, blob, skipped + 1, "\n".join(lines), scope, side)


def in_settings(
    repository: Repository, commit: str | None, rows: Iterable[Mapping[str, Any]], side: str
) -> list[Guideline]:
    """The rows of ``review.guidelines``; they point into the config file of ``commit``.

    Raises ConfigError for a pattern that cannot be read.
    """
    rows = list(rows)
    if not rows:
        return []
    names = [f"{commit}:{path}" for path in CONFIG_FILES] if commit else []
    contents = repository.read_small(names, _FILE * 8) if names else []
    config: list[tuple[str, bytes]] = [
        (path, content)
        for path, content in zip(CONFIG_FILES, contents, strict=False)
        if content is not None
    ]
    guidelines = []
    for number, row in enumerate(rows, 1):
        scope = GuidelineScope(SETTINGS, "", tuple(row["paths"] or ()))
        try:
            scope.test()
        except ValueError as error:
            raise ConfigError(
                f"a pattern cannot be read: {error}",
                where=f"[[review.guidelines]] number {number}",
                hint="write it as in .gitignore",
            ) from None
        text = row["text"].strip("\n")
        guideline = Guideline(_IN_SETTINGS, "", 1, text, scope, "", row["level"])
        for path, content in config:
            if at := _lines_of(content, text, number):
                blob = repository.blob_id(content)
                line, text = at
                guideline = Guideline(path, blob, line, text, scope, side, row["level"])
        guidelines.append(guideline)
    return guidelines


def _lines_of(content: bytes, text: str, number: int) -> tuple[int, str] | None:
    """Where a config file has ``text``, the guideline ``number``: the line, and what it says."""
    lines = [line.rstrip("\r") for line in content.decode("utf-8", "surrogateescape").split("\n")]
    headers = [at for at, line in enumerate(lines) if _HEADER.match(line.replace(" ", ""))]
    sought = text.split("\n")
    if number > len(headers):
        return None
    for at in range(headers[number - 1], len(lines) - len(sought) + 1):
        had = lines[at : at + len(sought)]
        is_other = had[0].lstrip().startswith("paths")
        if not is_other and all(want in have for want, have in zip(sought, had, strict=True)):
            return at + 1, "\n".join(had)
    return None


def on_disk(repository: Repository, guidelines: Iterable[Guideline]) -> list[Guideline]:
    """``guidelines`` as the work tree has them."""
    current = []
    for guideline in guidelines:
        try:
            content = system_files.read_inside(repository.root, guideline.path, _FILE)
        except system_files.UnreadableError:
            continue
        again = _read(guideline.path, repository.blob_id(content), content, guideline.side)
        current += [again] if again else []
    return current


def stored_guidelines(guidelines: Iterable[Guideline]) -> list[dict[str, Any]]:
    """As many of ``guidelines`` as a run keeps, the most special first, each text once, as JSON."""
    rows: list[dict[str, Any]] = []
    texts: set[tuple[str, GuidelineScope]] = set()
    room = _KEPT
    order = sorted(
        guidelines,
        key=lambda guideline: (
            guideline.scope.rank,
            -guideline.scope.folder.count("/"),
            guideline.path,
        ),
    )
    for guideline in order:
        row = guideline.replace(text=guideline.text[: ROOM * 2]).to_dict()
        size = len(row["text"])
        if size <= room and (guideline.text, guideline.scope) not in texts:
            texts.add((guideline.text, guideline.scope))
            rows.append(row)
            room -= size
    return rows


# ── for a model ──


class ShownGuidelines(Value):
    """``text`` is the block of a prompt, "" for none; ``shown`` are what it shows."""

    text: str = ""
    shown: tuple[Guideline, ...] = ()

    def open(self, claim: Mapping[str, Any]) -> tuple[Location | None, str] | None:
        """Where the guideline stands that a claim names, and a sentence; None if it is not there.

        Without a place, the guideline is in no file that a pointer could lead to.
        """
        path, quote = claim["path"], claim["quote"]
        location = Location(path, int(claim["line_start"]), int(claim["line_end"]), quote=quote)
        for guideline in self.shown:
            if path not in (guideline.path, encodable(guideline.path), name(guideline.path)):
                continue
            claimed = location.replace(path=guideline.path, side=guideline.side or "old")
            spot = anchor(
                claimed, guideline.leaf_text.content, guideline.blob, guideline.line
            ).location
            if spot is not None:
                sentence = printable(" ".join((spot.quote or "").split()))
                sentence = f"{sentence[:_SENTENCE]}…" if len(sentence) > _SENTENCE else sentence
                where = (
                    f"{name(guideline.path)}:{spot.line_start}" if guideline.side else _IN_SETTINGS
                )
                return spot if guideline.side else None, f"{_ASKED}{where}: {sentence}"
        return None


class Guidelines:
    """The guidelines of a run, from the rows that :func:`kept` gave."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._all = [(guideline, _test(guideline)) for guideline in map(Guideline.from_dict, rows)]

    def max_block_bytes(self, max_bytes: int) -> int:
        """The most bytes of a block for a prompt of ``max_bytes``."""
        return min(ROOM, max_bytes // _SHARE) + _BLOCK if self._all else 0

    def behind(self, finding: Finding) -> Guideline | None:
        """The guideline that ``finding`` rests on; its hint may be of an earlier review."""
        paths = [location.path for location in finding.evidence if location.side == "new"]
        return next(
            (
                guideline
                for guideline, is_about in self._all
                if any(map(is_about, paths)) and guideline.is_quoted_by(finding.hint or "")
            ),
            None,
        )

    def pointed_to(self, finding: Finding) -> Finding:
        """``finding`` with the place of its guideline, which a stored claim does not keep."""
        guideline = self.behind(finding)
        if guideline is None or any(location.side != "new" for location in finding.evidence):
            return finding
        location = guideline.quoted_by(finding.hint or "")
        return (
            finding if location is None else finding.replace(evidence=(*finding.evidence, location))
        )

    def for_paths(self, paths: Iterable[str], max_bytes: int = ROOM * _SHARE) -> ShownGuidelines:
        """The block for a prompt of ``max_bytes`` about ``paths``: the most special first."""
        paths = list(paths)
        room = min(ROOM, max_bytes // _SHARE)
        listed: list[str] = []
        guidelines: list[Guideline] = []
        for guideline, is_about in self._all:
            if not any(map(is_about, paths)):
                continue
            lines = [guideline.heading()]
            if guideline.scope.rank == GENERAL:
                room = min(room, _CONTRIBUTING)
            room -= len(lines[0].encode("utf-8", "replace")) + 1
            every = numbered(guideline.leaf_text)
            for line in every:
                size = len(line.encode("utf-8", "replace")) + 1
                if size > room:
                    break
                room -= size
                lines.append(line)
            if len(lines) == 1:
                continue
            left = len(every) - len(lines) + 1
            text = "\n".join(guideline.text.split("\n")[: len(lines) - 1])
            guidelines.append(guideline.replace(text=text))
            listed += lines
            if left:
                listed.append(f"({count(left, 'more line')} left out)")
                break
        if not guidelines:
            return ShownGuidelines()
        listing = "\n".join(listed)
        render = loader.load_template(_TEMPLATE)
        return ShownGuidelines(
            render({"fence": fence(listing), "listing": listing}), tuple(guidelines)
        )
