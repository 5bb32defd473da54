"""REST: check runs, commit statuses, workflow runs and their artifacts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from testing.loopback_github import bodies
from testing.loopback_github.identity import RefusalError, not_found
from testing.loopback_github.routes import ROUTES, Answer, Call, R
from testing.loopback_github.state import CheckRun, Status, account_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testing.loopback_github.state import Artifact

#: An artifact's bytes lie with a storage service that knows nothing of GitHub's tokens.
STORAGE = "/storage/artifacts"
_MAX_SUMMARY = 65_535


# -- check runs ---------------------------------------------------------------------------------


def _app(call: Call) -> str:
    if call.me.app is None:
        raise RefusalError(403, "You must authenticate via a GitHub App.")
    return call.me.app


def _apply(call: Call, run: CheckRun, asked: Mapping[str, Any]) -> None:
    """Take over what was sent. Raises RefusalError, and then nothing has changed."""
    output = asked.get("output") or {}
    for name in ("summary", "text"):
        if len((output.get(name) or "").encode()) > _MAX_SUMMARY:
            raise _invalid_request(f"{name} exceeds a maximum bytesize of {_MAX_SUMMARY}.")
    for row in output.get("annotations", ()):
        if row["start_line"] > row["end_line"]:
            raise _invalid_request("start_line must precede end_line.")
        if "start_column" in row and row["start_line"] != row["end_line"]:
            raise _invalid_request("start_column is for annotations on one line.")
    conclusion = asked.get("conclusion")
    status = "completed" if conclusion else asked.get("status", run.status)
    if status == "completed" and not (conclusion or run.conclusion):
        raise _invalid_request('conclusion is required when status is "completed".')
    run.status = status
    run.conclusion = (conclusion or run.conclusion) if status == "completed" else None
    if status == "completed":
        run.completed_at = asked.get("completed_at") or run.completed_at or call.world.now()
    for name in ("name", "details_url", "external_id", "started_at"):
        setattr(run, name, asked.get(name, getattr(run, name)))
    for name in ("title", "summary", "text"):
        setattr(run, name, output.get(name, getattr(run, name)))
    run.annotations += output.get("annotations", ())  # each request adds to those before


def _invalid_request(text: str) -> RefusalError:
    return RefusalError(422, f"Invalid request.\n\n{text}")


@ROUTES.add("POST", f"{R}/check-runs", "checks=write")
def _create_check(call: Call) -> Answer:
    repo, app = call.repo, _app(call)
    sha = call.commit(call.body["head_sha"])
    now = call.world.now()
    made = CheckRun(
        call.world.new_id(), "", sha, app, "queued", None, now, None, None, "", None, None, None, []
    )
    _apply(call, made, call.body)
    repo.checks.append(made)
    body = bodies.check_run(repo, made, call.api)
    return Answer(body, 201, {"Location": body["url"]})


def _check(call: Call) -> CheckRun:
    wanted = int(call.params["check_run_id"])
    for made in call.repo.checks:
        if made.id == wanted:
            return made
    raise not_found()


@ROUTES.add("GET", f"{R}/check-runs/{{check_run_id}}", "checks=read")
def _get_check(call: Call) -> Answer:
    return Answer(bodies.check_run(call.repo, _check(call), call.api))


@ROUTES.add("PATCH", f"{R}/check-runs/{{check_run_id}}", "checks=write")
def _update_check(call: Call) -> Answer:
    made = _check(call)
    if made.app != _app(call):
        raise RefusalError(
            403, "Invalid app_id `0` - check run can only be modified by its creator."
        )
    _apply(call, made, call.body)
    return Answer(bodies.check_run(call.repo, made, call.api))


@ROUTES.add("GET", f"{R}/check-runs/{{check_run_id}}/annotations", "checks=read")
def _annotations(call: Call) -> Answer:
    made = _check(call)
    blob = f"{bodies.WEB}/{call.repo.full_name}/blob/{made.head_sha}/"
    absent: dict[str, Any] = dict.fromkeys(("start_column", "end_column", "title", "raw_details"))
    return call.page(
        made.annotations, lambda row: {**absent, **row, "blob_href": blob + row["path"]}
    )


@ROUTES.add("GET", f"{R}/commits/{{ref}}/check-runs", "checks=read")
def _checks(call: Call) -> Answer:
    sha, wanted = call.commit(call.params["ref"]), call.query
    found = [made for made in reversed(call.repo.checks) if made.head_sha == sha]
    for name, key in (("check_name", "name"), ("status", "status")):
        if name in wanted:
            found = [made for made in found if getattr(made, key) == wanted[name]]
    if "app_id" in wanted:
        found = [made for made in found if str(account_id(made.app)) == wanted["app_id"]]
    if wanted.get("filter", "latest") == "latest":
        newest = {(made.app, made.name): made.id for made in reversed(found)}
        found = [made for made in found if made.id in newest.values()]
    shown, headers = call.slice(found)
    rows = [bodies.check_run(call.repo, made, call.api) for made in shown]
    return Answer({"total_count": len(found), "check_runs": rows}, headers=headers)


# -- commit statuses ----------------------------------------------------------------------------


@ROUTES.add("POST", f"{R}/statuses/{{sha}}", "statuses=write")
def _create_status(call: Call) -> Answer:
    asked, sha = call.body, call.commit(call.params["sha"])
    made = Status(
        call.world.new_id(), sha, call.me.login, asked["state"], asked.get("context", "default"),
        asked.get("description"), asked.get("target_url"), call.world.now(),
    )  # fmt: skip
    call.repo.statuses.append(made)
    return Answer(bodies.status(call.repo, made, call.api), 201)


@ROUTES.add("GET", f"{R}/commits/{{ref}}/statuses", "statuses=read")
def _statuses(call: Call) -> Answer:
    sha = call.commit(call.params["ref"])
    found = [made for made in reversed(call.repo.statuses) if made.sha == sha]
    return call.page(found, lambda made: bodies.status(call.repo, made, call.api))


# -- workflow runs ------------------------------------------------------------------------------


@ROUTES.add("GET", f"{R}/actions/runs/{{run_id}}", "actions=read")
def _run(call: Call) -> Answer:
    for run in call.repo.runs:
        if run.id == int(call.params["run_id"]):
            return Answer(bodies.workflow_run(call.repo, run, call.api))
    raise not_found()


@ROUTES.add("GET", f"{R}/actions/runs/{{run_id}}/artifacts", "actions=read")
def _artifacts(call: Call) -> Answer:
    found = [
        made
        for made in call.repo.artifacts
        if made.run == int(call.params["run_id"]) and call.query.get("name", made.name) == made.name
    ]
    shown, headers = call.slice(found)
    rows = [bodies.artifact(call.repo, made, call.api) for made in shown]
    return Answer({"total_count": len(found), "artifacts": rows}, headers=headers)


def _artifact_of(call: Call) -> Artifact:
    for made in call.repo.artifacts:
        if made.id == int(call.params["artifact_id"]):
            return made
    raise not_found()


@ROUTES.add("GET", f"{R}/actions/artifacts/{{artifact_id}}", "actions=read")
def _artifact(call: Call) -> Answer:
    return Answer(bodies.artifact(call.repo, _artifact_of(call), call.api))


@ROUTES.add("GET", f"{R}/actions/artifacts/{{artifact_id}}/{{archive_format}}", "actions=read")
def _download(call: Call) -> Answer:
    """Never for strangers, not even of a public repository; the bytes lie elsewhere."""
    made = _artifact_of(call)
    if not call.me.may("actions=read"):
        raise RefusalError(
            403,
            "Resource not accessible by integration",
            headers={"x-accepted-github-permissions": "actions=read"},
        )
    if made.expired:
        raise RefusalError(410, "Artifact has expired")
    return Answer(None, 302, {"Location": f"{STORAGE}/{made.id}"})
