"""A stage for the fix loop; its model must be asked nothing that OpenAI would refuse."""

from __future__ import annotations

from testing.fix_stage_fixture import llm, stage

__all__ = ["llm", "stage"]
