"""Which validator a root tells of, and how one is chosen. A case is a JSON file."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci import errors
from rlm_ci.system.command_line import SHELL, Command, finder
from rlm_ci.text.printable import printable
from rlm_ci.validators.detect import (  # fmt: skip
    LIMIT,
    Detection,
    NoValidatorError,
    ValidatorCandidate,
    choose,
    detect,
    select,
)

CASES = sorted((Path(__file__).parent / "cases" / "detection").glob("*.json"))


def root_of(files: dict[str, Any], folder: Path) -> str:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_a_root(case: Path, tmp_path: Path) -> None:
    record = json.loads(case.read_text(encoding="utf-8"))
    detection = detect(root_of(record["files"], tmp_path))
    found = [[" ".join(one.command), one.reason] for one in detection.candidates]
    assert found == record["candidates"]
    assert list(detection.notes) == record.get("notes", [])
    if len(record["candidates"]) == 1:
        selection = select("auto", detection)
        assert selection.command is not None
        assert selection.command.text == record["candidates"][0][0]
    else:
        with pytest.raises(NoValidatorError) as caught:
            select("auto", detection)
        assert caught.value.code == errors.USAGE
        for command, _ in record["candidates"]:
            assert command in caught.value.what
        assert '--validator "' in caught.value.hint
        assert "--validator none" in caught.value.hint


def test_the_table_of_the_spec_is_covered() -> None:
    records = [json.loads(case.read_text(encoding="utf-8")) for case in CASES]
    chosen = {one["candidates"][0][0] for one in records if len(one["candidates"]) == 1}
    assert chosen >= {
        "pnpm test", "yarn test", "npm test", "bun test", "go test ./...", "cargo test", "pytest",
        "python -m pytest",
    }  # fmt: skip
    files = {name for one in records if one["candidates"] for name in one["files"]}
    assert files >= {
        "package.json", "pnpm-lock.yaml", "yarn.lock", "package-lock.json", "bun.lockb",
        "pyproject.toml", "pytest.ini", "requirements.txt", "go.mod", "Cargo.toml",
    }  # fmt: skip
    assert any(len(one["candidates"]) > 1 for one in records)
    assert any(not one["candidates"] for one in records)


# -- hostile roots ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b"7", b'"npm"', b"\xff\xfe", b"[" * 100_000,
        b'{"a":' * 100_000, b'{"a": ' + b"9" * 100_000 + b"}", b"{" + b" " * (LIMIT + 1) + b"}",
    ],
)  # fmt: skip
def test_a_package_json_that_cannot_be_read_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_bytes(content)
    detection = detect(str(tmp_path))
    assert detection.candidates == ()
    (note,) = detection.notes
    assert note.startswith("package.json is unreadable: ")
    assert note.isprintable()
    (tmp_path / "yarn.lock").touch()
    (candidate,) = detect(str(tmp_path)).candidates
    assert candidate.command == ("yarn", "test")
    assert note in candidate.reason


json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(json_value, json_value, json_value)
def test_fields_of_any_type_crash_nothing(manager: object, scripts: object, test: object) -> None:
    record = {"packageManager": manager, "scripts": scripts, "x": {"test": test}}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "package.json").write_text(json.dumps(record))
        found = detect(folder)
    for note in found.notes:
        assert printable(note) == note


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text('{"packageManager": "npm@10"}')
    inside = tmp_path / "repo"
    inside.mkdir()
    (inside / "package.json").symlink_to(outside)
    detection = detect(str(inside))
    assert detection.candidates == ()
    assert detection.notes == ("package.json is unreadable: it is a link, not a regular file",)


def test_a_pipe_does_not_hang_and_a_folder_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "package.json")
    (tmp_path / "go.mod").mkdir()
    os.mkfifo(tmp_path / "Makefile")
    detection = detect(str(tmp_path))
    assert detection.candidates == ()
    assert [note.partition(":")[0] for note in detection.notes] == [
        "package.json is unreadable", "Makefile is unreadable",
    ]  # fmt: skip


def test_what_stands_in_for_a_candidate_of_python(tmp_path: Path) -> None:
    for name in ("uv.lock", "pyproject.toml", "tox.ini"):
        (tmp_path / name).write_text("")
    selection = select("auto", detect(str(tmp_path)))
    assert selection.command == Command.of("uv", "run", "pytest")
    assert selection.others == ("python -m pytest", "tox", "python3 -m pytest")
    assert select("make it", detect(str(tmp_path))).others == ()


# -- choosing -----------------------------------------------------------------------------------

TWO = Detection((
    ValidatorCandidate(("npm", "test"), "package-lock.json"),
    ValidatorCandidate(("go", "test", "./..."), "go.mod"),
))  # fmt: skip


class Person:
    """Somebody at a terminal, with answers ready."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, question: str) -> str:
        self.asked.append(question)
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("answer", "argv"),
    [("2", ("go", "test", "./...")), (" make check ", ("make", "check")), ("none", None)],
)
def test_a_person_picks(answer: str, argv: tuple[str, ...] | None) -> None:
    person = Person(answer)
    selection = select("auto", TWO, person)
    assert (selection.command.argv if selection.command else None) == argv
    assert "1. npm test  (package-lock.json)" in person.asked[0]
    assert "2. go test ./...  (go.mod)" in person.asked[0]


def test_a_person_is_asked_again_and_not_for_ever() -> None:
    assert select("auto", TWO, Person("3", "'", "1")).command == Command.of("npm", "test")
    with pytest.raises(NoValidatorError):
        select("auto", TWO, Person("", "auto", "0"))


def test_a_person_is_told_why_the_question_comes_again() -> None:
    person = Person("9", " ", "echo '")
    with pytest.raises(NoValidatorError):
        select("auto", TWO, person)
    assert person.asked[1].startswith("9 is not one of the numbers, which go from 1 to 2.\n")
    assert person.asked[2].startswith("nothing was answered.\n")
    person = Person("\x1b[A", "", "")
    assert choose(TWO, person, "none") is None
    assert "a character that a command cannot have" in person.asked[1]
    person = Person("1", "", "")
    assert choose(Detection(), person, "none") is None
    assert person.asked[1].startswith("1 is not one of the numbers, as there are none.\n")
    person = Person("auto", "echo '", "")
    assert choose(Detection(), person, "none") is None
    assert person.asked[1].startswith("auto was tried already.\n")
    assert person.asked[2].startswith("it cannot be run: ")
    assert "\x1b" not in person.asked[2]


def test_a_person_is_asked_where_nothing_was_found() -> None:
    person = Person("pytest -q")
    assert select("auto", Detection(), person).command == Command.parse("pytest -q")
    assert "no validator was found" in person.asked[0]


def test_a_person_is_asked_for_another_when_the_program_is_not_there() -> None:
    person = Person("2")
    chosen = choose(TWO, person, "npm was not found\x1b[2J")
    assert chosen is not None
    assert chosen.command == Command.of("go", "test", "./...")
    assert person.asked[0].startswith("npm was not found\\x1b[2J.\n")
    assert choose(TWO, Person("", "", ""), "npm was not found") is None


def test_nobody_is_asked_without_need() -> None:
    assert select("none", TWO, Person()).command is None
    assert select("pytest", TWO, Person()).command == Command.of("pytest")
    one = Detection(TWO.candidates[:1])
    assert select("auto", one, Person()).reason == "package-lock.json"


# -- commands -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("pytest", ("pytest",)),
        ("python -m pytest -k 'a and b'", ("python", "-m", "pytest", "-k", "a and b")),
        ('./run.sh "a $ b"', None),
        ("./run.sh 'a $HOME | b'", ("./run.sh", "a $HOME | b")),
        (r"echo \$HOME \;", ("echo", "$HOME", ";")),
        ("pytest --opt=FOO=1 x=y", ("pytest", "--opt=FOO=1", "x=y")),
        ("pytest a#b~c!", ("pytest", "a#b~c!")),
        ("FOO=1 pytest", None),
        ("pytest | tee log", None),
        ("make a && make b", None),
        ("make a; make b", None),
        ("pytest $ARGS", None),
        ("pytest tests/*.py", None),
        ("pytest > log", None),
        ("pytest `x`", None),
        ("(pytest)", None),
        ("! pytest", None),
        ("pytest ~/x", None),
        ("cd web", None),
        ("exit 1", None),
        ("make a\nmake b", None),
        ("pytest \\\n -q", None),
        ("pytest \"a`b\" '`'", None),
    ],
)
def test_a_shell_only_where_one_is_needed(text: str, argv: tuple[str, ...] | None) -> None:
    command = Command.parse(text)
    assert command.argv == (argv or (SHELL, "-c", text))
    assert command.in_shell == (argv is None)
    assert command.programs[0] == command.argv[0]


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("FOO=1 pytest | cat", ("pytest",)),
        ("cd web && npm test", ()),
        ("$PYTHON -m pytest", ()),
        ("./a.sh | cat", ("./a.sh",)),
    ],
)
def test_the_first_program_of_a_shell_text_is_looked_for(
    text: str, program: tuple[str, ...]
) -> None:
    assert Command.parse(text).programs == (SHELL, *program)


@pytest.mark.parametrize("text", ["", "  ", "pytest 'x", 'a "', "a\0b", "x" * 9000])
def test_what_is_no_command_is_refused(text: str) -> None:
    with pytest.raises(errors.UsageError) as caught:
        Command.parse(text)
    assert str(caught.value).isprintable()


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1))
def test_words_come_back_as_they_went(words: list[str]) -> None:
    text = Command.of("run", *words).text
    if len(text) < 8000:
        command = Command.parse(text)
        if not command.in_shell:
            assert command.argv == ("run", *words)


# -- programs -----------------------------------------------------------------------------------


def script(path: Path, text: str, mode: int = 0o755) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def test_a_program_is_found_as_the_sandbox_would(tmp_path: Path) -> None:
    copy, tools = tmp_path / "copy", tmp_path / "bin"
    script(copy / "run.sh", "#!/bin/sh\n")
    script(copy / "plain.sh", "#!/bin/sh\n", 0o644)
    script(copy / "lost.sh", "#!/nowhere/interpreter\n")
    script(copy / "env.sh", "#!/usr/bin/env -S tool --x\n")
    script(copy / "lost-env.sh", "#!/usr/bin/env nowhere-tool\n")
    script(tools / "tool", "#!/bin/sh\n")
    (copy / "folder").mkdir()
    (copy / "loop").write_text(f"#!{copy}/loop\n")
    (copy / "loop").chmod(0o755)
    find = finder(f"{tools}:/usr/bin:/bin", "/repo", str(copy))
    for name in ("./run.sh", "/repo/run.sh", "./env.sh", "tool", "sh", "/bin/sh"):
        assert find(name), name
    for name in (
        "./plain.sh", "./lost.sh", "./lost-env.sh", "./folder", "run.sh", "nowhere-tool", "",
        "/repo/../nowhere", "./loop", str(copy / "nowhere"),
    ):  # fmt: skip
        assert find(name) is None, name


@pytest.mark.parametrize(
    ("where", "example"),
    [
        ("--validator", '--validator "python'),
        ("--agent", '--agent "python3'),
        ("loop.setup", '"npm'),
    ],
)
def test_a_command_that_cannot_be_read_is_told_by_an_example_of_its_own(
    where: str, example: str
) -> None:
    with pytest.raises(errors.UsageError) as caught:
        Command.parse("'unbalanced x", where=where)
    assert example in caught.value.hint
