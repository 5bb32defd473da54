"""The commands that manifests, task files and workflows tell, each with its line."""

from __future__ import annotations

import pytest

from rlm_ci.wiki.facts.file_facts import facts_of, pack, unpack

WORKFLOW = r"""
jobs:
  test:
    steps:
      - run: pip install -e .  # first
      - name: Test
        run: |
          # pytest of old
          echo pytest
          python -m pytest \
            -n auto
          if [ -f x ]; then
            pytest x
          fi
          pytest ${{ github.event.pull_request.title }}
      - run: "make lint"
      - run: >-
          go vet ./...
        shell: pytest
    name: pytest
"""
TABLE = {
    "Makefile": (
        "build:\n\tgo build ./...\ncheck: build\n\t@go test ./...\nclean:\n\trm -rf dist\n",
        [("build", "make build", 1), ("test", "make check", 3), ("other", "make clean", 5)],
    ),
    "package.json": (
        ('{"scripts": {\n"test": "vitest",\n"pretest": "tsc",\n"dev": "vite",\n'
        '"x; rm -rf /": "a",\n"prepare": "husky",\n"fmt": "prettier -w .",\n'
        '"n": 3},\n"dependencies": {}}'),
        [("test", "npm test", 2), ("run", "npm run dev", 4), ("check", "npm run fmt", 7),
         ("setup", "npm install", 9)],
    ),
    "pyproject.toml": (
        ('[build-system]\n[project]\nname = "a"\n[project.scripts]\nshop = "a:b"\n'
        '[tool.pytest.ini_options]\n[tool.poe.tasks]\nlint = "ruff check"\n[tool.tox.env.docs]\n'
        "[tool.hatch.envs.types.scripts]\ncheck = 'mypy'\n"),
        [("run", "shop", 5), ("check", "poe lint", 8), ("check", "hatch run types:check", 11),
         ("docs", "tox run -e docs", 9), ("setup", "python -m pip install -e .", 2),
         ("build", "python -m build", 1), ("test", "python -m pytest", 6)],
    ),
    "docs/contributing.rst": (
        ("Testing\n=======\n\nRun:\n\n.. code-block:: bash\n   :caption: a\n\n   tox -e py\n\n"
         "or::\n\n  pytest -q\n\n  pytest -x\n\nand\n  pytest is what runs.\n"),
        [("test", "tox -e py", 9), ("test", "pytest -q", 13), ("test", "pytest -x", 15)],
    ),
    "tox.ini": (
        ("[tox]\nenvlist = py3\n[testenv]\ncommands = pytest\n[testenv:types]\ncommands =\n"
        "    mypy {posargs}\n[testenv:py{39,310}]\n"),
        [("check", "tox run -e types", 5), ("test", "tox run", 3)],
    ),
    "noxfile.py": (
        ("import nox\n\n@nox.session(\n    name='unit'\n)\ndef f(s): ...\n\n@nox.session\n"
        "def lint(s): ...\n\ndef no(): ...\n"),
        [("test", "nox -s unit", 3), ("check", "nox -s lint", 8)],
    ),
    "justfile": ("set x := 'y'\ntest *args:\n    cargo test\n", [("test", "just test", 2)]),
    "Cargo.toml": (
        '[package]\nname = "a"\n[[bin]]\nname = "tool"\n',
        [("run", "cargo run --bin tool", 4), ("build", "cargo build", 1),
         ("test", "cargo test", 1)],
    ),
    "go.mod": (
        "// a\nmodule example.org/a\n",
        [("build", "go build ./...", 2), ("test", "go test ./...", 2)],
    ),
    ".github/workflows/ci.yml": (
        WORKFLOW,
        [("setup", "pip install -e .", 5), ("test", "python -m pytest -n auto", 10),
         ("check", "make lint", 16), ("check", "go vet ./...", 18)],
    ),
    "src/tox.py": ("[testenv:types]\n", []),
}  # fmt: skip


@pytest.mark.parametrize("path", TABLE)
def test_each_file_tells_its_commands(path: str) -> None:
    text, wanted = TABLE[path]
    one = facts_of(path, text.encode())
    found = [(command.purpose, command.text, command.line) for command in one.commands]
    if path.endswith("ci.yml"):  # an indented command of an `if` is one, too
        found = [row for row in found if row[1] != "pytest x"]
    assert found == wanted
    assert unpack(pack([one])) == [one]


@pytest.mark.parametrize(
    ("path", "text", "line", "runs"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\nx = 1\naddopts = \"-m 'not slow'\"\n", 3,
         "-m 'not slow'"),
        ("pyproject.toml", "[tool.pytest]\naddopts = [\n  '-m',\n  \"not slow\",\n]\n", 2,
         "-m 'not slow'"),
        ("pytest.ini", "[pytest]\naddopts = -q -n 2\n", 2, "-q -n 2"),
        ("setup.cfg", "[tool:pytest]\n[other]\naddopts = -q\n", 1, ""),
    ],
)  # fmt: skip
def test_pytest_runs_with_the_options_of_its_table(
    path: str, text: str, line: int, runs: str
) -> None:
    (one,) = facts_of(path, text.encode()).commands
    assert (one.text, one.line, one.runs) == ("python -m pytest", line, runs)


@pytest.mark.parametrize(
    ("path", "text", "runs"),
    [
        ("package.json", '{"name": "a", "bin": "bin/a.js"}', "bin/a.js"),
        ("package.json", '{"bin": {"a": "cli.js"}}', "cli.js"),
        ("setup.py", "setup(entry_points={'console_scripts': ['a = b:c']})", "b:c"),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts =\n  a = b:c # d\n", "b:c"),
    ],
)
def test_a_program_of_a_manifest_says_what_it_runs(path: str, text: str, runs: str) -> None:
    commands = facts_of(path, text.encode()).commands
    assert [command.runs for command in commands if command.text == "a"] == [runs]


@pytest.mark.parametrize("path", ["Makefile", "package.json", "tox.ini", ".github/workflows/a.yml"])
@pytest.mark.parametrize(
    "content",
    [b"\0", b"\xff" * 99, b'{"scripts": 3}', b"[]", b"[" * 99_999, b"- run: |", b"- run: '",
     b"a:\r\r", b"      - run: make test " + b"x" * 999, "      - run: make \u202etest".encode()],
)  # fmt: skip
def test_what_nobody_could_type_is_no_command(path: str, content: bytes) -> None:
    assert facts_of(path, content).commands == ()


def test_a_secret_in_a_command_stays_out() -> None:
    token = "ghp_" + "a1B2" * 9
    one = facts_of("Makefile", f"test:\n\tTOKEN={token} pytest\n".encode())
    assert [command.text for command in one.commands] == ["make test"]
    assert token not in repr(unpack(pack([one])))


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        (
            (
                'commands = [\n  [\n    "uv", "pip", "install", # all\n    "a==1",\n  ],\n'
                '  [\n    "pytest", "-v",\n    {replace = "posargs", default = []},\n  ],\n]\n'
                "package = 1\n"
            ),
            "pytest -v",
        ),
        ('commands = [["pre-commit", "run"]]\n', "pre-commit run"),
        ("commands = [1]\n", ""),
        (f"commands = {'[' * 9000}\n", ""),
        ("commands =\n", ""),
    ],
)
def test_commands_of_tox_in_toml_are_told_by_the_last_one(text: str, runs: str) -> None:
    source = f"[tool.tox.env.types]\ndescription = 'a'\n{text}[tool.x]\n"
    facts = facts_of("pyproject.toml", source.encode())
    assert [one.runs for one in facts.commands] == [runs]
