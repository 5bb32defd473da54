"""What a caller may choose about a rendering."""

from __future__ import annotations

from rlm_ci.text.neutralise import MARKER
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class RenderOptions(Value):
    """``width`` is in terminal cells; ``templates`` maps template names to their sources.

    ``server_url`` is the address of the GitHub that permalinks lead to. ``quiet`` leaves
    what needs no action out of the text, ``verbose`` adds what the text leaves out.
    ``marker`` is the first line of a comment; ``notes`` say, in words of ours, where else
    the findings are shown and why not, ``alert`` what a reader must know before all else.
    ``in_bytes``: the comment goes where its length is counted in bytes. ``rule_pages``: rules
    link to the page that explains them.
    """

    colour: bool = False
    width: int = 80
    server_url: str = "https://github.com"
    templates: Mapping[str, str] = {}
    verbose: bool = False
    quiet: bool = False
    marker: str = MARKER
    notes: tuple[str, ...] = ()
    alert: str = ""
    in_bytes: bool = False
    rule_pages: bool = True
