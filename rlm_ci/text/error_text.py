"""An error and its cure in one line of a report."""

from __future__ import annotations

from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.errors import RlmCiError

#: A command of ``installation.command`` with what it installs in quotes.
_INSTALL = (
    r"(?:(?:uv )?pip|pipx runpip \S+|(?:'[^'`]+'|[^\s'`]+) -m pip) install "
    r"(?:--?[^\s`]+ |'[^'`]+' )*'[^'`]+'"
)


def explain(error: RlmCiError) -> str:
    """An error and its cure, as the summary of the part that it stopped.

    A command that installs is code: elsewhere its address would be parted, so that nothing links
    it, and could not be copied.
    """
    hint = error.hint
    if hint and "pip" in hint:
        import re

        hint = re.sub(_INSTALL, r"`\g<0>`", hint)
    return printable(f"{error}: {hint}" if hint else str(error))
