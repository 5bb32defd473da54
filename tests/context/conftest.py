"""Where a test builds a context object, and of what."""

from __future__ import annotations

from testing.folders import out, top

__all__ = ["out", "top"]
