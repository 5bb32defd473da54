"""How a text from outside is written where people read it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from rlm_ci.report.findings import Location

    class Surface(Protocol):
        """One surface; its texts are neutral there."""

        def text(self, text: str) -> Any: ...

        def hint(self, text: str) -> Any: ...

        def cell(self, text: str) -> Any: ...

        def code(self, text: str) -> Any: ...

        def link(self, text: str, url: str | None) -> Any: ...

        def quote(self, location: Location, lines: int) -> Any: ...

        def block(self, text: str, language: str = "") -> Any: ...
