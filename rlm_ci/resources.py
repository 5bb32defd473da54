"""Templates and schemas: found, read, and given to the two libraries that understand them.

``templates/`` and ``schemas/`` are top-level folders of the checkout; the wheel carries them
inside the package as ``_data/``. jinja2 and jsonschema are imported here only, when used.
"""

from __future__ import annotations

import os
import sys

from rlm_ci import errors
from rlm_ci.texts import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import Any

    from jinja2 import Environment

#: How a user's template names the template that it overrides: ``{% extends "shipped/..." %}``.
SHIPPED = "shipped/"

#: Lines of Python that one rendering of a user's template may execute: about two seconds.
#: The largest comment from the shipped template takes less than a tenth of it.
TEMPLATE_STEPS = 5_000_000

#: So many errors of an instance are weighed against each other; one is enough to refuse it.
_ERRORS = 50

#: The longest text or list that ``*`` may make in a template.
TEMPLATE_LENGTH = 4_000_000


def _path(folder: str, name: str) -> str | None:
    """Where the shipped file lies; None when there is none of that name."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\\" in part or ":" in part for part in parts):
        return None
    package = os.path.dirname(os.path.abspath(__file__))
    for top in (os.path.join(package, "_data"), os.path.dirname(package)):
        path = os.path.join(top, folder, *parts)
        if os.path.isfile(path):
            return path
    return None


def _read(folder: str, name: str) -> str:
    path = _path(folder, name)
    if path is None:
        raise errors.StorageError(
            f"{folder}/{printable(name)} is missing from this installation",
            hint="install rlm-ci again",
        )
    with open(path, encoding="utf-8") as file:
        return file.read()


def read_template(name: str) -> str:
    """The source of a shipped template. Raises StorageError when there is none."""
    return _read("templates", name)


def read_schema(name: str) -> dict[str, Any]:
    """A shipped JSON Schema, ``report.schema.json`` for instance. Raises StorageError."""
    import json

    schema: dict[str, Any] = json.loads(_read("schemas", name))
    return schema


def validate(instance: object, schema_name: str, where: str) -> None:
    """Check ``instance`` against a shipped schema; ``where`` says what it was read from.

    Raises ConfigError with the JSON path of the most telling of the first errors, and what is
    wrong there.
    """
    wrong = misfit(instance, schema_name)
    if wrong:
        hint = f"it must follow schemas/{schema_name}"
        raise errors.ConfigError(wrong, where=where, hint=hint)


def misfit(instance: object, schema_name: str) -> str:
    """What is wrong with ``instance``, as ``validate`` tells it; "" when nothing is."""
    return misfits(schema_name)(instance)


def misfits(schema_name: str) -> Callable[[object], str]:
    """``misfit`` for many instances."""
    from itertools import islice

    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    validator = Draft202012Validator(read_schema(schema_name))

    def told(instance: object) -> str:
        try:
            # A stranger's file may have millions of them, and each takes longer than its bytes.
            error = best_match(islice(validator.iter_errors(instance), _ERRORS))
        except RecursionError:
            return f"nested too deeply for {schema_name}"
        if error is None:
            return ""
        message = error.message if len(error.message) <= 300 else _long_message(error)
        return f"{printable(error.json_path[:200])}: {printable(message)}"

    return told


def _long_message(error: Any) -> str:
    """The message without the whole instance, which jsonschema likes to print."""
    rule = f"{error.validator}: {error.validator_value}"
    return f"{str(error.instance)[:80]}... does not satisfy {rule[:200]}"


def load_template(
    name: str, *, overrides: Mapping[str, str] | None = None, autoescape: bool = False
) -> Callable[[Mapping[str, Any]], str]:
    """The template ``name``, compiled: a function from its variables to the text.

    ``overrides`` maps template names to sources that win over the shipped ones. With
    ``autoescape`` values are escaped for HTML; without it they must come in neutral.

    Raises ConfigError, also when rendering, for an override that does not compile, uses
    an undefined name, leaves the sandbox or does not come to an end; it names file and
    line. A fault of a shipped template is a bug and stays what it is.
    """
    overrides = overrides or {}
    if overrides:
        environment = _environment(overrides, autoescape=autoescape)
    else:
        environment = _shipped(autoescape=autoescape)
    guarded = bool(overrides)
    try:
        template = environment.get_template(name)
    except Exception as error:  # noqa: BLE001 - a template can fail in any way
        raise _template_error(error, overrides) or error from None

    def render(variables: Mapping[str, Any]) -> str:
        try:
            if not guarded:
                return template.render(variables)
            with _Steps(TEMPLATE_STEPS):
                return template.render(variables)
        except Exception as error:
            raise _template_error(error, overrides) or error from error

    return render


def _sandbox() -> type[Environment]:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Bounded(ImmutableSandboxedEnvironment):
        """The sandbox, with a bound on what one operation can make."""

        intercepted_binops = frozenset(("*", "**", "%"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
            if operator == "*" and not numbers:
                length = max(_length(left, right), _length(right, left))
                if length > TEMPLATE_LENGTH:
                    raise OverflowError(f"a product of length {length:,} is too long")
            elif operator == "**" and not (numbers and abs(left) <= 10**9 and abs(right) <= 64):
                raise OverflowError("that power is too large")
            elif operator == "%" and not numbers:
                raise OverflowError("formatting with % is not available; use ~")
            return super().call_binop(context, operator, left, right)

        def getattr(self, obj: Any, attribute: str) -> Any:
            if type(obj) is dict and attribute in obj and attribute not in _OF_DICTS:
                return obj[attribute]  # as it would be found in the end, without two detours
            if attribute in _PADDING and isinstance(obj, (str, bytes)):
                return self.unsafe_undefined(obj, attribute)
            return super().getattr(obj, attribute)

        def getitem(self, obj: Any, argument: Any) -> Any:
            if isinstance(argument, str) and isinstance(obj, (str, bytes)):
                return self.getattr(obj, argument)
            return super().getitem(obj, argument)

    return Bounded


#: The environment of our own templates, by whether it escapes. It keeps what it has compiled, and
#: a loop renders the same ones turn by turn.
_SHIPPED: dict[bool, Environment] = {}


def _shipped(*, autoescape: bool) -> Environment:
    if autoescape not in _SHIPPED:
        _SHIPPED[autoescape] = _environment({}, autoescape=autoescape)
    return _SHIPPED[autoescape]


def _environment(overrides: Mapping[str, str], *, autoescape: bool) -> Environment:
    from jinja2 import FunctionLoader, StrictUndefined

    def load(name: str) -> tuple[str, str, Callable[[], bool]] | None:
        if name in overrides:
            return overrides[name], _frame_name(name), lambda: True
        shipped = _path("templates", name.removeprefix(SHIPPED))
        if shipped is None:
            return None
        return read_template(name.removeprefix(SHIPPED)), shipped, lambda: True

    environment = _sandbox()(
        loader=FunctionLoader(load),
        undefined=StrictUndefined,
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for name in ("format", "center"):
        del environment.filters[name]
    return environment


#: Methods of text that take a width which nothing bounds.
_PADDING = frozenset(
    ("center", "ljust", "rjust", "zfill", "expandtabs", "format", "format_map", "__format__")
)


#: What a template may mean by ``.items`` is the method, whatever keys there are.
_OF_DICTS = frozenset(dir(dict))


def _length(sequence: object, times: object) -> int:
    """How long ``sequence * times`` would be; 0 when that is a product of numbers."""
    if isinstance(times, int) and isinstance(sequence, (str, bytes, list, tuple)):
        return len(sequence) * times
    return 0


def _frame_name(name: str) -> str:
    """The file name that tracebacks of an override carry; no real file has it."""
    return f"<override {name}>"


def _template_error(error: Exception, overrides: Mapping[str, str]) -> errors.ConfigError | None:
    """``error`` as a fault of the user's template that raised it; None if it is none's."""
    from jinja2 import TemplateNotFound, TemplateSyntaxError

    place: tuple[str, int] | None = None
    if isinstance(error, TemplateSyntaxError):
        name = error.name or ""
        place = (name, error.lineno) if name in overrides else None
    names = {_frame_name(name): name for name in overrides}
    trace = error.__traceback__
    while trace is not None and not isinstance(error, TemplateSyntaxError):
        found = names.get(trace.tb_frame.f_code.co_filename)
        if found is not None:
            place = (found, trace.tb_lineno)
        trace = trace.tb_next
    if place is None:
        return None
    what = str(error) or type(error).__name__
    if isinstance(error, TemplateNotFound):
        what = f"there is no template {what}"
    return errors.ConfigError(
        f"template {printable(place[0])} cannot be used: {printable(what[:300])}",
        where=f"{printable(place[0])}, line {place[1]}",
        hint="mend that line, or delete the override to get the shipped template back",
    )


class _Steps:
    """Ends a rendering that does not end by itself, by counting executed lines.

    The sandbox bounds what a template may touch, not how long it may loop, and a count
    gives the same answer on every machine, where a clock would not.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit

    def __enter__(self) -> None:
        self._previous = sys.gettrace()
        sys.settrace(self._step)

    def __exit__(self, *_error: object) -> None:
        sys.settrace(self._previous)

    def _step(self, _frame: FrameType, _event: str, _argument: object) -> Any:
        self._left -= 1
        if self._left < 0:
            raise OverflowError("it does not come to an end")
        return self._step
