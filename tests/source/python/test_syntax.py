"""The syntax trees of Python: parsed once for all readers, within a bound."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlm_ci.canary.python import reader
from rlm_ci.guard.weakened_tests import python_cases
from rlm_ci.source.outline import outline
from rlm_ci.source.python import syntax
from rlm_ci.source.python.interface import interface
from rlm_ci.source.uses.call_sites import file_calls
from rlm_ci.source.uses.references import uses
from rlm_ci.wiki.facts.file_facts import facts_of


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that a parser is given, with an empty cache."""
    texts: list[str] = []
    parse = ast.parse

    def counted(source: str, *given: object, **more: object) -> ast.AST:
        texts.append(source)
        return parse(source, *given, **more)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(ast, "parse", counted)
    monkeypatch.setattr(syntax, "_CACHE", syntax._TreeCache())
    return texts


def test_a_file_is_parsed_once_for_all_its_readers(parses: list[str]) -> None:
    path, content = "tests/test_a.py", b"import os\n\n\ndef test_a():\n    assert os.sep == '/'\n"
    assert interface(path, content) is not None
    assert list(uses(outline(path, content), content))
    assert file_calls(path, content).calls == ()
    assert facts_of(path, content).outline.symbols
    assert python_cases.read(content.decode()).cases
    assert reader.tests(path, content.decode())
    assert parses == [content.decode()]


@pytest.mark.parametrize("text", ["def f(:\n", "\udc80", "f(" * 500 + ")" * 500])
def test_what_is_no_python_has_no_tree(text: str, parses: list[str]) -> None:
    assert syntax.parsed(text) is None
    assert syntax.parsed(text) is None
    assert parses == [text]


def test_the_trees_that_were_read_last_stay_within_a_bound(parses: list[str]) -> None:
    texts = [f"a = {number}\n" + "#" * (syntax.CACHE_SIZE // 4 - 8) for number in range(5)]
    first, *others = map(syntax.parsed, texts)
    assert syntax.parsed(texts[4]) is others[-1]
    assert syntax.parsed(texts[0]) is not first
    assert parses == [*texts, texts[0]]


def test_a_tree_that_is_read_again_stays_longer(parses: list[str]) -> None:
    texts = [f"a = {number}\n" + "#" * (syntax.CACHE_SIZE // 2 - 8) for number in range(3)]
    first = syntax.parsed(texts[0])
    syntax.parsed(texts[1])
    syntax.parsed(texts[0])
    syntax.parsed(texts[2])
    assert syntax.parsed(texts[0]) is first
    assert parses == texts


def test_the_tree_of_a_very_long_text_is_not_remembered(parses: list[str]) -> None:
    text = "a = 1\n" + "#" * syntax.CACHE_SIZE
    assert syntax.parsed(text) is not syntax.parsed(text)
    assert parses == [text, text]


def test_threads_read_the_same_texts() -> None:
    texts = [f"a = {number}\n" * 2_000 for number in range(6)]
    with ThreadPoolExecutor(8) as pool:
        trees = list(pool.map(syntax.parsed, texts * 10))
    assert [ast.unparse(tree)[:5] for tree in trees if tree] == [text[:5] for text in texts] * 10
