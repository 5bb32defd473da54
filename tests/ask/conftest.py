"""A stage for questions; its model must be asked nothing that OpenAI would refuse."""

from __future__ import annotations

from testing.ask_stage_fixture import llm, stage

__all__ = ["llm", "stage"]
