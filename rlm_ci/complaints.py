"""What git says when it fails, as an error that tells what to do about it."""

from __future__ import annotations

import os
from shlex import quote

from rlm_ci.errors import ConfigError, DamagedError, StorageError, UnavailableError
from rlm_ci.objects import is_object_id
from rlm_ci.settings import environment
from rlm_ci.texts import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.errors import RlmCiError
    from rlm_ci.process import Result

#: How the system says that a disk is at fault, in the words of C, and how git says it alone.
_OF_THE_DISK = (
    "No space left on device", "Disk quota exceeded", "Read-only file system",
    "Input/output error", "File too large", "Out of diskspace", "' write error", "file write error",
    "unable to write file", "unable to write loose object", "unable to write object",
    "unable to write index", "unable to write new index", "unable to write new_index",
    "Unable to write new index", "unable to write temp", "failed to write object",
    "failed to write commit object", "failed to write a tree", "could not write temporary index",
)  # fmt: skip


def is_bare(root: str) -> bool:
    """Whether the folder is what git keeps of a repository, and no work tree."""
    inside = [os.path.join(root, name) for name in ("objects", "refs")]
    return os.path.isfile(os.path.join(root, "HEAD")) and all(map(os.path.isdir, inside))


def no_repository(root: str) -> ConfigError:
    """The error of a question to a folder that is in no repository, or in a bare one."""
    if is_bare(root):
        return ConfigError(
            "a bare repository has no work tree, and rlm-ci needs one",
            where=root,
            hint=f"judge a clone of it: git clone {quote(root)}",
        )
    return ConfigError(
        "not a git repository",
        where=root,
        hint="run inside a git repository, or name one with --repo DIR",
    )


def understand(result: Result, subcommand: str, root: str, *, network: bool) -> RlmCiError:
    """The error that a failed ``git subcommand`` in ``root`` means.

    ConfigError when the repository cannot be used as it stands, UnavailableError when git
    was stopped, StorageError when the disk failed, DamagedError otherwise.
    """
    said = result.stderr.decode("utf-8", "replace")
    if "dubious ownership" in said:
        # git compares with the place itself, whatever links lead there.
        place = quote(os.path.realpath(root))
        return ConfigError(
            "the repository belongs to another user, so git does not trust it",
            where=root,
            hint=f"if you do: git config --global --add safe.directory {place}",
        )
    if "not a git repository" in said:
        return no_repository(root)
    if "promisor" in said or "lazy fetch" in said or ("transport '" in said and not network):
        return ConfigError(
            "this partial clone does not hold the contents that are needed",
            where=root,
            hint="fetch them: git fetch --refetch --no-filter",
        )
    if "must be run in a work tree" in said:
        return ConfigError(
            "git takes the repository for a bare one, and rlm-ci needs its work tree",
            where=root,
            hint="git config core.bare false",
        )
    if "git repo version" in said or "unknown repository extension" in said:
        return ConfigError(
            "the repository is of a kind that this git does not know", where=root, hint="update git"
        )
    if result.timed_out or result.truncated:
        why = "took too long" if result.timed_out else "printed more than can be handled"
        return UnavailableError(f"git {subcommand} {why}", where=root, hint="try a smaller range")
    return _by_first_line(said, f"git {subcommand} failed", result.returncode, root)


def _by_first_line(said: str, failed: str, returncode: int | None, root: str) -> RlmCiError:
    """The error of a git whose own words belong into it."""
    lines = [line for line in said.splitlines() if line.startswith(("fatal:", "error:"))]
    first = printable((lines or said.splitlines() or ["no message"])[0])
    if any("clean filter '" in line for line in lines):
        # The last line names the filter, the one before it what did not run.
        name = printable(next(one for one in reversed(lines) if "clean filter '" in one))
        return UnavailableError(
            f"{failed}: {name.partition(': ')[2][:300]}",
            where=root,
            hint="install the program that it runs: git config --get-regexp ^filter",
        )
    if "bad config" in said:
        return ConfigError(
            f"git cannot read its configuration: {first[:300]}",
            where=root,
            hint="mend the file that it names",
        )
    if any(words in said for words in _OF_THE_DISK):
        return StorageError(
            f"{failed}: {first[:300]}",
            where=root,
            hint="make sure that there is room, and that it may be written to",
        )
    return DamagedError(
        f"{failed} with {returncode}: {first[:300]}",
        where=root,
        hint="look at the repository with: git fsck",
    )


def fetch_hint(ref: str, remote: str, *, shallow: bool) -> str:
    """The commands that bring ``ref``, or (if empty) the history that a shallow clone lacks."""
    commands = []
    if shallow:
        commands.append(f"git fetch --unshallow {remote}")
    if is_object_id(ref):
        commands.append(f"git fetch {remote} {ref}")
    branch = ref.removeprefix(f"{remote}/")
    # Only a name that no shell reads as anything else can stand in a command.
    plain = branch[:1] not in ("", "-") and all(one.isalnum() or one in "/._-" for one in branch)
    if plain and branch != ref:
        commands.append(f"git fetch {remote} +refs/heads/{branch}:refs/remotes/{ref}")
    elif plain and commands == [f"git fetch --unshallow {remote}"]:  # of one branch only
        commands.append(f"git fetch {remote} {ref}:{ref}")
    if not commands:
        return f"check the name, or fetch it: git fetch {remote}"
    why = "the clone is shallow: " if shallow else ""
    hint = f"{why}{' && '.join(commands)}"
    in_actions = environment().get("GITHUB_ACTIONS") == "true"
    return f"{hint}; with actions/checkout: fetch-depth: 0" if in_actions else hint
