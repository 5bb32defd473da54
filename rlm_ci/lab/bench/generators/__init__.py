"""Generators of cases: a seed and a length make the same text and the same answer everywhere.

A generator is a module of this package with ``VERSION``, ``OPTIONS`` (names and defaults) and
``make(folder, seed, tokens, **options)``, which writes into an empty folder and returns a
:class:`~rlm_ci.lab.bench.generators.seeded.Made`. A change of what it makes needs a new
``VERSION``: results of the old one are not comparable.
"""

from __future__ import annotations

import os
import sys

from rlm_ci.config.settings import nearest
from rlm_ci.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

#: Shortest and longest text, in tokens of four bytes.
SHORTEST, LONGEST = 1 << 8, 1 << 24
#: What all of them take.
_COMMON = {"generator", "seed", "tokens"}
_DEFAULTS = {"seed": 1, "tokens": 1 << 13}
#: Modules beside them that make nothing.
_OTHERS = {"seeded", "programs", "sentences"}


def names() -> tuple[str, ...]:
    """The names of all generators, sorted."""
    modules = (entry for entry in os.listdir(os.path.dirname(__file__)) if entry.endswith(".py"))
    stems = {entry[:-3] for entry in modules if entry[0] not in "._"} - _OTHERS
    return tuple(sorted(stem.replace("_", "-") for stem in stems))


def load(name: str) -> ModuleType:
    """The module of a generator. Raises ConfigError for an unknown one."""
    if name not in names():
        raise ConfigError(
            f"there is no generator {name[:80]!r}", where="generator", hint=nearest(name, names())
        )
    module = f"{__name__}.{name.replace('-', '_')}"
    __import__(module)
    return sys.modules[module]


def arguments(spec: Mapping[str, Any]) -> dict[str, Any]:
    """``spec`` with the defaults of its generator. Raises ConfigError for what it does not know."""
    module = load(str(spec["generator"]))
    options = {*_COMMON, *module.OPTIONS}
    for name in spec:
        if name not in options:
            raise ConfigError(
                f"the generator {spec['generator']} has no option {str(name)[:80]!r}",
                where="context",
                hint=nearest(str(name), sorted(options)),
            )
    values = {**_DEFAULTS, **module.OPTIONS, **spec}
    for name, minimum, maximum in (("seed", 0, 1 << 63), ("tokens", SHORTEST, LONGEST)):
        value = values[name]
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise ConfigError(
                f"{name} must be a whole number from {minimum:,} to {maximum:,}",
                where="context",
                hint="2 ** 13 is 8192 tokens, and 2 ** 24 is 16777216",
            )
    for name, default in module.OPTIONS.items():
        if default is not None and type(values[name]) is not type(default):
            raise ConfigError(
                f"{name} must be of the kind of its default, {default!r}",
                where="context",
                hint="fix that value",
            )
    return values


def identity(spec: Mapping[str, Any]) -> dict[str, Any]:
    """All that the text and the answer depend on, as JSON."""
    values = arguments(spec)
    module = load(values["generator"])
    more = module.depends_on(values) if hasattr(module, "depends_on") else {}
    return {**values, **more, "version": module.VERSION}
