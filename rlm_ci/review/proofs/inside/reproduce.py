"""Runs one reproduction in the Python of the project under test, and reports how it ended.

It needs Python 3.8 or later, and imports nothing of rlm_ci. ``runner`` starts it in the sandbox,
with an order on standard input. What counts is the exception that a test raised, as pytest's or
unittest's own loop saw it: no exit code, nothing that is printed, no report of a plugin. Beside the
reproduction run control tests that must fail and pass: where code has bent the framework, they
show it. The code under test shares this process, so the report proves nothing against code that
was written to deceive this very script.
"""  # noqa: INP001 - it runs by its path, in somebody else's Python

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import sys
import traceback
import types
import unittest
import warnings
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: Characters of a message, of a traceback, of all that is shown of tests.
_MESSAGE, _TRACE, _SHOWN = 4_000, 12_000, 48_000
#: Failures that are reported.
_MOST = 50
_START = os.getpid()
#: What pytest calls an exception that nobody can catch, and the warning about what is left open.
_UNRAISABLE, _LEFT_OPEN = "PytestUnraisableExceptionWarning", "ResourceWarning"
#: How pytest ends where it cannot read a conftest.py.
_USAGE = 4
#: What a test may put another in the place of.
_open = open


class _Report:
    """How the tests of the reproduction ended, and the control tests."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.file = order["file"]
        self.passed: list[str] = []
        self.called: set[str] = set()
        self.skipped: list[str] = []
        self.failures: list[dict[str, Any]] = []
        self.controls: dict[str, str] = {}
        self.problem = ""
        self.plugins: list[str] = []
        self.shown: list[str] = []
        #: What sees what the reproduction does to the project, in a run that is for that.
        self.watch: Any = None

    def failed(self, name: str, error: BaseException) -> None:
        if len(self.failures) < _MOST:
            self.failures.append(_described(name, error, self.file))
            self.show(f"{name}\n{self.failures[-1]['trace']}")

    @contextmanager
    def warned(self, name: str) -> Iterator[None]:
        """Around a test that expects a warning: it fails by that if it is given at its end."""
        awaited = self.order["warning"]
        if not awaited:
            yield
            return
        lost: list[BaseException | None] = []
        before, sys.unraisablehook = sys.unraisablehook, lambda event: lost.append(event.exc_value)
        try:
            with warnings.catch_warnings(record=True) as messages:
                if awaited == _LEFT_OPEN:
                    warnings.simplefilter("always", ResourceWarning)
                yield
                gc.collect()
        finally:
            sys.unraisablehook = before
        heard = [
            *(message.message for message in messages if isinstance(message.message, Warning)),
            *lost,
        ]
        for error in filter(None, heard):
            if awaited in [kind.__name__ for kind in type(error).__mro__]:
                self.failed(name, error)
            elif awaited == _UNRAISABLE and error in lost:
                self.failed(name, error)
                self.failures[-1]["kinds"].append(_UNRAISABLE)

    def ended(self, name: str, when: str, error: BaseException | None, *, is_skip: bool) -> None:
        """A part of a test ended: it has passed if all of its parts have."""
        if is_skip:
            self.skipped.append(name)
        elif error is not None:
            self.failed(name, error)
        elif when == "call":
            self.called.add(name)
        elif when == "teardown" and name in self.called:
            self.passed.append(name)

    def captured(self, row: Any) -> None:
        """Show what pytest caught of the output of a test that failed."""
        for title, text in getattr(row, "sections", ()):
            self.show(f"--- {title} ---\n{text}")

    def plugged(self, file: Any) -> None:
        """A module became a plugin of pytest: note it if the project has it."""
        root = f"{self.order['root']}/"
        if isinstance(file, str) and file.startswith(root) and "/site-packages/" not in file:
            self.plugins.append(file[len(root) :])

    def control(self, name: str, error: BaseException | None) -> None:
        """A control test ended; one that is told twice has no clear end."""
        end = "passed" if error is None else f"{type(error).__name__}: {_text(error)}"
        self.controls[name] = "twice" if name in self.controls else end

    def show(self, text: str) -> None:
        if sum(map(len, self.shown)) < _SHOWN:
            self.shown.append(text[:_SHOWN])

    def record(self) -> dict[str, Any]:
        return {
            "token": self.order["token"],
            "passed": self.passed[:_MOST],
            "skipped": self.skipped[:_MOST],
            "failures": self.failures,
            "controls": self.controls,
            "problem": self.problem,
            "foreign": _foreign(self.order),
            "plugins": self.plugins[:_MOST],
            "uses": list(self.watch.uses) if self.watch else [],
            "shown": "\n".join(self.shown)[:_SHOWN],
        }


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_MESSAGE]
    except BaseException as other:  # noqa: BLE001 - it is the code of others
        return f"<its text raises {type(other).__name__}>"


def _described(name: str, error: BaseException, file: str) -> dict[str, Any]:
    """An exception as reviews compare it, and its traceback from the reproduction on."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [at for at, frame in enumerate(frames) if frame.filename == file]
    # All of them, where the code says by ``sys.tracebacklimit`` to show none.
    through = traceback.extract_tb(error.__traceback__, 1 << 20)
    passed = [frame for frame in through if frame.filename == file]
    kinds = []
    for kind in type(error).__mro__:
        if kind not in (Exception, BaseException, object):
            kinds += [kind.__name__, f"{kind.__module__}.{kind.__qualname__}"]
    if "_pytest.outcomes.Failed" in kinds:  # pytest.fail and pytest.raises
        kinds.append("AssertionError")
    shown = frames[inside[0] :] if inside else frames[-2:]
    lines = traceback.format_list(shown)
    lines.append(f"{type(error).__name__}: {_text(error)}\n")
    return {
        "name": name,
        "kinds": kinds,
        "message": _text(error),
        "line": _statement(passed[-1]) if passed else "",
        "is_own": bool(passed) and passed[-1] is through[-1],
        "errno": error.errno if isinstance(error, OSError) and type(error.errno) is int else 0,
        "trace": "".join(lines)[-_TRACE:],
    }


def _statement(frame: traceback.FrameSummary) -> str:
    """The statement that a frame stands in, on one line; of a longer block the head alone."""
    import ast

    number = frame.lineno or 0
    try:
        with _open(frame.filename, encoding="utf-8") as file:
            text = file.read()
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return frame.line or ""
    around = [(node.end_lineno or 0, node) for node in nodes if node.lineno <= number]
    enclosing = [(last - node.lineno, last, node) for last, node in around if number <= last]
    if not enclosing:
        return frame.line or ""
    _, last, node = min(enclosing, key=lambda row: row[0])
    body = getattr(node, "body", None)
    # What ``pytest.raises`` waits for in vain fails at its head, and is in its body.
    if body and not isinstance(node, (ast.With, ast.AsyncWith)):
        last = max(node.lineno, body[0].lineno - 1)
    return " ".join(" ".join(text.split("\n")[node.lineno - 1 : last]).split())[:_MESSAGE]


def _foreign(order: dict[str, Any]) -> list[str]:
    """Packages of the project that were imported from elsewhere, and so were not looked at."""
    names = []
    standard = getattr(sys, "stdlib_module_names", ())
    for folder in order["paths"]:
        if not folder.startswith(order["root"]):
            continue
        with suppress(OSError):
            for entry in sorted(os.listdir(folder)):
                name, ending = os.path.splitext(entry)
                inner = os.path.join(folder, entry, "__init__.py")
                if not (ending == ".py" or (not ending and os.path.isfile(inner))):
                    continue
                file = getattr(sys.modules.get(name), "__file__", None)
                is_there = isinstance(file, str) and file.startswith(f"{order['root']}/")
                if file and not is_there and name not in standard and name != "conftest":
                    names.append(name)
    return names[:10]


# ── pytest and unittest ──


def _with_pytest(pytest: Any, report: _Report, printed: str) -> None:
    order = report.order
    plugins = [_recorder(pytest, report), _warned(pytest, report)]
    more = ["-n0"] if importlib.util.find_spec("xdist") else []
    # What is left open is collected during whatever test comes next: it accuses no test.
    words = [
        *("-p", "no:unraisableexception"),
        *("--rootdir", order["root"], "--maxfail=0", "--color=no", "--tb=short"),
        *("--continue-on-collection-errors", *more, report.file, order["control"]),
    ]
    code = pytest.main(words, plugins=plugins)
    if int(code) == _USAGE and not report.controls:  # the base's conftest does not fit the head
        code = pytest.main(["--noconftest", *words], plugins=plugins)
    if not (report.failures or report.passed or report.skipped):
        report.problem = f"pytest ran no test of it, and ended with {int(code)}"
        with suppress(OSError), open(printed, encoding="utf-8", errors="replace") as file:
            report.show(file.read()[-_TRACE:])


def _recorder(pytest: Any, report: _Report) -> Any:
    """A plugin that hears of each exception before any report is made of it."""
    skips = (pytest.skip.Exception, pytest.xfail.Exception, unittest.SkipTest)

    class Recorder:
        @pytest.hookimpl(tryfirst=True)  # type: ignore[untyped-decorator]
        def pytest_load_initial_conftests(self) -> None:
            """Plugins of the environment are loaded: now the project may be found."""
            sys.path[:0] = report.order["paths"]

        @pytest.hookimpl(tryfirst=True)  # type: ignore[untyped-decorator]
        def pytest_plugin_registered(self, plugin: Any) -> None:
            report.plugged(getattr(plugin, "__file__", None))

        @pytest.hookimpl(tryfirst=True)  # type: ignore[untyped-decorator]
        def pytest_runtest_setup(self) -> None:
            if report.watch:
                report.watch.begin()

        def pytest_configure(self, config: Any) -> None:
            """Let control tests be found whatever the project calls its own."""
            config.addinivalue_line("python_functions", "test")

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)  # type: ignore[untyped-decorator]
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
            result = yield
            error = call.excinfo.value if call.excinfo else None
            if str(getattr(item, "path", None) or item.fspath) == report.file:
                report.ended(item.name, call.when, error, is_skip=isinstance(error, skips))
                report.captured(result.get_result() if error else None)
                if call.when == "teardown":
                    gc.collect()
            elif call.when == "call" or error:
                report.control(item.name, error)

        def pytest_exception_interact(self, node: Any, call: Any) -> None:
            if not isinstance(node, pytest.Item) and call.excinfo:
                error = call.excinfo.value
                report.failed("collection", error.__cause__ or error)

    return Recorder()


def _warned(pytest: Any, report: _Report) -> Any:
    """A plugin that hears of the warning that a test expects."""

    class Warned:
        @pytest.hookimpl(hookwrapper=True, trylast=True)  # type: ignore[untyped-decorator]
        def pytest_runtest_call(self, item: Any) -> Iterator[None]:
            if str(getattr(item, "path", None) or item.fspath) != report.file:
                yield
                return
            with report.warned(item.name):
                yield

    return Warned()


class _Result(unittest.TestResult):
    """The results of one file: of the reproduction, or of the control tests."""

    def __init__(self, report: _Report, *, is_own: bool) -> None:
        super().__init__()
        self.report, self.is_own = report, is_own

    def startTest(self, test: Any) -> None:  # noqa: N802 - the name is unittest's
        super().startTest(test)
        if self.report.watch:
            self.report.watch.begin()

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802 - see above
        if self.is_own:
            self.report.failed(test.id(), err[1])
        else:
            self.report.control(test.id().rpartition(".")[2], err[1])

    addFailure = addError  # noqa: N815 - see above

    def addSubTest(self, _test: Any, subtest: Any, err: Any) -> None:  # noqa: N802 - see above
        if err is not None:
            self.addError(subtest, err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: ARG002, N802 - see above
        self.report.skipped.append(test.id())

    def addSuccess(self, test: Any) -> None:  # noqa: N802 - see above
        if self.is_own:
            self.report.passed.append(test.id())
        else:
            self.report.control(test.id().rpartition(".")[2], None)


def _with_unittest(report: _Report) -> None:
    sys.path[:0] = report.order["paths"]
    for file in (report.file, report.order["control"]):
        name = os.path.splitext(os.path.basename(file))[0]
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            report.problem = "it is no file of Python"
            return
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:  # noqa: BLE001 - it is the code of others
            report.failed("import", error)
            continue
        tests = unittest.defaultTestLoader.loadTestsFromModule(module)
        tests.run(_Result(report, is_own=file == report.file))
    _bare_controls(report)
    if not (report.failures or report.passed or report.skipped):
        report.problem = "unittest found no test in it (pytest is not installed)"


# ── scripts ──


def _bare_controls(report: _Report) -> None:
    """Run those control tests that are statements alone."""
    for name, text in report.order["controls"].items():
        try:
            exec(compile(text, name, "exec"), {})  # noqa: S102 - it is our own
            report.control(name, None)
        except BaseException as error:  # noqa: BLE001 - whatever comes is compared
            report.control(name, error)


def _script(report: _Report) -> None:
    order = report.order
    sys.path[:0] = order["paths"]
    main = types.ModuleType("__main__")
    main.__file__ = report.file
    sys.modules["__main__"] = main
    sys.argv[:] = [report.file]
    try:
        with open(report.file, encoding="utf-8") as file:
            code = compile(file.read(), report.file, "exec")
        exec(code, main.__dict__)  # noqa: S102 - it is what this is for
        report.passed.append("script")
    except BaseException as error:  # noqa: BLE001 - it is the code of others
        failure = _described("script", error, report.file)
        if isinstance(error, SystemExit) and not error.code:
            if failure["is_own"]:
                report.passed.append("script")
            else:
                report.problem = "code that it calls ended it, by sys.exit"
        else:
            report.failures.append(failure)
            with suppress(BaseException):
                sys.stdout.flush()  # before the trace, whether output is buffered or not
                sys.stderr.write(failure["trace"])
    with suppress(BaseException):
        sys.stdout.flush()
    _bare_controls(report)


# ── what the project's code would do without its bodies ──

_HOLLOW = '''
class Hollow(BaseException):
    """A value of the project was used."""
class _Value:
    def __init__(self): pass
def _used(*_args, **_named):
    raise Hollow("a value of the project decides")
for _name in ("eq ne lt le gt ge bool len iter next call getattr getitem contains add radd sub mul "
              "str repr format hash int float index enter exit await aiter").split():
    setattr(_Value, f"__{_name}__", _used)
value = _Value()
'''


def _hollow(order: dict[str, Any]) -> None:
    """Let each function of the project return a value that raises wherever it is used."""
    import ast
    from importlib.machinery import SourceFileLoader

    inside: dict[str, Any] = {}
    exec(_HOLLOW, inside)  # noqa: S102 - it is our own
    sys.modules["_rlm_ci_hollow"] = types.ModuleType("_rlm_ci_hollow")
    vars(sys.modules["_rlm_ci_hollow"]).update(value=inside["value"])
    body = ast.parse("from _rlm_ci_hollow import value\nreturn value").body
    tests = {order["file"], order["control"]}
    compiled = SourceFileLoader.source_to_code

    def source_to_code(self: Any, data: Any, path: Any, **more: Any) -> Any:
        file = os.fsdecode(path) if isinstance(path, (str, bytes)) else ""
        is_project = file.startswith(f"{order['root']}/") and "/site-packages/" not in file
        if not is_project or file in tests or os.path.basename(file) == "conftest.py":
            return compiled(self, data, path, **more)
        tree = ast.parse(data)
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                is_made = node.name in ("__init__", "__init_subclass__", "__set_name__")
                node.body = [ast.Pass()] if is_made else list(body)
        return compiled(self, ast.fix_missing_locations(tree), path, **more)

    def path_stats(_self: Any, _path: Any) -> Any:
        raise OSError  # so that no compiled file is used

    SourceFileLoader.source_to_code = source_to_code  # type: ignore[method-assign]
    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign, assignment]


def main() -> None:
    order = json.loads(sys.stdin.buffer.read())
    report = _Report(order)
    if order["how"] == "watched":
        beside = importlib.import_module("watch")
        report.watch = beside.Watch(order["root"], report.file)
        del sys.modules["watch"]  # the project may have one
    sink = os.open(order["report"], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    os.environ["PYTHONPATH"] = os.pathsep.join(order["paths"])  # for what it starts
    pytest = None
    if order["kind"] == "test" and importlib.util.find_spec("pytest"):
        pytest = importlib.import_module("pytest")
    if order["how"] == "hollow":
        _hollow(order)
    if report.watch:
        report.watch.start()
    write, end, encoded = os.write, os._exit, json.JSONEncoder().encode
    if order["kind"] == "script":
        _script(report)
    else:
        printed = os.path.join(order["scratch"], "printed")
        stdout = os.dup(1)
        into = os.open(printed, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(into, 1)
        os.dup2(into, 2)
        try:
            if pytest is None:
                _with_unittest(report)
            else:
                _with_pytest(pytest, report, printed)
        except BaseException as error:  # noqa: BLE001 - it is the code of others
            report.problem = f"the test runner broke: {type(error).__name__}: {_text(error)}"
        if os.getpid() == _START:
            write(stdout, "\n".join(report.shown).encode("utf-8", "replace"))
    if os.getpid() == _START:  # and not a copy that the code has forked
        write(sink, encoded(report.record()).encode("ascii"))
    end(0)


if __name__ == "__main__":
    main()
