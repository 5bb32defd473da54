"""pydantic-monty: an interpreter of a part of Python, made to run what a model wrote.

It runs no commands, and nothing protects the machine from a fault of the interpreter. So far
Only ``doctor`` uses it, to report whether it is installed and works.
"""

from __future__ import annotations

from rlm_ci.sandbox.job import Probe
from rlm_ci.system import installation
from rlm_ci.text.printable import printable

_MOST_SAID = 120
LEVEL = "language-level only"
#: Source, and whether it must work: without the first, the refusal of the others says nothing.
_ATTEMPTS = (
    ("start", "Python runs", "sum(range(10)) - 45", True),
    ("files", "no file can be read", "open('/etc/passwd').read()", False),
    ("import", "no module reaches the system", "import os\nos.system('true')", False),
    ("socket", "there are no sockets", "import socket\nsocket.socket()", False),
    ("classes", "no way through the classes", "().__class__.__base__.__subclasses__()", False),
    ("time", "a limit on time holds", "while True:\n    pass", False),
    ("memory", "a limit on memory holds", "x = 'x' * (1 << 30)", False),
)


def probe() -> tuple[Probe, ...]:
    """Each attempt in a session of its own; one that says what is missing, if it is."""
    try:
        import pydantic_monty
    except ImportError:
        detail = f"not installed: {installation.command('monty')}"
        return (Probe("start", "Python runs", passed=False, detail=detail),)
    probes: list[Probe] = []
    for name, title, source, works in _ATTEMPTS:
        passed, detail = False, "works"
        try:
            with (
                pydantic_monty.Monty(request_timeout=10) as pool,
                pool.checkout(
                    limits={"max_feed_duration_secs": 0.5, "max_memory": 64 << 20}
                ) as session,
            ):
                session.feed_run(source)
        except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
            # A refusal is an error of its own; any other says that it could not even be asked.
            refused = type(error).__module__.partition(".")[0] == "pydantic_monty"
            passed, detail = refused and not works, f"{type(error).__name__}: {error}"
        else:
            passed = works
        probes.append(Probe(name, title, passed, printable(detail)[:_MOST_SAID]))
        if works and not passed:
            break  # the rest would prove nothing
    return tuple(probes)
