"""The environment and the configuration of git, hardened against a hostile repository."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Variables that git inherits: paths, the user, and which owners are trusted.
INHERITED = (
    "PATH", "HOME", "USERPROFILE", "XDG_CONFIG_HOME", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP",
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH", "SUDO_UID",
)  # fmt: skip
#: Variables that git sets for a hook.
HOOK_VARIABLES = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH",
)  # fmt: skip
#: Variables for access to a remote.
NETWORK = (
    "SSH_AUTH_SOCK", "SSH_ASKPASS", "GIT_ASKPASS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
    "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
#: Variables that every git gets.
FIXED = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
}
#: Configuration that executes something, or that changes what a diff says.
OVERRIDES = (
    "core.fsmonitor=false", f"core.hooksPath={os.devnull}", "core.pager=cat",
    f"core.attributesFile={os.devnull}", "core.bigFileThreshold=512m", "core.quotePath=true",
    "submodule.recurse=false", "protocol.allow=never", "diff.external=", "color.ui=false",
    "diff.algorithm=myers", "diff.renameLimit=1000", "diff.indentHeuristic=true",
    "diff.interHunkContext=0", "diff.suppressBlankEmpty=false", "log.showSignature=false",
    "merge.renames=true", "merge.directoryRenames=conflict", "merge.renormalize=false",
    "diff.context=1",  # with none git leaves a common tail out, and finds another difference
)  # fmt: skip
DIFF_OPTIONS = (
    "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none",
    "--submodule=short", "--no-relative", f"-O{os.devnull}", "--src-prefix=a/", "--dst-prefix=b/",
    "--diff-algorithm=myers", "-z",
)  # fmt: skip


def without_hook(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` for a repository that was found by its place, not by a hook's variables."""
    return {name: value for name, value in environ.items() if name not in HOOK_VARIABLES}
