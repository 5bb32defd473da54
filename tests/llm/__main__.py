"""``python -m llm [--delay S] [--text T]``: the service as a process of its own.

It prints its base URL, and ends with its standard input.
"""

from __future__ import annotations

import argparse
import sys

from llm.replies import Answer
from llm.server import ModelServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="llm")
    parser.add_argument("--delay", type=float, default=0, help="seconds before each answer")
    parser.add_argument("--text", default="fine")
    options = parser.parse_args()
    answer = Answer(options.text, delay=options.delay)
    with ModelServer(lambda _asked: answer) as served:
        print(served.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
