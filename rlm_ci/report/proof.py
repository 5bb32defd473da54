"""What a model's claim rests on: a reproduction that ran, or lines alone."""

from __future__ import annotations

import re

from rlm_ci.text.neutralise import clip
from rlm_ci.text.printable import encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: It fails at head and passes at the base; it fails at head, and there is nothing to compare
#: with; it goes against a guideline, whose lines were looked up as its own were; nothing was run,
#: or what ran decides nothing.
PROVEN, REPRODUCED, GUIDELINE, ARGUED = LEVELS = ("proven", "reproduced", "guideline", "argued")
#: The level that people read of a claim that is no finding.
REFUTED = "refuted"
#: Begins the reason where a reproduction shows nothing because it passes.
PASSES = "its reproduction passes at head"
#: Characters of a reproduction and of a repair, of the output of a run, and of a line.
CODE, OUTPUT, LINE = 4_000, 2_000, 500
#: A line of a traceback in Python, after which the exception comes.
_FRAME = re.compile(r'\s+File "')
#: How tools word a failure: an exception, the line that jest points to, Rust, and Go.
_FAILURE = re.compile(
    r"[\w.]*(Error|Exception)\b|error: (?!test failed)|> *\d+ \||assert.*failed|called `|"
    r"[\w./-]+_test\.go:\d+: "
)


class Proof(Value):
    """``reason`` says in a line why the level is what it is; ``command`` runs it again.

    ``path`` is the folder in the run that has everything in full. ``head`` and ``base`` are the
    last lines of what the ``reproduction`` printed there. ``repair`` is a patch, "" for none;
    one that is given was run; ``repair_reason`` says what speaks for it, or why there is none.
    """

    _ignores = True

    level: str
    reason: str
    command: str = ""
    path: str = ""
    reproduction: str = ""
    head: str = ""
    base: str = ""
    repair: str = ""
    repair_reason: str = ""

    @property
    def is_argued(self) -> bool:
        """Whether nothing shows it: neither what ran, nor a guideline."""
        return self.level not in (PROVEN, REPRODUCED, GUIDELINE)

    @property
    def failing_line(self) -> str:
        """The last line of what it printed at head that says how it failed; "" for none."""
        lines = [line for line in self.head.split("\n") if line.strip()]
        printed = [line.strip() for line in lines]
        # pytest marks them, and explains them below by lines with a mark of their own.
        marked = [line[1:].strip() for line in printed if line.startswith("E  ")]
        if errors := [line for line in marked if line[:1] not in "+-?"]:
            return errors[-1]
        frames = [at for at, line in enumerate(lines) if _FRAME.match(line)]
        for line in lines[frames[-1] :] if frames else ():
            if not line[0].isspace():  # what follows explains it
                return line.strip()
        failures = [at for at, line in enumerate(printed) if _FAILURE.match(line)]
        if not failures:
            return (printed or [""])[-1]
        last, after = printed[failures[-1]], printed[failures[-1] + 1 :]
        return f"{last} {after[0]}" if last.endswith((":", "|-")) and after else last

    def to_dict(self) -> dict[str, Any]:
        """Within the limits; code that is too long is left out, for half of it is other code."""
        texts = {name: encodable(text) for name, text in super().to_dict().items()}
        for name in ("reason", "command", "path", "repair_reason"):
            texts[name] = clip(texts[name], LINE)
        for name in ("head", "base"):
            if len(texts[name]) > OUTPUT:
                texts[name] = f"…{texts[name][1 - OUTPUT :]}"
        for name in ("reproduction", "repair"):
            if len(texts[name]) > CODE:
                texts[name] = ""
        return texts
