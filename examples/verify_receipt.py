#!/usr/bin/env python3
"""Verifies both signatures of a signed receipt, without rlm-ci.

    python examples/verify_receipt.py .delegation/0142-ship-to-europe.intoto.jsonl

The envelope's signature is made by the key (ECDSA on P-256) in the receipt, and the token's by
GitHub, whose keys are fetched. Prints the workflow, its commit and the receipt's commit: you must
still judge whether you trust that workflow, and whether it is the commit that you mean. Needs
securesystemslib, cryptography and PyJWT.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.serialization import load_der_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]  # its types do not export it

ISSUER = "https://token.actions.githubusercontent.com"


def main() -> None:
    envelope = Envelope.from_dict(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    receipt = json.loads(envelope.payload)["predicate"]
    (key_id,) = envelope.signatures
    key: Any = load_der_public_key(base64.b64decode(receipt["public_key"]))
    envelope.verify([SSlibKey.from_crypto(key, keyid=key_id)], 1)

    token = ".".join(receipt.pop("token"))
    content = json.dumps(receipt, sort_keys=True, separators=(",", ":"))
    keys = jwt.PyJWKClient(f"{ISSUER}/.well-known/jwks")
    claims = jwt.decode(
        token,
        keys.get_signing_key_from_jwt(token),
        algorithms=["RS256"],
        audience="rlm-ci-receipt:" + hashlib.sha256(content.encode()).hexdigest(),
        issuer=ISSUER,
        options={"verify_exp": False},
    )
    print(claims["workflow_ref"], claims["sha"], receipt["commit"])


if __name__ == "__main__":
    main()
