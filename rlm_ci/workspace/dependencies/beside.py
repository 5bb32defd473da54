"""What lies beside the files of a repository: what a validator gets of it, and what it lacks."""

from __future__ import annotations

import os

from rlm_ci.errors import ConfigError
from rlm_ci.system import files
from rlm_ci.text.printable import first_of
from rlm_ci.values import Value
from rlm_ci.workspace.dependencies.editable_installs import editable
from rlm_ci.workspace.dependencies.outside import OutsideReach, outside
from rlm_ci.workspace.sandboxed_commands import active_environment, tool_environment
from rlm_ci.workspace.snapshot import PrivateGit, SnapshotLimits, look, object_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlm_ci.git.repository import Repository


class BesideFiles(Value):
    """``dependencies`` are used where they are, ``ignored`` is left out; ``doubts`` are errors.

    ``environment`` is the Python environment of the validator, where it lies elsewhere.
    """

    dependencies: tuple[str, ...]
    ignored: tuple[str, ...]
    environment: str | None
    doubts: tuple[ConfigError, ...]


def of(repository: Repository, environ: Mapping[str, str], *, isolated: bool) -> BesideFiles:
    """Of a work tree as it is now. Raises ConfigError as a run would."""
    with files.scratch("rlm-ci-") as folder:
        private = PrivateGit(os.path.join(folder, "git"), environ)
        private.make(object_folders(repository))
        listing = look(private, repository, SnapshotLimits())
    root = repository.root
    env, _ = tool_environment(environ, root)
    environment = active_environment(env, root)
    paths = (environment,) if environment else ()
    reach = outside(root, listing.dependencies, paths, environ)
    errors = doubts(root, listing.dependencies, environment, reach, isolated=isolated)
    return BesideFiles(listing.dependencies, listing.ignored, environment, tuple(errors))


def doubts(
    root: str,
    dependencies: tuple[str, ...],
    environment: str | None,
    reach: OutsideReach,
    *,
    isolated: bool,
) -> Iterator[ConfigError]:
    """What a validator would miss, or would take from elsewhere."""
    if isolated:
        for omitted in reach.omitted:
            yield ConfigError(
                f"the sandbox does not show this dependency: {omitted.reason}",
                where=omitted.path,
                hint="install it in the work tree, or let loop.setup install it",
            )
        return
    environments = (environment,) if environment else ()
    if paths := list(editable(root, (*dependencies, *environments))):
        yield ConfigError(
            "without a sandbox this leads to your work tree, not to the copy: the validator"
            " may not see the agent's work",
            where=first_of(paths, "path"),
            hint="use bubblewrap, or a validator that looks into the copy first, such as"
            ' "PYTHONPATH=src python -m pytest"',
        )
