"""A wheel that is built from a commit carries it: ``rlm-ci init`` pins workflows to that."""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "COMMIT"
#: Where it lies in a wheel. In an sdist it lies at the top, for the wheel that is built from that.
IN_WHEEL = f"rlm_ci/_data/{NAME}"


class CommitHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file to what is built."""
        commit = self._commit()
        if commit and version != "editable":
            with tempfile.NamedTemporaryFile("w", delete=False) as file:
                file.write(f"{commit}\n")
            self._file = file.name
            is_wheel = self.target_name == "wheel"
            build_data["force_include"][file.name] = IN_WHEEL if is_wheel else NAME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Take the file away again."""
        del version, build_data, artifact_path
        if hasattr(self, "_file"):
            os.unlink(self._file)

    def _commit(self) -> str:
        """The commit of the checkout, or of the sdist; "" where files were changed since."""
        if not os.path.lexists(os.path.join(self.root, ".git")):
            try:
                with open(os.path.join(self.root, NAME), encoding="ascii") as file:
                    return file.read().strip()
            except FileNotFoundError:
                return ""
        try:
            changed = self._git("status", "--porcelain", "--untracked-files=no")
            return "" if changed else self._git("rev-parse", "--verify", "HEAD")
        except (OSError, subprocess.CalledProcessError):
            return ""

    def _git(self, *args: str) -> str:
        # A hook of git's, which may install us, names another repository in the environment.
        environ = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
        ended = subprocess.run(
            ["git", *args], cwd=self.root, env=environ, check=True, capture_output=True, text=True
        )
        return ended.stdout.strip()
