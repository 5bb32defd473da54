"""The argument of ``review`` and ``wiki``: the folder to look at."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress

from rlm_ci.errors import ConfigError, RlmCiError, UsageError
from rlm_ci.judge.judge import open_repository
from rlm_ci.pipelines import stored_runs
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.config.arguments import Arguments

KEY = "recursion.path"


def flags(arguments: Arguments, *, takes_base: bool = False) -> dict[str, Any]:
    """The flags of the command line with the folder, relative to its repository.

    A folder outside may be in another repository or in none. Raises UsageError, ConfigError; with
    ``takes_base`` they name the option that a ref belongs to.
    """
    if arguments.words and KEY in arguments.flags:
        raise UsageError("the folder is named twice", where="--path", hint="name it once")
    folder = {KEY: arguments.words[0]} if arguments.words else {}
    return placed({**arguments.flags, **folder}, takes_base=takes_base)


def placed(flags: Mapping[str, Any], *, takes_base: bool = False) -> dict[str, Any]:
    """The flags, with folders that do not depend on the current one.

    Those that are written to are relative to the repository.
    """
    flags = dict(flags)
    word = flags.pop(KEY, None)
    if word is not None:
        flags = _with_folder(flags, word, takes_base=takes_base)
    for key in {"wiki.out", "wiki.site"} & flags.keys():
        root = open_repository(stored_runs.settings_of(flags)).root
        flags[key] = os.path.normpath(os.path.join(root, flags[key]))
    return flags


def _with_folder(flags: dict[str, Any], word: str, *, takes_base: bool) -> dict[str, Any]:
    """The flags with the folder, relative to the repository that it is in."""
    start = os.path.abspath(str(flags.get("repo") or os.curdir))
    full = os.path.realpath(os.path.join(start, word))
    if not os.path.exists(full):
        hint = "name a folder that is there"
        if refs := of_change(word, flags):
            hint = "a wiki is that of the commit that is checked out, or of --worktree"
            hint = f"did you mean {refs}?" if takes_base else hint
        raise ConfigError(f"there is no {word[:200]!r}", where="PATH", hint=hint)
    root = os.path.realpath(open_repository(stored_runs.settings_of(flags)).root)
    if files.below(root, full) is None:
        flags["repo"] = full if os.path.isdir(full) else os.path.dirname(full)
        root = os.path.realpath(open_repository(stored_runs.settings_of(flags)).root)
    inner = files.below(root, full)
    return {**flags, KEY: inner} if inner else flags


def of_change(word: str, flags: Mapping[str, Any]) -> str:
    """The options that name the change that ``word`` means to git (a ref, ``a..b``), or ""."""
    base, dots, head = word.replace("...", "..").partition("..")
    options = {"--base": base, "--head": head} if dots else {"--base": word}
    refs = {option: ref for option, ref in options.items() if ref}
    with suppress(RlmCiError):
        repository = open_repository(stored_runs.settings_of({**flags}))
        if repository.git_dir and all(repository.resolve(*refs.values())):
            return " ".join(f"{option} {_word(ref)}" for option, ref in refs.items())
    return ""


def _word(ref: str) -> str:
    """``HEAD~1`` needs no quotes."""
    return ref if ref.replace("~", "").replace("^", "").isalnum() else shlex.quote(ref)
