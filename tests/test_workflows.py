"""Every workflow that we run or recommend, and the action itself, under five judges."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rlm_ci.cli.new_workflows import workflows
from testing.action_runner import BIN, ROOT, SHIPPED, load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

ACTION = ROOT / "action.yml"
VALIDATOR = ROOT / "tests/tools/node_modules/.bundle/validate_actions.cjs"
FENCE = re.compile(r"^( *)```ya?ml\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def _ours() -> list[Path]:
    return sorted((ROOT / ".github/workflows").glob("*.yml"))


def _documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _is_workflow(document: Any) -> bool:
    # YAML 1.1 reads the key `on` as true.
    return (
        isinstance(document, dict) and "jobs" in document and (True in document or "on" in document)
    )


def _fenced(page: Path) -> list[str]:
    """The YAML blocks of a page, unindented, with a commit where its reader puts one in."""
    text = page.read_text("utf-8").replace("@COMMIT", f"@{'1' * 40}") if page.exists() else ""
    return [
        re.sub(rf"^{indent}", "", body, flags=re.MULTILINE) for indent, body in FENCE.findall(text)
    ]


def _workflow_texts() -> dict[str, str]:
    """Every workflow under the name of where it stands."""
    found = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in _ours()}
    providers = {"": (False, True), "groq": (True,), "azure": (False,), "github": (False, True)}
    for provider, fork_safe in ((name, one) for name, ones in providers.items() for one in ones):
        made = workflows(
            "1" * 40, fork_safe=fork_safe, slash_commands=True, wiki=not fork_safe,
            provider=provider, model="m" if provider else "",
        )  # fmt: skip
        for name, text in made.items():
            found[f"init {name}{', fork-safe' * fork_safe}{provider and f', {provider}'}"] = text
    for page in _documents():
        for number, text in enumerate(_fenced(page), 1):
            if _is_workflow(load_yaml(text)):
                found[f"{page.relative_to(ROOT).as_posix()} block {number}"] = text
    for path in sorted((ROOT / "examples").glob("*.yml")):
        text = path.read_text("utf-8").replace("@COMMIT", f"@{'1' * 40}")
        found[path.relative_to(ROOT).as_posix()] = text
    return found


WORKFLOWS = _workflow_texts()


def _steps(document: Any) -> list[dict[str, Any]]:
    if "runs" in document:
        return list(document["runs"]["steps"])
    return [step for job in document["jobs"].values() for step in job.get("steps", [])]


def _composite_as_workflow() -> str:
    """The action's steps as a reusable workflow: actionlint reads those, and shellchecks them."""
    action = load_yaml(ACTION.read_bytes())
    inputs = {
        name: {"type": "string", "default": row["default"], "description": row["description"]}
        for name, row in action["inputs"].items()
    }
    inputs["matrix"]["default"] = ""  # an action knows its job's matrix, a workflow none
    outputs = {f"out-{name}": row["value"] for name, row in action["outputs"].items()}
    job = {"runs-on": "ubuntu-latest", "outputs": outputs, "steps": action["runs"]["steps"]}
    return yaml.safe_dump({"on": {"workflow_call": {"inputs": inputs}}, "jobs": {"action": job}})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A repository to put one workflow into, with our action at its top for `uses: ./`."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".github/workflows").mkdir(parents=True)
    shutil.copy2(ACTION, tmp_path)
    # A release calls it.
    shutil.copy2(ROOT / ".github/workflows/ci.yml", tmp_path / ".github/workflows")
    return tmp_path


def _run(*argv: str | Path, cwd: Path) -> None:
    ended = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"


def _zizmor(*files: Path, cwd: Path) -> None:
    _judge_by_zizmor("--min-severity", "medium", *files, cwd=cwd)


def _judge_by_zizmor(*args: str | Path, cwd: Path) -> None:
    # self-repository wants a syntax for `uses: ./` that not every runner knows yet.
    (cwd / "zizmor.yml").write_text("rules: {self-repository: {disable: true}}\n")
    options = ("--offline", "--no-progress", "--config", cwd / "zizmor.yml")
    _run(BIN / "zizmor", *options, *args, cwd=cwd)


def _validate(*files: Path, cwd: Path) -> None:
    assert VALIDATOR.exists(), "the tools from npm are missing: run `make test`"
    _run("node", VALIDATOR, *files, cwd=cwd)


# -- the action ---------------------------------------------------------------------------------


def test_the_action_satisfies_its_schema(tmp_path: Path) -> None:
    _run(
        BIN / "check-jsonschema", "--builtin-schema", "vendor.github-actions", ACTION, cwd=tmp_path
    )


def test_the_action_satisfies_zizmor(tmp_path: Path) -> None:
    _zizmor(ACTION, cwd=tmp_path)


def test_the_action_satisfies_github(tmp_path: Path) -> None:
    _validate(ACTION, cwd=tmp_path)


def test_the_actions_steps_satisfy_actionlint_and_shellcheck(place: Path) -> None:
    workflow = place / ".github/workflows/action.yml"
    workflow.write_text(_composite_as_workflow())
    _run(BIN / "actionlint", "-shellcheck", BIN / "shellcheck", workflow, cwd=place)


def test_the_action_brings_all_that_it_needs() -> None:
    for name in SHIPPED:
        assert (ROOT / name).exists()


# -- the workflows ------------------------------------------------------------------------------


def test_our_own_pipeline_is_among_them() -> None:
    assert ".github/workflows/ci.yml" in WORKFLOWS


def _put(place: Path, names: Iterable[str]) -> list[Path]:
    """Each workflow in a file that is called after where it stands: a judge names it."""
    made = []
    for where in names:
        workflow = place / ".github/workflows" / f"{re.sub('[^a-z0-9]+', '-', where.lower())}.yml"
        workflow.write_text(WORKFLOWS[where])
        made.append(workflow)
    assert len(set(made)) == len(made)
    return made


@pytest.mark.parametrize("judge", ["schema", "actionlint", "zizmor", "github"])
def test_every_workflow(judge: str, place: Path) -> None:
    """A judge takes longer to start than to read all of them, so each starts once."""
    workflows = _put(place, WORKFLOWS)
    if judge == "schema":
        schema = ("--builtin-schema", "vendor.github-workflows")
        _run(BIN / "check-jsonschema", *schema, *workflows, cwd=place)
    elif judge == "actionlint":
        _run(BIN / "actionlint", "-shellcheck", BIN / "shellcheck", *workflows, cwd=place)
    elif judge == "zizmor":
        _zizmor(*workflows, cwd=place)
    else:
        _validate(*workflows, cwd=place)


@pytest.mark.parametrize("where", ["action.yml", *WORKFLOWS])
def test_no_expression_in_a_script(where: str) -> None:
    text = WORKFLOWS[where] if where in WORKFLOWS else ACTION.read_text("utf-8")
    scripts = [step["run"] for step in _steps(load_yaml(text)) if "run" in step]
    assert not [script for script in scripts if "${{" in script]


@pytest.mark.parametrize("where", WORKFLOWS)
def test_permissions_are_named_and_actions_are_pinned(where: str) -> None:
    text = WORKFLOWS[where]
    document = load_yaml(text)
    assert "permissions" in document, "without it a job gets what the repository's settings say"
    for step in _steps(document):
        uses = step.get("uses", "")
        if not uses or uses.startswith(("./", "rlm-ci/rlm-ci@")):
            continue
        assert PINNED.fullmatch(uses), f"{uses}: pin it to a full commit"
        assert re.search(rf"{re.escape(uses)} # v\d+\.\d+\.\d+", text), f"{uses}: say the version"
        if uses.startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


#: What our own jobs may beside reading: workflow to permissions of one job.
MORE = {
    "dogfood.yml": {"contents": "read", "pull-requests": "read"},
    "dogfood-publish.yml": {
        "actions": "read", "checks": "write", "contents": "read", "pull-requests": "write",
    },
    "docs.yml deploy": {"id-token": "write", "pages": "write"},
    "wiki.yml": {"contents": "write", "pull-requests": "write"},
    "doc-archive.yml": {"contents": "write", "pull-requests": "write"},
    "release.yml pypi": {"attestations": "write", "id-token": "write"},
    "release.yml github": {"contents": "write"},
}  # fmt: skip


def test_our_pipeline_grants_reading_only_and_always_ends() -> None:
    for path in _ours():
        document = load_yaml(path.read_bytes())
        assert document["permissions"] == {}, path
        for name, job in document["jobs"].items():
            more = MORE.get(path.name, MORE.get(f"{path.name} {name}"))
            assert job["permissions"] == (more or {"contents": "read"}), (path, name)
            if "uses" not in job:  # the job of a called workflow has a limit of its own
                assert job["timeout-minutes"] <= 60, (path, name)


WHOLE = [name for name in WORKFLOWS if not name.startswith(("README", "docs/"))]


def test_whole_workflows_satisfy_the_pedant(place: Path) -> None:
    """Examples in documents are cut down to what they show; these are not."""
    _judge_by_zizmor("--persona", "pedantic", *_put(place, WHOLE), cwd=place)


# -- the judges themselves ----------------------------------------------------------------------

DEFECTS = {
    "an unknown input": ("inputs.base ", "inputs.bass "),
    "an unknown step": ("steps.install.outputs.python", "steps.instal.outputs.python"),
    "an unquoted variable": ('cp "$lock"', "cp $lock"),
    "a condition on an unknown step": (
        "steps.pr.outputs.patch != ''",
        "steps.pt.outputs.patch != ''",
    ),
    "an injected expression": (
        'exec "$INTERPRETER"',
        "echo ${{ github.event.pull_request.title }}",
    ),
    "a step without a shell": ("shell: bash\n      env:", "env:"),
    "an unknown key": ("branding:", "brandings:"),
}


def _silent_judges(text: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which of the action's judges have nothing against ``text``."""
    action = place / "judged/action.yml"
    action.parent.mkdir()
    action.write_text(text)
    monkeypatch.setattr(f"{__name__}.ACTION", action)
    silent = []
    for judge in (
        test_the_action_satisfies_its_schema,
        test_the_action_satisfies_zizmor,
        test_the_action_satisfies_github,
        test_the_actions_steps_satisfy_actionlint_and_shellcheck,
    ):
        try:
            judge(place)
            silent.append(judge.__name__)
        except AssertionError:
            continue
    return silent


@pytest.mark.sample(1)
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_of_the_action_is_found(
    defect: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = DEFECTS[defect]
    text = ACTION.read_text("utf-8")
    assert good in text
    assert len(_silent_judges(text.replace(good, bad), place, monkeypatch)) < 4


def test_the_judges_do_not_cry_wolf(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(_silent_judges(ACTION.read_text("utf-8"), place, monkeypatch)) == 4


PUBLIC = "https://registry.npmjs.org/"


@pytest.mark.parametrize("folder", ["tests/tools", "tests/tools/full"])
def test_the_tools_of_npm_come_from_the_public_registry(folder: str) -> None:
    lock = json.loads((ROOT / folder / "package-lock.json").read_text("utf-8"))
    packages = [row for path, row in lock["packages"].items() if path]
    assert packages
    for row in packages:
        assert row.get("resolved", PUBLIC).startswith(PUBLIC)  # without one: where npm looks
        assert row["integrity"].startswith("sha512-")
