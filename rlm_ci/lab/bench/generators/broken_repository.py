"""A small repository with a bug and a test that shows it; the other tests stay hidden."""

from __future__ import annotations

import copy
import inspect
import os

from rlm_ci.errors import ConfigError
from rlm_ci.lab.bench.generators.programs import PROGRAMS
from rlm_ci.lab.bench.generators.seeded import FILES, Chance, GeneratedCase, KnownCall
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = 1
#: ``tokens`` has no meaning: the repositories are small.
OPTIONS: dict[str, Any] = {"hidden": 24}
_MOST_HIDDEN = 1000
_TEST = """\
import unittest

from {module} import {function}


class Test(unittest.TestCase):
    def test_{function}(self) -> None:
        self.assertEqual({function}(*{arguments!r}), {expected!r})


if __name__ == "__main__":
    unittest.main()
"""
_README = """\
# {module}

`{module}.py` has one function, `{function}`; its docstring says what it does. Run its test with
`python3 -m unittest`.
"""


def make(folder: str, seed: int, tokens: int, *, hidden: int) -> GeneratedCase:  # noqa: ARG001 - see OPTIONS
    if not 1 <= hidden <= _MOST_HIDDEN:
        raise ConfigError(
            f"hidden must be from 1 to {_MOST_HIDDEN}", where="context", hint="fix that value"
        )
    chance = Chance("broken-repository", seed)
    # Each program comes once before one comes again.
    program = PROGRAMS[seed % len(PROGRAMS)]
    old, new, shown = chance.pick(program.bugs)
    function = program.function.__name__
    source = inspect.getsource(program.function)
    if source.count(old) != 1:
        raise ValueError(f"the bug of {function} does not fit its source")
    module = f"{function}_{100 + chance.below(900)}"
    top = os.path.join(folder, FILES)
    calls = [_call(program.function, shown)]
    calls += [_call(program.function, program.draw(chance)) for _ in range(hidden)]
    texts = {
        f"{module}.py": f'"""One function."""\n\n\n{source.replace(old, new)}',
        f"test_{module}.py": _TEST.format(
            module=module, function=function, arguments=shown, expected=calls[0].expected
        ),
        "README.md": _README.format(module=module, function=function),
    }
    files.make_folder(top)
    for name, text in texts.items():
        files.write(os.path.join(top, name), text.encode())
    task = (
        f"`python3 -m unittest` fails: the function {function} in {module}.py has a bug. Mend "
        f"{module}.py, so that the function does what its docstring says, for every input. Do not "
        "change the test. Other tests, which you cannot see, judge the result."
    )
    return GeneratedCase(task, scorer="tests", context=False, module=module, calls=tuple(calls))


def _call(function: Any, arguments: list[Any]) -> KnownCall:
    return KnownCall(function.__name__, arguments, function(*copy.deepcopy(arguments)))
