"""A model service on the loopback."""

from __future__ import annotations

from testing.loopback_model.fixture import llm

__all__ = ["llm"]
