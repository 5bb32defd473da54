"""What a Python file offers to others: names that are defined or imported, and how to call them."""

from __future__ import annotations

import ast

from rlm_ci.source.python import syntax
from rlm_ci.source.python.names import last_name
from rlm_ci.source.python.statements import DEFINITIONS, PublicNames, exported, ranked
from rlm_ci.source.signatures import clipped
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Function = ast.FunctionDef | ast.AsyncFunctionDef

CLASS, FUNCTION, METHOD, PROPERTY, ATTRIBUTE, VARIABLE = (
    "class", "function", "method", "property", "attribute", "variable",
)  # fmt: skip
#: Kinds of parameters, in the order in which they may stand.
POSITIONAL, EITHER, ARGS, KEYWORD, KWARGS = range(5)
#: Characters of a default or a base.
_LONGEST = 80
#: Levels of classes in classes that are read.
_DEEPEST = 20


class Parameter(Value):
    """A parameter; ``default`` is its source text, "" for a required one."""

    name: str
    kind: int
    default: str = ""
    annotation: str = ""

    @property
    def is_required(self) -> bool:
        return not self.default and self.kind not in (ARGS, KWARGS)


class PythonName(Value):
    """A definition: its lines are 1-based, inclusive, decorators included.

    ``parameters`` are without ``self``; None for what has no signature. ``bases`` are the last
    parts of a class's bases.
    """

    kind: str
    line_start: int
    line_end: int
    is_public: bool
    parameters: tuple[Parameter, ...] | None = None
    returns: str = ""
    bases: tuple[str, ...] = ()


class Binding(Value):
    """A name that an import binds: ``name`` of ``module``; "*" for all of its public names."""

    module: str
    name: str
    level: int
    line: int
    is_public: bool


class PythonInterface(Value):
    """``names`` are qualified within the file; ``listed`` says whether there is an ``__all__``."""

    names: Mapping[str, PythonName]
    bindings: Mapping[str, Binding]
    listed: bool


def interface(path: str, content: bytes) -> PythonInterface | None:
    """The interface of a file; None if it is not Python of this interpreter's version."""
    file = syntax.read(content)
    if file is None:
        return None
    module = file.module
    names: dict[str, PythonName] = {}
    listed = exported(module)
    try:
        _read(names, module.body, "", listed, is_public=True)
    except RecursionError:  # an expression of thousands of parts
        return None
    is_package = path.rpartition("/")[2] == "__init__.py"
    bindings = dict(_bindings(module, listed, is_package=is_package))
    return PythonInterface(names, bindings, listed is not None)


def _read(
    names_by_path: dict[str, PythonName],
    body: Sequence[ast.stmt],
    prefix: str,
    listed: set[str] | None,
    *,
    is_public: bool,
) -> None:
    names = PublicNames(body, listed, members=bool(prefix))
    overloads: set[str] = set()
    for node, stays, above in ranked(body):
        if isinstance(node, DEFINITIONS):
            full = f"{prefix}{node.name}"
            marks = {last_name(decorator) for decorator in node.decorator_list}
            if marks & {"setter", "deleter"} or (full in names_by_path and full not in overloads):
                continue
            (overloads.add if "overload" in marks else overloads.discard)(full)
            shown = is_public and names.public(node.name, stays=stays, above=above)
            names_by_path[full] = _defined(node, marks, members=bool(prefix), is_public=shown)
            if isinstance(node, ast.ClassDef) and prefix.count(".") < _DEEPEST:
                _read(names_by_path, node.body, f"{full}.", None, is_public=shown)
            elif prefix:
                _instance_attributes(names_by_path, node, prefix, is_public=is_public)  # type: ignore[arg-type]  # no class
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for name in _targets(node):
                full = f"{prefix}{name}"
                if name not in ("_", "__all__", "__slots__") and full not in names_by_path:
                    shown = is_public and names.public(name, stays=stays, above=above)
                    kind = ATTRIBUTE if prefix else VARIABLE
                    last = node.end_lineno or node.lineno
                    names_by_path[full] = PythonName(kind, node.lineno, last, shown)


def _defined(
    node: Function | ast.ClassDef, marks: set[str], *, members: bool, is_public: bool
) -> PythonName:
    start, last = syntax.first_line(node), node.end_lineno or node.lineno
    if isinstance(node, ast.ClassDef):
        bases = tuple(last_name(base) for base in node.bases)
        return PythonName(CLASS, start, last, is_public, bases=bases)
    if any(mark.endswith("property") for mark in marks):  # cached_property, and others' own
        return PythonName(PROPERTY, start, last, is_public)
    kind = METHOD if members else FUNCTION
    parameters = tuple(_parameters(node.args))
    if members and "staticmethod" not in marks and parameters and parameters[0].kind <= EITHER:
        parameters = parameters[1:]
    return PythonName(kind, start, last, is_public, parameters, _text(node.returns))


def _parameters(node: ast.arguments) -> Iterator[Parameter]:
    plain = [*node.posonlyargs, *node.args]
    defaults = [None] * (len(plain) - len(node.defaults)) + [*node.defaults]
    for number, (arg, default) in enumerate(zip(plain, defaults, strict=True)):
        yield _parameter(arg, POSITIONAL if number < len(node.posonlyargs) else EITHER, default)
    if node.vararg:
        yield _parameter(node.vararg, ARGS)
    for arg, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
        yield _parameter(arg, KEYWORD, default)
    if node.kwarg:
        yield _parameter(node.kwarg, KWARGS)


def _parameter(node: ast.arg, kind: int, default: ast.expr | None = None) -> Parameter:
    return Parameter(clipped(node.arg, _LONGEST), kind, _text(default), _text(node.annotation))


def _instance_attributes(
    names: dict[str, PythonName], method: Function, prefix: str, *, is_public: bool
) -> None:
    """The attributes that a method gives to its first parameter."""
    arguments = [*method.args.posonlyargs, *method.args.args]
    if not arguments:
        return
    for node, _, _ in ranked(method.body):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            owner = target.value if isinstance(target, ast.Attribute) else None
            if isinstance(owner, ast.Name) and owner.id == arguments[0].arg:
                name = target.attr  # type: ignore[attr-defined]  # it has an owner
                shown = is_public and not name.startswith("_")
                last = node.end_lineno or node.lineno
                names.setdefault(f"{prefix}{name}", PythonName(ATTRIBUTE, node.lineno, last, shown))


def _bindings(
    module: ast.Module, listed: set[str] | None, *, is_package: bool
) -> Iterator[tuple[str, Binding]]:
    """What imports bind at the top of a file, each with the name that it has there."""
    for node, _, above in ranked(module.body):
        is_for_types = isinstance(above, ast.If) and last_name(above.test) == "TYPE_CHECKING"
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or alias.name
                is_meant = not is_for_types and (
                    alias.asname == alias.name
                    or (is_package and (node.level > 0 or alias.name == "*"))
                )
                public = name in listed if listed is not None else (
                    is_meant and not name.startswith("_")
                )  # fmt: skip
                where = (node.module or "", alias.name, node.level, node.lineno)
                key = f"*{node.lineno}" if alias.name == "*" else name
                yield key, Binding(*where, public or alias.name == "*")


def _targets(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    waiting: list[ast.expr] = list(node.targets if isinstance(node, ast.Assign) else [node.target])
    while waiting:
        target = waiting.pop()
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Tuple | ast.List):
            waiting += target.elts


def _text(node: ast.expr | None) -> str:
    """An expression as it is written, without what only its layout differs in."""
    return "" if node is None else clipped(ast.unparse(node), _LONGEST)
