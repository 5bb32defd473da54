"""The baseline of one prompt: what of a context is in it, and how it is read."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.lab.bench import benchmark
from rlm_ci.lab.bench.prepare import PreparedCase
from rlm_ci.lab.bench.scoring.scorers import Reply
from rlm_ci.lab.results import BenchmarkCase

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "".join(f"{number} « é »\n" for number in range(400))
TASK = "How many lines are there?"


class Endpoint:
    """Answers prompts, and refuses those that are longer than it reads."""

    def __init__(self, size: int = 1 << 30, refusal: str = "") -> None:
        self.size = size
        self.refusal = refusal
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> Reply:
        self.prompts.append(prompt)
        if len(prompt.encode()) > self.size:
            raise RemoteError(f"the prompt is too long for the model: {self.refusal}")
        return Reply("400")


def answered(
    path: Path, data: bytes, endpoint: Endpoint, tokens: int = 8192
) -> benchmark.DirectAnswer:
    path.write_bytes(data)
    case = BenchmarkCase("c", "lines", TASK, "generic")
    return benchmark.answer(PreparedCase(case, str(path)), endpoint, tokens, tokens // 4)


@pytest.mark.parametrize(
    "data",
    [TEXT.encode(), TEXT.encode("utf-16"), TEXT.encode("cp1252"), gzip.compress(TEXT.encode())],
    ids=["UTF-8", "UTF-16", "windows-1252", "gzip"],
)
def test_a_context_is_decoded_and_unpacked(tmp_path: Path, data: bytes) -> None:
    endpoint = Endpoint()
    assert answered(tmp_path / "context", data, endpoint).left_out == 0
    [prompt] = endpoint.prompts
    assert TEXT in prompt
    assert prompt.endswith(TASK)


@pytest.mark.parametrize("tokens", [1024, 2048])
def test_a_context_is_cut_to_what_fits_beside_the_answer(tmp_path: Path, tokens: int) -> None:
    endpoint = Endpoint()
    left_out = answered(tmp_path / "context", TEXT.encode("utf-16"), endpoint, tokens).left_out
    [prompt] = endpoint.prompts
    assert len(prompt.encode()) <= (tokens - tokens // 4) * 2.5
    assert f"The context goes on for {left_out:,} bytes" in prompt
    shown = prompt.partition("[The context goes on")[0]
    assert shown.count("«") == sum("«" in line for line in TEXT.splitlines()[: shown.count("«")])
    assert left_out > len(TEXT.encode()) - len(shown.encode())


@pytest.mark.parametrize("refusal", ["maximum context length is 1500 tokens", "it is too large"])
def test_an_endpoint_that_refuses_the_length_is_asked_with_less(
    tmp_path: Path, refusal: str
) -> None:
    endpoint = Endpoint(3000, refusal)
    assert answered(tmp_path / "context", TEXT.encode(), endpoint, 4096).left_out > 0
    sizes = [len(prompt) for prompt in endpoint.prompts]
    assert len(sizes) > 1
    assert sizes == sorted(sizes, reverse=True)


def test_another_refusal_is_not_repeated(tmp_path: Path) -> None:
    def ask(_prompt: str) -> Reply:
        raise RemoteError("the key was refused (401)")

    (tmp_path / "context").write_text(TEXT)
    case = BenchmarkCase("c", "lines", TASK, "generic")
    with pytest.raises(RemoteError, match="401"):
        benchmark.answer(PreparedCase(case, str(tmp_path / "context")), ask, 8192, 2048)


def test_a_context_that_is_no_text_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a PDF document") as caught:
        answered(tmp_path / "context", b"%PDF-1.7 \x00", Endpoint())
    assert "pdftotext" in caught.value.hint
