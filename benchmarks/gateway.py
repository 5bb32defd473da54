"""Calls to a model, journalled and budgeted, beside the openai package alone: ``make bench``.

The model is one on loopback that costs next to nothing, in a process of its own. Ours is all that
a run does: the reservation in the ledger, the record with its fsyncs, the client. Each sample is
a process too. The result is written to ``benchmarks/results/gateway.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOP = Path(__file__).resolve().parent.parent
CALLS, THREADS, DELAY = 200, 16, 0.2
IDEAL = -(-CALLS // THREADS) * DELAY
HISTORY, HISTORY_CALLS = 200, 60
WALL_TARGET, CPU_TARGET = 1.05, 0.1


# ── in the child ──


def history(number: int, length: int) -> list[dict[str, str]]:
    """A conversation of ``length`` messages of some 200 bytes, and a question of its own."""
    text = "The validator still fails in the same place; here is what it printed. " * 3
    turns = [{"role": ("user", "assistant")[n % 2], "content": text} for n in range(length - 1)]
    return [*turns, {"role": "user", "content": f"question {number}"}]


@contextmanager
def ours(url: str) -> Iterator[Callable[[int, int], str]]:
    """Ask as a run does."""
    from rlm_ci.models import ModelRequest
    from rlm_ci.models.budget import Ledger
    from rlm_ci.models.openai.client import OpenAIModel
    from rlm_ci.models.record.record import Record
    from rlm_ci.redaction.redactor import Redactor

    ledger = Ledger(max_calls=10**6, max_tokens=10**12)
    with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
        path = os.path.join(folder, "calls.jsonl")
        redact = Redactor({"OPENAI_API_KEY": "sk-loopback-0123456789abcdef"}).text
        model = OpenAIModel(base_url=url, api_key="sk-loopback-0123456789abcdef")
        with model, Record.open(path, redact=redact) as record:

            def ask(number: int, length: int) -> str:
                request = ModelRequest("m-1", tuple(history(number, length)), 1000)
                return record.complete(model, ledger, request, f"{number}/{length}").text

            yield ask


@contextmanager
def plain(url: str) -> Iterator[Callable[[int, int], str]]:
    """Ask by the package alone, typed."""
    import openai

    with openai.OpenAI(base_url=url, api_key="sk-loopback-0123456789abcdef") as client:

        def ask(number: int, length: int) -> str:
            messages: Any = history(number, length)
            answer = client.chat.completions.create(model="m-1", messages=messages, max_tokens=1000)
            return answer.choices[0].message.content or ""

        yield ask


def child(who: str, what: str, url: str) -> float:
    with {"ours": ours, "plain": plain}[who](url) as ask:
        ask(-1, 2)  # imports, the connection
        if what == "wall":
            with ThreadPoolExecutor(THREADS) as pool:
                began = time.perf_counter()
                texts = list(pool.map(lambda number: ask(number, 2), range(CALLS)))
                took = time.perf_counter() - began
        else:
            cpu = time.process_time()
            texts = [ask(number, HISTORY) for number in range(HISTORY_CALLS)]
            took = (time.process_time() - cpu) / HISTORY_CALLS
        if set(texts) != {"fine"}:
            raise SystemExit("an answer is missing")
        return took


# ── in the parent ──


@contextmanager
def service(delay: float) -> Iterator[str]:
    """A model that takes ``delay`` seconds; its base URL."""
    argv = [sys.executable, "-m", "testing.loopback_model", "--delay", str(delay)]
    environment = {**os.environ, "PYTHONPATH": str(TOP / "tests")}
    with subprocess.Popen(
        argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if not process.stdout:
            raise SystemExit("the model service did not start")
        yield process.stdout.readline().strip()
        process.communicate(timeout=10)  # closes stdin, at which it ends


def sample(who: str, what: str, url: str) -> float:
    argv = [sys.executable, __file__, "--child", who, what, url]
    environment = {**os.environ, "PYTHONPATH": str(TOP)}
    done = subprocess.run(
        argv, check=True, stdout=subprocess.PIPE, text=True, cwd=TOP, env=environment
    )
    return float(json.loads(done.stdout))


def medians(what: str, delay: float, runs: int) -> dict[str, float]:
    """Seconds of both sides, measured in turn."""
    kept: dict[str, list[float]] = {"ours": [], "plain": []}
    with service(delay) as url:
        for turn in range(runs + 1):
            for who, samples in kept.items():
                seconds = sample(who, what, url)
                if turn:  # the first one warms the caches
                    samples.append(seconds)
    return {who: statistics.median(samples) for who, samples in kept.items()}


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(*sys.argv[2:])))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--runs", type=int, default=5, help="counted runs of each side")
    runs = parser.parse_args().runs
    load = os.getloadavg()[0]
    wall = medians("wall", DELAY, runs)
    cpu = medians("cpu", 0, runs)
    ratio, share = wall["ours"] / IDEAL, cpu["ours"] / cpu["plain"]
    held = [ratio <= WALL_TARGET, share <= CPU_TARGET]
    words = ["held" if one else "not held" for one in held]
    method = (
        f"`make bench`: medians of {runs} runs of each side in turn, whole processes; the model on "
        "loopback in a process of its own. Ours reserves in the ledger, asks, charges, and has "
        "each answer on the disk before it is used."
    )
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load "
        f"{load:.1f} before, {time.strftime('%Y-%m-%d', time.gmtime())}."
    )
    lines = ["# Calls to a model: journalled and budgeted, beside the package alone", ""]
    lines += [method, "", machine, ""]
    lines += ["| | rlm-ci | `chat.completions.create` | target | |", "|---|--:|--:|--:|---|"]
    lines.append(
        f"| {CALLS} calls by {THREADS} threads, {DELAY * 1000:.0f} ms each, ideal {IDEAL:.1f} s: "
        f"wall | {wall['ours']:.3f} s, {ratio:.3f}× ideal | {wall['plain']:.3f} s, "
        f"{wall['plain'] / IDEAL:.3f}× | {WALL_TARGET}× ideal | {words[0]} |"
    )
    lines.append(
        f"| one call with {HISTORY} messages behind it: CPU | {cpu['ours'] * 1000:.2f} ms, "
        f"{share:.3f}× | {cpu['plain'] * 1000:.2f} ms | {CPU_TARGET}× | {words[1]} |"
    )
    print("\n".join(lines[4:]), flush=True)
    result = TOP / "benchmarks" / "results" / "gateway.md"
    result.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {result.relative_to(TOP)}")
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
