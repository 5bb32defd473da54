"""``python -m testing.loopback_github [SEED.json]``: a GitHub as a process; its URL is line 1.

It ends when its standard input does, so that it never outlives whoever started it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from testing.loopback_github.control import seed
from testing.loopback_github.server import GitHub


def main() -> None:
    with GitHub() as github:
        if len(sys.argv) > 1:
            seed(github, json.loads(Path(sys.argv[1]).read_text("utf-8")))
        print(github.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
