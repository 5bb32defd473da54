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
    found = (entry for entry in os.listdir(os.path.dirname(__file__)) if entry.endswith(".py"))
    stems = {entry[:-3] for entry in found if entry[0] not in "._"} - _OTHERS
    return tuple(sorted(stem.replace("_", "-") for stem in stems))


def load(name: str) -> ModuleType:
    """The module of a generator. Raises ConfigError for an unknown one."""
    if name not in names():
        raise ConfigError(
            f"there is no generator {name[:80]!r}", where="generator", hint=nearest(name, names())
        )
    place = f"{__name__}.{name.replace('-', '_')}"
    __import__(place)
    return sys.modules[place]


def arguments(spec: Mapping[str, Any]) -> dict[str, Any]:
    """``spec`` with the defaults of its generator. Raises ConfigError for what it does not know."""
    module = load(str(spec["generator"]))
    known = {*_COMMON, *module.OPTIONS}
    for name in spec:
        if name not in known:
            raise ConfigError(
                f"the generator {spec['generator']} has no option {str(name)[:80]!r}",
                where="context",
                hint=nearest(str(name), sorted(known)),
            )
    found = {**_DEFAULTS, **module.OPTIONS, **spec}
    for name, least, most in (("seed", 0, 1 << 63), ("tokens", SHORTEST, LONGEST)):
        value = found[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ConfigError(
                f"{name} must be a whole number from {least:,} to {most:,}",
                where="context",
                hint="2 ** 13 is 8192 tokens, and 2 ** 24 is 16777216",
            )
    for name, default in module.OPTIONS.items():
        if default is not None and type(found[name]) is not type(default):
            raise ConfigError(
                f"{name} must be of the kind of its default, {default!r}",
                where="context",
                hint="fix that value",
            )
    return found


def identity(spec: Mapping[str, Any]) -> dict[str, Any]:
    """All that the text and the answer depend on, as JSON."""
    found = arguments(spec)
    module = load(found["generator"])
    more = module.depends_on(found) if hasattr(module, "depends_on") else {}
    return {**found, **more, "version": module.VERSION}
