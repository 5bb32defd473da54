"""The documents tell the truth: generated files are current, every rule is explained."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
from test_architecture import LAYERS, NAMES, PACKAGE, imports

from rlm_ci import cli, errors
from rlm_ci.config import settings
from rlm_ci.config.arguments import parse, split_command
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import MODEL, RECURSION
from rlm_ci.errors import UsageError
from rlm_ci.guard import rules as guard
from rlm_ci.models.context_length import answer_tokens, prompt_bytes
from rlm_ci.models.json_question import repair_bytes
from rlm_ci.review.exploration.depth import with_room
from rlm_ci.review.exploration.explorer import NORMAL, QUICK
from rlm_ci.runs.state import ERROR, EXIT_CODES

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parents[1]
DOCUMENTS = (*sorted(TOP.glob("*.md")), *sorted((TOP / "docs").rglob("*.md")))


def test_generated_files_are_current() -> None:
    argv = [sys.executable, str(TOP / "docs" / "generate.py"), "--check"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def command_lines(text: str) -> Iterator[list[str]]:
    """What the code of a page has behind ``rlm-ci``, in words."""
    blocks = re.findall(r"^ *```(?:sh|text|toml|yaml)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    bare = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    for line in (*lines, *re.findall(r"`([^`\n]+)`", bare)):
        found = re.match(r"(?:\$ )?rlm-ci ((?:\.\.\. )?[a-z].*)$", line.strip())
        if found:
            # A comment in a shell's block, and the brackets and bars of a synopsis, are no words.
            said = re.sub(r"\s#\s.*$|[\[\]…]|\.\.\.", "", found[1])
            yield re.findall(r'"[^"]*"|[^\s|"]+', said)


COMMAND_LINES = sorted(
    {
        (document.name, " ".join(words))
        for document in DOCUMENTS
        for words in command_lines(document.read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize(("document", "line"), COMMAND_LINES)
def test_every_command_line_in_the_documents_is_understood(document: str, line: str) -> None:
    words = re.findall(r'"[^"]*"|\S+', line)
    if words[:2] == ["help", "--all"]:  # of a command, or of the program
        words = [word for word in words[2:] if word in cli.COMMANDS] or ["check"]
    command, rest = split_command(words, COMMON)
    assert command in cli.COMMANDS, f"{document}: {line}"
    try:
        parse(rest, cli.options(cli.load(command), rest), line)
    except UsageError as error:
        if "needs a value" not in error.what:  # a flag that is talked about, without its value
            raise


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_examples_and_its_exit_codes(name: str) -> None:
    """The examples are parsed with all other command lines of the documents."""
    command = cli.load(name)
    assert all(one.startswith(f"rlm-ci {name}") for one in command.EXAMPLES)
    assert command.EXAMPLES
    known = {code for code, _, _ in errors.EXIT_CODES}
    assert {errors.OK} <= command.EXITS.keys() <= known


def test_the_documents_say_enough_command_lines_to_be_judged_by_them() -> None:
    assert {line.split()[0] for _, line in COMMAND_LINES} >= set(cli.COMMANDS)


def test_configurations_in_the_documents_are_valid() -> None:
    schema = json.loads((TOP / "schemas" / "config.schema.json").read_text(encoding="utf-8"))
    valid = jsonschema.Draft202012Validator(schema)
    seen = 0
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for block in re.findall(r"^ *```toml\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
            valid.validate(tomllib.loads(block))
            seen += 1
    assert seen > 3


def test_no_page_names_a_setting_that_went() -> None:
    removed = [f"`{key}`" for key in (*settings._FIXED, *settings._MERGED)]
    assert len(removed) > 20
    for page in DOCUMENTS:
        if page.name != "CHANGELOG.md":
            text = page.read_text(encoding="utf-8")
            assert not [key for key in removed if key in text], page


LOCAL = (TOP / "docs" / "local-models.md").read_text(encoding="utf-8")


def test_a_review_has_the_depth_that_the_guide_says_for_a_context() -> None:
    defaults = {row.key: row.default for row in (*MODEL, *RECURSION)}

    def depth(tokens: int) -> str:
        answer = answer_tokens(tokens, defaults["models.max_completion_tokens"])
        size = prompt_bytes(tokens, answer, defaults["recursion.prompt_bytes"])
        return with_room(NORMAL, size, repair_bytes(size))

    rows = re.findall(r"^\| ([\d,]+(?: or [\d,]+)?) \| is (?:`(\w+)`|not)", LOCAL, re.MULTILINE)
    stated = {
        int(tokens.replace(",", "")): word for row, word in rows for tokens in row.split(" or ")
    }
    assert set(stated.values()) == {"", QUICK, NORMAL}
    assert stated == {tokens: depth(tokens) for tokens in stated}


@pytest.mark.parametrize(
    "message",
    [
        "could not be read, twice",
        "it was cut off at the limit of an answer",
        "nothing that the model claimed holds",
        "the endpoint cut the prompt",
        "the prompt is too long for the model",
        " have no room for ",
        "the model did not keep to its tools",
        "the planner's answer is not a plan",
        "the model service cannot be reached",
    ],
)
def test_a_message_that_the_guide_explains_is_one_of_the_program(message: str) -> None:
    assert message in LOCAL
    sources = (path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    assert any(message in text for text in sources)


def test_every_end_of_a_fix_loop_is_told_with_its_exit_code() -> None:
    text = (TOP / "docs" / "fix-reference.md").read_text(encoding="utf-8")
    told = {
        status: code
        for names, code in re.findall(
            r"^\| ((?:`\w+`(?:, )?)+) \| ([\d, –]+) \|", text, re.MULTILINE
        )
        for status in re.findall(r"\w+", names)
    }
    told.pop(ERROR)  # that of what happened
    assert {status: int(code) for status, code in told.items()} == dict(EXIT_CODES)


def test_every_rule_of_the_tamper_guard_is_told() -> None:
    text = (TOP / "docs" / "fix-reference.md").read_text(encoding="utf-8")
    source = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "guard").rglob("*.py"))
    rules = set(re.findall(r'_finding\(\s*"([\w-]+)"', source))
    rules |= set(re.findall(r'"tamper/([\w-]+)"', source))
    rules |= set(re.findall(r'protected\.[A-Z]+: "([\w-]+)"', source))
    assert len(rules) > 10
    assert rules <= guard.RULES.keys()
    assert set(re.findall(r"`tamper/([\w-]+)`", text)) <= guard.RULES.keys()
    explained = (TOP / "docs" / "rules.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\|<a .+?</a>`tamper/([\w-]+)`", explained, re.MULTILINE))
    assert rows == guard.RULES.keys()


ARCHITECTURE = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return ARCHITECTURE.partition(f"\n## {title}")[2].partition("\n## ")[0]


def test_the_plan_of_the_house_is_the_house() -> None:
    plan = section("Layers").partition("```text\n")[2].partition("```")[0]
    layers = [set(re.findall(r"\w+", line)) for line in plan.splitlines()]
    assert layers == [set(rooms) for rooms in LAYERS]


def test_the_tree_has_every_room_of_the_package() -> None:
    drawn = set(re.findall(r"^[├└]── (\S+)", section("The tree"), re.MULTILINE))
    rooms = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.glob("*/**/*.py")}
    modules = {path.name for path in PACKAGE.glob("[!_]*.py")}
    assert drawn == {f"{room}/" for room in rooms} | modules


def test_modules_that_the_architecture_names_are_there() -> None:
    rooms = "|".join(room for row in LAYERS for room in row)
    named = set(re.findall(rf"`((?:{rooms})(?:/[a-z_]+)+)(?:\.py)?`", ARCHITECTURE))
    assert len(named) > 20
    for name in named:
        module = PACKAGE / name
        assert module.with_suffix(".py").is_file() or module.is_dir(), name


WALKS = re.findall(r"^## (Walk .+)$", ARCHITECTURE, re.MULTILINE)


@pytest.mark.parametrize("walk", WALKS)
def test_each_module_of_a_walk_is_imported_by_the_one_before_it(walk: str) -> None:
    drawn = section(walk).partition("```text\n")[2].partition("```")[0]
    lines = [line.split(" → ") for line in drawn.splitlines()]
    met = {lines[0][0].strip()}
    for first, *others in ([name.strip() for name in line] for line in lines):
        assert first in met, f"{walk} does not lead to {first}"
        joining = first
        for name in others:
            imported = imports(NAMES[f"rlm_ci.{joining.replace('/', '.')}"])
            assert f"rlm_ci.{name.replace('/', '.')}" in imported, f"{joining} → {name}"
            joining = name
        met |= set(others)
    assert len(met) > 8


def test_there_are_four_walks() -> None:
    assert len(WALKS) == 4


def test_no_document_pins_a_release_that_is_not_there() -> None:
    """A reader fills in the commit, and each page says where it comes from."""
    pages = {page.name: page.read_text("utf-8") for page in DOCUMENTS}
    pins = {name: re.findall(r"rlm-ci/rlm-ci@(\S+)", text) for name, text in pages.items()}
    assert {name for name, found in pins.items() if found} >= {"README.md", "github.md", "fix.md"}
    for name, found in pins.items():
        assert not set(found) - {"COMMIT", 'COMMIT"'}, name
        assert not found or "Replace COMMIT" in pages[name], name


def test_the_readme_is_short() -> None:
    words = (TOP / "README.md").read_text("utf-8").split()
    assert len(words) <= 900, f"README.md has {len(words)} words"


def test_the_pages_are_short() -> None:
    """Tables count, too: a page that is not read protects nobody."""
    pages = (TOP / "docs").rglob("*.md")
    words = {page.name: len(page.read_text("utf-8").split()) for page in pages}
    assert sum(words.values()) <= 45_000, sorted(words.items(), key=lambda item: -item[1])[:9]
