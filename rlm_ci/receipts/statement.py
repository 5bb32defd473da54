"""A receipt as an in-toto statement in a DSSE envelope, which other programs read and verify.

Statement: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
Envelope: https://github.com/secure-systems-lab/dsse/blob/master/envelope.md

Its key is made for one receipt and thrown away. The receipt names the public key, and GitHub's
token is for the whole receipt: so who trusts the token can trust the key.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from hashlib import sha256

from rlm_ci.errors import UnavailableError
from rlm_ci.receipts.receipt import FOLDER, LIMIT, InvalidReceiptError, Receipt, UnverifiedError
from rlm_ci.receipts.receipt import parse as parse_receipt
from rlm_ci.system import installation
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://github.com/rlm-ci/rlm-ci/attestations/receipt/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
#: Bytes of an envelope: a receipt in base64, and what is around it.
MOST_BYTES = 2 * LIMIT


class SignedStatement(Value):
    """A read envelope: the ``receipt`` in it, the signed bytes, and the signature over them."""

    receipt: Receipt
    payload: bytes
    signature: bytes


class OneTimeKey(Value):
    """A new key: ``public`` as a receipt has it, and what signs bytes with it."""

    public: str
    sign: Callable[[bytes], bytes]


def path_of(task_id: str) -> str:
    """Where the statement of a task is, beside its receipt."""
    return f"{FOLDER}/{task_id}.intoto.jsonl"


def new_key() -> OneTimeKey:
    """A key on the curve P-256. Raises UnavailableError without the library."""
    hashes, serialization, ec = _cryptography()
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(serialization.Encoding.DER, form)
    return OneTimeKey(
        b64encode(public).decode(), lambda data: bytes(key.sign(data, ec.ECDSA(hashes.SHA256())))
    )


def signed(receipt: Receipt, key: OneTimeKey) -> bytes:
    """The file: one line with the envelope."""
    payload = _payload(receipt)
    signature = {"keyid": key_id(receipt), "sig": b64encode(key.sign(_encoded(payload))).decode()}
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": b64encode(payload).decode(),
        "signatures": [signature],
    }
    return f"{json.dumps(envelope)}\n".encode()


def key_id(receipt: Receipt) -> str:
    """The SHA-256 of the public key as the receipt has it, in hexadecimal digits."""
    return sha256(receipt.public_key.encode()).hexdigest()


def parse(data: bytes) -> SignedStatement:
    """The statement in a file of at most MOST_BYTES. Raises InvalidReceiptError.

    Its payload must be byte for byte what :func:`signed` writes: nobody reads it in another way.
    """
    try:
        envelope = json.loads(data.decode("utf-8"))
        (signature,) = envelope["signatures"]
        payload = b64decode(envelope["payload"], validate=True)
        signature_bytes = b64decode(signature["sig"], validate=True)
        predicate = json.loads(payload)["predicate"]
        is_ours = envelope["payloadType"] == PAYLOAD_TYPE
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise InvalidReceiptError(
            "its in-toto statement is no envelope with one statement and one signature"
        ) from None
    receipt = parse_receipt(json.dumps(predicate).encode())
    if not is_ours or not receipt.public_key or payload != _payload(receipt):
        raise InvalidReceiptError("its in-toto statement is not the one that rlm-ci wrote for it")
    if signature.get("keyid") != key_id(receipt):
        raise InvalidReceiptError("its in-toto statement is signed by another key than its own")
    return SignedStatement(receipt, payload, signature_bytes)


def require_signature(statement: SignedStatement) -> None:
    """Raises UnverifiedError for a signature that is not of the receipt's own key."""
    hashes, serialization, ec = _cryptography()
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        key = serialization.load_der_public_key(b64decode(statement.receipt.public_key))
        key.verify(statement.signature, _encoded(statement.payload), ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError, AttributeError):
        raise UnverifiedError("the signature of its in-toto statement is not valid") from None


def _payload(receipt: Receipt) -> bytes:
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": "commit", "digest": {"gitCommit": receipt.commit}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": receipt.to_dict(),
    }
    return json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()


def _encoded(payload: bytes) -> bytes:
    """What is signed: DSSE's encoding of type and payload (PAE)."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _cryptography() -> tuple[Any, Any, Any]:
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"the library {error.name}, which signs and verifies receipts, is not installed",
            hint=installation.command("github"),
        ) from None
    return hashes, serialization, ec
