"""The input ``fix``: a model on loopback fixes a pull request; a patch is left, nothing pushed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testing.action_runner import (
    BIN,
    ROOT,
    Job,
    Runner,
    Step,
    bare_environment,
    load_yaml,
    put_python,
    reuse,
    run_in_act,
    ship_action,
)
from testing.fix_stage import BUG, GOAL, MENDED, TEST, TWO_TURNS, Play, done, write
from testing.loopback_github.process import GitHubProcess
from testing.loopback_model.server import ModelServer
from testing.repositories.events import NAME, OWNER, from_fork, pull_request
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

METADATA = load_yaml((ROOT / "action.yml").read_bytes())
SLUG = f"{OWNER}/{NAME}"
NUMBER = 7
TOKEN = "ghs_" + "w" * 36
NO_MODEL = {"openai-base-url": "", "openai-api-key": ""}
#: The scripted model only edits.
WITHOUT_REVIEW = {"RLM_CI_LOOP_GATES_REVIEW_ENABLED": "false"}
#: A model that changes something, and never what matters.
ASTRAY = Play([write("notes.txt", "I looked at it.\n"), done()])


class Place:
    """A pull request whose tests fail, its GitHub, a model, and the action."""

    def __init__(
        self, tmp: Path, github: GitHubProcess, llm: ModelServer, repo: GitRepo, made: Path
    ) -> None:
        self.tmp = tmp
        self.made = made
        self.github = github
        self.llm = llm
        self.repo = repo
        self.base, self.head = repo.sha("main"), repo.sha("feature")

    def in_act(self, **inputs: str) -> Job:
        return run_in_act(
            self.tmp / "job",
            self.repo,
            pull_request(self.base, self.head, number=NUMBER),
            self._inputs("${{ secrets.MODEL_KEY }}", **inputs),
            variables={"GITHUB_API_URL": self.github.url, **WITHOUT_REVIEW},
            secrets={"MODEL_KEY": self.llm.key},
            programs=[BIN],  # pytest is among them
            made=self.made,
        )

    def step(
        self,
        jobs: Path,
        event: dict[str, Any],
        event_name: str = "pull_request",
        *,
        inputs: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Step:
        """The step alone that runs the program, as GitHub starts it; ``jobs`` share a Python."""
        (self.tmp / "event.json").write_text(json.dumps(event))
        environment = {
            "GITHUB_EVENT_PATH": str(self.tmp / "event.json"),
            "GITHUB_EVENT_NAME": event_name,
            "GITHUB_API_URL": self.github.url,
            "PATH": bare_environment(self.tmp / "home", programs=[BIN])["PATH"],
            **WITHOUT_REVIEW,
            **(variables or {}),
        }
        action = jobs / "action"
        shipped = action if action.exists() else ship_action(action)
        runner = Runner(jobs, shipped, self.repo.path, environment)
        return runner.use(self._inputs(self.llm.key, **(inputs or {})))[-1]

    def _inputs(self, key: str, **inputs: str) -> dict[str, str]:
        usual = {
            "fix": GOAL, "review": "off", "model": "gpt-4o", "github-token": TOKEN,
            "openai-base-url": self.llm.url, "openai-api-key": key,
        }  # fmt: skip
        return {name: text for name, text in (usual | inputs).items() if text}

    def comment(self) -> str:
        assert self.github.call("violations") == []
        state = self.github.call("pull-state", repository=SLUG, number=NUMBER)
        (comment,) = state["comments"]
        return str(comment["body"])

    def refs(self) -> str:
        return self.repo.text("for-each-ref")


@pytest.fixture
def place(
    tmp_path_factory: pytest.TempPathFactory, repo: GitRepo, made_for_models: Path
) -> Iterator[Place]:
    tmp = tmp_path_factory.mktemp("fix")  # short: a socket is made below it
    repo.write(".gitignore", ".runs/\nout/\n").write("pytest.ini", "[pytest]\n").commit("Begin")
    repo.checkout("feature", new=True)
    repo.write("calc.py", BUG).write("test_calc.py", TEST).commit("Add sums")
    repo.remote(f"https://github.com/{SLUG}.git")
    seed = {
        "repositories": [{"full_name": SLUG, "git": str(repo.path)}],
        "pulls": [{"repository": SLUG, "number": NUMBER, "head": "feature"}],
        "tokens": [{"token": TOKEN, "login": "github-actions[bot]"}],
    }
    with GitHubProcess(tmp, seed) as github, ModelServer(TWO_TURNS) as llm:
        yield Place(tmp, github, llm, repo, made_for_models)
    assert not llm.unexpected()


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory, made_for_models: Path) -> Path:
    """Where the jobs of this module are: they find installed what the action needs."""
    job = tmp_path_factory.mktemp("jobs") / "job"
    reuse(made_for_models, job)
    return job


def _part(report: Path) -> dict[str, Any]:
    parts = json.loads(report.read_text("utf-8"))["parts"]
    (part,) = [part for part in parts if part["id"] == "rlm"]
    return dict(part)


def _holding(folder: Path, secret: str) -> list[Path]:
    """The files below ``folder`` with ``secret`` in them."""
    found = (Path(top, name) for top, _, names in os.walk(folder) for name in names)
    return [path for path in found if path.is_file() and secret.encode() in path.read_bytes()]


# -- under act ----------------------------------------------------------------------------------


@pytest.mark.full
def test_what_makes_the_tests_pass_is_left_as_a_patch_and_nothing_is_pushed(place: Place) -> None:
    before = place.refs()
    job = place.in_act()
    assert (job.code, job.outputs["verdict"]) == (0, "clean"), job.log
    assert float(job.outputs["cost-usd"]) > 0

    ((name, [artifact]),) = job.artifacts.items()
    assert name == f"rlm-ci-patch-{job.outputs['run-id']}"
    assert job.outputs["patch"].endswith("/rlm/result.patch")
    assert artifact.read_bytes() == (job.files / "result.patch").read_bytes()
    place.repo.run("apply", "--index", str(artifact))
    assert (place.repo.path / "calc.py").read_text() == MENDED

    part = _part(job.files / "report.json")
    assert part["verdict"] == "clean"
    for shown in (job.summary, place.comment()):
        assert f"| `rlm` | {part['summary']} |" in shown

    assert job.status == "", "the work tree is as it was checked out"
    assert place.refs() == before
    written = {row["path"].rpartition("/")[2] for row in place.github.call("log") if row["writes"]}
    assert written == {"comments", "check-runs"}, "nothing of git's is written through the API"
    assert place.llm.completions
    assert place.llm.key not in job.log
    assert list(job.runs.rglob("calls.jsonl")), "what the run wrote is among what is searched"
    assert _holding(place.tmp, place.llm.key) == []


@pytest.mark.full
def test_a_job_that_ends_red_leaves_its_patch_too(place: Place) -> None:
    place.llm.script(ASTRAY)
    job = place.in_act(**{"max-calls": "2"})
    assert (job.code, job.outcome, job.outputs["verdict"]) == (1, "failure", "incomplete"), job.log
    assert _part(job.files / "report.json")["verdict"] == "incomplete"
    (files,) = job.artifacts.values()
    assert [path.name for path in files] == ["result.patch"]
    assert b"notes.txt" in files[0].read_bytes()
    assert len(place.llm.completions) == 2


# -- as GitHub's runner starts it ---------------------------------------------------------------


def _require_not_run(place: Place, step: Step, why: str) -> None:
    """The fix loop was refused: said in the report, no model asked, no patch, exit code 5."""
    assert step.code == 5, step.text
    assert step.outputs["verdict"] == "not_run"
    assert step.outputs["patch"] == ""
    part = _part(Path(step.outputs["report"]))
    assert part["verdict"] == "not_run"
    assert why in part["summary"]
    assert place.llm.completions == []


@pytest.mark.full
def test_a_forks_code_is_not_run(place: Place, jobs: Path) -> None:
    step = place.step(jobs, from_fork(place.base, place.head, number=NUMBER))
    _require_not_run(place, step, "the pull request of a fork")


@pytest.mark.full
def test_in_a_job_with_secrets_of_its_own_nobodys_code_is_run(place: Place, jobs: Path) -> None:
    place.repo.checkout("main")
    event = pull_request(place.base, place.head, number=NUMBER)
    step = place.step(jobs, event, "pull_request_target")
    _require_not_run(place, step, "pull_request_target gives this job secrets")


@pytest.mark.full
def test_nor_is_the_pull_request_judged_where_it_is_checked_out(place: Place, jobs: Path) -> None:
    event = pull_request(place.base, place.head, number=NUMBER)
    step = place.step(jobs, event, "pull_request_target")
    assert step.code == 5
    assert "the work tree has the pull request's code" in step.text
    assert "patch" not in step.outputs
    assert place.llm.completions == []


@pytest.mark.full
def test_without_a_model_to_ask_it_is_not_run(place: Place, jobs: Path) -> None:
    event = pull_request(place.base, place.head, number=NUMBER)
    step = place.step(jobs, event, inputs=NO_MODEL)
    _require_not_run(place, step, "no model is set up")


@pytest.mark.full
def test_fixers_need_no_model(place: Place, jobs: Path) -> None:
    place.repo.write("ruff.toml", "").write("lint.py", "import os\n")
    head = place.repo.commit("Add lint")
    step = place.step(
        jobs,
        pull_request(place.base, head, number=NUMBER),
        variables={"RLM_CI_LOOP_AGENT": "autofix", "RLM_VALIDATOR": "ruff check ."},
        inputs=NO_MODEL,
    )
    assert (step.code, step.outputs["verdict"]) == (0, "clean"), step.text
    assert "-import os" in Path(step.outputs["patch"]).read_text()
    shown = step.outputs["patch"][step.outputs["patch"].index(".runs/") :]
    assert f"Patch: {shown}" in step.text
    assert f"its patch is `{shown}`" in Path(step.outputs["report"]).read_text()
    assert step.outputs["cost-usd"] in ("", "0.0000")
    assert place.llm.completions == []


# -- the job that pushes, as documented ---------------------------------------------------------

PAGES = ("examples/fix_workflow.yml", "docs/fix.md")
#: Stands in for GitHub's command line: writes down what it was asked for.
GH = """#!/bin/sh
[ "$GH_TOKEN" = a-token ] || exit 1
printf '%s\\n' "$*" >>"$ASKED"
"""


def _jobs_of(page: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job that fixes, and the one that pushes, of the one such workflow of ``page``."""
    text = (ROOT / page).read_text("utf-8")
    fenced = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (workflow,) = [
        load_yaml(block) for block in fenced or [text] if "actions/download-artifact@" in block
    ]
    fixing, pushing = workflow["jobs"].values()
    return fixing, pushing


@pytest.mark.parametrize("page", PAGES)
def test_who_runs_the_code_may_write_nothing_and_who_may_write_runs_nothing(page: str) -> None:
    fixing, pushing = _jobs_of(page)
    # On a private repository, the goal of /rlm-ci fix is read by the second one.
    assert fixing["permissions"] in (
        {"contents": "read"}, {"contents": "read", "pull-requests": "read"},
    )  # fmt: skip
    (ours,) = [step for step in fixing["steps"] if "fix" in step.get("with", ())]
    names = set(METADATA["inputs"])
    assert set(ours["with"]) <= names
    for name, text in fixing["outputs"].items():
        assert text == f"${{{{ steps.{ours['id']}.outputs.{name} }}}}"
        assert name in METADATA["outputs"]

    assert pushing["if"] == "needs.fix.outputs.patch != ''", "and success, as without always()"
    assert pushing["needs"] == "fix"
    used = [step["uses"].partition("@")[0] for step in pushing["steps"] if "uses" in step]
    assert used == ["actions/checkout", "actions/download-artifact"]
    uploaded = METADATA["runs"]["steps"][-1]["with"]["name"]
    wanted = pushing["steps"][1]["with"]["name"]
    assert wanted.replace("needs.fix", "steps.pr") == uploaded
    assert "OPENAI" not in json.dumps(pushing)


@pytest.mark.parametrize("page", PAGES)
def test_what_is_pushed_is_the_head_and_the_patch(page: str, repo: GitRepo, tmp_path: Path) -> None:
    origin = GitRepo(tmp_path / "origin", bare=True)
    repo.write("calc.py", BUG).commit("Add sums")
    repo.write("calc.py", MENDED)
    patch = repo.run("diff", "--binary")
    repo.run("checkout", "--quiet", "calc.py")
    repo.remote(str(origin.path))
    (tmp_path / "patch").mkdir()
    (tmp_path / "patch" / "result.patch").write_bytes(patch)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "gh").write_text(GH)
    (bin_ / "gh").chmod(0o755)

    step = _jobs_of(page)[1]["steps"][-1]
    branch = "rlm-ci/fix-1"
    given = {"BASE": "$(touch sprung)", "BRANCH": branch, "NUMBER": "7", "GH_TOKEN": "a-token"}
    assert set(step["env"]) <= set(given)
    environment = bare_environment(tmp_path / "home", put_python(bin_)) | {
        "RUNNER_TEMP": str(tmp_path), "ASKED": str(tmp_path / "asked"), **given,
    }  # fmt: skip
    ended = subprocess.run(
        ["bash", "-e", "-c", step["run"]], cwd=repo.path, env=environment,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert origin.text("for-each-ref", "--format=%(refname)") == f"refs/heads/{branch}"
    assert origin.text("show", f"{branch}:calc.py") == MENDED.rstrip("\n")
    assert origin.sha(f"{branch}^") == repo.sha("HEAD^")
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[0] == "auth setup-git"
    assert all(f"--base=$(touch sprung) --head={branch}" in line for line in asked[1:])
    assert not list(tmp_path.rglob("sprung"))
