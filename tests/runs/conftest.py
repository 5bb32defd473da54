"""A store to make runs in."""

from __future__ import annotations

from testing.run_store import place

__all__ = ["place"]
