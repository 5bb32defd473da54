"""A small project."""

from __future__ import annotations

from testing.small_project import project

__all__ = ["project"]
