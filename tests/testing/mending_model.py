"""A model that mends a generated repository, by the function of its generator."""

from __future__ import annotations

import inspect
import json
import re

from rlm_ci.lab.bench.generators import programs


def mending(prompt: str) -> str:
    """Write the right program, run its test, end; as a baseline, answer with the program."""
    module = re.findall(r"Mend (\w+)\.py", prompt)[0]
    found = {one.function.__name__: one.function for one in programs.PROGRAMS}
    source = inspect.getsource(found[module.rpartition("_")[0]])
    if "exactly one JSON object" not in prompt:
        return f"It is mended:\n```python\n{source}```\n"
    steps = (
        {"action": "write_file", "path": f"{module}.py", "content": source},
        {"action": "run_tests"},
        {"action": "final", "final_response": "mended"},
    )
    return json.dumps(steps[prompt.count("[assistant]\n")])
