"""A model on loopback, and a folder to review."""

from __future__ import annotations

from testing.folders import top
from testing.loopback_model.fixture import llm

__all__ = ["llm", "top"]
