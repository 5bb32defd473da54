"""A plugin of pytest that records how each test ended, and which files hold tests.

It runs in the Python of the project under test: 3.7 or later, with
pytest 6 or later, and imports nothing of rlm_ci. ``test_reports`` switches it on by PYTHONPATH,
PYTEST_PLUGINS and ``VARIABLE``, and reads what it writes. The plugin removes all of these again, so
that tests see what they would see without it. It keeps no descriptor, prints nothing, fails no run.

PYTEST_DONT_REWRITE
"""  # noqa: INP001 - it lies alone, in a folder that is put on the path of somebody else's Python

from __future__ import annotations

import os
import sys
from contextlib import suppress
from json import JSONEncoder, loads
from types import CodeType

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "RLM_CI_OUTCOMES"
#: Lines of each kind, characters of one message.
_MOST = {"test": 20_000, "held": 20_000, "conftest": 2_000}
_MESSAGE = 2_000
_UNWRAPPED = 20
#: Folders with code of others, or no code.
_FOREIGN = (
    "/site-packages/", "/dist-packages/", "/.venv/", "/venv/", "/node_modules/", "/.tox/",
    "/.nox/", "/.git/", "/__pycache__/", "/.pytest_cache/",
)  # fmt: skip
# A test may replace them in their modules.
_open, _write, _close, _getcwd = os.open, os.write, os.close, os.getcwd
_encode = JSONEncoder(separators=(",", ":")).encode


class _Recorder:
    """The state of this session; ``settings`` come from ``test_reports.environment``."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        root = settings["root"]
        self.roots = tuple({root.rstrip("/") + "/", os.path.realpath(root).rstrip("/") + "/"})
        name = f"{os.getpid()}-{os.urandom(4).hex()}.jsonl"
        self.path = os.path.join(settings["folder"], name)
        self.base = _getcwd()
        self.pending: list[str] = []
        self.reported: set[tuple[str, ...]] = set()
        self.count = dict.fromkeys(_MOST, 0)
        self.places: dict[str, str] = {}
        self.items: dict[str, tuple[str, str, str]] = {}
        self.hooked: set[str] = set()

    def tell(self, kind: str, *row: str) -> None:
        """Write one line, once (but for tests); after the last of its kind ``full``."""
        if (kind, *row) in self.reported:
            return
        if kind in _MOST:
            self.count[kind] += 1
            if self.count[kind] > _MOST[kind]:
                self.tell("full", kind)
                return
        if kind != "test":
            self.reported.add((kind, *row))
        self.pending.append(_encode([kind, *row]) + "\n")
        place = _open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            _write(place, "".join(self.pending).encode("ascii"))
        finally:
            _close(place)
        del self.pending[:]

    def relative_path(self, path: str) -> str:
        """A path relative to the root, "" for one outside, and for code of others."""
        if path not in self.places:
            full = path if path.startswith("/") else os.path.join(_getcwd(), path)
            full = os.path.normpath(full)
            inside = next((full[len(root) :] for root in self.roots if full.startswith(root)), "")
            found = "" if any(part in f"/{inside}" for part in _FOREIGN) else inside
            if len(self.places) > 50_000 or not path.startswith("/"):
                return found
            self.places[path] = found
        return self.places[path]

    # -- tests ----------------------------------------------------------------------------------

    def collected(self, item: Any) -> None:
        """Keep where a test is defined, and record the files that hold it."""
        place = self.relative_path(str(getattr(item, "path", None) or item.fspath))
        function = getattr(item, "function", None)
        if function is None:  # a doctest, a file of data, a linter
            self.items[item.nodeid] = place, item.name, ""
            if place and not place.endswith((".py", ".pyi")):
                self.tell("held", place)
            return
        short = getattr(item, "originalname", None) or item.name.partition("[")[0]
        outer = item.parent.nodeid.partition("::")[2]
        name = f"{outer}::{short}" if outer else short
        case = item.name[len(short) :]
        found = place, name, case[1:-1] if case[:1] == "[" else case
        if place:
            self.tell("held", place)
        defined = self.definition(function, short)
        if defined and defined != (place, name):
            found = (*defined, item.nodeid)
            if "::" in defined[1]:  # inherited; a function that is only imported may be source
                self.tell("held", defined[0])
        self.items[item.nodeid] = found

    def definition(self, function: Any, short: str) -> tuple[str, str] | None:
        """File and name of the code of a test, below its decorators."""
        for _ in range(_UNWRAPPED):
            inner = getattr(getattr(function, "hypothesis", None), "inner_test", None)
            for attribute in ("__wrapped__", "__func__", "place_as"):
                inner = inner or getattr(function, attribute, None)
            if inner is None:
                break
            function = inner
        code, name = getattr(function, "__code__", None), getattr(function, "__qualname__", "")
        if not isinstance(code, CodeType) or not isinstance(name, str):
            return None
        place = self.relative_path(code.co_filename)
        _, is_local, tail = name.rpartition("<locals>.")
        known = tail.rpartition(".")[2] == short if is_local else "<" not in tail
        return (place, tail.replace(".", "::")) if place and known else None

    def ended(self, nodeid: str, state: str, message: str = "") -> None:
        known = self.items.get(nodeid) or self.items.get(nodeid.rpartition("@")[0])
        if known is None:
            file, _, rest = nodeid.partition("::")
            name, _, case = rest.partition("[")
            place = self.relative_path(os.path.join(self.base, file)) if file else ""
            known = place, name, case[:-1]
        self.tell("test", *known, state, message)


def _started() -> _Recorder | None:
    with suppress(Exception):
        recorder = _Recorder(loads(os.environ[VARIABLE]))
        _restore(recorder.settings)
        recorder.tell("begun")
        return recorder
    return None


def _restore(settings: dict[str, Any]) -> None:
    """Remove what switched the plugin on."""
    folder = os.path.dirname(os.path.abspath(__file__))
    os.environ.pop(VARIABLE, None)
    for variable, own in (("PYTHONPATH", folder), ("PYTEST_PLUGINS", __name__)):
        parting = os.pathsep if variable == "PYTHONPATH" else ","
        parts = os.environ.get(variable, "").split(parting)
        left = parting.join(part for part in parts if part != own)
        if left or settings["before"].get(variable) is not None:
            os.environ[variable] = left
        else:
            os.environ.pop(variable, None)
    if settings.get("hide"):
        os.environ.pop("PYTEST_VERSION", None)
    sys.path[:] = [one for one in sys.path if one != folder]
    sys.path_importer_cache.pop(folder, None)


_RECORDER: _Recorder | None = _started()


# -- hooks of pytest ------------------------------------------------------------------------------


def pytest_plugin_registered(plugin: Any) -> None:
    """Record conftest files; when this plugin is registered, remove its last traces."""
    if _RECORDER is None:
        return
    with suppress(Exception):
        file = getattr(plugin, "__file__", None)
        is_this = getattr(plugin, "_RECORDER", None) is _RECORDER
        if is_this:
            _restore(_RECORDER.settings)
        elif isinstance(file, str) and os.path.basename(file) == "conftest.py":
            place = _RECORDER.relative_path(file)
            if place:
                _RECORDER.tell("conftest", place)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: Any) -> None:
    """Shorten failures and hide pytest from tests, if the settings say so."""
    sys.modules.pop(__name__, None)
    if _RECORDER is None:
        return
    with suppress(Exception):
        _RECORDER.base = str(getattr(config, "rootpath", None) or config.rootdir)
        if _RECORDER.settings.get("short"):
            quiet = {"maxfail": 0, "lf": False, "stepwise": False, "fulltrace": False}
            for option, value in {"tbstyle": "line", **quiet}.items():
                if hasattr(config.option, option):
                    setattr(config.option, option, value)
        if _RECORDER.settings.get("hide"):
            from _pytest import runner

            runner._update_current_test_var = _leave_alone  # noqa: SLF001 - it has no option


def _leave_alone(item: Any, when: Any) -> None:
    """Replaces the function that sets PYTEST_CURRENT_TEST."""


def pytest_itemcollected(item: Any) -> None:
    if _RECORDER is not None:
        with suppress(Exception):
            _RECORDER.collected(item)
        if _RECORDER.settings.get("short"):
            with suppress(Exception):
                _shorten(item.function)


def _shorten(test: Any) -> None:
    """Keep hypothesis from looking for a smaller example of a failure."""
    name = "_hypothesis_internal_use_settings"
    settings = getattr(test, name, None)
    if settings is not None:
        phases = [phase for phase in settings.phases if phase.name not in ("shrink", "explain")]
        setattr(test, name, type(settings)(settings, phases=phases))


def pytest_collectreport(report: Any) -> None:
    """Record a file that cannot be collected: none of its tests can pass."""
    if _RECORDER is not None and report.failed:
        with suppress(Exception):
            _RECORDER.ended(report.nodeid, "failed", _message(report))
            place = _RECORDER.relative_path(
                os.path.join(_RECORDER.base, report.nodeid.partition("::")[0])
            )
            if place.endswith(".py"):
                _RECORDER.tell("held", place)


def pytest_runtest_logreport(report: Any) -> None:
    """Record how a test ended; of a worker's tests only the one at which it crashed."""
    if _RECORDER is None:
        return
    with suppress(Exception):
        state = "skipped" if hasattr(report, "wasxfail") else report.outcome
        is_told = report.when not in ("setup", "teardown")
        is_told = is_told or state == "failed" or (report.when == "setup" and state != "passed")
        worker = getattr(getattr(report, "node", None), "gateway", None)
        if worker is not None and worker.id in _RECORDER.hooked:
            is_told = report.when == "???"
        if is_told and state in ("passed", "failed", "skipped"):
            message = _message(report) if state == "failed" else ""
            _RECORDER.ended(report.nodeid, state, message)


def _message(report: Any) -> str:
    """What a test failed with: both ends, if it is long."""
    text = getattr(getattr(report.longrepr, "reprcrash", None), "message", None)
    if not text:
        lines = str(report.longrepr or "").splitlines()
        text = "\n".join([line for line in lines if line.startswith("E ")] or lines)
    text = str(text)
    return text if len(text) <= _MESSAGE else f"{text[: _MESSAGE - 500]}\n…\n{text[-500:]}"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Load this plugin into a worker of xdist on the same machine."""
    if _RECORDER is None or not getattr(node.gateway.spec, "popen", False):
        return
    with suppress(Exception):
        with open(__file__, encoding="utf-8") as file:
            source = file.read()
        settings = {**_RECORDER.settings, "before": dict(_RECORDER.settings["before"])}
        settings["before"]["PYTEST_PLUGINS"] = os.environ.get("PYTEST_PLUGINS")
        orders = _encode([__name__, __file__, source, VARIABLE, _encode(settings)])
        node.gateway.remote_exec(_IN_WORKER.format(orders=orders)).waitclose(60)
        _RECORDER.hooked.add(node.gateway.id)


_IN_WORKER = """
import json, os, sys, types
name, file, source, variable, settings = json.loads({orders!r})
os.environ[variable] = settings
module = types.ModuleType(name)
module.__file__ = file
exec(compile(source, file, "exec"), module.__dict__)
sys.modules[name] = module
before = os.environ.get("PYTEST_PLUGINS")
os.environ["PYTEST_PLUGINS"] = name + ("," + before if before else "")
"""
