"""A Python that has pytest and nothing else, for the projects that tests run commands in.

The environment of our tests has plugins that every pytest loads: to import hypothesis takes longer
than to start pytest and to run the tests of a small project.
"""

from __future__ import annotations

import compileall
import os
import re
import shutil
import sys
import tempfile
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

_PACKAGES = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
#: Hundreds of modules of Pygments, of which pytest opens two.
_OTHER_LANGUAGES = re.compile(r"/lexers/(?!__init__|_mapping|diff|python)")


@cache
def programs() -> str:
    """The folder of its ``python``, ``python3`` and ``pytest``; made once in our environment."""
    environment = Path(sys.prefix) / f"compiled-pytest-{distribution('pytest').version}"
    if not environment.exists():
        with tempfile.TemporaryDirectory(dir=sys.prefix) as temporary:
            made = Path(temporary) / environment.name
            _make(made, environment)
            try:
                made.rename(environment)
            except OSError:  # another worker was quicker
                if not environment.exists():
                    raise
    return str(environment / "bin")


def search_path() -> str:
    """PATH with it in front, and then the programs of our own environment."""
    return os.pathsep.join([programs(), os.path.dirname(sys.executable), os.environ["PATH"]])


def _make(folder: Path, final: Path) -> None:
    """An environment at ``folder`` that will be moved to ``final``, of links to our files."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    for name in _PACKAGES:
        for path in distribution(name).files or ():
            source = Path(str(path.locate()))
            if path.parts[0] != ".." and source.exists():
                target = packages / path
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(source, target)
    # Where it is read-only, in the sandbox, each start would compile them anew, and they may come
    # from where nothing has been compiled yet.
    if not compileall.compile_dir(packages, quiet=2, rx=_OTHER_LANGUAGES):
        raise RuntimeError(f"pytest's modules do not compile: {packages}")
    python = Path(os.path.realpath(sys.executable))
    (folder / "pyvenv.cfg").write_text(
        f"home = {python.parent}\ninclude-system-site-packages = false\n"
    )
    scripts = folder / "bin"
    scripts.mkdir()
    for name in ("python", "python3", version):
        (scripts / name).symlink_to(python)
    script = Path(sys.executable).with_name("pytest").read_text()
    (scripts / "pytest").write_text(script.replace(f"{sys.prefix}/bin/", f"{final}/bin/"))
    (scripts / "pytest").chmod(0o755)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
