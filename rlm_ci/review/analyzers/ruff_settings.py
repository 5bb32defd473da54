"""Drop findings of ruff that the repository's own settings do not select.

ruff itself runs with these settings over the files with findings, so that nested settings,
``extend`` and rules by file work. They may lead to no file but those of the repository.
"""

from __future__ import annotations

import json
import os
import re
from posixpath import basename, dirname, join, normpath

from rlm_ci.config.settings import parse_config
from rlm_ci.errors import ConfigError
from rlm_ci.review.analyzers import ruff, sandboxed
from rlm_ci.review.analyzers.programs import locate
from rlm_ci.review.analyzers.sandboxed import ScratchFolder, ScratchInput, scratch_path
from rlm_ci.text.printable import printable
from rlm_ci.workspace import tree

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
#: How a text begins that stands for settings that ruff is not given, with the reason. ruff would
#: refuse it.
_UNUSABLE = "= "
#: What ruff expands in a path.
_EXPANDED = frozenset("$~")
_SECONDS = 300.0
#: Files that one command is given.
_BATCH = 200
_REASON = 200


def settings_at(
    repository: Repository, paths: Iterable[str], commit: str | None
) -> list[list[str]]:
    """The settings files for ``paths`` at a commit or in the work tree, with their texts.

    Files that they extend are among them. Those that ruff must not read are not usable.
    """
    folders = sorted({folder for path in paths for folder in _above(path) if "\n" not in folder})
    candidates = [join(folder, name) for folder in folders for name in _NAMES]
    texts: dict[str, str] = {}
    targets: dict[str, str] = {}
    for _ in range(_LONGEST_CHAIN):
        read = tree.contents(repository, commit, candidates, _LARGEST)
        for path, content in [pair for some in read for pair in some.items()]:
            record = _section(path, content)
            if record is None:
                continue
            texts[path] = _VERSION.sub(b"", content).decode("utf-8", "replace")
            if isinstance(record, str):
                texts[path] = f"{_UNUSABLE}{path}: {record}"
            elif isinstance(target := record.get("extend"), str):
                targets[path] = _extended_path(path, target)
        candidates = sorted(set(targets.values()) - texts.keys() - {""})
    entries = repository.tree(commit) if commit and targets else {}
    links = {path for path, entry in entries.items() if entry.mode == tree.LINK}
    for _ in range(_LONGEST_CHAIN):  # who extends what is not usable is not usable either
        for path, target in targets.items():
            if target not in texts or target in links:
                why = "it extends what is no file of the repository"
                texts[path] = f"{_UNUSABLE}{path}: {why}"
            elif texts[target].startswith(_UNUSABLE):
                texts[path] = texts[target]
    return [[path, texts[path]] for path in sorted(texts)]


def _extended_path(path: str, target: str) -> str:
    """The file that settings at ``path`` extend; "" for one that is surely not the repository's."""
    resolved = normpath(join(dirname(path), target))
    is_inside = _EXPANDED.isdisjoint(target) and not resolved.startswith(("/", "../"))
    return resolved if is_inside else ""


def _above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:end]) for end in range(len(parts) + 1)]


def _section(path: str, content: bytes) -> dict[str, Any] | str | None:
    """What a file says of ruff, None where it says nothing, or why it cannot be read."""
    is_shared = basename(path) == _SHARED
    try:
        record = parse_config(content, path, ruff.NAME if is_shared else None)
    except ConfigError as error:  # what ruff would make of it, and read then, is not known
        return error.what
    return None if is_shared and not record else record


def within(
    findings: Sequence[Finding],
    texts: Sequence[LeafText],
    files: Files,
    extended: Collection[str],
    *,
    sandbox: str = "auto",
    by_pipe: bool = False,
) -> tuple[list[Finding], list[str]]:
    """Those of ``findings`` that the settings ``files`` select, and notes on settings that fail.

    Findings of other analyzers, of universal rules, of rules in ``extended``, and in files without
    settings stay. Documentation rules need ``extended``. ``by_pipe``: no text is written to the
    disk.
    """
    findings = [finding for finding in findings if not _is_documentation(finding, extended)]
    # ruff takes the first that is there.
    texts_by_path = {path: text for path, text in files}  # noqa: C416 - pairs are lists, too
    decides = {
        folder: texts_by_path[path]
        for folder in {dirname(path) for path in texts_by_path}
        for path in [join(folder, name) for name in reversed(_NAMES)]
        if path in texts_by_path
    }
    paths: set[str] = set()
    unusable: dict[str, None] = {}
    for path in dict.fromkeys(
        finding.evidence[0].path for finding in findings if _is_bound(finding, extended)
    ):
        nearest = next((folder for folder in reversed(_above(path)) if folder in decides), None)
        if nearest is None:
            continue
        if decides[nearest].startswith(_UNUSABLE):
            unusable[decides[nearest].removeprefix(_UNUSABLE)] = None
        else:
            paths.add(path)
    leaf_texts = [
        leaf_text for leaf_text in texts if leaf_text.path in paths and leaf_text.line_start == 1
    ]
    rows = [pair for pair in files if not pair[1].startswith(_UNUSABLE)]
    selected: set[Said] = set()
    try:
        selected = _selected(leaf_texts, rows, sandbox, by_pipe=by_pipe) if leaf_texts else selected
    except (ValueError, sandboxed.AnalyzerError) as error:
        unusable[str(error)] = None
        paths = set()
    return [
        finding
        for finding in findings
        if finding.evidence[0].path not in paths
        or not _is_bound(finding, extended)
        or _fact_of(finding) in selected
    ], [
        f"the repository's own ruff settings cannot be used: {printable(why)[:_REASON]}"
        for why in unusable
    ]  # fmt: skip


def _is_documentation(finding: Finding, extended: Collection[str]) -> bool:
    """Whether the repository's own ruff asks for documentation, and the review does not."""
    if finding.source != f"analyzer:{_REPOSITORYS}":
        return False
    rule = finding.rule.removeprefix(f"review/{_REPOSITORYS}-").upper()
    return ruff.is_documentation(rule) and rule not in extended


def _is_bound(finding: Finding, extended: Collection[str]) -> bool:
    """Whether the repository's settings decide on ``finding``."""
    rule = _rule(finding)
    return rule != "" and rule not in extended and not ruff.is_universal(rule)


def _rule(finding: Finding) -> str:
    """The code of ruff's rule, "" for a finding of others."""
    if finding.source != f"analyzer:{ruff.NAME}":
        return ""
    rule = finding.rule.removeprefix(f"review/{ruff.NAME}-")
    return rule if rule == ruff.SYNTAX else rule.upper()


def _fact_of(finding: Finding) -> Said:
    location = finding.evidence[0]
    return _rule(finding), location.path, location.line_start or 1


def _selected(texts: Sequence[LeafText], files: Files, sandbox: str, *, by_pipe: bool) -> set[Said]:
    """What ruff says of ``texts`` with the settings ``files``. Raises ValueError, AnalyzerError."""
    program = locate(ruff.NAME)
    if program is None:
        raise ValueError("ruff is not installed where this ran")
    inputs = [
        ScratchInput(number, text.path, ruff.readable(text.complete))
        for number, text in enumerate(texts)
    ]
    command = (
        program, "check", "--no-cache", "--quiet", "--exit-zero", "--no-fix", "--ignore-noqa",
        "--force-exclude", "--output-format", "json",
    )  # fmt: skip
    selected: set[Said] = set()
    with ScratchFolder([] if by_pipe else inputs, files, real_names=True) as scratch:

        def ruff_messages(*words: str, stdin: bytes = b"") -> list[Said]:
            ended = sandboxed.run_ruff(
                (*command, *words), sandbox, seconds=_SECONDS, folder=scratch.root, stdin=stdin
            )
            if ended.returncode:
                last = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
                raise ValueError(last or f"ruff ended with {ended.returncode}")
            return _parsed_output(ended.data)

        if by_pipe:
            for scratch_input in inputs:
                name = os.path.join(
                    scratch.root, scratch_path(scratch_input.path, scratch_input.text, real=True)
                )
                answer = ruff_messages(f"--stdin-filename={name}", "-", stdin=scratch_input.content)
                selected |= {(rule, scratch_input.path, row) for rule, _, row in answer}
            return selected
        numbers = {file.name: file.text for file in scratch.scratch_files}
        names = list(numbers)
        for at in range(0, len(names), _BATCH):
            for rule, name, row in ruff_messages("--", *names[at : at + _BATCH]):
                if name not in numbers:
                    raise ValueError("ruff named a file that it was not given")
                selected.add((rule, texts[numbers[name]].path, row))
    return selected


def _parsed_output(printed: bytes) -> list[Said]:
    """Rule, name of the file and line of all that ruff has printed."""
    try:
        return [
            (str(result["code"]), str(result["filename"]), int(result["location"]["row"]))
            for result in json.loads(printed or b"[]")
        ]
    except (ValueError, KeyError, TypeError):
        raise ValueError("ruff printed something else than its findings") from None
