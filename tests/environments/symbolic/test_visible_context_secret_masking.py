"""Excerpts without secrets, also where an edge goes through one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.context.builder.build import build
from rlm_ci.environments.symbolic.visible_context import (
    VisibleContext,
    is_masked,
    is_masked_in_places,
    masked,
)
from rlm_ci.redaction.redactor import SIGN, Redactor

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.context.context import Context

SECRET = "correct-horse-battery"
TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
KEY = (
    "-----BEGIN PRIVATE KEY-----\n"
    + "MIIEvQIBADANBgkqhkiG9w0B\n" * 28
    + "-----END PRIVATE KEY-----"
)
REDACT = Redactor({"MY_PASSWORD": SECRET, "MY_SECRET": "two words of mine"}).text


@pytest.mark.sample(1)
@pytest.mark.parametrize("secret", [SECRET, TOKEN, KEY, "two words of mine"])
def test_wherever_the_edges_are(secret: str) -> None:
    """Secrets are redacted out of excerpts, cut ones too; the rest is exactly the source."""
    whole = f"some words before, a key: {secret} and some more words after it.\n"
    start = whole.index(secret)
    step = max(1, len(whole) // 40)
    for low in range(0, len(whole), step):
        for high in range(low, len(whole) + 1, step):
            text = masked(whole[:low], whole[low:high], whole[high:], REDACT)
            assert is_masked(text, whole[low:high])
            if high <= start or low >= start + len(secret):
                assert text == whole[low:high]
            for at in range(len(secret) - 7):
                assert secret[at : at + 8] not in text


@given(st.text("ab \n" + SECRET[:5]), st.text("ab \n" + SECRET[:5]), st.text("ab\n "))
def test_without_a_secret_nothing_changes(before: str, text: str, after: str) -> None:
    assert masked(before, text, after, REDACT) == text


@given(st.lists(st.sampled_from([SECRET, "a", " ", "\n", "gate"]), max_size=12), st.data())
def test_what_is_left_stands_in_the_source(parts: list[str], data: st.DataObject) -> None:
    whole = "".join(parts)
    low = data.draw(st.integers(0, len(whole)))
    high = data.draw(st.integers(low, len(whole)))
    text = masked(whole[:low], whole[low:high], whole[high:], REDACT)
    assert SECRET not in text
    assert is_masked(text, whole[low:high])


@pytest.mark.parametrize(
    ("text", "source", "holds"),
    [
        ("a b c", "a b c", True),
        (f"a {SIGN} c", "a xyz c", True),
        (f"{SIGN} c", "xyz c", True),
        (f"{SIGN}", "", True),
        (f"a {SIGN} d", "a xyz c", False),
        (f"b {SIGN} c", "a xyz c", False),
        (f"ab{SIGN}bc", "abc", False),
        (f"a{SIGN}m{SIGN}z", "a..m..z", True),
        (f"a{SIGN}q{SIGN}z", "a..m..z", False),
        ("a", "b", False),
    ],
)
def test_is_masked(text: str, source: str, holds: bool) -> None:
    assert is_masked(text, source) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("see a/key.log:1 and b.log:2.", True),
        (f"see a/{SIGN}.log:1 and b.log:2.", True),
        (f"see {SIGN} and {SIGN}.", True),
        (f"see {SIGN}b.log:2.", False),
        (f"{SIGN} a/key.log:1 and b.log:2.", False),
        (f"see a/key.log:1 {SIGN} b.log:2.", False),
        (f"see a/{SIGN}.txt:1 and b.log:2.", False),
        (f"see {SIGN} and and b.log:2.", False),
        (f"see a/key.log:1 and b.log:2.{SIGN}", False),
    ],
)
def test_only_places_are_masked(text: str, holds: bool) -> None:
    pieces = [("see ", False), ("a/key.log:1", True), (" and ", False), ("b.log:2", True)]
    assert is_masked_in_places(text, [*pieces, (".", False)]) is holds
    beside = [("see ", False), ("a/", True), ("key.log:1", True), *pieces[2:], (".", False)]
    assert is_masked_in_places(text, beside) is holds


LINES = [f"MII{n:04d}{'kZ3/+' * 11}Q" for n in range(700)]


def long_key(lines: int) -> str:
    body = "\n".join(LINES[:lines])
    return f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"


def context_of(text: str, folder: Path) -> Context:
    source = folder / "source.txt"
    source.write_text(text)
    return build(str(source), str(folder / "object"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("lines", [100, 700])
@pytest.mark.parametrize("size", [700, 8192])
def test_a_long_private_key_is_in_no_excerpt(lines: int, size: int, tmp_path: Path) -> None:
    """Secrets are redacted out of excerpts: of a key of 6.5 or 46 KB, wherever one begins."""
    before, after = "words before it. " * 40, "\nwords after it. " * 2000
    whole = before + long_key(lines) + after
    with context_of(whole, tmp_path) as context:
        window = VisibleContext(context, Redactor({}).text)
        for start in range(0, len(whole) - size, 1999 if lines == 100 else 19_973):
            pointer = f"ctx:{context.object_id}#bytes:{start}-{start + size}"
            text = window.read(pointer, size).text
            assert "kZ3/+" not in text
            assert is_masked(text, whole[start : start + size])
        far = len(before) + len(long_key(lines)) + 400
        text = window.shown(len(before) + 300, far, whole[len(before) + 300 : far])
        assert text == SIGN + whole[far - 400 : far]
        text = window.shown(0, len(before) + 300, whole[: len(before) + 300])
        assert text == before + SIGN


def test_a_long_value_that_we_were_given_is_in_no_excerpt(tmp_path: Path) -> None:
    """Secrets are redacted out of excerpts: a value of 20 KB on one line."""
    value = "".join(f"{n:05d}-qX" for n in range(2500))
    redactor = Redactor({"SERVICE_TOKEN": value})
    whole = f"before {value} after"
    with context_of(whole, tmp_path) as context:
        window = VisibleContext(context, redactor.text, redactor.longest)
        for start in range(0, len(whole), 997):
            end = min(len(whole), start + 500)
            assert "-qX" not in window.shown(start, end, whole[start:end])


@pytest.mark.parametrize(
    "between",
    [
        "is how a key begins, as everybody knows.\n",
        "' in text:\n    return _refused(text)\n",
        "\nMIIE\n-----END PRIVATE KEY-----\n",
    ],
)
def test_what_only_names_a_key_hides_nothing_far_behind_it(between: str, tmp_path: Path) -> None:
    whole = f"-----BEGIN PRIVATE KEY-----{between}" + "plain words, and no key.\n" * 1000
    with context_of(whole, tmp_path) as context:
        window = VisibleContext(context, Redactor({}).text)
        assert window.shown(20_000, 21_000, whole[20_000:21_000]) == whole[20_000:21_000]
