"""A receipt or its in-toto statement in a file, checked offline: its form, its signature, its tree.

GitHub's own signature needs GitHub's keys: the delegation guard checks it.
"""

from __future__ import annotations

import os

from rlm_ci.errors import ConfigError
from rlm_ci.receipts import statement
from rlm_ci.receipts.receipt import (
    FOLDER,
    InvalidReceiptError,
    Receipt,
    UnverifiedError,
    bare_trees,
    parse,
)
from rlm_ci.runs import SUCCEEDED
from rlm_ci.system import files
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.git.repository import Repository

_STATEMENT, _RECEIPT = ".intoto.jsonl", ".json"


class VerifiedReceipt(Value):
    """What a receipt says (``summary``, "" where it is not valid), and what is wrong with it."""

    summary: str
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()


def is_receipt(path: str) -> bool:
    """Whether a file is a receipt or a statement, by its name and folder."""
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return path.endswith(_STATEMENT) or (folder == FOLDER and path.endswith(_RECEIPT))


def verify(path: str, repository: Repository) -> VerifiedReceipt:
    """Check a file, and the other form of it if it lies beside it. Raises ConfigError."""
    stem = path.removesuffix(_STATEMENT).removesuffix(_RECEIPT)
    try:
        forms = (f"{stem}{_RECEIPT}", f"{stem}{_STATEMENT}")
        receipts = [_read(name) for name in forms if name == path or os.path.lexists(name)]
        if receipts[0] != receipts[-1]:
            raise InvalidReceiptError("its in-toto statement says something else")
    except (InvalidReceiptError, UnverifiedError) as error:
        return VerifiedReceipt("", (f"{printable(path)}: {error}",))
    receipt = receipts[0]
    problems, notes = _of_tree(receipt, repository)
    if receipt.token:
        notes.append(
            "GitHub's signature needs GitHub's keys: delegation_guard.receipts = verify checks it"
        )
    else:
        notes.append("no CI job made it: author's evidence, not proof")
    return VerifiedReceipt(_summary(receipt), tuple(problems), tuple(notes))


def _read(path: str) -> Receipt:
    """Raises ConfigError, InvalidReceiptError and UnverifiedError."""
    try:
        data = files.read(path, statement.MOST_BYTES)
    except files.UnreadableError as error:
        raise ConfigError(
            f"the receipt cannot be read: {error}",
            where=printable(path),
            hint="name a file that rlm-ci receipt wrote",
        ) from None
    if not path.endswith(_STATEMENT):
        return parse(data)
    signed = statement.parse(data)
    statement.require_signature(signed)
    return signed.receipt


def _of_tree(receipt: Receipt, repository: Repository) -> tuple[list[str], list[str]]:
    """Whether the commit has the tree: problems, and notes where this clone cannot tell."""
    commit = receipt.commit
    if repository.sizes([f"{commit}^{{tree}}"])[0] < 0:
        return [], [f"the commit {commit[:12]} is not in this clone: its tree is not compared"]
    if bare_trees(repository, [commit]).get(commit) == receipt.tree:
        return [], []
    return [f"the commit {commit[:12]} has another tree than {receipt.tree[:12]}"], []


def _summary(receipt: Receipt) -> str:
    ended = sum(run.status == SUCCEEDED for run in receipt.runs)
    runs = f"{count(len(receipt.runs), 'run')} of {receipt.task_id}, {ended:,} succeeded"
    text = f"{runs}, on {receipt.commit[:12]}"
    if receipt.workflow:
        text += f"; made by run {receipt.workflow.run_id} of {receipt.workflow.workflow_ref}"
    return text
