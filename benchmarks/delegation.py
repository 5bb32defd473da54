"""The MCP server under 200 calls at once, with and without a slow one among them.

``python benchmarks/delegation.py``. The slow call is ``delegate.spawn``, which waits for a run that
sleeps; the others ask for the status of a run that has ended. Both sides are measured in the same
server, in turn. The start is held beside a process that only imports the SDK. The result is
written to ``benchmarks/results/delegation.md``.
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
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))

from testing.mcp_client import McpClient  # noqa: E402 - it is found there

CALLS = 200
RATIO_TARGET = 2.0
START_TARGET = 1.5
SLEEP = 600
STAGES = [{"id": "sleep", "stages": [{"command": f"sleep {SLEEP}"}]}]
IMPORT = [sys.executable, "-I", "-c", "import mcp.server.lowlevel"]


def prepare(folder: Path) -> str:
    """A repository with a pipeline that sleeps, and the id of a run in it that has ended."""
    (folder / "codex.orchestrator.json").write_text(json.dumps({"pipelines": STAGES}))
    person = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (["init", "--quiet"], ["add", "."], [*person, "commit", "--quiet", "-mA"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    program = [sys.executable, "-I", "-m", "rlm_ci"]
    begun = subprocess.run(
        [*program, "start", "wiki", "--quiet"],
        cwd=folder, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    run_id = begun.stdout.strip()
    subprocess.run([*program, "wait", run_id, "--quiet"], cwd=folder, check=True)
    return run_id


def p95(client: McpClient, run_id: str) -> float:
    """Seconds until the answer, of most of as many calls as are sent at once."""
    sent = {}
    for _ in range(CALLS):
        asked = {"name": "delegate.status", "arguments": {"run_id": run_id}}
        sent[client.send("tools/call", asked)] = time.perf_counter()
    taken = []
    while sent:
        answer = client.read()
        taken.append(time.perf_counter() - sent.pop(answer["id"]))
        assert not answer["result"]["isError"], answer
    return statistics.quantiles(taken, n=20)[-1]


def await_text(folder: Path, task: str, text: str) -> None:
    """Wait until ``text`` stands in the manifest of the task's run, or for half a minute."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if any(text in one.read_text() for one in folder.glob(f".runs/{task}/cli/*/m*.json")):
            return
        time.sleep(0.05)
    raise TimeoutError(text)


def start(folder: Path) -> float:
    before = time.perf_counter()
    with McpClient(folder) as client:
        client.hello()
        return time.perf_counter() - before


def imported() -> float:
    before = time.perf_counter()
    subprocess.run(IMPORT, check=True)
    return time.perf_counter() - before


def measure(runs: int) -> tuple[list[float], list[float], list[float], list[float]]:
    """Latencies without and with a slow call, and starts of the server and of the SDK."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_id = prepare(folder)
        starts, imports = zip(*((start(folder), imported()) for _ in range(runs)), strict=True)
        alone, beside = [], []
        with McpClient(folder, "--mode", "full") as client:
            client.hello()
            p95(client, run_id)
            for number in range(runs):
                alone.append(p95(client, run_id))
                task = f"slow-{number}"
                asked = {"pipeline": "sleep", "task_id": task}
                slow = client.send("tools/call", {"name": "delegate.spawn", "arguments": asked})
                await_text(folder, task, '"running"')
                beside.append(p95(client, run_id))
                client.notify("notifications/cancelled", {"requestId": slow})
                await_text(folder, task, '"interrupted"')
    return alone, beside, list(starts), list(imports)


def machine(load: float) -> str:
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load "
        f"{load:.1f} before, {time.strftime('%Y-%m-%d', time.gmtime())}."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--runs", type=int, default=5, help="counted runs of each side")
    runs = parser.parse_args().runs
    load = os.getloadavg()[0]
    alone, beside, starts, imports = measure(runs)
    ratio = statistics.median(slow / quick for slow, quick in zip(beside, alone, strict=True))
    begun = statistics.median(ours / bare for ours, bare in zip(starts, imports, strict=True))
    held = [ratio <= RATIO_TARGET, begun <= START_TARGET]
    words = ["held" if one else "not held" for one in held]
    lines = ["# The MCP server: many calls at once, one of them slow", ""]
    lines.append(
        f"`make bench`: medians of {runs} runs of each side in turn, in one server. The slow call "
        "is `delegate.spawn`, which waits for a run that sleeps."
    )
    lines += ["", machine(load), "", "| | | beside | ratio | target | |"]
    lines.append("|---|--:|--:|--:|--:|---|")
    lines.append(
        f"| {CALLS} calls of `delegate.status` at once: p95 with a slow call, and without | "
        f"{statistics.median(beside):.3f} s | {statistics.median(alone):.3f} s | {ratio:.2f} | "
        f"{RATIO_TARGET} | {words[0]} |"
    )
    lines.append(
        "| the start, to the answer of `initialize`; and the import of the SDK alone | "
        f"{statistics.median(starts):.3f} s | {statistics.median(imports):.3f} s | {begun:.2f} | "
        f"{START_TARGET} | {words[1]} |"
    )
    print("\n".join(lines[4:]), flush=True)
    result = TOP / "benchmarks" / "results" / "delegation.md"
    result.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {result.relative_to(TOP)}")
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
