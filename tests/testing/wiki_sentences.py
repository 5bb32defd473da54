"""A shop, a model that says sentences of it with quotes, and a way to such a model."""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rlm_ci.models import Completion, is_wish

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlm_ci.models import Message

    Answer = Callable[[str, str], object]


TILL = '''"""Takes money."""


def pay(net):
    due = net + tax(net)
    return round(due, 2)


def tax(net):
    rate = RATES["home"]
    return round(net * rate, 2)


class Receipt:
    """What a customer takes home."""

    def show(self, width):
        lines = self.lines(width)
        raise NotImplementedError

    def send(self, address):
        lines = self.lines(80)
        raise NotImplementedError
'''


STOCK = '"""Counts things."""\n\n\ndef count(things):\n    return sum(things.values())\n'


SHELF = '"""Where things lie."""\n\n\ndef place(thing):\n    return hash(thing) % 40\n'


FILES = {
    "README.md": "# Shop\n\nA shop that sells.\n",
    "till/desk.py": TILL,
    "store/stock.py": STOCK,
    "store/shelf.py": SHELF,
}


#: Each sentence of the model, and what it quotes: some of it stands in two places.
SAID = {
    "Taxes are on top.": ("till/desk.py", "    due = net + tax(net)"),
    "Home has a rate.": (
        "till/desk.py",
        '    rate = RATES["home"]\n    return round(net * rate, 2)',
    ),
    "Showing is for others.": ("till/desk.py", "        raise NotImplementedError"),
    "Sending is for others.": ("till/desk.py", "        raise NotImplementedError"),
    "All things count.": ("store/stock.py", "    return sum(things.values())"),
    "There are forty shelves.": (
        "store/shelf.py",
        "def place(thing):\n    return hash(thing) % 40",
    ),
}


LAST = {"Sending is for others."}


def says(place: str, prompt: str) -> object:
    """All that there is to say of the lines in the prompt, and of the whole one sentence."""
    if place.startswith("support"):
        return supports(prompt)
    if place == "tell-whole":
        return {"sentences": [{"text": "It is a shop.", "rests_on": [1]}]}
    found: list[dict[str, Any]] = []
    rows = [(path, at, line) for (path, at), line in numbered(prompt).items()]
    for text, (_, quote) in SAID.items():
        first = quote.split("\n", 1)[0]
        starts = [(where, at) for where, at, line in rows if line == first]
        if starts and text not in prompt:
            where, at = starts[-1 if text in LAST else 0]
            end = at + quote.count("\n")
            found.append(sentence(text, where, (at, end), quote))
    return {"sentences": found}


def numbered(prompt: str) -> dict[tuple[str, int], str]:
    """The lines of sources in a prompt, by path and number."""
    found, path = {}, ""
    for line in prompt.split("\n"):
        head = re.fullmatch(r"=== (.+) ===", line)
        row = re.fullmatch(r"(\d+)\|(.*)", line)
        path = head[1] if head else path
        if row:
            found[path, int(row[1])] = row[2]
    return found


def of_flows(prompt: str) -> list[dict[str, Any]]:
    """Of each flow in a prompt one sentence, which quotes the first line of its last step."""
    lines = numbered(prompt)
    found: list[dict[str, Any]] = []
    rows = prompt.partition("\n=== how calls flow ===\n")[2].split("\n")
    for number, inner in groupby(rows, _Numbers()):
        steps = [re.match(r"  step \d+: `(.+)` in (.+):(\d+)-\d+", row) for row in inner]
        for step in steps[::-1]:
            if step and (quote := lines.get((step[2], int(step[3])))):
                at = int(step[3])
                told = sentence(f"At the end `{step[1]}` runs.", step[2], (at, at), quote)
                found.append(told | {"flow": number})
                break
    return found


class _Numbers:
    """The number of the flow that a row of a prompt is about."""

    number = 0

    def __call__(self, row: str) -> int:
        match = re.fullmatch(r"\[(\d+)\]", row)
        self.number = int(match[1]) if match else self.number
        return self.number


def sentence(text: str, path: str, lines: tuple[int, int], quote: str) -> dict[str, Any]:
    """A sentence with one quote, as a model answers it."""
    start, end = lines
    one = {"path": path, "line_start": start, "line_end": end, "quote": quote}
    return {"text": text, "quotes": [one]}


def supports(prompt: str, *but: str) -> object:
    """An answer that all sentences of a prompt are supported, except those with these words."""
    found: dict[str, list[int]] = {"supported": [], "unsupported": []}
    for number, text in re.findall(r"(?m)^\[(\d+)\] (.*)", prompt):
        is_lie = any(words in text for words in but)
        found["unsupported" if is_lie else "supported"].append(int(number))
    return found


class Scripted:
    """A way to a model that answers by a function of the place and the prompt."""

    model = "scripted"
    max_bytes = 100_000
    is_taught = False
    repair = 6_000

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.places: list[str] = []

    def __call__(
        self,
        step: str,
        messages: Sequence[Message],
        *,
        response_format: Message | None = None,
        tools: Sequence[Message] = (),
    ) -> Completion:
        assert response_format is not None
        assert is_wish(response_format)
        assert not tools
        self.places.append(step)
        said = self.answer(step, str(messages[-1]["content"]))
        return Completion(
            said if isinstance(said, str) else json.dumps(said), (), "stop", "scripted"
        )

    def calls_left(self) -> int | None:
        return None


def all_by(ask: Scripted) -> Callable[[object], Scripted]:
    return lambda _node: ask
