#!/usr/bin/env python3
"""Builds a log that is far too long for a prompt, with an incident buried in it.

    python examples/build_incident_log.py FILE [LINES]

writes ``FILE``, some 90 bytes a line (default: 400,000 lines), the same bytes every time, and
prints the question of docs/questions.md. Three entries, far apart, tell together why payments
fail; nothing else in the log does. Needs Python, nothing else.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

QUESTION = "Why did payments fail on 3 March, who was affected, and what was done about it?"
_LINES = 400_000
_SECONDS_A_DAY = 86_400
_WORK = (
    "thumbnail rendered", "session refreshed", "mail queued", "index updated", "cache warmed",
    "report exported", "webhook delivered", "invoice archived", "search served", "page served",
)  # fmt: skip
#: What happened: how far into the log, and what it says.
INCIDENT = (
    (0.31, "deploy", "WARN ", "rotation to key k-2026-03 skipped: vault answered 503, no retry"),
    (0.68, "gateway", "ERROR", "PAY-4711 rejected by bank: signing key k-2026-02 has expired"),
    (0.69, "orders", "ERROR", "312 orders pending after PAY-4711, 41 customers affected"),
    (0.93, "deploy", "INFO ", "key k-2026-03 deployed by hand, orders of PAY-4711 replayed"),
)  # fmt: skip


def lines(number: int) -> list[str]:
    """The log: ``number`` lines over four days, the same for the same number."""
    chance = random.Random(4711)
    told = []
    for index in range(number):
        second = index * 4 * _SECONDS_A_DAY // number
        day, left = divmod(second, _SECONDS_A_DAY)
        clock = f"{left // 3600:02}:{left // 60 % 60:02}:{left % 60:02}"
        worker, task = chance.randrange(64), chance.choice(_WORK)
        told.append(
            f"2026-03-{day + 1:02}T{clock}Z worker-{worker:02} INFO  {task} in "
            f"{chance.randrange(5, 900)} ms, request {chance.getrandbits(48):012x}"
        )
    for far, who, level, text in INCIDENT:
        at = int(number * far)
        told[at] = f"{told[at][:20]} {who} {level} {text}"
    return told


def main(arguments: list[str]) -> int:
    if not 1 <= len(arguments) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    number = int(arguments[1]) if len(arguments) == 2 else _LINES
    path = Path(arguments[0])
    path.write_text("".join(f"{line}\n" for line in lines(number)), encoding="ascii")
    print(f"{path}: {path.stat().st_size:,} bytes in {number:,} lines")
    print(QUESTION)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
