"""The digest of a change: every file by name, and rows of each within the bytes."""

from __future__ import annotations

from rlm_ci.review.change_prompts.changed_files import ReadableChange
from rlm_ci.review.change_prompts.digest import ROOM, digest_of
from rlm_ci.review.change_prompts.hunk_rows import CODE, DOCUMENT, LineEdit, ReadableFile
from rlm_ci.source.outline import outline


def changed(path: str, *lines: str, at: int = 1, removed: tuple[str, ...] = ()) -> ReadableFile:
    """A file whose lines from ``at`` are new, and which has lost lines before them."""
    edit = LineEdit.of((at, len(lines) - at + 1, at, removed))
    return ReadableFile(path, "changed", CODE, lines, (edit,), blob="b" * 40)


def test_a_small_change_is_shown_whole_with_the_lines_of_both_sides() -> None:
    gone = ReadableFile(
        "old.py", "deleted", CODE, (), (LineEdit.of((1, 0, 1, ("x = 1", "y = 2"))),), "old.py"
    )
    file = changed("a.py", "one", "two", "three", at=3, removed=("drei",))
    made = digest_of(ReadableChange((gone, file), ("=== a.png === no text",), ()))
    assert made.text == (
        "=== old.py === deleted\n1-x = 1\n2-y = 2\n"
        "=== a.py === changed\n@@ -2 +2 @@\n2|two\n3-drei\n3+three\n"
        "=== a.png === no text"
    )
    assert [(one.path, one.content) for one in made.new] == [("a.py", b"one\ntwo\nthree\n")]
    assert [(one.path, one.line_start, one.content) for one in made.old] == [
        ("old.py", 1, b"x = 1\ny = 2\n"), ("a.py", 3, b"drei\n"),
    ]  # fmt: skip


def test_a_large_file_leaves_the_others_their_rows_and_says_what_is_missing() -> None:
    large = changed("large.py", *(f"value_{number} = {number}" for number in range(9_000)))
    wide = changed("wide.py", "w" * 10_000, "short")
    small = changed("small.py", "x = 1")
    notes = changed("notes.md", *("A line." for _ in range(9_000))).replace(kind=DOCUMENT)
    made = digest_of(ReadableChange((notes, large, wide, small), (), ()))
    assert len(made.text.encode()) <= ROOM + 200
    assert "\n=== small.py === changed\n1+x = 1\n" in made.text
    assert "\n=== wide.py === changed\n2+short\n... 1 changed line not shown\n" in made.text
    assert made.text.count(" changed lines not shown") == 2
    assert made.text.index("=== large.py") < made.text.index("=== notes.md")
    shares = [made.text.count("+value_"), made.text.count("+A line.")]
    assert min(shares) > 300


def test_of_very_many_files_some_are_counted() -> None:
    files = tuple(changed(f"src/file_{number}.py", "x = 1") for number in range(2_000))
    made = digest_of(ReadableChange(files, ("s" * 90_000,), ()))
    assert len(made.text.encode()) <= ROOM + 200
    named = made.text.count("=== src/file_")
    assert f"\n... and {2_000 - named:,} more files\n" in made.text
    assert named > 100
    assert len(made.new) == 2_000


def test_a_large_file_shows_its_definitions_before_its_imports() -> None:
    imports = [f"from package import name_{number}" for number in range(1_000)]
    function = 'def {}(value):\n    """What {} does."""\n' + "    value += 1\n" * 400
    lines = [
        *imports,
        *"".join(function.format(name, name) for name in ("load", "dump")).split("\n"),
    ]
    content = "\n".join(lines).encode()
    symbols = outline("shop.py", content).symbols
    gone = ("import sys", "def parse(value):", "    return value")
    edit = LineEdit.of((1, len(lines), 1, gone))
    file = ReadableFile("shop.py", "changed", CODE, tuple(lines), (edit,), symbols=symbols)
    text = digest_of(ReadableChange((file.replace(removed=("parse",)),), (), ()), 6_000).text
    for row in ("+def load(value):", '+    """What dump does."""', "2-def parse(value):"):
        assert row in text, text
    assert "name_0" not in text
    shown = text.count("    value += 1")
    hidden = len(lines) + len(gone) - text.count("+") - text.count("-") + shown  # `+=` counts twice
    assert f"... {hidden:,} changed lines not shown" in text
    numbers = [int(row.partition("+")[0]) for row in text.split("\n") if row[:4].isdigit()]
    assert numbers == sorted(numbers)
    assert abs(sum(one < numbers[0] + 402 for one in numbers) - len(numbers) / 2) < 3
