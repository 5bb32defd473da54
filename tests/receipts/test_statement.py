"""The in-toto statement of a receipt: what others can verify, and what no change gets past."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.serialization import load_der_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer._key import SSlibKey

from rlm_ci.receipts import statement
from rlm_ci.receipts.receipt import InvalidReceiptError, Receipt, UnverifiedError

if TYPE_CHECKING:
    from testing.receipts_stage import Scene


@pytest.fixture
def receipt(scene: Scene) -> Receipt:
    return scene.receipt().replace(workflow=scene.made_by_job(), token="e.f.g")


def signed(receipt: Receipt) -> bytes:
    key = statement.new_key()
    return statement.signed(receipt.replace(public_key=key.public), key)


def test_it_is_one_line_with_a_statement_about_the_commit(receipt: Receipt) -> None:
    data = signed(receipt)
    assert data.count(b"\n") == 1
    envelope = json.loads(data)
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    told = json.loads(b64decode(envelope["payload"]))
    assert told["_type"] == "https://in-toto.io/Statement/v1"
    assert told["subject"] == [{"name": "commit", "digest": {"gitCommit": receipt.commit}}]
    assert told["predicateType"].startswith("https://github.com/rlm-ci/rlm-ci/")
    assert told["predicate"]["runs"] == [run.to_dict() for run in receipt.runs]


def test_what_is_written_is_read_and_verified(receipt: Receipt) -> None:
    read = statement.parse(signed(receipt))
    assert read.receipt.replace(public_key="") == receipt
    statement.require_signature(read)


def of_others(data: bytes) -> bytes:
    """The payload, as verified by the library of in-toto and TUF."""
    envelope = Envelope.from_dict(json.loads(data))
    predicate = json.loads(envelope.payload)["predicate"]
    public: Any = load_der_public_key(b64decode(predicate["public_key"]))
    (key_id,) = envelope.signatures
    envelope.verify([SSlibKey.from_crypto(public, keyid=key_id)], 1)
    return envelope.payload


def test_another_library_verifies_it(receipt: Receipt) -> None:
    assert json.loads(of_others(signed(receipt)))["predicate"]["task_id"] == receipt.task_id


def test_the_example_verifies_both_signatures(scene: Scene, tmp_path: Path) -> None:
    code = (Path(__file__).parents[2] / "examples/verify_receipt.py").read_text("utf-8")
    github = "https://token.actions.githubusercontent.com"
    assert code.count(github) == 1
    key = statement.new_key()
    receipt = scene.signed(scene.receipt().replace(public_key=key.public))
    data = statement.signed(receipt, key)
    for number, content in enumerate((data, tampered(data, b'"task_id":"0', b'"task_id":"1'))):
        path = tmp_path / f"{number}.intoto.jsonl"
        path.write_bytes(content)
        argv = [sys.executable, "-c", code.replace(github, scene.issuer.issuer), str(path)]
        ended = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert (ended.returncode == 0) is (number == 0), ended.stderr
        assert ended.stdout == (
            f"{claims_of(receipt)} {scene.work} {scene.work}\n" if number == 0 else ""
        )


def claims_of(receipt: Receipt) -> str:
    assert receipt.workflow is not None
    return receipt.workflow.workflow_ref


def tampered(data: bytes, old: bytes, new: bytes) -> bytes:
    """The same envelope with other bytes in its payload."""
    envelope = json.loads(data)
    payload = b64decode(envelope["payload"])
    assert old in payload
    return json.dumps(
        envelope | {"payload": b64encode(payload.replace(old, new)).decode()}
    ).encode()


def test_a_changed_run_is_refused_by_us_and_by_others(receipt: Receipt) -> None:
    data = tampered(signed(receipt), b'"manifest_sha256":"0', b'"manifest_sha256":"1')
    with pytest.raises(UnverifiedError, match="the signature of its in-toto statement is not"):
        statement.require_signature(statement.parse(data))
    with pytest.raises(VerificationError):
        of_others(data)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"in-toto.io/Statement/v1", b"in-toto.io/Statement/v2"),
        (b"attestations/receipt/v1", b"attestations/receipt/v9"),
        (b'{"gitCommit":"', b'{"gitCommit":"0'),
        (b'"name":"commit"', b'"name": "commit"'),
        (b'"subject":[', b'"subject":[],"subject":['),
    ],
)
def test_another_form_is_refused(receipt: Receipt, old: bytes, new: bytes) -> None:
    with pytest.raises(InvalidReceiptError, match="not the one that rlm-ci wrote"):
        statement.parse(tampered(signed(receipt), old, new))


def without(name: str, data: bytes) -> bytes:
    return json.dumps(
        {key: value for key, value in json.loads(data).items() if key != name}
    ).encode()


def test_a_signature_by_another_key_is_refused(receipt: Receipt) -> None:
    envelope, other = json.loads(signed(receipt)), json.loads(signed(receipt))
    stolen = envelope | {"signatures": other["signatures"]}
    with pytest.raises(InvalidReceiptError, match="another key than its own"):
        statement.parse(json.dumps(stolen).encode())
    (signature,) = other["signatures"]
    (own,) = envelope["signatures"]
    stolen["signatures"] = [{**own, "sig": signature["sig"]}]
    with pytest.raises(UnverifiedError):
        statement.require_signature(statement.parse(json.dumps(stolen).encode()))


@pytest.mark.parametrize("name", ["payload", "payloadType", "signatures"])
def test_a_member_that_is_missing_is_an_error(receipt: Receipt, name: str) -> None:
    with pytest.raises(InvalidReceiptError, match="no envelope"):
        statement.parse(without(name, signed(receipt)))


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"payload": 1, "signatures": [1]}',
     b'{"payload": "W10=", "payloadType": "x", "signatures": [{"sig": ""}]}'],
)  # fmt: skip
def test_other_bytes_are_no_envelope(data: bytes) -> None:
    with pytest.raises(InvalidReceiptError, match="no envelope"):
        statement.parse(data)


@pytest.mark.parametrize("key", ["", "AAAA", "no base64"])
def test_a_key_that_is_none_verifies_nothing(receipt: Receipt, key: str) -> None:
    made = statement.new_key()
    data = statement.signed(receipt.replace(public_key=key), made)
    with pytest.raises((InvalidReceiptError, UnverifiedError)):
        statement.require_signature(statement.parse(data))
