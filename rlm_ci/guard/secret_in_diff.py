"""The status and patch of a result, without secrets and without files too large to search."""

from __future__ import annotations

import re

from rlm_ci.workspace import tree_diff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.report.findings import Finding
    from rlm_ci.workspace.workspace import Workspace

DISCLOSED = "tamper/secret"
TOO_LARGE = "tamper/too-large"
_FILE = re.compile(rb"^(?=diff --git )", re.MULTILINE)
_BINARY = re.compile(rb"^GIT binary patch$", re.MULTILINE)


def account(
    workspace: Workspace, tree: str, tampering: Iterable[Finding], redactor: Redactor
) -> tuple[str, bytes]:
    """Status and patch from the snapshot to ``tree``; ``tampering`` is what was found in it.

    If a secret was found, all its forms and all binary files are taken out: such a patch may not
    apply. Raises LimitError for too many large files.
    """
    base = workspace.entries(workspace.snapshot.tree)
    without = tree_diff.large(base, workspace.entries(tree), workspace)
    status, patch = workspace.account(tree, without)
    if not any(finding.rule == DISCLOSED for finding in tampering):
        return status, patch
    return redactor.without_known(status), _clean(patch, redactor)


def headed(patch: bytes, allowed: Iterable[str]) -> bytes:
    """A patch whose first line names the allowed rules; git skips that line."""
    text = ", ".join(allowed)
    return f"# rlm-ci: allowed by --allow: {text}\n".encode() + patch if patch and text else patch


def edits(workspace: Workspace, result: str, tree: str, redactor: Redactor) -> bytes:
    """The patch from ``result`` to ``tree``, without secrets."""
    if result == tree:
        return b""
    large = tree_diff.large(workspace.entries(result), workspace.entries(tree), workspace)
    return _clean(workspace.diff(result, tree, large), redactor)


def _clean(patch: bytes, redactor: Redactor) -> bytes:
    parts = [part for part in _FILE.split(patch) if not _BINARY.search(part)]
    text = b"".join(parts).decode("utf-8", "surrogateescape")
    return redactor.without_known(text).encode("utf-8", "surrogateescape")
