"""Turn git's error messages into errors with a hint."""

from __future__ import annotations

import os
import re
from shlex import quote

from rlm_ci.config.settings import environment
from rlm_ci.errors import ConfigError, DamagedError, StorageError, UnavailableError
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rlm_ci.errors import RlmCiError
    from rlm_ci.system.process import ProcessResult

#: Words of C and of git for a disk error.
_OF_THE_DISK = (
    "No space left on device", "Disk quota exceeded", "Read-only file system",
    "Input/output error", "File too large", "Out of diskspace", "' write error", "file write error",
    "unable to write file", "unable to write loose object", "unable to write object",
    "unable to write index", "unable to write new index", "unable to write new_index",
    "Unable to write new index", "unable to write temp", "failed to write object",
    "failed to write commit object", "failed to write a tree", "could not write temporary index",
)  # fmt: skip

_AMBIGUOUS = re.compile(r"^warning: refname '(.*)' is ambiguous\.$", re.MULTILINE)
#: Where git looks for a short name, in its order.
_REF_FOLDERS = ("refs/", "refs/tags/", "refs/heads/", "refs/remotes/")
#: Words of git for a filter process that failed.
_OF_A_FILTER = (
    "initialization for subprocess '", "the remote end hung up", "protocol error: bad line",
    "external filter '", ": clean filter '",
)  # fmt: skip


def is_bare(root: str) -> bool:
    """Whether the folder is a git folder without a work tree."""
    inside = [os.path.join(root, name) for name in ("objects", "refs")]
    return os.path.isfile(os.path.join(root, "HEAD")) and all(map(os.path.isdir, inside))


def no_repository(root: str) -> ConfigError:
    """The error of a folder in no repository, or in a bare one."""
    if is_bare(root):
        return ConfigError(
            "a bare repository has no work tree, and rlm-ci needs one",
            where=root,
            hint=f"use a clone of it: git clone {quote(root)}",
        )
    return ConfigError(
        "not a git repository",
        where=root,
        hint="run inside a git repository, or name one with --repo DIR",
    )


def ambiguous(warned: bytes, refs: Callable[..., Mapping[str, object]]) -> list[str]:
    """What git took for each name that it warns about; ``refs`` gives those that exist."""
    warnings = []
    for name in _AMBIGUOUS.findall(warned.decode("utf-8", "surrogateescape")):
        # In git's order; objects and HEAD come before any ref.
        paths = [f"{folder}{name}" for folder in _REF_FOLDERS] + [f"refs/remotes/{name}/HEAD"]
        existing = refs(*paths)
        taken = [name] if is_object_id(name) or name == "HEAD" else []
        taken += [path for path in paths if path in existing]
        if len(taken) > 1:
            first, *others = map(printable, taken)
            warnings.append(
                f"{printable(name)} is ambiguous: {first} was taken, not {', '.join(others)}; "
                "write the one that you mean in full"
            )
    return warnings


def understand(result: ProcessResult, subcommand: str, root: str, *, network: bool) -> RlmCiError:
    """The error of a failed ``git subcommand`` in ``root``."""
    text = result.stderr.decode("utf-8", "replace")
    if "dubious ownership" in text:
        # git compares with the real path.
        folder = quote(os.path.realpath(root))
        return ConfigError(
            "the repository belongs to another user, so git does not trust it",
            where=root,
            hint=f"to trust it: git config --global --add safe.directory {folder}",
        )
    if "not a git repository" in text:
        led = text.partition("not a git repository: ")[2].partition("\n")[0].strip("'")
        if led:
            return ConfigError(
                "a .git file leads to no git repository",
                where=printable(led)[:300],
                hint="fix that file, of a submodule or of this work tree, or remove it",
            )
        return no_repository(root)
    if "promisor" in text or "lazy fetch" in text or ("transport '" in text and not network):
        return ConfigError(
            "this partial clone does not have the contents that are needed",
            where=root,
            hint="fetch them: git fetch --refetch --no-filter",
        )
    if "must be run in a work tree" in text:
        return ConfigError(
            "git takes the repository for a bare one, and rlm-ci needs its work tree",
            where=root,
            hint="git config core.bare false",
        )
    if "git repo version" in text or "unknown repository extension" in text:
        return ConfigError(
            "the repository is of a kind that this git does not know", where=root, hint="update git"
        )
    if result.timed_out or result.truncated:
        why = "took too long" if result.timed_out else "printed more than can be handled"
        return UnavailableError(f"git {subcommand} {why}", where=root, hint="try a smaller range")
    failed = f"git {subcommand} failed"
    if not network and any(words in text for words in _OF_A_FILTER):
        return _of_a_filter(failed, text, root)
    return _by_first_line(text, failed, result.returncode, root)


def _of_a_filter(failed: str, text: str, root: str) -> UnavailableError:
    """The error of a filter that git runs on contents; Git LFS is one."""
    lines = text.strip().splitlines()
    # The last line names the filter, if any does; the first says what did not run.
    filter_line = next((line for line in reversed(lines) if "clean filter '" in line), "")
    name = filter_line.rpartition(": ")[2] or "a filter of contents failed"
    first = "" if lines[0] == filter_line else f": {lines[0].removeprefix('error: ')}"
    return UnavailableError(
        printable(f"{failed}: {name}{first}")[:400],
        where=root,
        hint="install the program that it runs, or fix it: git config --get-regexp ^filter",
    )


def _by_first_line(text: str, failed: str, returncode: int | None, root: str) -> RlmCiError:
    """The error that quotes the first line of git's message."""
    lines = [line for line in text.splitlines() if line.startswith(("fatal:", "error:"))]
    first = printable((lines or text.splitlines() or ["no message"])[0])
    odd = next((line for line in lines if line.endswith(": unsupported file type")), "")
    if odd:
        path = odd.partition(": ")[2].removesuffix(": unsupported file type")
        return ConfigError(
            "a tracked path is a pipe, a socket or a device, which git cannot compare",
            where=printable(path)[:300],
            hint=f"remove it, or bring the file back: git checkout -- {quote(printable(path))}",
        )
    if "bad config" in text:
        return ConfigError(
            f"git cannot read its configuration: {first[:300]}",
            where=root,
            hint="fix the file that it names",
        )
    if any(words in text for words in _OF_THE_DISK):
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
    """Commands that fetch ``ref``, or (if empty) the history that a shallow clone lacks."""
    commands = []
    if shallow:
        commands.append(f"git fetch --unshallow {remote}")
    if is_object_id(ref):
        commands.append(f"git fetch {remote} {ref}")
    branch = ref.removeprefix(f"{remote}/")
    # A command may only hold a name without special characters of a shell.
    plain = branch[:1] not in ("", "-") and all(char.isalnum() or char in "/._-" for char in branch)
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
