"""REST: repositories, pull requests, contents, the conversation, labels, people."""

from __future__ import annotations

import base64
import urllib.parse
from typing import TYPE_CHECKING, Any

from testing.loopback_github import bodies
from testing.loopback_github.identity import (
    RefusalError,
    invalid,
    may_moderate,
    not_found,
    standing,
)
from testing.loopback_github.pulls import MAX_COMMITS, MAX_FILES
from testing.loopback_github.routes import ROUTES, Answer, Call, R
from testing.loopback_github.state import Comment, Reaction
from testing.repositories.git_repo import GitError

if TYPE_CHECKING:
    from testing.loopback_github.state import Pull

MAX_BODY = 65_536
#: Beyond either, the diff media type is refused.
MAX_DIFF_FILES, MAX_DIFF_LINES = 300, 20_000

# On a pull request either permission will do.
_TALK = ("issues=write", "pull_requests=write")


def check_text(text: str | None, resource: str) -> str:
    """A comment's body. Raises RefusalError for none and for one that is too long."""
    if not text or not text.strip():
        raise invalid(resource, "missing_field", "body")
    if len(text) > MAX_BODY:
        message = f"Body is too long (maximum is {MAX_BODY} characters)"
        raise invalid(resource, "unprocessable", "data", message)
    return text


# -- about oneself ------------------------------------------------------------------------------


@ROUTES.add("GET", "/user")
def _user(call: Call) -> Answer:
    if call.me.kind == "installation":
        raise RefusalError(403, "Resource not accessible by integration")
    return Answer(bodies.user(call.me.login, call.api))


@ROUTES.add("GET", "/rate_limit")
def _rate_limit(_call: Call) -> Answer:
    bucket = {"limit": 5000, "used": 0, "remaining": 5000, "reset": 1_800_000_000}
    kinds = dict.fromkeys(("core", "search", "graphql"), bucket)
    return Answer({"resources": kinds, "rate": bucket})


# -- repositories -------------------------------------------------------------------------------


@ROUTES.add("GET", R)
def _repository(call: Call) -> Answer:
    return Answer(bodies.repository(call.repo, call.api))


@ROUTES.add("GET", f"{R}/collaborators/{{username}}/permission", "metadata=read")
def _permission(call: Call) -> Answer:
    login = call.params["username"]
    role = standing(call.repo, login)
    names = ("admin", "maintain", "push", "triage", "pull")
    granted = {"admin": 5, "write": 3, "read": 1, "none": 0}[role]
    flags = {name: position >= 5 - granted for position, name in enumerate(names)}
    user = bodies.user(login, call.api) | {"permissions": flags, "role_name": role}
    return Answer({"permission": role, "role_name": role, "user": user})


@ROUTES.add("GET", f"{R}/contents/{{path}}", "contents=read")
def _contents(call: Call) -> Answer:
    repo, path = call.repo, call.params["path"].strip("/")
    try:
        sha = repo.source.resolve(call.query.get("ref", repo.default_branch))
    except GitError:
        raise RefusalError(404, f"No commit found for the ref {call.query['ref']}") from None
    found = repo.source.blob(sha, path)
    if found is not None:
        oid, content = found
        if "raw" in call.accept:
            return Answer(content, kind="application/vnd.github.raw; charset=utf-8")
        coded = base64.encodebytes(content).decode()
        body = _content(call, path, "file", oid, len(content))
        return Answer(body | {"encoding": "base64", "content": coded})
    rows = repo.source.folder(sha, path)
    if rows is None:
        raise not_found()
    kinds = {"blob": "file", "tree": "dir", "commit": "submodule"}
    return Answer([_content(call, name, kinds[k], oid, n) for k, oid, name, n in rows])


def _content(call: Call, path: str, kind: str, oid: str, size: int) -> dict[str, Any]:
    repo = call.repo
    quoted = urllib.parse.quote(path, errors="surrogateescape")
    own = f"{call.api}/repos/{repo.full_name}/contents/{quoted}"
    web = f"{bodies.WEB}/{repo.full_name}/blob/{repo.default_branch}/{quoted}"
    git = f"{call.api}/repos/{repo.full_name}/git/blobs/{oid}"
    return {
        "type": kind, "size": size, "name": path.rsplit("/", 1)[-1], "path": path, "sha": oid,
        "url": own, "git_url": git, "html_url": web, "download_url": None,
        "_links": {"self": own, "git": git, "html": web},
    }  # fmt: skip


@ROUTES.add("GET", f"{R}/commits/{{ref}}", "contents=read")
def _commit(call: Call) -> Answer:
    sha = call.commit(call.params["ref"])
    return Answer(bodies.commit(call.repo, call.repo.source.commit(sha), call.api))


@ROUTES.add("GET", f"{R}/compare/{{basehead}}", "contents=read")
def _compare(call: Call) -> Answer:
    repo, source, api = call.repo, call.repo.source, call.api
    ends = call.params["basehead"].split("...")
    if len(ends) != 2:
        raise not_found()
    try:
        # A fork's branch is written "owner:branch"; its objects are here all the same.
        base, head = (source.resolve(end.rpartition(":")[2]) for end in ends)
        fork = source.merge_base(base, head)
    except GitError:
        raise not_found() from None
    ahead, behind = source.commits_between(fork, head), source.commits_between(fork, base)
    state = {(0, 0): "identical", (1, 0): "ahead", (0, 1): "behind", (1, 1): "diverged"}
    web = f"{bodies.WEB}/{repo.full_name}/compare/{call.params['basehead']}"
    shown, headers = call.slice(ahead)
    body = {
        "url": f"{api}{call.url}", "html_url": web, "permalink_url": web,
        "diff_url": f"{web}.diff", "patch_url": f"{web}.patch",
        "base_commit": bodies.commit(repo, source.commit(base), api),
        "merge_base_commit": bodies.commit(repo, source.commit(fork), api),
        "status": state[bool(ahead), bool(behind)], "ahead_by": len(ahead),
        "behind_by": len(behind), "total_commits": len(ahead),
        "commits": [bodies.commit(repo, source.commit(sha), api) for sha in shown],
        "files": [bodies.diff_entry(repo, f, head, api) for f in source.diff(base, head)[:300]],
    }  # fmt: skip
    return Answer(body, headers=headers)


# -- pull requests ------------------------------------------------------------------------------


@ROUTES.add("GET", f"{R}/pulls", "pull_requests=read")
def _pulls(call: Call) -> Answer:
    state = call.query.get("state", "open")
    head, base = call.query.get("head"), call.query.get("base")

    def wanted(pr: Pull) -> bool:
        owner = (pr.head_repository or "unknown").split("/")[0]
        return (
            state in {"all", pr.state}
            and head in {None, f"{owner}:{pr.head_ref}"}
            and base in {None, pr.base}
        )

    found = [pr for _, pr in sorted(call.repo.pulls.items(), reverse=True) if wanted(pr)]
    return call.page(found, lambda pr: bodies.pull(call.repo, pr, call.api, full=False))


@ROUTES.add("POST", f"{R}/pulls", "pull_requests=write")
def _open_pull(call: Call) -> Answer:
    repo, me, body = call.repo, call.me, call.body
    head, base = body["head"].rpartition(":")[2], body["base"]
    if any((pr.state, pr.head_ref, pr.base) == ("open", head, base) for pr in repo.pulls.values()):
        text = f"A pull request already exists for {repo.full_name.split('/')[0]}:{head}."
        told = {"resource": "PullRequest", "code": "custom", "message": text}
        raise RefusalError(422, "Validation Failed", [told])
    made = call.world.add_pull(
        repo.full_name, max(repo.pulls, default=0) + 1, head=head, base=base,
        title=body["title"], body=body.get("body"), user=me.login, head_ref=head,
    )  # fmt: skip
    shown = bodies.pull(repo, made, call.api)
    return Answer(shown, 201, {"Location": shown["url"]})


@ROUTES.add("PATCH", f"{R}/pulls/{{pull_number}}", "pull_requests=write")
def _edit_pull(call: Call) -> Answer:
    pr = call.pull
    pr.title, pr.body = (call.body.get(key, getattr(pr, key)) for key in ("title", "body"))
    return Answer(bodies.pull(call.repo, pr, call.api))


@ROUTES.add("GET", f"{R}/commits/{{commit_sha}}/pulls", "pull_requests=read")
def _pulls_of_commit(call: Call) -> Answer:
    sha, repo = call.commit(call.params["commit_sha"]), call.repo

    def has(pr: Pull) -> bool:
        fork = repo.source.merge_base(pr.base_sha, pr.head_sha)
        return sha in repo.source.commits_between(fork, pr.head_sha)

    found = [pr for _, pr in sorted(repo.pulls.items()) if has(pr)]
    return call.page(found, lambda pr: bodies.pull(repo, pr, call.api, full=False))


@ROUTES.add("GET", f"{R}/pulls/{{pull_number}}", "pull_requests=read")
def _pull(call: Call) -> Answer:
    repo, pr = call.repo, call.pull
    if "diff" not in call.accept:
        return Answer(bodies.pull(repo, pr, call.api))
    diff = repo.source.raw_diff(pr.base_sha, pr.head_sha)
    files = len(repo.source.diff(pr.base_sha, pr.head_sha))
    for what, number, most in (
        ("files", files, MAX_DIFF_FILES),
        ("lines", diff.count("\n"), MAX_DIFF_LINES),
    ):
        if number > most:
            text = f"Sorry, the diff exceeded the maximum number of {what} ({most})."
            row = {"resource": "PullRequest", "field": "diff", "code": "too_large"}
            raise RefusalError(406, text, [row])
    return Answer(diff.encode(), kind="application/vnd.github.diff; charset=utf-8")


@ROUTES.add("GET", f"{R}/pulls/{{pull_number}}/files", "pull_requests=read")
def _files(call: Call) -> Answer:
    repo, pr = call.repo, call.pull
    files = repo.source.diff(pr.base_sha, pr.head_sha)[:MAX_FILES]
    return call.page(files, lambda file: bodies.diff_entry(repo, file, pr.head_sha, call.api))


@ROUTES.add("GET", f"{R}/pulls/{{pull_number}}/commits", "pull_requests=read")
def _commits(call: Call) -> Answer:
    repo, pr = call.repo, call.pull
    fork = repo.source.merge_base(pr.base_sha, pr.head_sha)
    shas = repo.source.commits_between(fork, pr.head_sha)[:MAX_COMMITS]
    return call.page(shas, lambda sha: bodies.commit(repo, repo.source.commit(sha), call.api))


# -- the conversation ---------------------------------------------------------------------------


@ROUTES.add("GET", f"{R}/issues/{{issue_number}}", "issues=read", "pull_requests=read")
def _issue(call: Call) -> Answer:
    number = int(call.params["issue_number"])
    return Answer(bodies.issue(call.repo, call.repo.issues.get(number) or call.pull, call.api))


@ROUTES.add("GET", f"{R}/issues/{{issue_number}}/comments", "issues=read", "pull_requests=read")
def _comments(call: Call) -> Answer:
    repo, pr = call.repo, call.pull
    since = call.query.get("since", "")
    found = [made for made in pr.comments if made.updated_at >= since]
    return call.page(found, lambda made: bodies.comment(repo, pr, made, call.api))


@ROUTES.add("POST", f"{R}/issues/{{issue_number}}/comments", *_TALK)
def _create_comment(call: Call) -> Answer:
    repo, pr, me = call.repo, call.pull, call.me
    if pr.locked and not may_moderate(repo, me):
        raise RefusalError(403, "Unable to create comment because issue is locked.")
    text, now = check_text(call.body["body"], "IssueComment"), call.world.now()
    made = Comment(call.world.new_id(), pr.number, me.login, text, me.app, now, now)
    pr.comments.append(made)
    body = bodies.comment(repo, pr, made, call.api)
    return Answer(body, 201, {"Location": body["url"]})


def _own_comment(call: Call) -> tuple[Pull, Comment]:
    wanted = int(call.params["comment_id"])
    for pr in call.repo.pulls.values():
        for made in pr.comments:
            if made.id == wanted:
                return pr, made
    raise not_found()


def check_author(call: Call, author: str) -> None:
    """Let only the author, or who may write to the repository, change a comment."""
    if author != call.me.login and not may_moderate(call.repo, call.me):
        raise RefusalError(403, "Must have admin rights to Repository.")


@ROUTES.add("GET", f"{R}/issues/comments/{{comment_id}}", "issues=read", "pull_requests=read")
def _comment(call: Call) -> Answer:
    pr, made = _own_comment(call)
    return Answer(bodies.comment(call.repo, pr, made, call.api))


@ROUTES.add("PATCH", f"{R}/issues/comments/{{comment_id}}", *_TALK)
def _update_comment(call: Call) -> Answer:
    pr, made = _own_comment(call)
    check_author(call, made.user)
    made.edit(check_text(call.body["body"], "IssueComment"), call.me.login, call.world.now())
    return Answer(bodies.comment(call.repo, pr, made, call.api))


@ROUTES.add("DELETE", f"{R}/issues/comments/{{comment_id}}", *_TALK)
def _delete_comment(call: Call) -> Answer:
    pr, made = _own_comment(call)
    check_author(call, made.user)
    pr.comments.remove(made)
    return Answer(status=204)


@ROUTES.add("GET", f"{R}/issues/comments/{{comment_id}}/reactions", "issues=read")
def _reactions(call: Call) -> Answer:
    _pr, made = _own_comment(call)
    return call.page(made.reactions, lambda one: bodies.reaction(one, call.api))


@ROUTES.add("POST", f"{R}/issues/comments/{{comment_id}}/reactions", *_TALK)
def _react(call: Call) -> Answer:
    _pr, made = _own_comment(call)
    return react(call, made.reactions)


def react(call: Call, reactions: list[Reaction]) -> Answer:
    """Add a reaction: 201; the same by the same account once more changes nothing: 200."""
    me, content = call.me.login, call.body["content"]
    for one in reactions:
        if (one.user, one.content) == (me, content):
            return Answer(bodies.reaction(one, call.api))
    reactions.append(Reaction(call.world.new_id(), me, content, call.world.now()))
    return Answer(bodies.reaction(reactions[-1], call.api), 201)


@ROUTES.add("DELETE", f"{R}/issues/comments/{{comment_id}}/reactions/{{reaction_id}}", *_TALK)
def _unreact(call: Call) -> Answer:
    _pr, made = _own_comment(call)
    wanted = int(call.params["reaction_id"])
    kept = [one for one in made.reactions if one.id != wanted or one.user != call.me.login]
    if len(kept) == len(made.reactions):
        raise not_found()
    made.reactions[:] = kept
    return Answer(status=204)


# -- labels -------------------------------------------------------------------------------------


def _labels_answer(call: Call) -> Answer:
    names = call.pull.labels
    return Answer([bodies.label(name, call.repo, call.api) for name in names])


@ROUTES.add("GET", f"{R}/issues/{{issue_number}}/labels", "issues=read", "pull_requests=read")
def _labels(call: Call) -> Answer:
    return call.page(call.pull.labels, lambda name: bodies.label(name, call.repo, call.api))


@ROUTES.add("POST", f"{R}/issues/{{issue_number}}/labels", *_TALK)
def _add_labels(call: Call) -> Answer:
    rows = call.body["labels"] if isinstance(call.body, dict) else call.body
    for row in rows:
        name = row["name"] if isinstance(row, dict) else row
        call.repo.labels.add(name)
        if name not in call.pull.labels:
            call.pull.labels.append(name)
    return _labels_answer(call)


@ROUTES.add("DELETE", f"{R}/issues/{{issue_number}}/labels/{{name}}", *_TALK)
def _remove_label(call: Call) -> Answer:
    if call.params["name"] not in call.pull.labels:
        raise RefusalError(404, "Label does not exist")
    call.pull.labels.remove(call.params["name"])
    return _labels_answer(call)
