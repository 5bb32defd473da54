"""A virtual environment for the repository of a change: what its project needs, as installed here.

Without it no reproduction of a claim could import a project that needs others.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sysconfig
import venv

from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

NAME = ".venv"
#: What tests are run by, where it is installed.
_FRAMEWORK = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")


def make(root: str, needs: Iterable[str]) -> None:
    """Make ``.venv`` at ``root`` with the distributions ``needs``; git does not see it.

    Distributions that are not installed are left out. Raises StorageError.
    """
    folder = os.path.join(root, NAME)
    try:
        venv.EnvBuilder(symlinks=os.name != "nt").create(folder)
        paths = {"base": folder, "platbase": folder}
        target = sysconfig.get_path("purelib", "venv", vars=paths)
        for name in (*needs, *_FRAMEWORK):
            _copy(name, target)
        files.append(os.path.join(root, ".git", "info", "exclude"), f"{NAME}/\n".encode())
    except OSError as error:
        raise files.storage_error(error, folder) from None


def _copy(name: str, target: str) -> None:
    try:
        paths = importlib.metadata.distribution(name).files or ()
    except importlib.metadata.PackageNotFoundError:
        return
    for path in paths:
        if ".." not in path.parts and path.suffix != ".pyc":
            copy = os.path.join(target, *path.parts)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copyfile(os.fspath(path.locate()), copy)
