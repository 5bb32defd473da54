"""The presets there are: bundled ones, and those of packs that the user names."""

from __future__ import annotations

import os

from rlm_ci.config.settings import nearest
from rlm_ci.errors import ConfigError
from rlm_ci.lab.bench.packs import documents, pack
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rlm_ci.lab.bench.packs.pack import Preset

_FOLDER = os.path.join(os.path.dirname(__file__), "bundled")


def aliases() -> dict[str, str]:
    """The bundled packs by name, with their files."""
    names = sorted(name for name in os.listdir(_FOLDER) if name.endswith(".json"))
    return {pack.alias(name): os.path.join(_FOLDER, name) for name in names}


def load(paths: Iterable[str | os.PathLike[str]] = ()) -> dict[str, Preset]:
    """All presets by name: bundled ones, and those of the packs at ``paths``.

    A path may be the alias of a bundled pack. Raises ConfigError for a pack that cannot be read,
    and for a name that is there twice.
    """
    bundled = aliases()
    presets: dict[str, Preset] = {}
    for path in dict.fromkeys(
        (*bundled.values(), *(bundled.get(str(path), str(path)) for path in paths))
    ):
        for preset in pack.read(path):
            other = presets.get(preset.name)
            if other is not None:
                raise ConfigError(
                    f"the preset {preset.name[:80]!r} is in {printable(other.source)} too",
                    where=printable(path),
                    hint="rename one of the two",
                )
            presets[preset.name] = preset
    return presets


def choose(name: str, paths: Iterable[str | os.PathLike[str]] = ()) -> Preset:
    """The preset ``name``: a name, or the path of a pack with one preset. Raises ConfigError."""
    packs = [str(path) for path in paths]
    is_path = name.lower().endswith(documents.ENDINGS) and name not in aliases()
    if is_path:
        of_pack = pack.read(name)
        if len(of_pack) == 1:
            return of_pack[0]
        names = ", ".join(printable(preset.name)[:40] for preset in of_pack[:20])
        raise ConfigError(
            f"the pack has {len(of_pack)} presets: {names}",
            where=printable(name),
            hint=f"name one, and the pack: rlm-ci bench run NAME --pack {printable(name)}",
        )
    presets = load(packs)
    if name in presets:
        return presets[name]
    close, all_names = nearest(name, sorted(presets)), f"known are: {', '.join(sorted(presets))}"
    raise ConfigError(
        f"there is no preset {printable(name)[:80]!r}",
        where="PACK",
        hint=close if close == all_names else f"{close} {all_names}",
    )


def presets(paths: Iterable[str | os.PathLike[str]] = ()) -> list[dict[str, Any]]:
    """All presets, described."""
    return [described(preset) for preset in load(paths).values()]


def described(preset: Preset) -> dict[str, Any]:
    scorers = {case.scorer or "as generated" for case in preset.cases}
    return {
        "preset": preset.name,
        "description": preset.description,
        "total_cases": len(preset.cases),
        "environments": sorted({case.environment for case in preset.cases}),
        "scorers": sorted(scorers),
        "source": preset.source,
    }
