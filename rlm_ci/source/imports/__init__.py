"""Where an import leads: to files of the repository, or to a package outside of it."""

from __future__ import annotations

from rlm_ci.values import Row


class ResolvedImport(Row):
    """What an import names: ``targets`` inside, else ``package`` outside.

    Neither: it should be inside (a relative one), and is not there.
    """

    targets: tuple[str, ...] = ()
    package: str = ""
    is_standard: bool = False


#: It leads nowhere that is known.
NOWHERE = ResolvedImport()
