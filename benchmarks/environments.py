"""The REPL beside the reference library (PyPI ``rlms``), with the same model: ``make bench``.

The model is on loopback, in a process of its own, without latency: it answers turns with the same
code, and sub-calls with one word. Each sample is a process too. ``rlms`` runs code in its own
process, which isolates nothing; ours runs it in the sandbox, and records all. The result is
written to ``benchmarks/results/environments.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import io
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parent.parent
RLMS = "rlms==0.1.3"
KEY = "sk-loopback-0123456789abcdef"
ITERATIONS, FEW, MANY = 105, 5, 1000
SUBCALLS, BASE = 200, 2
SIMPLE = "x = len(context)\nprint(x)"
BATCH = (
    "got = llm_query_batched(['question %d' % n for n in range({number})])\n"
    "assert len(got) == {number} and set(got) == {{'fine'}}, got\n"
    "answer['content'] = 'done'\nanswer['ready'] = True"
)
#: What the prompt must have of a step: what it set, and both ends of its result.
_PARTS = (("name_", " = "), ("first-", "-"), ("last-", "-"))
TEXT = "a line of some text, neither long nor short\n" * 2000


# ── the model ──


async def serve(code: str) -> None:
    """Answer requests that begin with a system message by ``code``, others by a word."""
    sys.path.insert(0, str(TOP / "tests"))
    from testing.loopback_model.__main__ import Connection, answer

    turn, word = answer(f"```repl\n{code}\n```"), answer()

    class Turns(Connection):
        def data_received(self, data: bytes) -> None:
            if b'"messages"' in data:  # the beginning of a body
                head = data.partition(b'"messages"')[2][:40]
                self._said = turn if b"system" in head else word
            super().data_received(data)

    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Turns(0, word), "127.0.0.1", 0, backlog=256)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


@contextmanager
def service(code: str) -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, __file__, "--serve", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        if not process.stdout:
            raise SystemExit("the model did not start")
        yield process.stdout.readline().strip()
        process.communicate(timeout=10)


# ── in the child ──


def ours(url: str, turns: int) -> int:
    """Run an episode as ``rlm-ci rlm`` does; the bytes of what it leaves."""
    from rlm_ci.__main__ import COLLECT_FROM
    from rlm_ci.context.builder.build import build
    from rlm_ci.environments.delegation import ChildSlots, Delegation
    from rlm_ci.environments.repl.episode import ReplEpisodes
    from rlm_ci.environments.repl.host.options import ReplOptions, ReplServices, RunFiles
    from rlm_ci.environments.repl.pool import SessionPool
    from rlm_ci.models.budget import Ledger
    from rlm_ci.models.openai.client import OpenAIModel
    from rlm_ci.models.record.record import Record
    from rlm_ci.redaction.redactor import Redactor

    gc.set_threshold(COLLECT_FROM, 20, 20)  # as the program does
    redact = Redactor({"OPENAI_API_KEY": KEY}).text
    folder = os.getcwd()
    with (
        SessionPool("bubblewrap", environ=os.environ) as pool,
        OpenAIModel(base_url=url, api_key=KEY) as model,
        Record.open(os.path.join(folder, "calls.jsonl"), redact=redact) as record,
        build(io.BytesIO(TEXT.encode()), os.path.join(folder, "object")) as context,
    ):
        ledger = Ledger(max_calls=10**6)
        services = ReplServices(
            complete=lambda request, place: record.complete(model, ledger, request, place),
            fact=record.fact,
            redact=redact,
            files=RunFiles(folder),
            open=pool.open,
            left=lambda: None,
            scratch=os.path.join(folder, "scratch"),
            batch=record.batch,
        )
        options = ReplOptions("m-1", "m-1", 1000, max_turns=turns)
        episodes = ReplEpisodes(options, services)
        delegation = Delegation(episodes.run_child, slots=ChildSlots(1))
        end = episodes.run("How long is it?", context, delegation, "rlm/repl")
        if (end.answer or "not done") != "done" and end.turns != turns:
            raise SystemExit(f"it ended otherwise: {end}")
        kept = [Path(folder, "calls.jsonl"), *Path(folder, "rlm").rglob("*")]
        return sum(one.stat().st_size for one in kept if one.is_file())


def theirs(url: str, turns: int) -> int:
    from rlm import RLM  # type: ignore[import-not-found]
    from rlm.logger import RLMLogger  # type: ignore[import-not-found]

    folder = os.getcwd()
    runner = RLM(
        backend="openai",
        backend_kwargs={"model_name": "m-1", "base_url": url, "api_key": KEY},
        environment="local",
        max_iterations=turns,
        logger=RLMLogger(log_dir=folder),
    )
    runner.completion(TEXT, root_prompt="How long is it?")
    return sum(one.stat().st_size for one in Path(folder).rglob("*") if one.is_file())


def sessions(count: int) -> dict[str, float]:
    """The least seconds of a bare Python in bubblewrap, and of the first block of a session."""
    from rlm_ci.environments.repl.pool import SessionPool
    from rlm_ci.sandbox.self_test import interpreter

    bare = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]

    def block(pool: SessionPool) -> float:
        began = time.perf_counter()
        with closing(pool.open()) as session:
            session.execute("pass", seconds=60)
            return time.perf_counter() - began

    found: dict[str, list[float]] = {"bare": [], "cold": [], "warm": []}
    with (
        SessionPool("bubblewrap", environ=os.environ, ahead=False) as cold,
        SessionPool("bubblewrap", environ=os.environ) as warm,
    ):
        for _ in range(count):
            began = time.perf_counter()
            subprocess.run([*bare, interpreter()[0], "-c", "pass"], check=True)
            found["bare"].append(time.perf_counter() - began)
            found["cold"].append(block(cold))
            time.sleep(1)  # a model would take longer to answer
            found["warm"].append(block(warm))
    return {name: min(times) for name, times in found.items()}


def child(who: str, url: str, turns: str) -> dict[str, float]:
    run, packages = {
        "ours": (ours, ("openai", "rlm_ci.environments.repl.episode")),
        "rlms": (theirs, ("openai", "rlm")),
    }[who]
    for name in packages:  # their time varies by more than all sub-calls take
        importlib.import_module(name)
    began, used = time.perf_counter(), cpu()
    size = run(url, int(turns))
    return {"wall": time.perf_counter() - began, "cpu": cpu() - used, "size": size}


def cpu() -> float:
    """The seconds of this process, and of those it has waited for."""
    used = [resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


# ── in the parent ──


def sample(python: str, who: str, code: str, turns: int) -> dict[str, float]:
    with service(code) as url, tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, __file__, "--child", who, url, str(turns)],
            check=True, stdout=subprocess.PIPE, text=True, cwd=folder,
            env={**os.environ, **({"PYTHONPATH": str(TOP)} if who == "ours" else {})},
        )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


class Sides:
    """Both sides, each in its own Python."""

    def __init__(self, theirs: str, runs: int) -> None:
        self.pythons = {"ours": sys.executable, "rlms": theirs}
        self.runs = runs

    def slope(
        self, what: str, few: tuple[str, int], many: tuple[str, int], by: int
    ) -> dict[str, float]:
        """What one of ``by`` more costs: all that is paid once is left out."""
        kept: dict[str, list[float]] = {"ours": [], "rlms": []}
        for _ in range(self.runs):
            for who, python in self.pythons.items():
                small, large = (sample(python, who, *one)[what] for one in (few, many))
                kept[who].append((large - small) / by)
        return {who: statistics.median(found) for who, found in kept.items()}


def rlms_python(folder: str) -> str:
    """A Python with ``rlms``, in an environment of its own."""
    venv.create(folder, with_pip=True)
    python = os.path.join(folder, "bin", "python")
    subprocess.run([python, "-m", "pip", "install", "-q", RLMS], check=True)
    return python


def starts(count: int) -> list[tuple[str, str, str, str, bool]]:
    """The rows of a session's start, beside a bare Python in bubblewrap."""
    keep = {name: one for name, one in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, __file__, "--sessions", str(count)],
        check=True, stdout=subprocess.PIPE, text=True, env={**keep, "PYTHONPATH": str(TOP)},
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    return [
        (f"first block of a session, {name}, beside a bare `bwrap` with `python3 -c pass`",
         f"{found[kind] * 1000:.1f} ms, {found[kind] / found['bare']:.2f}×",
         f"bare: {found['bare'] * 1000:.1f} ms", f"{most}×", found[kind] <= most * found["bare"])
        for name, kind, most in (("cold", "cold", 2.5), ("its worker started ahead", "warm", 0.1))
    ]  # fmt: skip


def measured(sides: Sides) -> list[tuple[str, str, str, str, bool]]:
    """The rows: what, ours, theirs, the target, whether it held."""
    wall = sides.slope("wall", (SIMPLE, FEW), (SIMPLE, ITERATIONS), ITERATIONS - FEW)
    small, large = BATCH.format(number=BASE), BATCH.format(number=SUBCALLS)
    cpu = sides.slope("cpu", (small, 2), (large, 2), SUBCALLS - BASE)
    sizes = {
        number: sample(sys.executable, "ours", SIMPLE, number)["size"]
        for number in (MANY // 10, MANY)
    }
    growth = sizes[MANY] / sizes[MANY // 10]
    theirs = {
        number: sample(sides.pythons["rlms"], "rlms", SIMPLE, number)["size"]
        for number in (ITERATIONS // 5, ITERATIONS * 2)
    }
    first, last = theirs.values()
    rows = []
    for name, found, unit in (
        (f"one REPL iteration of {ITERATIONS}: wall", wall, 1000),
        (f"one sub-call of a batch of {SUBCALLS}: CPU of all processes", cpu, 1000),
    ):
        ratio = found["ours"] / found["rlms"]
        rows.append(
            (name, f"{found['ours'] * unit:.2f} ms, {ratio:.2f}×", f"{found['rlms'] * unit:.2f} ms",
             "0.5×", ratio <= 0.5)
        )  # fmt: skip
    rows.append(
        (f"files and record of {MANY:,} iterations beside {MANY // 10}",
         f"{sizes[MANY] / 1e6:.1f} MB, {growth:.1f}×",
         f"{last / first:.0f}× for {ITERATIONS * 2} beside {ITERATIONS // 5}", "11×", growth <= 11)
    )  # fmt: skip
    return rows


def memory() -> list[tuple[str, str, str, str, bool]]:
    """The rows of the last prompt of many steps: its bytes, and the steps of which it has all."""
    from rlm_ci.environments.answer_formats import CodeBlocks, JsonActions, NativeCalls
    from rlm_ci.environments.conversation import Conversation
    from rlm_ci.environments.tool_calls import ToolCall

    formats = {
        "calls of tools": NativeCalls(),
        "actions as JSON": JsonActions(),
        "blocks of code": CodeBlocks("repl"),
    }
    rows = []
    for name, answers in formats.items():
        for steps, size in ((16, 6000), (60, 600)):
            history = Conversation()
            history.prompt("GOAL")
            for step in range(steps):
                code = f"name_{step} = {step}"
                call = ToolCall(f"c{step}", "repl", json.dumps({"code": code}))
                text = {
                    "calls of tools": "",
                    "actions as JSON": json.dumps({"action": "repl", "code": code}),
                }.get(name, f"```repl\n{code}\n```")
                history.answer(text, [call] if answers.native else ())
                answers.tell(history, call, f"first-{step}- {'r' * size} last-{step}-")
                history.messages()
            last = json.dumps(history.messages())
            complete = [
                step
                for step in range(steps)
                if all(f"{part}{step}{end}" in last for part, end in _PARTS)
            ]
            held = len(last) < 48_000 and set(complete) >= set(range(steps - 8, steps))
            rows.append(
                (f"{name}, {steps} results of {size} bytes: steps known in the last prompt",
                 f"{len(complete)}, {len(last) / 1000:.1f} kB", "", "the last 8, 48 kB", held)
            )  # fmt: skip
    return rows


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(*sys.argv[2:])))
        return 0
    if sys.argv[1:2] == ["--sessions"]:
        print(json.dumps(sessions(int(sys.argv[2]))))
        return 0
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(sys.argv[2]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--runs", type=int, default=5, help="counted runs of each side")
    parser.add_argument("--rlms", help="a Python that has rlms (default: install it)")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        sides = Sides(given.rlms or rlms_python(folder), given.runs)
        rows = [*measured(sides), *starts(4 * given.runs), *memory()]
    method = (
        f"`make bench`: medians of {given.runs} runs of each side in turn, whole processes; the "
        "model on loopback without latency. What is paid once (start, imports) is left out but in "
        "the rows of a start, which are the least of four times as many. Ours runs the code in "
        "bubblewrap and records every block and answer; "
        f"{RLMS} runs it in its own process."
    )
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load "
        f"{load:.1f} before, {time.strftime('%Y-%m-%d', time.gmtime())}."
    )
    lines = ["# The REPL beside the reference library", "", method, "", machine, ""]
    lines += ["| | rlm-ci | rlms | target | |", "|---|--:|--:|--:|---|"]
    for name, own, other, target, held in rows:
        lines.append(f"| {name} | {own} | {other} | {target} | {'held' if held else 'not held'} |")
    print("\n".join(lines[4:]), flush=True)
    result = TOP / "benchmarks" / "results" / "environments.md"
    result.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {result.relative_to(TOP)}")
    return 0 if all(held for *_, held in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
