"""Secrets in whatever form: none of them is left in a text, and nothing else is taken out."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.redaction.redactor import SIGN, Redactor
from rlm_ci.report.findings import (
    Finding,
    Location,
    Part,
    RefutedClaim,
    Report,
    Severity,
    Subject,
)
from rlm_ci.report.proof import ARGUED, Proof

if TYPE_CHECKING:
    from collections.abc import Callable

CANARY = "cAnaRy+Secret/0123456789-xyz"
REDACTOR = Redactor({"SHOP_TOKEN": CANARY, "HOME": "/home/ada", "SHORT_TOKEN": "abc"})

DRESSES: dict[str, Callable[[str], str]] = {
    "plain": str,
    "reversed": lambda text: text[::-1],
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 behind one character": lambda text: base64.b64encode(f"u{text}".encode()).decode(),
    "base64 of a login": lambda text: base64.b64encode(f"ad:{text}:x".encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "capital hex": lambda text: text.encode().hex().upper(),
    "quoted": lambda text: quote(text, safe=""),
    "without the first seven": lambda text: text[7:],
    "without the first eight": lambda text: text[8:],
    "without the first": lambda text: text[1:],
    "without the last": lambda text: text[:-1],
    "without the last eight": lambda text: text[:-8],
    "without the first and the last": lambda text: text[1:-1],
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "base32 in small letters": lambda text: base64.b32encode(text.encode()).decode().lower(),
    "base32 of a login": lambda text: base64.b32encode(f"ad:{text}:x".encode()).decode(),
    "hex with blanks": lambda text: text.encode().hex(" "),
    "hex with colons": lambda text: text.encode().hex(":").upper(),
    "hex in pairs": lambda text: text.encode().hex(" ", 2),
}
#: Ways to show the bytes of a file; od begins each line with a blank.
DUMPS = ("xxd", "xxd -g1", "xxd -c 32", "hexdump -C", "od -tx1", "od -An -tx1")


@pytest.mark.parametrize("dress", DRESSES)
def test_a_known_secret_is_taken_out_in_every_dress(dress: str) -> None:
    dressed = DRESSES[dress](CANARY)
    told = REDACTOR.text(f"before {dressed} after")
    assert SIGN in told
    assert told.startswith("before ")
    assert told.endswith(" after")
    for length in (12, 16):
        for start in range(len(dressed) - length):
            assert dressed[start : start + length] not in told


@pytest.mark.parametrize("dump", DUMPS)
def test_a_known_secret_is_taken_out_of_a_dump(dump: str) -> None:
    program, *options = dump.split()
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    data = f"SHOP_TOKEN={CANARY * 3}\n".encode()
    shown = subprocess.run([program, *options], input=data, capture_output=True, check=True)
    text = shown.stdout.decode()
    told = REDACTOR.text(text)
    assert SIGN in told
    left = bytes.fromhex("".join(re.findall(r"\b[0-9a-f]{2}\b", told)))
    for kept in (told, left.decode("latin-1")):
        assert not any(CANARY[at : at + 8] in kept for at in range(len(CANARY) - 7))
    assert Redactor({"OTHER_TOKEN": "an0ther-secret-of-the-shop"}).text(text) == text


@pytest.mark.parametrize(
    "value", ["postgres-shop-1", "password1", "changeme-please", "correct horse battery staple"]
)
def test_the_words_of_a_weak_secret_stay_in_other_texts(value: str) -> None:
    redact = Redactor({"DB_PASSWORD": value}).text
    text = "the postgres database, its password, changeme, please, and a horse with a battery"
    assert redact(text) == text
    assert redact(f"it is {value}!") == f"it is {SIGN}!"


def test_times_addresses_and_colours_are_no_dump() -> None:
    text = "12:34:56 00:1b:44:11:3a:b7 fe80::1 ab cd ef 01 02 03 04 05 06 07 08 09"
    assert REDACTOR.text(text) == text


def test_a_secret_with_signs_that_json_escapes_is_taken_out_of_json() -> None:
    secret = 'pa"ss\\wörd\tof-the-shop'
    redact = Redactor({"SHOP_TOKEN": secret}).text
    for plain in (True, False):
        text = redact(json.dumps({"said": f"it is {secret}!"}, ensure_ascii=plain))
        assert json.loads(text) == {"said": f"it is {SIGN}!"}


@pytest.mark.parametrize(
    "secret",
    [
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2_" * 9,
        "ghs_" + "Z9" * 18,
        "glpat-" + "x" * 20,
        "sk-ant-api03-" + "q" * 40,
        "sk-proj-" + "Ab1_" * 10,
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdefghij",
        "npm_" + "a" * 36,
        "AIza" + "b" * 35,
        "hf_" + "c" * 34,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijklmno",
        "ghs_12345_eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijklmno",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpA\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIEpA and no end",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nMIIEpA\n-----END PGP PRIVATE KEY BLOCK-----",
        "Bearer abcdefghijklmnop1234",
        "https://ada:pa55word@example.com/x",
    ],
)
def test_what_looks_like_a_token_is_taken_out(secret: str) -> None:
    told = Redactor({}).text(f"see {secret}")
    assert SIGN in told
    assert not any(word in told for word in ("a1B2", "MIIE", "pa55word", "abcdefghij", "IOSFO"))


HEX = "0f3a9c51b7d24e8896a1c0de55f7723b"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RAILS_MASTER_KEY", HEX),
        ("SIGNING_KEY", "bXkgdmVyeSBvd24gc2lnbmluZyBrZXk="),
        ("signing_key", "/9j4AAQSkZJRgABAQEAYABgAAD+1x=="),
        ("ENCRYPTION_KEY", "correct horse battery staple"),
        ("DEPLOY_KEY", "q8Zp2LxN0vWb"),
        ("SSH_KEY", "-----BEGIN OPENSSH PRIVATE KEY-----"),
        ("SSHKEY", HEX),
        ("SIGNING_KEYS", f"old:{HEX},new:{HEX[::-1]}"),
        ("APP_KEY", f"base64:{HEX}="),
        ("MONGO_KEY", f"mongodb://ada:{HEX}@db"),
        ("SECRET_KEY", "changeme-please"),
    ],
)
def test_what_is_called_a_key_is_a_secret(name: str, value: str) -> None:
    """Decision of the security page: every name that ends in KEY or KEYS."""
    redactor = Redactor({name: value})
    told = redactor.text(f"before {value} after")
    assert told == f"before {SIGN} after"
    assert redactor.longest >= len(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CACHE_KEY", "linux-node-18"),
        ("PRIMARY_KEY", "customer_id"),
        ("SORT_KEY", "createdAt"),
        ("PARTITION_KEY", "tenant/region"),
        ("ISSUE_KEY", "SHOP-1234"),
        ("HOTKEY", "CTRL-ALT-DELETE"),
        ("SSH_KEY", "/home/ada/.ssh/id_ed25519"),
        ("TLS_KEY", "~/certificates/server.pem"),
        ("TLS_KEY", "./certificates/server.pem"),
        ("KMS_KEY", "https://vault.example.com/keys/17"),
        ("STRIPE_PUBLISHABLE_KEY", HEX),
        ("VAPID_PUBLIC_KEY", HEX),
        ("SSH_PUBKEY", HEX),
        ("API_KEY_ID", HEX),
        ("SIGNING_KEY", "abc1234"),
    ],
)
def test_what_is_only_called_a_key_stays(name: str, value: str) -> None:
    text = f"before {value} after"
    assert Redactor({name: value}).text(text) == text


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_REGION", "us-east-1"), ("ANTHROPIC_MODEL", "claude-3-5-sonnet-20241022"),
        ("AIDER_MODEL", "openai/gpt-4o-2024"), ("OPENAI_BASE_URL", "http://127.0.0.1:80/v1"),
        ("GOOGLE_GENAI_USE_VERTEXAI", "true"), ("VERTEXAI_LOCATION", "eu-west-1-zone-b2c"),
    ],
)  # fmt: skip
def test_a_setting_that_is_passed_on_by_name_is_no_secret(name: str, value: str) -> None:
    assert value in Redactor({name: value}, [name]).text(f"E  assert '{value}' == 1")


def test_what_looks_like_a_secret_is_one_whatever_it_is_called() -> None:
    value = "Zq7-0f8e2a9bd3c14e55"
    assert value not in Redactor({"MY_LOGIN": value}, ["MY_LOGIN"]).text(f"it is {value}.")
    assert value in Redactor({"MY_LOGIN": value}).text(f"it is {value}.")


def test_no_value_takes_long_to_be_told_from_words() -> None:
    """A value of any length is decided on in no time that anybody would notice."""
    hostile = (
        "aB" * 12,
        "a" * 23 + "!",
        "Aa" * 11 + "_!",
        "a-" * 11 + "!!",
        "a-" * 200_000,
        "/" * 200_000,
    )
    redactor = Redactor({f"N{n}_KEY": value for n, value in enumerate(hostile)})
    assert redactor.text("a" * 23 + "!") == SIGN


@pytest.mark.parametrize(
    "text",
    [
        "the task-id of tasks/index.json",
        "https://github.com/acme/shop/blob/main/a.md",
        "mail ada@example.com about https://example.com",
        "disk-usage and risk-averse sk-learn",
        "an eyJ in a word, and ghp_ alone",
        "/home/ada/abc",
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert REDACTOR.text(text) == text


@given(st.text(max_size=200))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = REDACTOR.text(text + CANARY)
    assert CANARY not in once
    assert REDACTOR.text(once) == once


def test_no_text_of_a_report_keeps_a_secret_and_a_quote_is_whole_or_not_there() -> None:
    place = Location("a.py", 1, 1, blob="0" * 40, quote=f"key = '{CANARY}'")
    other = Location("b.py", 2, 2, blob="1" * 40, quote="clean")
    finding = Finding(
        "x/y", Severity.HIGH, f"message {CANARY}", f"hint {CANARY}", (place, other),
        subject=CANARY, suggested_fix=CANARY, suppression=CANARY,
    )  # fmt: skip
    texts = dict.fromkeys(Proof._fields, f"a {CANARY}")
    proved = finding.replace(proof=Proof(**{**texts, "level": ARGUED}))
    part = Part("x", f"summary {CANARY}", {}, (finding, proved), block=CANARY)
    clean = Part("y", "clean")
    refuted = (RefutedClaim(proved, f"reason {CANARY}"),)
    report = Report(Subject(), Severity.HIGH, (part, clean), refuted=refuted)
    told = REDACTOR.report(report)
    assert CANARY not in repr(told)
    assert told.findings[0].evidence == (place.replace(quote=None), other)
    assert told.parts[1] == clean
    assert REDACTOR.report(told) == told
