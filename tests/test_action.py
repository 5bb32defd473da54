"""The composite action: its contract, its installation, and real runs under act, offline."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.utils import canonicalize_name

from rlm_ci import checks
from rlm_ci.cli.new_workflows import workflows
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import Settings
from rlm_ci.models.providers import PROVIDERS
from testing.action_runner import (
    ROOT,
    Job,
    Runner,
    load_yaml,
    locked,
    put_python,
    reuse,
    run_in_act,
    ship_action,
)
from testing.repositories.events import HOSTILE_TITLE, pull_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from testing.repositories.git_repo import GitRepo

METADATA = load_yaml((ROOT / "action.yml").read_bytes())
STEPS = METADATA["runs"]["steps"]
INPUT_ROWS = [row for row in (*PROGRAM, *checks.rows(checks.names())) if row.input]
#: What the contract promises under these names.
OUTPUTS = {
    "verdict", "findings", "failing", "report", "sarif", "comment-url", "head-sha", "run-id",
    "patch", "cost-usd", "artifact",
}  # fmt: skip

#: Stands in for the program: writes down what reached it.
SPY = """
import json, os, sys
record = {"environ": dict(os.environ), "argv": sys.argv[1:], "path": sys.path, "pid": os.getpid(),
          "cwd": os.getcwd(), "isolated": sys.flags.isolated, "prefix": sys.prefix}
with open(os.environ["PROBE"] + "/spy.json", "w") as file:
    json.dump(record, file)
"""

HOSTILE = [
    pytest.param("$(touch {canary})", id="substitution"),
    pytest.param("`touch {canary}`", id="backticks", marks=pytest.mark.full),
    pytest.param('"; touch {canary}; "', id="double-quote", marks=pytest.mark.full),
    pytest.param("'; touch {canary}; '", id="single-quote", marks=pytest.mark.full),
    pytest.param("a\ntouch {canary}\n", id="newline"),
    pytest.param("a | touch {canary} && touch {canary} #", id="operators", marks=pytest.mark.full),
    pytest.param("--help", id="option"),
    pytest.param("x\n::set-output name=verdict::clean\n", id="command", marks=pytest.mark.full),
    pytest.param("%0A::error::forged", id="escaped-command", marks=pytest.mark.full),
    pytest.param("EOF\nverdict=clean", id="heredoc"),
    pytest.param("${{HOME}} $HOME ~ * ?", id="expansion", marks=pytest.mark.full),
    pytest.param("ünï\u202ecode\u2028", id="unicode"),
]


# -- the contract -------------------------------------------------------------------------------


def _environment_names() -> dict[str, str]:
    """Input to variable, as the step that runs the program hands them over."""
    (step,) = [step for step in STEPS if step.get("id") == "pr"]
    pairs = {}
    for name, text in step["env"].items():
        if match := re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", text):
            pairs[match[1]] = name
    return pairs


def test_every_input_is_described_optional_and_handed_over() -> None:
    handed_over = _environment_names()
    assert set(METADATA["inputs"]) == set(handed_over), "GitHub sets no INPUT_* for composite steps"
    for name, row in METADATA["inputs"].items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert row["description"].strip()
        default = "${{ toJSON(matrix) }}" if name == "matrix" else ""
        assert row["default"] == default, f"{name}: an empty input is one that was not given"


def test_inputs_and_variables_are_those_of_the_settings() -> None:
    expected = {row.input: row.variables[0] for row in INPUT_ROWS}
    more = {"report": "REPORT", "matrix": "RLM_CI_GITHUB_MATRIX"}
    assert _environment_names() == expected | more


def test_every_output_comes_from_the_step_that_runs_the_program() -> None:
    values = {name: row["value"] for name, row in METADATA["outputs"].items()}
    assert values == {name: f"${{{{ steps.pr.outputs.{name} }}}}" for name in OUTPUTS}
    assert all(row["description"].strip() for row in METADATA["outputs"].values())


def test_a_patch_is_uploaded_as_the_workflows_that_we_write_upload_a_report() -> None:
    step = STEPS[-1]
    written = load_yaml(workflows("1" * 40, fork_safe=True, slash_commands=False)["rlm-ci.yml"])
    report = written["jobs"]["judge"]["steps"][-1]
    assert step["uses"] == report["uses"]
    assert step["if"] == "${{ !cancelled() && steps.pr.outputs.patch != '' }}"
    kept = ("include-hidden-files", "if-no-files-found", "retention-days")
    assert {name: step["with"][name] for name in kept} == {
        name: report["with"][name] for name in kept
    }
    assert step["with"]["name"] == "rlm-ci-patch-${{ steps.pr.outputs.run-id }}"
    assert step["with"]["path"] == METADATA["outputs"]["patch"]["value"]


def test_an_empty_variable_is_a_setting_that_was_not_given() -> None:
    empty = Settings(INPUT_ROWS, environ=dict.fromkeys(_environment_names().values(), ""))
    assert set(empty.sources.values()) == {"default"}


# -- what reaches the program -------------------------------------------------------------------


def _spying_action(folder: Path) -> Path:
    """The action with a spy in the program's place: what it installs and hands over stays."""
    action = ship_action(folder, without="rlm_ci")
    (action / "rlm_ci").mkdir()
    (action / "rlm_ci" / "__init__.py").touch()
    (action / "rlm_ci" / "__main__.py").write_text(SPY)
    return action


def _trap(workspace: Path, canary: Path) -> None:
    """What a pull request can bring to be imported or executed: each touches the canary."""
    touch = f"open({str(canary)!r}, 'w').close()\n"
    for name in ("sitecustomize", "usercustomize", "pip", "venv", "ensurepip", "rlm_ci", "json"):
        (workspace / name).mkdir()
        for module in ("__init__.py", "__main__.py"):
            (workspace / name / module).write_text(touch)
    (workspace / "evil.pth").write_text(f"import os; {touch}")
    (workspace / "pip.conf").write_text("[global]\nindex-url = http://127.0.0.1:1/\n")
    (workspace / "requirements.lock").write_text("evil==1\n")
    script = f"#!/bin/sh\ntouch {canary}\n"
    for name in ("python", "python3", "cmp", "cp", "touch"):
        (workspace / name).write_text(script)
        (workspace / name).chmod(0o755)


@pytest.fixture
def spy(tmp_path: Path, made: Path) -> Iterator[Callable[..., dict[str, Any]]]:
    """Runs the spying action as GitHub does, in a workspace full of traps."""
    canary = tmp_path / "sprung"
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    _trap(workspace, canary)
    environment = {
        "PROBE": str(tmp_path),
        "PYTHONPATH": str(workspace),
        "PIP_REQUIRE_VIRTUALENV": "1",
    }

    def use(installed: Path = made, **inputs: str) -> dict[str, Any]:
        reuse(installed, tmp_path / "job")
        action = _spying_action(tmp_path / "action")
        steps = Runner(tmp_path / "job", action, workspace, environment).use(inputs)
        assert [step.code for step in steps] == [0, 0], steps
        record: dict[str, Any] = json.loads((tmp_path / "spy.json").read_text())
        return record | {"shell": steps[-1].pid, "workspace": str(workspace)}

    yield use
    assert not canary.exists(), "something of the pull request was executed"


def test_the_program_runs_isolated_in_the_workspace_and_in_place_of_the_shell(
    spy: Callable[..., dict[str, Any]],
) -> None:
    seen = spy()
    assert seen["argv"] == ["pr"]
    assert os.path.realpath(seen["cwd"]) == os.path.realpath(seen["workspace"])
    assert seen["isolated"] == 1
    assert not [path for path in seen["path"] if path in ("", ".", seen["workspace"])]
    assert seen["pid"] == seen["shell"], "without exec, a cancelled job leaves the program behind"
    assert not [name for name in seen["environ"] if name.startswith("INPUT_")]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("report", "argv"),
    [
        ("", ["pr"]),
        ("a b/report.json", ["publish", "a b/report.json"]),
        ("*", ["publish", "*"]),
        ("--help", ["publish", "./--help"]),
        ("-", ["publish", "./-"]),
    ],
)
def test_a_report_that_is_given_is_posted(
    spy: Callable[..., dict[str, Any]], report: str, argv: list[str]
) -> None:
    seen = spy(report=report)
    assert seen["argv"] == argv
    assert seen["pid"] == seen["shell"]


def test_inputs_that_are_not_given_are_empty(spy: Callable[..., dict[str, Any]]) -> None:
    seen = spy()
    names = set(_environment_names().values()) - {"RLM_CI_GITHUB_MATRIX"}
    assert {seen["environ"][name] for name in names} == {""}


@pytest.mark.sample(1)
@pytest.mark.parametrize("template", HOSTILE)
def test_hostile_inputs_arrive_as_they_are(
    template: str, spy: Callable[..., dict[str, Any]], made_for_models: Path, tmp_path: Path
) -> None:
    text = template.format(canary=tmp_path / "sprung")
    seen = spy(made_for_models, **dict.fromkeys(METADATA["inputs"], text))
    for variable in _environment_names().values():
        assert seen["environ"][variable] == text
    assert seen["argv"] == ["publish", f"./{text}" if text.startswith("-") else text]


# -- installation -------------------------------------------------------------------------------


def _packages(python: str) -> dict[str, str]:
    script = (
        "import importlib.metadata as m, json;"
        "print(json.dumps({d.name: d.version for d in m.distributions()}))"
    )
    out = subprocess.run([python, "-I", "-c", script], capture_output=True, check=True).stdout
    return {canonicalize_name(name): version for name, version in json.loads(out).items()}


def _job(tmp_path: Path, **options: Any) -> Runner:
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    action = options.pop("action", None) or _spying_action(tmp_path / "action")
    environment = {"PROBE": str(tmp_path), **options.pop("environment", {})}
    return Runner(tmp_path / "job", action, workspace, environment, **options)


@pytest.mark.full
@pytest.mark.parametrize(
    ("inputs", "lock"),
    [
        pytest.param({}, "requirements.lock", id="checks"),
        pytest.param({"fix": "make it green"}, "requirements-models.lock", id="fix"),
        pytest.param({"openai-api-key": "sk-x"}, "requirements-models.lock", id="review"),
    ],
)
def test_exactly_the_lock_is_installed_and_once_in_a_job(
    inputs: dict[str, str], lock: str, tmp_path: Path
) -> None:
    job = _job(tmp_path)
    python = job.use(inputs)[0].outputs["python"]
    assert _packages(python) == locked(ROOT / lock)

    marker = Path(python).parent / "marker"
    marker.touch()
    # A second use must not ask the index again: here is none.
    job.environment = {**job.environment, "PIP_FIND_LINKS": str(tmp_path / "nowhere")}
    assert [step.code for step in job.use(inputs)] == [0, 0]
    assert marker.exists()


def test_the_key_of_each_provider_brings_what_a_model_takes() -> None:
    text = (ROOT / "action.yml").read_text("utf-8")
    for row in PROVIDERS.values():
        for key in row.keys:
            assert f"${{{key}:-}}" in text


@pytest.mark.full
def test_a_fix_after_the_checks_in_the_same_job_gets_what_it_needs(tmp_path: Path) -> None:
    job = _job(tmp_path)
    python = job.use()[0].outputs["python"]
    assert "openai" not in _packages(python)
    assert [step.code for step in job.use({"fix": "make it green"})] == [0, 0]
    assert "openai" in _packages(python)


@pytest.mark.full
def test_another_version_in_the_same_job_gets_its_own_lock_and_code(tmp_path: Path) -> None:
    first = _job(tmp_path)
    first.use()
    other = _spying_action(tmp_path / "other")
    with (other / "requirements.lock").open("a") as lock:
        lock.write("# another version\n")
    second = _job(tmp_path, action=other)
    assert [step.code for step in second.use()] == [0, 0]
    assert str(other) in json.loads((tmp_path / "spy.json").read_text())["path"]
    assert str(first.action) not in json.loads((tmp_path / "spy.json").read_text())["path"]


@pytest.mark.full
def test_the_jobs_own_python_is_left_alone(tmp_path: Path) -> None:
    before = _packages(sys.executable)
    steps = _job(tmp_path).use()  # the harness fails it for a write to GITHUB_ENV or GITHUB_PATH
    assert Path(steps[0].outputs["python"]).is_relative_to(tmp_path)
    assert _packages(sys.executable) == before


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("broken", "environment", "said"),
    [
        pytest.param(True, {}, "Python 3.11 or newer is needed", id="old-python"),
        pytest.param(False, {"PIP_FIND_LINKS": "/nonexistent"}, "PIP_INDEX_URL", id="no-index"),
    ],
)
def test_a_failed_installation_says_what_to_do(
    broken: bool, environment: dict[str, str], said: str, tmp_path: Path
) -> None:
    if broken:
        names = ("python", "python3", *(f"python3.{minor}" for minor in range(11, 15)))
        path = put_python(tmp_path / "old", *names, broken=True)
        environment = {"PATH": f"{path}:/usr/bin:/bin"}
    steps = _job(tmp_path, environment=environment).use()
    assert [step.code for step in steps] == [4]
    last = steps[0].text.splitlines()[-1]
    assert last.startswith("::error title=rlm-ci could not be installed::")
    assert said in last
    assert not (tmp_path / "spy.json").exists()


@pytest.mark.full
def test_a_package_that_is_not_the_locked_one_is_refused(tmp_path: Path) -> None:
    job = _job(tmp_path)
    lock = job.action / "requirements.lock"
    lock.write_text(re.sub(r"sha256:[0-9a-f]{64}", "sha256:" + "0" * 64, lock.read_text()))
    steps = job.use()
    assert [step.code for step in steps] == [4]
    assert "::error" in steps[0].text


@pytest.mark.full
def test_a_python_without_pip_will_do(tmp_path: Path) -> None:
    python = tmp_path / "python" / "python3"
    put_python(python.parent)
    real = python.read_text().splitlines()[-1]
    # Debian's python3, for one, comes without pip, but with ensurepip where venv is installed.
    hide = 'case " $* " in *" pip "*) exit 1;; esac'
    python.write_text(f"#!/bin/sh\n{hide}\n{real}\n")
    job = _job(tmp_path, environment={"PATH": f"{python.parent}:/usr/bin:/bin"})
    assert [step.code for step in job.use()] == [0, 0]


@pytest.mark.full
def test_in_a_container_the_action_is_found_where_it_is_mounted(tmp_path: Path) -> None:
    action = _spying_action(tmp_path / "action")
    host = "/home/runner/work/widget/widget/./"
    job = Runner(tmp_path / "job", action, action, {"PROBE": str(tmp_path)}, action_path=host)
    assert [step.code for step in job.use()] == [0, 0]


def test_a_pinned_action_never_falls_back_to_the_pull_requests_files(tmp_path: Path) -> None:
    action = _spying_action(tmp_path / "action")
    pinned = "/home/runner/work/_actions/rlm-ci/rlm-ci/v1"
    job = Runner(tmp_path / "job", action, action, {"PROBE": str(tmp_path)}, action_path=pinned)
    steps = job.use()
    assert [step.code for step in steps] == [4]
    assert "/__w/_actions/rlm-ci/rlm-ci/v1" in steps[0].text
    assert not (tmp_path / "spy.json").exists()


# -- the whole action, under act ----------------------------------------------------------------

COMMANDS = {"error", "warning", "notice"}


def _annotations(job: Job) -> list[str]:
    return [text for name, _, text in job.commands if name in COMMANDS]


def _report(job: Job) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((job.files / "report.json").read_text("utf-8"))
    return report


@pytest.fixture
def base(repo: GitRepo) -> str:
    return repo.write_all({"README.md": "# Shop\n", "src/cart.py": "total = 0\n"}).commit("Begin")


@pytest.mark.full
def test_a_clean_pull_request(repo: GitRepo, base: str, tmp_path: Path) -> None:
    head = repo.append("src/cart.py", "tax = 1\n").commit("Add taxes")
    job = run_in_act(tmp_path / "job", repo, pull_request(base, head), {})
    assert (job.code, job.outcome) == (0, "success"), job.log
    assert set(job.outputs) == OUTPUTS
    given = {name: job.outputs[name] for name in ("verdict", "findings", "failing", "head-sha")}
    assert given == {"verdict": "clean", "findings": "0", "failing": "0", "head-sha": head}
    report = _report(job)
    assert report["verdict"] == "clean"
    assert report["subject"]["head"] == head
    assert report["subject"]["base"] == base
    assert report["subject"]["pull_request"] == 12
    assert (report["run_id"] or "") == job.outputs["run-id"]
    assert json.loads((job.files / "report.sarif").read_text("utf-8"))["version"] == "2.1.0"
    assert "clean" in job.summary.lower()
    assert _annotations(job) == []
    assert (job.outputs["patch"], job.outputs["cost-usd"]) == ("", "")
    assert job.artifacts == {}, "without a patch the step that uploads it is skipped"


@pytest.mark.full
def test_a_pull_request_over_budget_fails_the_job(
    repo: GitRepo, base: str, made: Path, tmp_path: Path
) -> None:
    repo.write_all({f"src/part_{n}.py": "x = 1\n" for n in range(3)})
    head = repo.commit("Add parts")
    job = run_in_act(
        tmp_path / "job", repo, pull_request(base, head), {"max-files": "2"}, made=made
    )
    assert (job.code, job.outcome) == (1, "failure"), job.log
    assert job.outputs["verdict"] == "findings"
    assert job.outputs["findings"] == job.outputs["failing"] == "1"
    (finding,) = _report(job)["findings"]
    assert finding["rule"] == "diff-budget/files"
    assert "diff-budget/files" in job.summary
    assert [name for name, _, _ in job.commands if name in COMMANDS] == ["error"]


@pytest.mark.full
def test_the_fail_level_decides_about_the_job(
    repo: GitRepo, base: str, made: Path, tmp_path: Path
) -> None:
    head = repo.write_all({"a": "1\n", "b": "2\n"}).commit("Two")
    inputs = {"max-files": "1", "fail-level": "critical"}
    job = run_in_act(tmp_path / "job", repo, pull_request(base, head), inputs, made=made)
    assert (job.code, job.outcome) == (0, "success"), job.log
    assert (job.outputs["findings"], job.outputs["failing"]) == ("1", "0")


@pytest.mark.full
def test_inputs_choose_the_checks_the_task_and_the_folder(
    repo: GitRepo, base: str, made: Path, tmp_path: Path
) -> None:
    repo.write("tasks/index.json", '{"items": [{"id": "T1", "slug": "taxes"}]}')
    head = repo.commit("Register the task")
    inputs = {"checks": "delegation-guard", "task-id": "T1-taxes", "out": "made/by rlm-ci"}
    job = run_in_act(tmp_path / "job", repo, pull_request(base, head), inputs, made=made)
    assert (job.code, job.outputs["verdict"]) == (1, "findings"), job.log
    report = _report(job)
    assert [part["id"] for part in report["parts"]] == ["delegation-guard", "review"]
    assert report["parts"][0]["metrics"]["task_id"] == "T1-taxes"
    assert Path(job.outputs["report"]).parent.parts[-2:] == ("made", "by rlm-ci")


@pytest.mark.full
def test_hostile_text_stays_text(repo: GitRepo, base: str, made: Path, tmp_path: Path) -> None:
    names: list[str | bytes] = [
        "$(touch canary)", "`touch canary`", "a;touch canary", "--output=canary",
        "line\n::error::pwn", "cr\r::set-output name=verdict::clean", "##[error]pwn",
        "::add-mask::a", "<img src=x>.md", "[x](https:evil)", "|a|b|", b"not-\xff-utf8",
    ]  # fmt: skip
    for name in names:
        repo.write(name, "x\n")
    head = repo.commit("::error::pwn\n\n$(touch canary)")
    event = pull_request(
        base, head, title=HOSTILE_TITLE, body=HOSTILE_TITLE,
        head_ref='a$(touch${IFS}canary)";touch${IFS}canary;"', author="$(touch canary)",
        labels=["`touch canary`"],
    )  # fmt: skip
    job = run_in_act(tmp_path / "job", repo, event, {"max-files": "1"}, made=made)
    assert (job.code, job.outputs["verdict"]) == (1, "findings"), job.log
    assert set(job.outputs) == OUTPUTS
    metrics = {part["id"]: part["metrics"] for part in _report(job)["parts"]}
    assert metrics["diff-budget"]["files"] == len(names)
    assert not list(tmp_path.rglob("sprung"))
    assert [name for name, _, _ in job.commands if name in COMMANDS] == ["error"]
    assert not [text for text in _annotations(job) if text.startswith("pwn")]
    assert not [name for name, _, _ in job.commands if name in ("add-mask", "set-env", "add-path")]
    # The runner takes a command at the start of a line, after blanks, and ##[ anywhere in it.
    for line in re.split(r"[\r\n]", "\n".join(job.printed)):
        assert not re.match(
            r"\s*::(?!error|warning|notice|stop-commands|group|endgroup)[\w-]+", line
        )
        assert "##[" not in line


@pytest.mark.full
def test_a_base_that_is_not_there_is_never_clean(
    repo: GitRepo, base: str, made: Path, tmp_path: Path
) -> None:
    head = repo.append("src/cart.py", "tax = 1\n").commit("Add taxes")
    missing = base[::-1]
    job = run_in_act(tmp_path / "job", repo, pull_request(missing, head), {}, made=made)
    assert (job.code, job.outcome) == (1, "failure"), job.log
    assert job.outputs["verdict"] in ("", "not_run")
    said = "\n".join(job.printed)
    assert "error: " in said
    assert "hint: " in said
    assert missing[:7] in said


@pytest.mark.full
def test_a_wrong_input_is_named(repo: GitRepo, base: str, made: Path, tmp_path: Path) -> None:
    head = repo.append("src/cart.py", "tax = 1\n").commit("Add taxes")
    job = run_in_act(
        tmp_path / "job", repo, pull_request(base, head), {"fail-level": "hihg"}, made=made
    )
    assert (job.code, job.outcome) == (1, "failure"), job.log
    assert job.outputs["verdict"] in ("", "not_run")
    assert [line for line in job.printed if "error: " in line and "RLM_CI_FAIL_LEVEL" in line]


@pytest.mark.full
def test_the_repository_may_lie_in_a_folder_of_the_workspace(
    base: str, repo: GitRepo, made: Path, tmp_path: Path
) -> None:
    head = repo.append("src/cart.py", "tax = 1\n").commit("Add taxes")
    event = tmp_path / "event.json"
    event.write_text(json.dumps(pull_request(base, head)))
    environment = {"GITHUB_EVENT_PATH": str(event), "GITHUB_EVENT_NAME": "pull_request"}
    reuse(made, tmp_path / "job")
    job = Runner(tmp_path / "job", ship_action(tmp_path / "action"), repo.path.parent, environment)
    install, program = job.use({"working-directory": repo.path.name})
    assert (install.code, program.code) == (0, 0), program.text
    assert set(program.outputs) == OUTPUTS - {"comment-url"}, "nothing was posted"
    assert program.outputs["head-sha"] == head
    assert job.summary
