"""Hidden tests: calls of the agent's module in the sandbox, compared outside of it.

The module never sees what a call must return, so nothing that it does can forge a result.
"""

from __future__ import annotations

import json

from rlm_ci.sandbox import JobLimits, SandboxJob
from rlm_ci.sandbox.self_test import interpreter
from rlm_ci.workspace.tree import ShownTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.lab.bench.generators.seeded import KnownCall
    from rlm_ci.sandbox.job import Sandbox

_PLACE = "/work"
_KEPT = 4 << 20
_CALLER = """
import importlib, json, os, sys
out = os.fdopen(os.dup(1), "w")
nothing = os.open(os.devnull, os.O_WRONLY)
os.dup2(nothing, 1)
os.dup2(nothing, 2)
module, calls = json.load(sys.stdin)
sys.path.insert(0, sys.argv[1])
module = importlib.import_module(module)
for number, (function, arguments) in enumerate(calls):
    try:
        said = [number, getattr(module, function)(*arguments)]
        line = json.dumps(said)
    except Exception as error:
        line = json.dumps([number])
    print(line, file=out, flush=True)
"""


def verify(
    sandbox: Sandbox, folder: str, module: str, calls: Sequence[KnownCall], *, seconds: float
) -> list[bool]:
    """Of each call, whether it returns what is expected; ``folder`` is what the agent left.

    Raises as ``Sandbox.run``.
    """
    program, mounts = interpreter()
    request = [module, [[call.function, call.arguments] for call in calls]]
    job = SandboxJob(
        (program, "-I", "-S", "-c", _CALLER, _PLACE if sandbox.isolated else folder),
        stdin=json.dumps(request).encode(),
        limits=JobLimits(wall=seconds, cpu=int(seconds) + 1, memory=512 << 20, processes=32),
        keep=_KEPT,
    )
    ended = ShownTree(folder, _PLACE, mounts).run(sandbox, job)
    results: dict[int, object] = {}
    for line in ended.output.text().splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, list) and len(value) == 2 and type(value[0]) is int:
            results.setdefault(value[0], value[1])
    missing = object()
    return [_same(results.get(at, missing), call.expected) for at, call in enumerate(calls)]


def _same(value: object, expected: object) -> bool:
    """Equal as JSON; True is not 1."""
    return type(value) is type(expected) and value == expected
