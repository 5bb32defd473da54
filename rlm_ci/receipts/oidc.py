"""Tokens by which GitHub vouches for the run of a workflow: to get one, and to check one.

Claims: https://docs.github.com/actions/reference/openid-connect-reference
"""

from __future__ import annotations

import json
import time
from urllib.parse import quote, urlsplit

from rlm_ci.errors import ConfigError, RemoteError, UnavailableError
from rlm_ci.receipts.receipt import UnverifiedError
from rlm_ci.report.links import check_server_url
from rlm_ci.system import installation
from rlm_ci.system.transport import AnswerTooLongError, ConnectionBrokenError, HttpClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_ALGORITHMS = ("RS256",)
_LONGEST_ANSWER = 1 << 20
_SECONDS = 15.0
_ATTEMPTS = 3
_PAUSE = 1.0
#: Seconds by which clocks may differ.
_LEEWAY = 300


def issuer_of(server_url: str) -> str:
    """Who signs the tokens of a GitHub server. Raises ConfigError for an invalid address."""
    url = check_server_url(server_url)
    host = urlsplit(url).netloc
    if host == "github.com":
        return "https://token.actions.githubusercontent.com"
    if host.endswith(".ghe.com"):
        return f"https://token.actions.{host}"
    return f"{url}/_services/token"


def request(url: str, bearer: str, audience: str) -> str:
    """A token for ``audience``, from the address that the job has for it. Raises RemoteError."""
    joint = "&" if "?" in url else "?"
    headers = {"Authorization": f"Bearer {bearer}", "Accept": "application/json"}
    where = "ACTIONS_ID_TOKEN_REQUEST_URL"
    try:
        answer = _get(f"{url}{joint}audience={quote(audience, safe='')}", headers)
    except ConnectionBrokenError as error:
        raise RemoteError(
            f"GitHub gives no token for the receipt: {error}", where=where, hint="try again later"
        ) from None
    token = answer.get("value")
    if not isinstance(token, str) or token.count(".") != 2:
        raise RemoteError(
            "GitHub's answer holds no token", where=where, hint="give the job id-token: write"
        )
    return token


def verified_claims(token: str, issuer: str, audience: str) -> Mapping[str, Any]:
    """The claims of a token that ``issuer`` has signed for ``audience``. Raises UnverifiedError.

    Its short life may be over: the receipt stays as long as the change does.
    """
    try:
        import jwt
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"the library {error.name}, which verifies receipts, is not installed",
            hint=installation.command("github"),
        ) from None
    try:
        issuer = _own_issuer(jwt.decode(token, options={"verify_signature": False}), issuer)
        # Of the header, nothing but the key's name counts: addresses of keys in it do not.
        key_id = jwt.get_unverified_header(token).get("kid")
        keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(_keys(issuer)).keys}
        if key_id not in keys:
            raise UnverifiedError("GitHub no longer publishes the key that signed its token")
        claims: dict[str, Any] = jwt.decode(
            token,
            keys[key_id],
            algorithms=_ALGORITHMS,
            audience=audience,
            issuer=issuer,
            leeway=_LEEWAY,
            options={"verify_exp": False, "require": ["iat", "exp", "iss", "aud"]},
        )
    except jwt.InvalidAudienceError:
        raise UnverifiedError("its token is for another receipt") from None
    except (jwt.PyJWTError, ValueError, RecursionError, TypeError, LookupError, AttributeError):
        raise UnverifiedError("the signature of its token is not valid") from None
    return claims


def _own_issuer(claims: Mapping[str, Any], issuer: str) -> str:
    """The issuer that a token names: ``issuer``, or an enterprise's own below it."""
    claimed = claims.get("iss")
    slug = claimed.removeprefix(f"{issuer}/") if isinstance(claimed, str) else ""
    if claimed != issuer and (slug == claimed or not slug.replace("-", "").isalnum()):
        raise UnverifiedError("its token is of another issuer")
    return str(claimed)


def _keys(issuer: str) -> dict[str, Any]:
    """The keys that an issuer publishes. Raises UnverifiedError."""
    try:
        return _get(f"{issuer}/.well-known/jwks", {"Accept": "application/json"})
    except (ConnectionBrokenError, ConfigError) as error:
        raise UnverifiedError(f"GitHub's keys cannot be read: {error}") from None


def _get(url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """The JSON object at ``url``. Raises ConnectionBrokenError and ConfigError."""
    try:
        client = HttpClient("github")
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"the library {error.name}, which asks GitHub, is not installed",
            hint=installation.command("github"),
        ) from None
    request = {"method": "GET", "url": url, "headers": headers}
    with client:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                answer = client.send(
                    request, _SECONDS, _LONGEST_ANSWER, lambda status: status == 200
                )
            except ConnectionBrokenError:
                if attempt == _ATTEMPTS:
                    raise
            except AnswerTooLongError:
                break
            else:
                if answer.status == 200:
                    return _object(answer.body)
                if answer.status < 500 or attempt == _ATTEMPTS:
                    raise ConnectionBrokenError(f"status {answer.status}")
            time.sleep(_PAUSE)
    raise ConnectionBrokenError("the answer is too long")


def _object(body: bytes) -> dict[str, Any]:
    try:
        record = json.loads(body)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise ConnectionBrokenError("the answer is not a JSON object")
    return record
