"""A model on loopback, for real runs to look at."""

from __future__ import annotations

from testing.loopback_model.fixture import llm

__all__ = ["llm"]
