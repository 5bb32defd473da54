"""Run as a program: what the probes of a project give, with its modules as they are or edited.

Standard input has ``setup``, ``probes``, ``package`` and ``variants``: for each variant, sources by
the name of a module. Standard output has a list of outcomes for each variant, as JSON, None where
the process of a variant did not end well. Without variants, it has the outcomes of the installed
package and, by module, the lines that the probes run.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, FrameType, ModuleType
    from typing import Any

#: Fewest seconds of processor time that a variant may take, its memory in bytes, and characters of
#: an outcome.
_SECONDS = 0.5
_MEMORY = 1 << 30
_LONGEST = 2_000


class _Edited(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports some modules from the sources that it is given."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._sources:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.origin:
                return importlib.util.spec_from_file_location(
                    name, spec.origin, loader=self,
                    submodule_search_locations=spec.submodule_search_locations,
                )  # fmt: skip
        return None

    def get_source(self, fullname: str) -> str:
        return self._sources[fullname]

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._sources[fullname], f"<{fullname}>", "exec", dont_inherit=True)


def _outcomes(setup: str, probes: Sequence[str]) -> list[str]:
    names: dict[str, Any] = {}
    outcomes = []
    exec(setup, names)  # noqa: S102 - the text is of projects.py
    for probe in probes:
        try:
            outcome = repr(eval(probe, names))  # noqa: S307 - the text is of projects.py
        except Exception as error:  # noqa: BLE001 - it is the outcome
            outcome = f"raises {type(error).__name__}"
        outcomes.append(outcome[:_LONGEST])
    return outcomes


def _in_child(request: Mapping[str, Any], sources: Mapping[str, str]) -> list[str] | None:
    import resource
    import signal

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            signal.setitimer(signal.ITIMER_PROF, max(_SECONDS, request["seconds"]))
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            sys.meta_path.insert(0, _Edited(sources))
            with open(writing, "w", encoding="utf-8") as stream:
                json.dump(_outcomes(request["setup"], request["probes"]), stream)
        except BaseException:  # noqa: BLE001 - the parent sees that there is no outcome
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if status == 0 else None


def _traced(setup: str, probes: Sequence[str], package: str) -> dict[str, Any]:
    """The outcomes, the seconds of processor time, and the lines that run in each module."""
    lines: dict[str, set[int]] = {}

    def local(frame: FrameType, event: str, _value: object) -> Any:
        if event == "line":
            lines.setdefault(frame.f_globals["__name__"], set()).add(frame.f_lineno)
        return local

    def enter(frame: FrameType, _event: str, _value: object) -> Any:
        name = str(frame.f_globals.get("__name__", ""))
        return local if name.partition(".")[0] == package else None

    sys.settrace(enter)
    try:
        outcomes = _outcomes(setup, probes)
    finally:
        sys.settrace(None)
    return {
        "outcomes": outcomes,
        "seconds": time.process_time(),
        "lines": {name: sorted(some) for name, some in lines.items()},
    }


def main() -> None:
    request = json.load(sys.stdin)
    if request["variants"]:
        json.dump([_in_child(request, variant) for variant in request["variants"]], sys.stdout)
    else:
        json.dump(_traced(request["setup"], request["probes"], request["package"]), sys.stdout)


if __name__ == "__main__":
    main()
