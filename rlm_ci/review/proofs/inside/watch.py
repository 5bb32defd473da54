"""Sees what a reproduction does to the project's code besides calling it.

``reproduce`` uses it in a run of its own, whose end does not count. It imports nothing of rlm_ci,
and needs Python 3.8 or later. What counts is what the reproduction does itself, or by the standard
library: the project's own code, its ``conftest.py`` and installed packages may do as they like.
"""  # noqa: INP001 - it runs by its path, in somebody else's Python

from __future__ import annotations

import os
import re
import sys
import types
from functools import lru_cache
from time import perf_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    #: A module, its names, and those of its classes.
    Names = tuple[types.ModuleType, dict[str, Any], list[tuple[type, dict[str, Any]]]]

OWN, PROJECT, INSTALLED, PYTHON = "own", "project", "installed", "python"
#: What the reproduction does: with which file of the project, and which name in it.
READS, INSPECTS, REPLACES, BLINDS = "reads", "inspects", "replaces", "stops the watch on"
#: What a function has that tells how it is written.
_WRITTEN = ("__code__", "__defaults__", "__kwdefaults__")
#: Modules of Python that look at code where they are asked to, and only then.
_LOOKING = {"inspect.py", "dis.py", "pydoc.py", "ast.py", "annotationlib.py"}
#: Those that show lines of code, or run it.
_SHOWING = {"traceback.py", "warnings.py", "runpy.py", "bdb.py", "pdb.py"}
#: Functions by which Python imports a module.
_IMPORTS = {"_find_and_load", "_load_unlocked", "exec_module", "load_module"}
_STARTS = {"subprocess.Popen": 1, "os.system": 0, "os.posix_spawn": 1, "os.exec": 1, "os.spawn": 2}
_SPACE = re.compile(r"[\s'\"`;|&<>()]+")
_NOTHING = object()
#: Uses that are reported, and seconds in which names are compared.
_MOST, _SECONDS = 50, 10.0


class Watch:
    """Notes in ``uses`` what the code of ``file`` does to the project at ``root``."""

    def __init__(self, root: str, file: str) -> None:
        self.uses: dict[tuple[str, str, str], None] = {}
        self._root, self._file = root, file
        self._is_busy = False
        self._names: dict[str, Names] = {}
        self._inner: types.FrameType | None = None
        self._left = _SECONDS
        python = os.path.dirname(os.path.realpath(os.__file__)), os.path.dirname(os.__file__)
        self._python = tuple(f"{folder}/" for folder in {*python})
        self.kind = lru_cache(maxsize=None)(self._kind)

    def start(self) -> None:
        sys.addaudithook(self._hear)
        sys.settrace(self._called)

    def begin(self) -> None:
        """A test begins: what stands in the project's modules now is its own."""
        self._names = self._taken()
        self._inner = None
        sys.settrace(self._called)  # a plugin may have taken its place

    def _kind(self, file: str) -> str:
        """Whose code is in a file."""
        if file == self._file:
            return OWN
        if file.startswith("<"):
            return PYTHON
        path = os.path.abspath(file)
        if "/site-packages/" in path or "/dist-packages/" in path:
            return INSTALLED
        if path.startswith(self._python):
            return PYTHON
        if os.path.dirname(path) == os.path.dirname(os.path.abspath(__file__)):
            return INSTALLED
        return PROJECT if path.startswith(f"{self._root}/") else OWN  # it wrote another file

    def _note(self, how: str, file: str, name: str = "") -> None:
        path = file[len(self._root) + 1 :] if file.startswith(f"{self._root}/") else ""
        if len(self.uses) < _MOST:
            self.uses[how, path, name] = None

    # ── what is read, and started ──

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self._is_busy or not (event in _STARTS or event in _HEARD):
            return
        self._is_busy = True
        try:
            self._heard(event, args)
        except Exception:  # noqa: BLE001, S110 - the code under test must not see it
            pass
        finally:
            self._is_busy = False

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _STARTS:
            if self._by() is not None:
                self._started(args[_STARTS[event]])
        elif event == "open":
            self._opened(*args[:3])
        elif event in ("sys.settrace", "sys.setprofile"):
            if self._by() is not None:
                self._note(BLINDS, f"{self._root}/")
        elif args[1] in _WRITTEN and isinstance(args[0], types.FunctionType):
            by, (file, name) = self._by(), _of_code(args[0].__code__, args[0].__qualname__)
            if by is None or self.kind(file) != PROJECT:
                return
            if event != "object.__getattr__":
                self._note(REPLACES, file, name)
            elif not {os.path.basename(caller) for caller, _ in by} - _LOOKING and not any(
                function == "_has_code_flag" for _, function in by
            ):
                self._note(INSPECTS, file, f"{name}.{args[1]}")

    def _by(self) -> list[tuple[str, str]] | None:
        """Files and functions of Python by which the reproduction does it; None if it does not."""
        frame: Any = sys._getframe()  # noqa: SLF001 - there is no other way
        through: list[tuple[str, str]] = []
        while frame is not None:
            file = frame.f_code.co_filename
            kind = self.kind(file)
            if kind == OWN:
                return through
            if kind == PROJECT or (kind == INSTALLED and file != __file__):
                return None
            if kind == PYTHON:
                through.append((file, frame.f_code.co_name))
            frame = frame.f_back
        return None

    def _opened(self, path: Any, mode: Any, flags: Any) -> None:
        if not isinstance(path, (str, bytes)) or (isinstance(mode, str) and mode[:1] in "wax"):
            return
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_DIRECTORY):
            return
        file = os.path.realpath(os.fsdecode(path))
        if not file.startswith(f"{self._root}/") or self.kind(file) != PROJECT:
            return
        by = self._by()
        if by is None or any(os.path.basename(caller) in _SHOWING for caller, _ in by):
            return
        if not any(caller.startswith("<frozen") and name in _IMPORTS for caller, name in by):
            self._note(READS, file)

    def _started(self, words: Any) -> None:
        """A program that is given code of the project, and is no Python that runs it, reads it."""
        if isinstance(words, (str, bytes)):
            words = [words]
        texts = [os.fsdecode(word) for word in words]
        parts = [part for text in texts for part in _SPACE.split(text) if part]
        is_python = any(os.path.basename(part).startswith(("python", "pytest")) for part in parts)
        if is_python and "-c" not in parts:
            return
        for part in parts[1:]:
            file = os.path.realpath(part)
            if file.startswith(f"{self._root}/") and os.path.isfile(file):
                self._note(READS, file)

    # ── what is replaced ──

    def _called(self, frame: types.FrameType, _event: str, _arg: Any) -> Any:
        """Compare wherever code of the reproduction runs, and where it calls what it likes."""
        if self._inner is not None or self._is_busy:
            return None
        kind = self.kind(frame.f_code.co_filename)
        before = frame.f_back
        is_own = before is not None and self.kind(before.f_code.co_filename) == OWN
        if kind == PROJECT:
            self._compare()
            self._inner = frame
            frame.f_trace_lines = False
            return self._left_project
        if kind == OWN or is_own:
            self._compare()
        return self._within if kind == OWN else None

    def _within(self, _frame: types.FrameType, _event: str, _arg: Any) -> Any:
        if self._inner is None:
            self._compare()
        return self._within

    def _left_project(self, frame: types.FrameType, event: str, _arg: Any) -> Any:
        """The outermost call of the project ends: what it has replaced itself is its own."""
        if event == "return" and frame is self._inner:
            self._names = self._taken()
            self._inner = None
        return self._left_project

    def _taken(self) -> dict[str, Names]:
        modules = list(sys.modules.items())
        return {
            name: _names_of(module_type)
            for name, module_type in modules
            if self._is_project(module_type)
        }

    def _is_project(self, module: Any) -> bool:
        file = vars(module).get("__file__") if isinstance(module, types.ModuleType) else None
        return isinstance(file, str) and self.kind(file) == PROJECT

    def _compare(self) -> None:
        if self._is_busy or self._left <= 0:
            return
        self._is_busy = True
        begun = perf_counter()
        try:
            for name, (module, names, classes) in self._names.items():
                now, file = sys.modules.get(name), str(vars(module)["__file__"])
                if now is not None and now is not module and not self._is_project(now):
                    self._note(REPLACES, file)
                self._differences(names, vars(module), file, "")
                for class_, inner in classes:
                    self._differences(inner, vars(class_), file, f"{class_.__qualname__}.")
        except Exception:  # noqa: BLE001, S110 - the code under test must not see it
            pass
        finally:
            self._left -= perf_counter() - begun
            self._is_busy = False

    def _differences(self, before: dict[str, Any], now: Any, file: str, prefix: str) -> None:
        for key, value in before.items():
            is_set_by_python = not prefix and key.startswith("__")
            if now.get(key, _NOTHING) is value or is_set_by_python:
                continue
            origin, name = file, f"{prefix}{key}"
            code = _code_of(value)
            if code is not None:
                origin, name = _of_code(code, getattr(value, "__qualname__", name), name)
            elif isinstance(value, type):
                module = sys.modules.get(str(vars(value).get("__module__")))
                origin = str(getattr(module, "__file__", "<none>"))
                name = value.__qualname__
            elif isinstance(value, types.ModuleType):
                origin, name = str(vars(value).get("__file__", "<none>")), ""
            elif isinstance(value, types.BuiltinFunctionType):
                continue
            # What others have written is no code under test, whoever uses it.
            if self.kind(origin) == PROJECT:
                self._note(REPLACES, os.path.abspath(origin), name)


_FUNCTIONS = (types.FunctionType, type(lru_cache(len)))
_HEARD = {
    "open", "object.__getattr__", "object.__setattr__", "object.__delattr__", "sys.settrace",
    "sys.setprofile",
}  # fmt: skip


def _names_of(module: types.ModuleType) -> Names:
    names = dict(vars(module))
    classes = [
        name for name in names.values()
        if isinstance(name, type) and vars(name).get("__module__") == module.__name__
    ]  # fmt: skip
    return module, names, [(class_, dict(vars(class_))) for class_ in classes]


def _code_of(value: Any) -> types.CodeType | None:
    """The code of what stands for a function, without what decorates it."""
    for _ in range(20):
        if isinstance(value, property):
            value = value.fget
        elif isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, _FUNCTIONS) and "__wrapped__" in vars(value):
            value = vars(value)["__wrapped__"]
        else:
            break
    return value.__code__ if isinstance(value, types.FunctionType) else None


def _of_code(code: types.CodeType, name: str, otherwise: str = "") -> tuple[str, str]:
    """The file of a function, and its name there; of one that a decorator made, ``otherwise``."""
    return code.co_filename, otherwise if "<locals>" in name and otherwise else name
