"""One fact in a long text of sentences without a meaning, among facts of other names."""

from __future__ import annotations

from rlm_ci.errors import ConfigError
from rlm_ci.lab.bench.generators import sentences
from rlm_ci.lab.bench.generators.seeded import Chance, ContextFile, GeneratedCase

VERSION = 1
#: ``depth``: where the fact stands, from 0 to 1 (by the seed where it is -1.0).
OPTIONS = {"depth": -1.0, "distractors": 4}
_MOST = 100
_FACT = "The special magic number of the {name} is {number}.\n"


def make(folder: str, seed: int, tokens: int, *, depth: float, distractors: int) -> GeneratedCase:
    if not (depth == -1.0 or 0 <= depth <= 1) or not 0 <= distractors <= _MOST:
        raise ConfigError(
            f"depth must be from 0 to 1, and distractors from 0 to {_MOST}",
            where="context",
            hint="fix that value",
        )
    chance = Chance("needle", seed)
    needle, *others = chance.shuffled(range(400))[: distractors + 1]
    numbers: list[int] = []
    while len(numbers) <= distractors:
        number = 1_000_000 + chance.below(9_000_000)
        if number not in numbers:
            numbers.append(number)
    position = chance.random() if depth == -1.0 else depth
    facts = [(position, needle, numbers[0])]
    facts += [(chance.random(), *pair) for pair in zip(others, numbers[1:], strict=True)]
    # From behind, so that the next one can be taken off the end.
    lines = [
        (where, _FACT.format(name=sentences.name(name), number=number))
        for where, name, number in sorted(facts, reverse=True)
    ]
    left = sum(len(line) for _, line in lines)
    with ContextFile(folder, tokens) as file:
        room = file.limit - left
        while True:
            while lines and file.size >= lines[-1][0] * room:
                left -= len(lines[-1][1])
                file.add(lines.pop()[1])
            if not file.add(f"{sentences.filler(chance)}\n", reserve=left):
                break
        for _, line in reversed(lines):
            file.add(line)
    return GeneratedCase(
        f"What is the special magic number of the {sentences.name(needle)} in the context? "
        "Answer with the number alone.",
        numbers[0],
    )
