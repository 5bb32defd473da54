"""Resolves imports to files of the repository, or to packages from outside."""

from __future__ import annotations

from rlm_ci.values import Row


class ResolvedImport(Row):
    """The files of the repository that an import names, else its ``package`` from outside.

    Neither is set if a file should be in the repository and is missing.
    """

    targets: tuple[str, ...] = ()
    package: str = ""
    is_standard: bool = False


#: Neither a file nor a package.
NOWHERE = ResolvedImport()
