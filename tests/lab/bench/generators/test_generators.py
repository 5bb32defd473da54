"""What is generated: the same everywhere, as long as asked, and with the answer that is in it."""

from __future__ import annotations

import ast
import inspect
import os
import re
from collections import Counter
from hashlib import sha256
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.errors import ConfigError
from rlm_ci.lab.bench import generators
from rlm_ci.lab.bench.generators import programs
from rlm_ci.lab.bench.generators.sentences import LABELS, QUESTIONS
from rlm_ci.system import files

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.lab.bench.generators.seeded import GeneratedCase

#: Of seed 5 at 2,048 tokens; another text needs another VERSION.
DIGESTS = {
    "aggregation": "228bf1f01def520f",
    "broken-repository": "7a6960ee79a24e5f",
    "needle": "dc0a8edf68953868",
    "pairs": "3903a3a4c08a5092",
}
#: Each type of question, by what is in its forms.
TYPES = {
    label: re.compile(
        "|".join(re.sub(r"\\\{\w+\\\}", r"[\\w ]+", re.escape(form)) for form in forms)
    )
    for label, forms in QUESTIONS.items()
}


def make(folder: Path, generator: str, **spec: Any) -> tuple[GeneratedCase, str]:
    """What a generator makes, and the text of its context, or of its files."""
    options = generators.arguments({"generator": generator, **spec})
    options.pop("generator")
    folder.mkdir(exist_ok=True)
    made: GeneratedCase = generators.load(generator).make(str(folder), **options)
    written = sorted(path for path in folder.rglob("*") if path.is_file())
    return made, "".join(path.read_text("utf-8") for path in written)


@pytest.mark.parametrize("generator", DIGESTS)
def test_a_seed_makes_the_same_everywhere(tmp_path: Path, generator: str) -> None:
    made, text = make(tmp_path / "a", generator, seed=5, tokens=2048)
    calls = tuple(one.to_dict() for one in made.calls)
    known = repr((made.task, made.expected, made.scorer, calls, text))
    assert sha256(known.encode()).hexdigest()[:16] == DIGESTS[generator]
    assert make(tmp_path / "b", generator, seed=11, tokens=2048)[1] != text


@given(seed=st.integers(0, 10**6), tokens=st.integers(256, 5000), depth=st.floats(0, 1))
def test_a_needle_is_there_once_at_its_depth(seed: int, tokens: int, depth: float) -> None:
    with files.scratch("rlm-ci-test-") as folder:
        options = {"depth": depth, "distractors": 3}
        made = generators.load("needle").make(folder, seed, tokens, **options)
        with open(os.path.join(folder, "context.txt"), encoding="utf-8") as file:
            text = file.read()
    name = re.search(r"number of the ([\w ]+) in the context", made.task)
    assert name
    assert text.count(f"of the {name[1]} is {made.expected}.\n") == 1
    assert len(re.findall("special magic number", text)) == 4
    assert tokens * 4 - 300 < len(text) <= tokens * 4
    assert abs(text.index(str(made.expected)) / len(text) - depth) < 300 / len(text)


def records(text: str) -> list[tuple[str, int, int]]:
    """Type, user and month of each record, by reading it."""
    found = []
    for line in text.splitlines():
        date, user, asked = line.split(" || ")
        labels = [label for label, pattern in TYPES.items() if pattern.fullmatch(asked)]
        assert len(labels) == 1, asked  # a reader can tell
        found.append((labels[0], int(user.removeprefix("User: ")), int(date[11:13])))
    return found


@pytest.mark.parametrize("kind", ["count", "most", "least", "compare", "user", "month", "filter"])
def test_an_aggregation_has_the_answer_that_counting_gives(tmp_path: Path, kind: str) -> None:
    made, text = make(tmp_path / "a", "aggregation", seed=9, tokens=4096, kind=kind)
    found = records(text)
    counts = Counter(label for label, _, _ in found)
    if kind in ("most", "least"):
        best = (max if kind == "most" else min)(counts[label] for label in LABELS)
        assert made.expected == [label for label in LABELS if counts[label] == best]
    elif kind == "compare":
        one, other = re.findall(r"the type (\w+)", made.task)
        forms = {-1: "less common than", 0: "as common as", 1: "more common than"}
        assert made.expected == forms[(counts[one] > counts[other]) - (counts[one] < counts[other])]
    else:
        label = re.findall(r"of the type (\w+)\?", made.task)[0]
        user = re.search(r"by the user (\d+)", made.task)
        month = re.search(r"after 2025-(\d\d)", made.task)
        assert (user is not None, month is not None) == (
            kind in ("user", "filter"), kind in ("month", "filter")
        )  # fmt: skip
        assert made.expected == sum(
            one == label
            and (not user or who == int(user[1]))
            and (not month or when >= int(month[1]))
            for one, who, when in found
        )


@pytest.mark.parametrize("kind", ["both", "either", "one-each"])
def test_pairs_are_those_that_reading_gives(tmp_path: Path, kind: str) -> None:
    made, text = make(tmp_path / "a", "pairs", seed=2, tokens=1024, kind=kind, users=9)
    asks: dict[int, set[str]] = {}
    for label, user, _ in records(text):
        asks.setdefault(user, set()).add(label)
    types = re.findall(rf"\b({'|'.join(LABELS)})\b", made.task.partition("List all")[2])

    def holds(one: int, other: int) -> bool:
        if kind == "one-each":
            first, second = types
            return (first in asks[one] and second in asks[other]) or (
                first in asks[other] and second in asks[one]
            )
        return bool(asks[one] & set(types)) and bool(asks[other] & set(types))

    right = [[str(one), str(two)] for one, two in combinations(sorted(asks), 2) if holds(one, two)]
    assert made.expected == right
    assert 0 < len(right) < 36


def test_code_questions_have_answers_of_the_sources(tmp_path: Path) -> None:
    def asked(kind: str) -> tuple[Any, str, str]:
        spec = {"seed": 4, "tokens": 1 << 14, "kind": kind, "package": "json"}
        made, text = make(tmp_path / kind, "code-questions", **spec)
        return made.expected, text, made.task

    expected, text, task = asked("functions")
    path = re.findall(r"file (\S+) define", task)[0]
    source = text.partition(f"# ---- file: {path} ----\n")[2].partition("# ---- file: ")[0]
    nodes = list(ast.walk(ast.parse(source)))
    assert expected == sum(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in nodes)
    expected, text, task = asked("classes")
    name = re.findall(r"class (\w+)\?", task)[0]
    before = text.partition(f"class {name}")[0]
    assert re.findall(r"# ---- file: (\S+) ----", before)[-1] == expected
    for kind in ("subclasses", "parameters", "raisers", "importers"):
        expected, text, _task = asked(kind)
        assert all(str(one) in text for one in (expected if isinstance(expected, list) else []))
        assert expected


def test_every_bug_shows_by_its_call() -> None:
    for program in programs.PROGRAMS:
        source = inspect.getsource(program.function)
        name = program.function.__name__
        for old, new, shown in program.bugs:
            assert source.count(old) == 1, (name, old)
            scope: dict[str, Any] = {}
            exec(source.replace(old, new), scope)
            right = program.function(*ast.literal_eval(repr(shown)))
            assert scope[name](*shown) != right, (name, old)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"generator": "nedle"}, "no generator 'nedle'"),
        ({"generator": "needle", "sed": 1}, "no option 'sed'"),
        ({"generator": "needle", "tokens": 1 << 25}, "tokens must be"),
        ({"generator": "needle", "seed": True}, "seed must be"),
        ({"generator": "needle", "distractors": "4"}, "of the kind of its default"),
    ],
)
def test_a_wrong_option_is_an_error(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        generators.arguments(spec)


@pytest.mark.parametrize(
    ("generator", "more"),
    [("aggregation", {"kind": "sum"}), ("pairs", {"users": 1}), ("needle", {"distractors": 101}),
     ("code-questions", {"package": "os.path"}), ("code-questions", {"kind": "x"}),
     ("code-questions", {"package": "__main__"}), ("broken-repository", {"hidden": 0}),
     ("broken-repository", {"hidden": 1 << 40})],
)  # fmt: skip
def test_a_value_that_a_generator_cannot_use_is_an_error(
    tmp_path: Path, generator: str, more: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        make(tmp_path / "a", generator, tokens=512, **more)


@pytest.mark.full
@pytest.mark.parametrize("generator", ["needle", "aggregation", "pairs"])
def test_a_long_text_takes_little_memory(tmp_path: Path, generator: str) -> None:
    import tracemalloc

    tracemalloc.start()
    options = generators.arguments({"generator": generator, "tokens": 1 << 20})
    options.pop("generator")
    generators.load(generator).make(str(tmp_path), **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    assert (tmp_path / "context.txt").stat().st_size > (4 << 20) - 500
