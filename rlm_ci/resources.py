"""Templates and schemas: found, read, and given to the two libraries that understand them.

``templates/`` and ``schemas/`` are top-level folders of the checkout; the wheel carries them
inside the package as ``_data/``. jinja2 and jsonschema are imported here only, when used.
"""

from __future__ import annotations

import os
import sys
import time

from rlm_ci import bounds, errors
from rlm_ci.texts import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import Any

    from jinja2 import Environment, nodes
    from jinja2.compiler import Frame

#: How a user's template names the template that it overrides: ``{% extends "shipped/..." %}``.
SHIPPED = "shipped/"

#: Lines of a user's template, and calls that come of them, in one rendering. The largest page by
#: a copy of the shipped template takes three fifths of it.
TEMPLATE_STEPS = 5_000_000
#: Seconds of a core that it may take, where many of its lines are slow ones.
TEMPLATE_SECONDS = 30

#: So many errors of an instance are weighed against each other; one is enough to refuse it.
_ERRORS = 50


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
    work = bounds.Work() if overrides else None
    environment = (
        _environment(overrides, autoescape=autoescape, work=work)
        if work
        else _shipped(autoescape=autoescape)
    )
    try:
        template = environment.get_template(name)
    except Exception as error:  # noqa: BLE001 - a template can fail in any way
        raise _template_error(error, overrides) or error from None

    def render(variables: Mapping[str, Any]) -> str:
        try:
            if work is None:
                return template.render(variables)
            work.begin()
            with _Steps(TEMPLATE_STEPS):
                return template.render(variables)
        except Exception as error:
            raise _template_error(error, overrides) or error from error

    return render


def _sandbox(work: bounds.Work | None) -> type[Environment]:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        """The sandbox, with a bound on what one operation can make."""

        intercepted_binops = frozenset(("+", "-", "*", "**", "%"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            bounds.operation(operator, left, right)
            return super().call_binop(context, operator, left, right)

        def getattr(self, obj: Any, attribute: str) -> Any:
            if type(obj) is dict and attribute in obj and attribute not in _OF_DICTS:
                return obj[attribute]  # as it would be found in the end, without two detours
            if attribute in _PADDING and isinstance(obj, (str, bytes, int)):
                return self.unsafe_undefined(obj, attribute)
            return super().getattr(obj, attribute)

        def getitem(self, obj: Any, argument: Any) -> Any:
            if isinstance(argument, str) and isinstance(obj, (str, bytes, int)):
                return self.getattr(obj, argument)
            return super().getitem(obj, argument)

    return _bounded(Sandbox, work) if work else Sandbox


def _bounded(sandbox: type[Any], work: bounds.Work) -> type[Environment]:
    """The sandbox for templates of the user's, whose ``work`` as a whole is bounded."""
    from jinja2.compiler import CodeGenerator
    from jinja2.runtime import markup_join, str_join

    class Generator(CodeGenerator):
        """Writes ``~`` as a call of ours."""

        def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - Jinja's own name
            self.write("environment.joined(context.eval_ctx.autoescape, (")
            for argument in node.nodes:
                self.visit(argument, frame)
                self.write(", ")
            self.write("))")

    class Bounded(sandbox):  # type: ignore[misc]  # a class that is made as it is needed
        code_generator_class = Generator
        concat = staticmethod(work.concat)

        def joined(self, escaped: bool, values: tuple[Any, ...]) -> Any:  # noqa: FBT001 - by our generator alone
            bounds.printed(*values)
            return work.made(markup_join(values) if escaped else str_join(values))

        def call(self, context: Any, function: Any, /, *args: Any, **named: Any) -> Any:
            return work.made(super().call(context, function, *work.call(function, args), **named))

    return Bounded


def _finalized(value: Any) -> Any:
    """What is printed, looked at first: a list prints all that it holds."""
    if not isinstance(value, (str, int, float)):
        bounds.printed(value)
    return value


#: The environment of our own templates, by whether it escapes. It keeps what it has compiled, and
#: a loop renders the same ones turn by turn.
_SHIPPED: dict[bool, Environment] = {}


def _shipped(*, autoescape: bool) -> Environment:
    if autoescape not in _SHIPPED:
        _SHIPPED[autoescape] = _environment({}, autoescape=autoescape, work=None)
    return _SHIPPED[autoescape]


def _environment(
    overrides: Mapping[str, str], *, autoescape: bool, work: bounds.Work | None
) -> Environment:
    from jinja2 import FunctionLoader, StrictUndefined

    def load(name: str) -> tuple[str, str, Callable[[], bool]] | None:
        if name in overrides:
            return overrides[name], _frame_name(name), lambda: True
        shipped = _path("templates", name.removeprefix(SHIPPED))
        if shipped is None:
            return None
        return read_template(name.removeprefix(SHIPPED)), shipped, lambda: True

    environment = _sandbox(work)(
        finalize=_finalized if work else None,
        loader=FunctionLoader(load),
        undefined=StrictUndefined,
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for name in ("format", "center"):
        del environment.filters[name]
    if work:
        filters = environment.filters.items()
        environment.filters = {name: work.filter(name, one) for name, one in filters}
    return environment


#: Methods of text and numbers that take a width, or a table, which nothing bounds.
_PADDING = frozenset(
    ("center", "ljust", "rjust", "zfill", "expandtabs", "format", "format_map", "__format__",
     "translate", "to_bytes")
)  # fmt: skip


#: What a template may mean by ``.items`` is the method, whatever keys there are.
_OF_DICTS = frozenset(dir(dict))


_FRAME = "<override "


def _frame_name(name: str) -> str:
    """The file name that tracebacks of an override carry; no real file has it."""
    return f"{_FRAME}{name}>"


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
    """Ends a rendering that does not end by itself, by counting executed lines and calls.

    The sandbox bounds what a template may touch, not how long it may loop, and a count
    gives the same answer on every machine, where a clock would not; that is for lines that
    take long each.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit

    def __enter__(self) -> None:
        import jinja2

        self._previous = sys.gettrace()
        self._ours = (bounds.__file__, __file__, os.path.dirname(jinja2.__file__))
        self._until = time.thread_time() + TEMPLATE_SECONDS
        sys.settrace(self._step)

    def __exit__(self, *_error: object) -> None:
        sys.settrace(self._previous)

    def _step(self, frame: FrameType, _event: str, _argument: object) -> Any:
        place = frame.f_code.co_filename
        if place.startswith(self._ours):
            return None  # it is called by each line of a template, and comes to an end
        self._left -= 1
        late = self._left % 1024 == 0 and time.thread_time() > self._until
        if self._left < 0 or late:
            raise OverflowError("it does not come to an end")
        # So do the lines of a shipped template; how often it is called is the other's doing.
        return self._step if place.startswith(_FRAME) else None
