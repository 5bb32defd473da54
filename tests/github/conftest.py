"""A pull request on the loopback GitHub, and our publisher in front of it."""

from __future__ import annotations

from testing.posting_stage import clock, github, stage

__all__ = ["clock", "github", "stage"]
