"""Which variables hold a secret: told by the words of a name, and in doubt by the value."""

from __future__ import annotations

import base64
import json

import pytest

from rlm_ci.redaction.redactor import SIGN, Redactor

VALUE = "q7Zk2VbN9xLw4RtY8mHc"


@pytest.mark.parametrize(
    "name",
    [
        "DB_PASS", "MYSQL_PWD", "PASS", "AUTH", "SENTRY_DSN", "SLACK_WEBHOOK_URL", "WEBHOOK_URL",
        "DOCKER_AUTH_CONFIG", "NPM_CONFIG__AUTH", "COOKIE", "TOKEN2", "PASSWORD1", "API_KEY_2",
        "db_pass", "SESSION_COOKIES", "GH_PAT", "GH_PAT_2", "TOKEN_PROD", "PASSWORD_OF_STAGING",
        "GCP_SA_KEY_JSON", "DB_PASSWORD_BASE64", "KEY_B64", "AUTH_HEADER", "FTP_CREDS", "DBPASS",
        "npm_config_//registry.example.com/:_authToken", "SECRET_2024", "MY_JWT", "TOKENS",
    ],
)  # fmt: skip
def test_a_name_of_these_holds_a_secret(name: str) -> None:
    assert Redactor({name: VALUE}).text(f"a {VALUE} b") == f"a {SIGN} b"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PWD", "/workspace"),
        ("OLDPWD", "/home/ada/projects"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-XXXXq7Zk2V/agent.123"),
        ("XAUTHORITY", "/home/ada/.Xauthority"),
        ("GIT_AUTHOR_NAME", "Ada Lovelace 1815"),
        ("GIT_ASKPASS", "/usr/bin/askpass"),
        ("AUTH_TYPE", "authorization_code"),
        ("TOKEN_URL", "https://login.example.com/oauth2/token?v=2024"),
        ("TOKEN_LIFETIME", "1234567890"),
        ("SECRET_NAME", "shop-database"),
        ("COOKIE_DOMAIN", ".shop.example.com"),
        ("TOKENIZERS_PARALLELISM", "false-or-true-1-2"),
        ("BYPASS", VALUE),
        ("COMPASS", VALUE),
        ("AUTH_CLIENT_ID", VALUE),
        ("SENTRY_DSN", "https://sentry.example.com/12"),
        ("KEYBOARD", VALUE),
        ("", VALUE),
        ("__1", VALUE),
    ],
)
def test_others_do_not(name: str, value: str) -> None:
    assert Redactor({name: value}).text(f"a {value} b") == f"a {value} b"


def test_a_password_in_an_address_is_known_by_itself() -> None:
    redactor = Redactor({"DATABASE_URL": f"postgres://ada:{VALUE}%40x@db/shop"})
    assert redactor.text(f"login with {VALUE}@x failed") == f"login with {SIGN} failed"
    assert redactor.text(f"and {VALUE}%40x") == f"and {SIGN}"
    plain = Redactor({"DATABASE_URL": "postgres://postgres:postgres@localhost/postgres"})
    assert plain.text("postgres is ready") == "postgres is ready"


def test_what_a_configuration_holds_is_known_by_itself() -> None:
    login = base64.b64encode(f"ada:{VALUE}".encode()).decode()
    auths = {
        "auths": {"registry.example.com": {"auth": login, "email": "ada"}},
        "list": [VALUE[3:]],
    }
    redactor = Redactor({"DOCKER_AUTH_CONFIG": json.dumps(auths), "NPM_AUTH": login})
    assert redactor.text(f"auth {login}") == f"auth {SIGN}"
    assert redactor.text(f"password {VALUE}.") == f"password {SIGN}."
    assert redactor.text("registry.example.com of ada") == "registry.example.com of ada"


@pytest.mark.parametrize("value", ["{" * 70_000, "[" * 5_000, '{"a": "b"', "=" * 100, "\udcff" * 9])
def test_no_value_is_too_odd(value: str) -> None:
    assert Redactor({"MY_AUTH": value}).text("nothing of it") == "nothing of it"
