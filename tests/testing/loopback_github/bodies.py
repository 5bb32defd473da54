"""Records as the JSON of GitHub's REST API.

Only what has a meaning here is said; ``Description.complete`` adds the dull rest. ``api`` is the
root of all links: it is the one under which the client came in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from testing.loopback_github.identity import standing
from testing.loopback_github.placing import place_now
from testing.loopback_github.state import Pull, account_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from testing.loopback_github.pulls import ChangedFile, Commit
    from testing.loopback_github.state import (
        Artifact,
        CheckRun,
        Comment,
        Issue,
        Reaction,
        Repository,
        Review,
        ReviewComment,
        Status,
        WorkflowRun,
    )

Json = dict[str, Any]
WEB = "https://github.com"
_REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "eyes", "rocket")


def user(login: str, api: str) -> Json:
    own = f"{api}/users/{quote(login)}"
    kind = "Bot" if login.endswith("[bot]") else "User"
    web = f"{WEB}/apps/{login.removesuffix('[bot]')}" if kind == "Bot" else f"{WEB}/{login}"
    parts = ("followers", "subscriptions", "repos", "received_events")
    return {
        "login": login, "id": account_id(login), "node_id": f"U_{account_id(login)}",
        "avatar_url": f"https://avatars.githubusercontent.com/u/{account_id(login)}?v=4",
        "gravatar_id": "", "url": own, "html_url": web, "type": kind, "site_admin": False,
        "following_url": f"{own}/following{{/other_user}}",
        "gists_url": f"{own}/gists{{/gist_id}}", "organizations_url": f"{own}/orgs",
        "starred_url": f"{own}/starred{{/owner}}{{/repo}}",
        "events_url": f"{own}/events{{/privacy}}",
    } | {f"{part}_url": f"{own}/{part}" for part in parts}  # fmt: skip


def app(slug: str, api: str) -> Json:
    return {
        "id": account_id(slug), "slug": slug, "node_id": f"A_{account_id(slug)}",
        "owner": user("acme", api), "name": slug, "description": None,
        "external_url": f"{WEB}/apps/{slug}", "html_url": f"{WEB}/apps/{slug}",
        "permissions": {}, "events": [],
    }  # fmt: skip


def repository(repo: Repository, api: str, *, full_name: str | None = None) -> Json:
    """The repository; with ``full_name`` a fork of it by that name."""
    name = full_name or repo.full_name
    owner, short = name.split("/")
    own = f"{api}/repos/{name}"
    return {
        "id": repo.id if full_name is None else repo.id + 500_000, "node_id": f"R_{repo.id}",
        "name": short, "full_name": name, "private": repo.private, "owner": user(owner, api),
        "fork": name != repo.full_name, "html_url": f"{WEB}/{name}", "url": own,
        "description": None, "default_branch": repo.default_branch,
        "visibility": "private" if repo.private else "public",
        "clone_url": f"{WEB}/{name}.git", "git_url": f"git://github.com/{name}.git",
        "ssh_url": f"git@github.com:{name}.git",
        "created_at": repo.created_at, "updated_at": repo.created_at,
        "pushed_at": repo.created_at, "has_issues": True, "archived": False, "disabled": False,
        "issues_url": f"{own}/issues{{/number}}", "pulls_url": f"{own}/pulls{{/number}}",
        "issue_comment_url": f"{own}/issues/comments{{/number}}",
        "comments_url": f"{own}/comments{{/number}}", "commits_url": f"{own}/commits{{/sha}}",
        "compare_url": f"{own}/compare/{{base}}...{{head}}",
        "contents_url": f"{own}/contents/{{+path}}", "statuses_url": f"{own}/statuses/{{sha}}",
        "labels_url": f"{own}/labels{{/name}}", "license": None,
    }  # fmt: skip


def association(repo: Repository, pull: Pull | None, login: str) -> str:
    role = standing(repo, login)
    if login == repo.owner:
        return "OWNER"
    if login in repo.collaborators and role in {"admin", "write"}:
        return "MEMBER"
    return "CONTRIBUTOR" if pull is not None and login == pull.user else "NONE"


def label(name: str, repo: Repository, api: str) -> Json:
    return {
        "id": account_id(name), "node_id": f"LA_{account_id(name)}", "name": name,
        "url": f"{api}/repos/{repo.full_name}/labels/{quote(name)}", "description": "",
        "color": "ededed", "default": False,
    }  # fmt: skip


def _side(repo: Repository, api: str, ref: str, sha: str, name: str | None) -> Json:
    owner = name.split("/")[0] if name else "unknown"
    fork = name if name != repo.full_name else None
    return {
        "label": f"{owner}:{ref}", "ref": ref, "sha": sha, "user": user(owner, api),
        "repo": repository(repo, api, full_name=fork) if name else None,
    }  # fmt: skip


def pull(repo: Repository, pr: Pull, api: str, *, full: bool = True) -> Json:
    """A pull request; not ``full`` as lists have it."""
    own = f"{api}/repos/{repo.full_name}/pulls/{pr.number}"
    issue = f"{api}/repos/{repo.full_name}/issues/{pr.number}"
    web = f"{WEB}/{repo.full_name}/pull/{pr.number}"
    statuses = f"{api}/repos/{repo.full_name}/statuses/{pr.head_sha}"
    links = {
        "self": own, "html": web, "issue": issue, "comments": f"{issue}/comments",
        "review_comments": f"{own}/comments", "commits": f"{own}/commits", "statuses": statuses,
        "review_comment": f"{api}/repos/{repo.full_name}/pulls/comments{{/number}}",
    }  # fmt: skip
    body: Json = {
        "url": own, "id": pr.id, "node_id": f"PR_{pr.id}", "html_url": web, "number": pr.number,
        "diff_url": f"{web}.diff", "patch_url": f"{web}.patch", "issue_url": issue,
        "commits_url": links["commits"], "review_comments_url": links["review_comments"],
        "review_comment_url": links["review_comment"], "comments_url": links["comments"],
        "statuses_url": statuses, "state": pr.state, "locked": pr.locked, "title": pr.title,
        "user": user(pr.user, api), "body": pr.body, "draft": pr.draft,
        "labels": [label(name, repo, api) for name in pr.labels],
        "created_at": pr.created_at, "updated_at": pr.updated_at,
        "closed_at": None if pr.state == "open" else pr.updated_at,
        "merged_at": pr.updated_at if pr.merged else None, "merge_commit_sha": None,
        "base": _side(repo, api, pr.base, pr.base_sha, repo.full_name),
        "head": _side(repo, api, pr.head_ref, pr.head_sha, pr.head_repository),
        "_links": {name: {"href": href} for name, href in links.items()},
        "author_association": association(repo, pr, pr.user),
    }  # fmt: skip
    if full:
        files = repo.source.diff(pr.base_sha, pr.head_sha)
        fork = repo.source.merge_base(pr.base_sha, pr.head_sha)
        body |= {
            "merged": pr.merged, "mergeable": pr.mergeable,
            "mergeable_state": "unknown" if pr.mergeable is None else "clean",
            "comments": len(pr.comments), "review_comments": len(pr.review_comments),
            "commits": len(repo.source.commits_between(fork, pr.head_sha)),
            "changed_files": len(files), "additions": sum(file.additions for file in files),
            "deletions": sum(file.deletions for file in files), "maintainer_can_modify": False,
        }  # fmt: skip
    return body


def issue(repo: Repository, of: Pull | Issue, api: str) -> Json:
    """An issue, or a pull request as one."""
    own = f"{api}/repos/{repo.full_name}/issues/{of.number}"
    is_pull = isinstance(of, Pull)
    web = f"{WEB}/{repo.full_name}/{'pull' if is_pull else 'issues'}/{of.number}"
    body = {
        "url": own, "repository_url": f"{api}/repos/{repo.full_name}", "id": of.id + 1,
        "labels_url": f"{own}/labels{{/name}}", "comments_url": f"{own}/comments",
        "events_url": f"{own}/events", "html_url": web, "node_id": f"PR_{of.id}",
        "number": of.number, "title": of.title, "user": user(of.user, api), "state": of.state,
        "labels": [label(name, repo, api) for name in of.labels], "locked": of.locked,
        "comments": len(of.comments), "created_at": of.created_at, "updated_at": of.updated_at,
        "body": of.body,
        "author_association": association(repo, of if isinstance(of, Pull) else None, of.user),
    }  # fmt: skip
    if is_pull:
        body["pull_request"] = {
            "url": f"{api}/repos/{repo.full_name}/pulls/{of.number}", "html_url": web,
            "diff_url": f"{web}.diff", "patch_url": f"{web}.patch",
        }  # fmt: skip
    return body


def _rollup(reactions: Iterable[Reaction], url: str) -> Json:
    given = [reaction.content for reaction in reactions]
    counts = {name: given.count(name) for name in _REACTIONS}
    return {"url": f"{url}/reactions", "total_count": len(given), **counts}


def reaction(made: Reaction, api: str) -> Json:
    return {
        "id": made.id, "node_id": f"REA_{made.id}", "user": user(made.user, api),
        "content": made.content, "created_at": made.created_at,
    }  # fmt: skip


def comment(repo: Repository, pr: Pull, made: Comment, api: str) -> Json:
    own = f"{api}/repos/{repo.full_name}/issues/comments/{made.id}"
    return {
        "id": made.id, "node_id": f"IC_{made.id}", "url": own,
        "html_url": f"{WEB}/{repo.full_name}/pull/{pr.number}#issuecomment-{made.id}",
        "body": made.body, "user": user(made.user, api), "created_at": made.created_at,
        "updated_at": made.updated_at,
        "issue_url": f"{api}/repos/{repo.full_name}/issues/{pr.number}",
        "author_association": association(repo, pr, made.user),
        "performed_via_github_app": app(made.app, api) if made.app else None,
        "reactions": _rollup(made.reactions, own),
    }  # fmt: skip


def review(repo: Repository, pr: Pull, made: Review, api: str) -> Json:
    web = f"{WEB}/{repo.full_name}/pull/{pr.number}"
    own = f"{api}/repos/{repo.full_name}/pulls/{pr.number}"
    body: Json = {
        "id": made.id, "node_id": f"PRR_{made.id}", "user": user(made.user, api),
        "body": made.body, "state": made.state, "commit_id": made.commit,
        "html_url": f"{web}#pullrequestreview-{made.id}", "pull_request_url": own,
        "_links": {
            "html": {"href": f"{web}#pullrequestreview-{made.id}"}, "pull_request": {"href": own}
        },
        "author_association": association(repo, pr, made.user),
    }  # fmt: skip
    return body | ({"submitted_at": made.submitted_at} if made.submitted_at else {})


def review_comment(repo: Repository, pr: Pull, made: ReviewComment, api: str) -> Json:
    own = f"{api}/repos/{repo.full_name}/pulls/comments/{made.id}"
    web = f"{WEB}/{repo.full_name}/pull/{pr.number}#discussion_r{made.id}"
    pull_url = f"{api}/repos/{repo.full_name}/pulls/{pr.number}"
    now = place_now(repo, pr, made)
    body: Json = {
        "id": made.id, "node_id": f"PRRC_{made.id}", "url": own, "html_url": web,
        "pull_request_review_id": made.review, "diff_hunk": made.diff_hunk, "path": made.path,
        "commit_id": made.commit if now.outdated else pr.head_sha,
        "original_commit_id": made.commit, "user": user(made.user, api), "body": made.body,
        "created_at": made.created_at, "updated_at": made.updated_at,
        "pull_request_url": pull_url, "author_association": association(repo, pr, made.user),
        "_links": {
            "self": {"href": own}, "html": {"href": web}, "pull_request": {"href": pull_url}
        },
        "subject_type": made.subject, "reactions": _rollup(made.reactions, own),
        "line": now.line, "position": now.position, "start_line": now.start_line,
        "original_line": made.original_line, "original_position": made.original_position,
        "original_start_line": made.original_start_line, "side": made.side,
        "start_side": made.start_side,
    }  # fmt: skip
    if made.in_reply_to is not None:
        body["in_reply_to_id"] = made.in_reply_to
    return body


def diff_entry(repo: Repository, file: ChangedFile, sha: str, api: str) -> Json:
    body: Json = {
        "sha": file.sha, "filename": file.path, "status": file.status,
        "additions": file.additions, "deletions": file.deletions,
        "changes": file.additions + file.deletions,
        "blob_url": f"{WEB}/{repo.full_name}/blob/{sha}/{_quoted(file.path)}",
        "raw_url": f"{WEB}/{repo.full_name}/raw/{sha}/{_quoted(file.path)}",
        "contents_url": f"{api}/repos/{repo.full_name}/contents/{_quoted(file.path)}?ref={sha}",
    }  # fmt: skip
    if file.patch is not None:
        body["patch"] = file.patch
    return body | ({"previous_filename": file.previous} if file.previous else {})


def _quoted(path: str) -> str:
    return quote(path, errors="surrogateescape")


def commit(repo: Repository, made: Commit, api: str) -> Json:
    own = f"{api}/repos/{repo.full_name}"
    git = {
        "url": f"{own}/git/commits/{made.sha}", "message": made.message, "comment_count": 0,
        "author": dict(zip(("name", "email", "date"), made.author, strict=True)),
        "committer": dict(zip(("name", "email", "date"), made.committer, strict=True)),
        "tree": {"sha": made.tree, "url": f"{own}/git/trees/{made.tree}"},
    }  # fmt: skip
    return {
        "sha": made.sha, "node_id": f"C_{made.sha[:12]}", "commit": git,
        "url": f"{own}/commits/{made.sha}", "html_url": f"{WEB}/{repo.full_name}/commit/{made.sha}",
        "comments_url": f"{own}/commits/{made.sha}/comments", "author": None, "committer": None,
        "parents": [{"sha": sha, "url": f"{own}/commits/{sha}"} for sha in made.parents],
    }  # fmt: skip


def check_run(repo: Repository, made: CheckRun, api: str) -> Json:
    own = f"{api}/repos/{repo.full_name}/check-runs/{made.id}"
    pulls = [pr for pr in repo.pulls.values() if pr.head_sha == made.head_sha]
    return {
        "id": made.id, "node_id": f"CR_{made.id}", "head_sha": made.head_sha, "name": made.name,
        "external_id": made.external_id, "url": own, "status": made.status,
        "html_url": f"{WEB}/{repo.full_name}/runs/{made.id}", "details_url": made.details_url,
        "conclusion": made.conclusion, "started_at": made.started_at,
        "completed_at": made.completed_at, "check_suite": {"id": account_id(made.app)},
        "output": {
            "title": made.title, "summary": made.summary, "text": made.text,
            "annotations_count": len(made.annotations), "annotations_url": f"{own}/annotations",
        },
        "app": app(made.app, api),
        "pull_requests": [minimal_pull(repo, pr, api) for pr in pulls],
    }  # fmt: skip


def minimal_pull(repo: Repository, pr: Pull, api: str) -> Json:
    def side(ref: str, sha: str) -> Json:
        own = {"id": repo.id, "url": f"{api}/repos/{repo.full_name}", "name": repo.name}
        return {"ref": ref, "sha": sha, "repo": own}

    return {
        "id": pr.id, "number": pr.number,
        "url": f"{api}/repos/{repo.full_name}/pulls/{pr.number}",
        "head": side(pr.head_ref, pr.head_sha),
        "base": side(pr.base, pr.base_sha),
    }  # fmt: skip


def status(repo: Repository, made: Status, api: str) -> Json:
    return {
        "url": f"{api}/repos/{repo.full_name}/statuses/{made.sha}", "avatar_url": None,
        "id": made.id, "node_id": f"SC_{made.id}", "state": made.state, "context": made.context,
        "description": made.description, "target_url": made.target_url,
        "created_at": made.created_at, "updated_at": made.created_at,
        "creator": user(made.user, api),
    }  # fmt: skip


def workflow_run(repo: Repository, made: WorkflowRun, api: str) -> Json:
    own = f"{api}/repos/{repo.full_name}/actions/runs/{made.id}"
    fork = made.head_repository if made.head_repository != repo.full_name else None
    head = repository(repo, api, full_name=fork) if made.head_repository else None
    return {
        "id": made.id, "name": made.name, "node_id": f"WFR_{made.id}", "event": made.event,
        "head_branch": made.head_branch, "head_sha": made.head_sha, "status": "completed",
        "conclusion": made.conclusion, "url": own, "display_title": made.name,
        "html_url": f"{WEB}/{repo.full_name}/actions/runs/{made.id}", "run_number": 1,
        "run_attempt": 1, "path": ".github/workflows/ci.yml", "artifacts_url": f"{own}/artifacts",
        "pull_requests": [minimal_pull(repo, repo.pulls[n], api) for n in made.pulls],
        "created_at": made.created_at, "updated_at": made.created_at,
        "repository": repository(repo, api), "head_repository": head or {},
    }  # fmt: skip


def artifact(repo: Repository, made: Artifact, api: str) -> Json:
    own = f"{api}/repos/{repo.full_name}/actions/artifacts/{made.id}"
    run = next(run for run in repo.runs if run.id == made.run)
    return {
        "id": made.id, "node_id": f"AR_{made.id}", "name": made.name, "url": own,
        "size_in_bytes": len(made.content), "archive_download_url": f"{own}/zip",
        "expired": made.expired, "created_at": made.created_at, "expires_at": made.created_at,
        "updated_at": made.created_at,
        "workflow_run": {
            "id": run.id, "repository_id": repo.id, "head_repository_id": repo.id,
            "head_branch": run.head_branch, "head_sha": run.head_sha,
        },
    }  # fmt: skip
