"""A folder for what an agent makes."""

from __future__ import annotations

from testing.folders import out

__all__ = ["out"]
