"""A text without secrets in which every line is where it was."""

from __future__ import annotations

from pathlib import Path

from rlm_ci.context.builder.build import build
from rlm_ci.environments.repl.host.context_functions import mask, masked_source
from rlm_ci.redaction.redactor import SIGN, Redactor

SECRET = "hunter2-hunter2-hünter2"
KEY = "\n".join(["-----BEGIN PRIVATE KEY-----", *["QUJD" * 16] * 30, "-----END PRIVATE KEY-----"])
redact = Redactor({"SOME_PASSWORD": SECRET, "TWO_LINES_SECRET": "first half\nsecond half"}).text


def lengths(data: bytes) -> list[int]:
    return [len(line) for line in data.split(b"\n")]


def test_lines_keep_their_bytes_and_their_places() -> None:
    lines = [
        "a line before",
        f"login with {SECRET} refused – ök",
        SECRET,
        "x" * 20_000 + f" {SECRET} " + "y" * 9000,
        KEY,
        "between",
        "first half\nsecond half",
        "the end, caf\udce9",
    ]
    data = "\n".join(lines).encode("utf-8", "surrogateescape")
    clean = mask(data, redact)
    assert lengths(clean) == lengths(data)
    text = clean.decode("utf-8", "surrogateescape")
    assert redact(text) == text
    assert text.startswith(f"a line before\nlogin with {SIGN} refused – ök")
    assert text.endswith("\nthe end, caf\udce9")
    assert text.count("QUJD") == 0
    assert "x" * 8000 in text
    assert mask(b"nothing \xff here", redact) == b"nothing \xff here"


def test_only_a_text_with_secrets_is_copied(tmp_path: Path) -> None:
    for name, text in (("plain", "a\n" * 9), ("secret", f"{'a' * 200}\n{SECRET}\n" * 7000)):
        (tmp_path / name).write_text(text)
        with build(str(tmp_path / name), str(tmp_path / f"{name}.object")) as context:
            path = masked_source(context, str(tmp_path / "copies" / name), redact)
            data = Path(path).read_bytes()
            assert (path == context.source_path) == (name == "plain")
            assert lengths(data) == lengths(text.encode())
            assert SECRET.encode() not in data
