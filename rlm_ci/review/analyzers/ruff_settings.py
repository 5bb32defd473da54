"""Drop findings of ruff that the repository's own settings do not select.

ruff itself runs with these settings over the files with findings, so that nested settings,
``extend`` and rules by file work.
"""

from __future__ import annotations

import json
import os
import re
from posixpath import dirname, join, normpath

from rlm_ci.config.settings import parse_config
from rlm_ci.errors import ConfigError
from rlm_ci.review.analyzers import checkouts, ruff
from rlm_ci.review.analyzers.programs import environment, locate
from rlm_ci.review.analyzers.scratch_folder import ScratchFolder, ScratchInput, plain
from rlm_ci.system import process
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any

    from rlm_ci.git.repository import Repository
    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.report.findings import Finding

    #: Pairs of path and text.
    Files = Sequence[Sequence[str]]
    #: Rule, path and line of something that ruff says.
    Said = tuple[str, str, int]

_SHARED = "pyproject.toml"
#: The name of the repository's own ruff.
_REPOSITORYS = "repository-ruff"
_NAMES = (".ruff.toml", "ruff.toml", _SHARED)
#: Settings files that extend one another.
_LONGEST_CHAIN = 8
#: Bytes of one.
_LARGEST = 1 << 20
#: With it, ruff refuses to run in another version.
_VERSION = re.compile(rb"(?m)^[ \t]*(?:tool\.ruff\.)?required-version[ \t]*=.*$")
#: Settings that ruff refuses, in place of some outside of the repository.
_ELSEWHERE = 'extend = "a file outside of the repository"'
_SECONDS = 300.0
#: Files that one command is given.
_BATCH = 200
_PRINTED = 64 << 20
_REASON = 200


def settings_at(
    repository: Repository, paths: Iterable[str], commit: str | None
) -> list[list[str]]:
    """The settings files for ``paths`` at a commit or in the work tree, with their texts.

    Files that they extend are among them.
    """
    folders = sorted({folder for path in paths for folder in _above(path) if "\n" not in folder})
    wanted = [join(folder, name) for folder in folders for name in _NAMES]
    found: dict[str, str] = {}
    for _ in range(_LONGEST_CHAIN):
        extended: list[str] = []
        read = checkouts.contents(repository, commit, wanted, _LARGEST)
        for path, content in [pair for some in read for pair in some.items()]:
            record = _section(path, content)
            if record is None:
                continue
            found[path] = _VERSION.sub(b"", content).decode("utf-8", "replace")
            target = record.get("extend")
            if isinstance(target, str):
                place = normpath(join(dirname(path), target))
                extended.append(place)
                if place.startswith(("/", "../", "~", "$")):
                    found[path] = _ELSEWHERE
        wanted = sorted(set(extended) - found.keys())
    return [[path, found[path]] for path in sorted(found)]


def _above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:end]) for end in range(len(parts) + 1)]


def _section(path: str, content: bytes) -> dict[str, Any] | None:
    """What a file says of ruff, None where it says nothing; {} for one that cannot be read."""
    is_shared = path.rpartition("/")[2] == _SHARED
    try:
        record = parse_config(content, path, ruff.NAME if is_shared else None)
    except ConfigError:  # ruff reports it too
        return {}
    return None if is_shared and not record else record


def within(
    found: Sequence[Finding],
    texts: Sequence[LeafText],
    files: Files,
    named: Collection[str],
    *,
    by_pipe: bool = False,
) -> tuple[list[Finding], list[str]]:
    """Those of ``found`` that the settings ``files`` select, and notes on settings that fail.

    Findings of other analyzers, of universal rules, of rules in ``named``, and in files without
    settings stay. Documentation rules need ``named``. ``by_pipe``: no text is written to the disk.
    """
    found = [one for one in found if not _is_documentation(one, named)]
    folders = {dirname(path) for path, _ in files if path.rpartition("/")[2] in _NAMES}
    asked = {
        one.evidence[0].path
        for one in found
        if _is_bound(one, named) and folders.intersection(_above(one.evidence[0].path))
    }
    if not asked:
        return found, []
    given = [one for one in texts if one.path in asked and one.line_start == 1]
    try:
        selected = _selected(given, files, by_pipe=by_pipe)
    except ValueError as error:
        told = printable(str(error))[:_REASON]
        return found, [f"the repository's own ruff settings cannot be used: {told}"]
    return [
        one
        for one in found
        if one.evidence[0].path not in asked or not _is_bound(one, named) or _said(one) in selected
    ], []


def _is_documentation(finding: Finding, named: Collection[str]) -> bool:
    """Whether the repository's own ruff asks for documentation, and the review does not."""
    if finding.source != f"analyzer:{_REPOSITORYS}":
        return False
    rule = finding.rule.removeprefix(f"review/{_REPOSITORYS}-").upper()
    return ruff.is_documentation(rule) and rule not in named


def _is_bound(finding: Finding, named: Collection[str]) -> bool:
    """Whether the repository's settings decide on ``finding``."""
    rule = _rule(finding)
    return rule != "" and rule not in named and not ruff.is_universal(rule)


def _rule(finding: Finding) -> str:
    """The code of ruff's rule, "" for a finding of others."""
    if finding.source != f"analyzer:{ruff.NAME}":
        return ""
    rule = finding.rule.removeprefix(f"review/{ruff.NAME}-")
    return rule if rule == ruff.SYNTAX else rule.upper()


def _said(finding: Finding) -> Said:
    place = finding.evidence[0]
    return _rule(finding), place.path, place.line_start or 1


def _selected(texts: Sequence[LeafText], files: Files, *, by_pipe: bool) -> set[Said]:
    """What ruff says of ``texts`` with the settings ``files``. Raises ValueError."""
    program = locate(ruff.NAME)
    if program is None:
        raise ValueError("ruff is not installed where this ran")
    given = [
        ScratchInput(number, one.path, ruff.readable(one.complete))
        for number, one in enumerate(texts)
    ]
    own = [
        ScratchInput(-1 - number, path, text.encode()) for number, (path, text) in enumerate(files)
    ]
    command = (
        program, "check", "--no-cache", "--quiet", "--exit-zero", "--no-fix", "--ignore-noqa",
        "--force-exclude", "--output-format", "json",
    )  # fmt: skip
    found: set[Said] = set()
    with ScratchFolder(own if by_pipe else [*own, *given]) as scratch:
        if by_pipe:
            for one in given:
                name = os.path.join(scratch.root, *plain(one).split("/"))
                printed = _printed((*command, f"--stdin-filename={name}", "-"), one.content)
                found |= {(rule, one.path, row) for rule, _, row in _told(printed)}
            return found
        names = [one.name for one in scratch.held if one.text >= 0]
        for at in range(0, len(names), _BATCH):
            for rule, name, row in _told(_printed((*command, "--", *names[at : at + _BATCH]))):
                number = scratch.find(name)
                if number is not None and number >= 0:
                    found.add((rule, texts[number].path, row))
    return found


def _printed(command: Sequence[str], stdin: bytes = b"") -> bytes:
    ended = process.run(command, env=environment(), stdin=stdin, timeout=_SECONDS, limit=_PRINTED)
    if ended.timed_out or ended.truncated or ended.returncode:
        said = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ValueError(said or f"ruff ended with {ended.returncode}")
    return ended.stdout


def _told(printed: bytes) -> list[Said]:
    """Rule, name of the file and line of all that ruff has printed."""
    try:
        return [
            (str(one["code"]), str(one["filename"]), int(one["location"]["row"]))
            for one in json.loads(printed or b"[]")
        ]
    except (ValueError, KeyError, TypeError):
        raise ValueError("ruff printed something else than its findings") from None
