"""``rlm-ci`` as a program: the commands, with a quick end behind them."""

from __future__ import annotations

import gc

#: Objects from which on the collector looks for cycles: a hook ends long before.
COLLECT_FROM = 100_000


def main() -> None:
    """Run the command line and end the process with its exit code."""
    gc.set_threshold(COLLECT_FROM, 20, 20)
    from rlm_ci import cli  # imports are no garbage: to look for some took a millisecond

    cli.end(cli.main())


if __name__ == "__main__":
    main()
