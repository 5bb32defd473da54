"""Templates, schemas, the texts of rules and the script of the hooks.

``templates/`` and ``schemas/`` are top-level folders of the checkout; the wheel has them inside the
package, in ``_data/``, as it has ``docs/rules.json`` and ``hooks/run``. jinja2 and jsonschema are
imported only here, when used.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager, nullcontext

from rlm_ci import errors
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import FrameType
    from typing import Any

    from jinja2 import Environment
    from jsonschema import ValidationError

#: How a user's template names the template that it overrides: ``{% extends "shipped/..." %}``.
SHIPPED = "shipped/"
#: The environments of our own templates, by ``autoescape``: they keep compiled templates.
_SHIPPED: dict[bool, Environment] = {}

#: CPU seconds that a user's template may take.
TEMPLATE_SECONDS = 30
#: Characters that it may make. The largest page has nine million.
TEMPLATE_LENGTH = 20_000_000
#: Errors of an instance that are compared for the best message.
_ERRORS = 50
#: Errors of an answer that a model is told.
_TOLD = 10


def _path(folder: str, name: str) -> str | None:
    """The path of a shipped file; None if there is none."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\\" in part or ":" in part for part in parts):
        return None
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
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
    """The source of a shipped template. Raises StorageError if there is none."""
    return _read("templates", name)


def read_hook() -> str:
    """The script of all native Git hooks, ``hooks/run``. Raises StorageError."""
    return _read("hooks", "run")


def read_rules() -> dict[str, Any]:
    """The texts of rules, ``docs/rules.json``. Raises StorageError."""
    import json

    rules: dict[str, Any] = json.loads(_read("docs", "rules.json"))
    return rules


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
    """What is wrong with ``instance``, with its JSON path; "" if nothing is."""
    return misfits(schema_name)(instance)


def every_misfit(instance: object, schema_name: str) -> str:
    """All that is wrong with what a model answered, so that it can mend all of it at once."""
    return misfits(schema_name, _TOLD)(instance)


def misfits(schema: str | Mapping[str, Any], limit: int = 1) -> Callable[[object], str]:
    """``misfit`` for many instances of a schema, or of the shipped one of that name.

    It tells the most telling error, or the first ``limit``.
    """
    from itertools import islice

    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    validator = Draft202012Validator(read_schema(schema) if isinstance(schema, str) else schema)

    def problems_of(instance: object) -> str:
        try:
            # A hostile file may have millions of errors, each slower than its bytes.
            errors = list(islice(validator.iter_errors(instance), _ERRORS))
            found = [errors] if limit == 1 else [[error] for error in errors[:limit]]
            return "; ".join(_described(best_match(some)) for some in found if some)
        except RecursionError:
            return f"nested too deeply for {schema if isinstance(schema, str) else 'its schema'}"

    return problems_of


def _described(error: ValidationError) -> str:
    message = error.message
    if len(message) > 300:  # it quotes the whole instance
        rule = f"{error.validator}: {error.validator_value}"
        message = f"{str(error.instance)[:80]}... does not satisfy {rule[:200]}"
    return f"{printable(error.json_path[:200])}: {printable(message)}"


def load_template(
    name: str, *, overrides: Mapping[str, str] | None = None, autoescape: bool = False
) -> Callable[[Mapping[str, Any]], str]:
    """The template ``name``, compiled: a function from its variables to the text.

    ``overrides`` maps template names to sources that win over the shipped ones. With
    ``autoescape`` values are escaped for HTML; without it they must be neutral already.

    Raises ConfigError, also when rendering, with file and line of an override that does not
    compile, uses an undefined name, leaves the sandbox or does not end. Errors of a shipped
    template stay as they are: they are bugs.
    """
    overrides = overrides or {}
    if not overrides and autoescape not in _SHIPPED:
        _SHIPPED[autoescape] = _environment({}, autoescape=autoescape)
    environment = (
        _environment(overrides, autoescape=autoescape) if overrides else _SHIPPED[autoescape]
    )
    try:
        template = environment.get_template(name)
    except Exception as error:  # noqa: BLE001 - a template can fail in any way
        raise _template_error(error, overrides) or error from None

    def render(variables: Mapping[str, Any]) -> str:
        try:
            with _deadline() if overrides else nullcontext():
                return template.render(variables)
        except Exception as error:
            raise _template_error(error, overrides) or error from error

    return render


def _sandbox() -> type[Environment]:
    """Jinja's sandbox, with a limit on the size of products.

    Templates come from the base, never from a pull request's head: the limits are for mistakes.
    The deadline is checked between two lines, so only memory limits other huge operations, such as
    ``ljust(10**10)``. A foreign run, whose templates ``verify`` uses, can make its own verification
    fail this way.
    """
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class BoundedEnvironment(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(("*", "**"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _require(_foreseen(operator, left, right))
            return super().call_binop(context, operator, left, right)

        def getattr(self, obj: Any, attribute: str) -> Any:
            if type(obj) is dict and attribute in obj and attribute not in _OF_DICTS:
                return obj[attribute]  # the same result, faster
            return super().getattr(obj, attribute)

    return BoundedEnvironment


def _joined(pieces: Iterable[str]) -> str:
    found, length = [], 0
    for piece in pieces:
        found.append(piece)
        length += len(piece)
        try:
            _require(length)
        except OverflowError as error:
            if hasattr(pieces, "throw"):
                pieces.throw(error)  # so that the traceback has the line
            raise
    return "".join(found)


def _require(length: int) -> None:
    if length > TEMPLATE_LENGTH:
        raise OverflowError(f"a text, list or number of length {length:,} is too long")


def _foreseen(operator: str, left: Any, right: Any) -> int:
    """How long a product or a power will be, in characters, items or bits."""
    if hasattr(right, "__len__"):
        left, right = right, left
    if not isinstance(right, int):
        return 0
    if hasattr(left, "__len__"):
        return len(left) * right
    bits = left.bit_length() if isinstance(left, int) else 0
    return bits * right if operator == "**" else bits + right.bit_length()


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
    if overrides:
        environment.concat = _joined  # type: ignore[method-assign]  # a hook of Jinja's
    return environment


#: ``.items`` is the method, even if there is such a key.
_OF_DICTS = frozenset(dir(dict))
_FRAME = "<override "


def _frame_name(name: str) -> str:
    """The file name of an override in tracebacks; no real file has it."""
    return f"{_FRAME}{name}>"


def _template_error(error: Exception, overrides: Mapping[str, str]) -> errors.ConfigError | None:
    """``error`` as a fault of the user's template that raised it, or None."""
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
        hint="fix that line, or delete the override to restore the shipped template",
    )


@contextmanager
def _deadline() -> Iterator[None]:
    """End a rendering that takes too long, between two lines of a user's template."""
    until = time.thread_time() + TEMPLATE_SECONDS

    def step(frame: FrameType, _event: str, _argument: object) -> Any:
        if time.thread_time() > until:
            raise OverflowError("it does not end")
        return step if frame.f_code.co_filename.startswith(_FRAME) else None

    previous = sys.gettrace()
    sys.settrace(step)
    try:
        yield
    finally:
        sys.settrace(previous)
