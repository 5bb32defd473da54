"""Whom a token must come from, and what a job's request for one may end in."""

from __future__ import annotations

import pytest

from rlm_ci.errors import RemoteError
from rlm_ci.receipts import oidc
from testing.token_issuer import BEARER, TOKEN, TokenIssuer


@pytest.mark.parametrize(
    ("server", "issuer"),
    [
        ("https://github.com", "https://token.actions.githubusercontent.com"),
        ("https://github.com/", "https://token.actions.githubusercontent.com"),
        ("https://octo.ghe.com", "https://token.actions.octo.ghe.com"),
        ("https://git.acme.example", "https://git.acme.example/_services/token"),
    ],
)
def test_each_server_has_its_issuer(server: str, issuer: str) -> None:
    assert oidc.issuer_of(server) == issuer


def test_a_job_gets_a_token_for_what_it_asks(issuer: TokenIssuer) -> None:
    issuer.claims = {"iat": 1, "exp": 2}
    token = oidc.request(issuer.request_url, BEARER, "rlm-ci-receipt:00&x=1")
    claims = oidc.verified_claims(token, issuer.issuer, "rlm-ci-receipt:00&x=1")
    assert claims["aud"] == "rlm-ci-receipt:00&x=1"


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (403, b"", "GitHub gives no token for the receipt: status 403"),
        (200, b"[]", "GitHub gives no token for the receipt: the answer is not a JSON object"),
        (200, b"{}", "GitHub's answer holds no token"),
    ],
)
def test_a_refused_request_is_an_error_without_the_job_s_key(
    issuer: TokenIssuer, status: int, body: bytes, why: str
) -> None:
    issuer.faults[TOKEN] = status, body
    with pytest.raises(RemoteError) as caught:
        oidc.request(issuer.request_url, BEARER, "x")
    issuer.faults.clear()
    assert caught.value.what == why
    assert BEARER not in str(caught.value)
