"""GraphQL: review threads, minimising, who am I; documents are judged by GitHub's own schema.

A real GraphQL engine validates and executes. What the schema has and this does not model is an
error that fails the test, never a silent null. In GraphQL the login of a bot has no ``[bot]``,
except for ``viewer``: so it is at GitHub.
"""

from __future__ import annotations

import base64
import functools
from typing import TYPE_CHECKING, Any

import graphql
from graphql import GraphQLError

from testing.loopback_github.bodies import WEB
from testing.loopback_github.description import NODE_MODULES, package_file
from testing.loopback_github.identity import DOCS, may_moderate, sees
from testing.loopback_github.placing import place_now
from testing.loopback_github.routes import MAX_PAGE, Answer
from testing.loopback_github.state import Comment, account_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from testing.loopback_github.state import (
        CheckRun,
        Edit,
        Identity,
        Pull,
        Repository,
        ReviewComment,
        World,
    )

SCHEMA = NODE_MODULES / "@octokit/graphql-schema/schema.graphql"

Node = dict[str, Any]
#: What REST calls these reactions.
_CONTENT = {"THUMBS_DOWN": "-1", "THUMBS_UP": "+1"}


class NotModelledError(GraphQLError):
    """The schema has it, the loopback GitHub has not: the test cannot say anything."""


@functools.cache
def schema() -> graphql.GraphQLSchema:
    """GitHub's schema, built once in a process (0.6 s), and only if GraphQL is used."""
    document = graphql.parse(package_file(SCHEMA).decode(), no_location=True)
    return graphql.build_ast_schema(document, assume_valid=True, assume_valid_sdl=True)


def is_mutation(body: Any) -> bool:
    """Whether a request's document asks for a change."""
    return isinstance(body, dict) and str(body.get("query", "")).lstrip().startswith("mutation")


def _refuse(kind: str, message: str) -> GraphQLError:
    return GraphQLError(message, extensions={"type": kind})


def _resolve(source: Any, info: graphql.GraphQLResolveInfo[Any], **args: Any) -> Any:
    name = info.field_name
    if not isinstance(source, dict) or name not in source:
        raise NotModelledError(f"{info.parent_type.name}.{name} is not modelled")
    value = source[name]
    return value(info, **args) if callable(value) else value


@functools.cache  # a client has few documents, and sends them again and again
def _judged(query: str) -> tuple[graphql.DocumentNode, list[GraphQLError]]:
    """A document, and what the schema has against it. Raises GraphQLError where it is none."""
    document = graphql.parse(query)
    return document, graphql.validate(schema(), document)


def connection(nodes: Sequence[Any], render: Callable[[Any], Node]) -> Callable[..., Node]:
    """A field that pages through ``nodes``, by first/after or last/before."""

    def page(
        info: graphql.GraphQLResolveInfo[Any],
        first: int | None = None,
        last: int | None = None,
        after: str | None = None,
        before: str | None = None,
        **other: Any,
    ) -> Node:
        name, size = info.field_name, first if first is not None else last
        if other:
            raise NotModelledError(f"{name}({', '.join(other)}) is not modelled")
        if size is None:
            text = f"You must provide a `first` or `last` value to properly paginate the `{name}`"
            raise _refuse("MISSING_PAGINATION_BOUNDARIES", f"{text} connection.")
        if size > MAX_PAGE:
            text = f"Requesting {size} records on the `{name}` connection exceeds the `first` limit"
            raise _refuse("EXCESSIVE_PAGINATION", f"{text} of {MAX_PAGE} records.")
        low = _position(after) + 1 if after else 0
        high = _position(before) if before else len(nodes)
        low, high = (low, min(low + size, high)) if first is not None else (
            max(high - size, low), high
        )  # fmt: skip
        rows = [render(node) for node in nodes[low:high]]
        info_ = {
            "hasNextPage": high < len(nodes), "hasPreviousPage": low > 0,
            "startCursor": _cursor(low) if rows else None,
            "endCursor": _cursor(high - 1) if rows else None,
        }  # fmt: skip
        edges = [{"node": row, "cursor": _cursor(low + n)} for n, row in enumerate(rows)]
        return {"totalCount": len(nodes), "nodes": rows, "edges": edges, "pageInfo": info_}

    return page


def _cursor(position: int) -> str:
    return base64.b64encode(f"cursor:{position}".encode()).decode()


def _position(cursor: str) -> int:
    try:
        return int(base64.b64decode(cursor).removeprefix(b"cursor:"))
    except ValueError:
        raise _refuse("INVALID_CURSOR_ARGUMENTS", f"`{cursor}` is no valid cursor.") from None


def actor(login: str) -> Node:
    bot = login.endswith("[bot]")
    name = login.removesuffix("[bot]")
    return {
        "__typename": "Bot" if bot else "User", "login": name, "databaseId": account_id(login),
        "id": f"U_{account_id(login)}", "url": f"{WEB}/{'apps/' if bot else ''}{name}",
    }  # fmt: skip


class Graph:
    """The graph over a World. Whoever calls holds the server's lock."""

    def __init__(self, world: World) -> None:
        self._world = world

    def answer(self, body: Any, who: Identity | None) -> tuple[Answer, list[str]]:
        """The answer to a posted document, and how the document deviates from the schema."""
        if who is None:
            text = "This endpoint requires you to be authenticated."
            return Answer({"message": text, "documentation_url": DOCS}, 401), []
        if not isinstance(body, dict) or not isinstance(body.get("query"), str):
            return Answer({"message": "A query attribute must be specified."}, 400), ["no query"]
        try:
            document, wrong = _judged(body["query"])
        except GraphQLError as error:
            return Answer({"errors": [error.formatted]}), [f"document: {error.message}"]
        if wrong:
            return Answer({"errors": [error.formatted for error in wrong]}), [
                f"document: {error.message}" for error in wrong
            ]
        result = graphql.execute_sync(
            schema(), document, root_value=self._root(who), field_resolver=_resolve,
            variable_values=body.get("variables") or {}, operation_name=body.get("operationName"),
        )  # fmt: skip
        answered: dict[str, Any] = {"data": result.data}
        deviations = []
        if result.errors:
            answered["errors"] = [_formatted(error) for error in result.errors]
            deviations = [
                f"document: {error.message}"
                for error in result.errors
                if not (error.extensions or {}).get("type")
            ]
        return Answer(answered), deviations

    def _root(self, who: Identity) -> Node:
        def repository(_info: object, owner: str, name: str, **_other: Any) -> Node:
            found = self._world.repositories.get(f"{owner}/{name}".lower())
            if found is None or not sees(found, who):
                text = f"Could not resolve to a Repository with the name '{owner}/{name}'."
                raise _refuse("NOT_FOUND", text)
            return self._repository(found, who)

        return {
            "viewer": actor(who.login) | {"login": who.login, "__typename": "User"},
            "repository": repository,
            "node": lambda _info, id: self._node(id, who),  # noqa: A006 - the schema's name
            "nodes": lambda _info, ids: [self._node(one, who) for one in ids],
            "rateLimit": {"limit": 5000, "cost": 1, "remaining": 4999, "used": 1},
            "resolveReviewThread": lambda _info, input: self._resolve_thread(  # noqa: A006
                who, input, resolved=True
            ),
            "unresolveReviewThread": lambda _info, input: self._resolve_thread(  # noqa: A006
                who, input, resolved=False
            ),
            "minimizeComment": lambda _info, input: self._minimize(who, input),  # noqa: A006
            "deletePullRequestReviewComment": lambda _info, input: self._delete(  # noqa: A006
                who, input
            ),
            "updatePullRequestReviewComment": lambda _info, input: self._update(  # noqa: A006
                who, input
            ),
            "unminimizeComment": lambda _info, input: self._minimize(who, input),  # noqa: A006
        }

    # -- nodes ------------------------------------------------------------------------------

    def _repository(self, repo: Repository, who: Identity) -> Node:
        def pull(_info: object, number: int) -> Node:
            if number not in repo.pulls:
                text = f"Could not resolve to a PullRequest with the number of {number}."
                raise _refuse("NOT_FOUND", text)
            return self._pull(repo, repo.pulls[number], who)

        return {
            "__typename": "Repository", "id": f"R_{repo.id}", "databaseId": repo.id,
            "name": repo.name, "nameWithOwner": repo.full_name, "owner": actor(repo.owner),
            "isPrivate": repo.private, "url": f"{WEB}/{repo.full_name}", "pullRequest": pull,
            "mergeQueue": lambda _info, branch=None: self._queue(repo, branch, who),
        }  # fmt: skip

    def _queue(self, repo: Repository, branch: str | None, who: Identity) -> Node | None:
        """The merge queue of a branch; None where there is none."""
        if branch not in repo.queues:
            return None
        entries = connection(repo.queues[branch], lambda entry: {
            "__typename": "MergeQueueEntry", "headCommit": {"oid": entry[1]},
            "pullRequest": self._pull(repo, repo.pulls[entry[0]], who),
        })  # fmt: skip
        return {"__typename": "MergeQueue", "entries": entries}

    def _pull(self, repo: Repository, pr: Pull, who: Identity) -> Node:
        hidden = {review.id for review in pr.reviews if review.state == "PENDING"}
        threads = [
            made
            for made in pr.review_comments
            if made.in_reply_to is None and made.review not in hidden
        ]
        return {
            "__typename": "PullRequest", "id": f"PR_{pr.id}", "fullDatabaseId": str(pr.id),
            "number": pr.number, "title": pr.title, "body": pr.body or "",
            "author": actor(pr.user), "isDraft": pr.draft, "locked": pr.locked,
            "state": "MERGED" if pr.merged else pr.state.upper(), "headRefName": pr.head_ref,
            "headRefOid": pr.head_sha, "baseRefName": pr.base, "baseRefOid": pr.base_sha,
            "isCrossRepository": pr.head_repository != repo.full_name,
            "url": f"{WEB}/{repo.full_name}/pull/{pr.number}",
            "repository": lambda _info: self._repository(repo, who),
            "reviewThreads": connection(threads, lambda one: self._thread(repo, pr, one, who)),
            "comments": connection(pr.comments, lambda one: self._comment(repo, pr, one, who)),
            "commits": functools.partial(self._commits, repo, pr, who),
        }  # fmt: skip

    def _commits(self, repo: Repository, pr: Pull, who: Identity, info: Any, **args: Any) -> Node:
        fork = repo.source.merge_base(pr.base_sha, pr.head_sha)
        shas = repo.source.commits_between(fork, pr.head_sha)
        return connection(shas, lambda sha: {
            "__typename": "PullRequestCommit", "commit": {
                "__typename": "Commit", "oid": sha,
                "checkSuites": functools.partial(self._suites, repo, sha, who),
            },
        })(info, **args)  # fmt: skip

    def _suites(self, repo: Repository, sha: str, who: Identity, info: Any, **args: Any) -> Node:
        """The check runs of a commit by their apps; who may not read them gets null."""
        if repo.private and not who.may("checks=read"):
            raise _refuse("FORBIDDEN", "Resource not accessible by integration")
        checks = [made for made in repo.checks if made.head_sha == sha]
        apps = sorted({made.app for made in checks})
        return connection(apps, lambda app: {
            "__typename": "CheckSuite",
            "app": {"__typename": "App", "slug": app, "databaseId": account_id(app)},
            "checkRuns": _check_runs([made for made in checks if made.app == app]),
        })(info, **args)  # fmt: skip

    def _thread(self, repo: Repository, pr: Pull, first: ReviewComment, who: Identity) -> Node:
        place = place_now(repo, pr, first)
        replies = [made for made in pr.review_comments if made.in_reply_to == first.id]
        resolved = pr.resolved.get(first.id)
        may = who.may("contents=write")
        return {
            "__typename": "PullRequestReviewThread", "id": f"PRRT_{first.id}",
            "isResolved": resolved is not None, "isOutdated": place.outdated,
            "isCollapsed": resolved is not None or place.outdated, "path": first.path,
            "resolvedBy": actor(resolved) if resolved else None, "line": place.line,
            "startLine": place.start_line, "originalLine": first.original_line,
            "originalStartLine": first.original_start_line, "diffSide": first.side,
            "startDiffSide": first.start_side, "subjectType": first.subject.upper(),
            "viewerCanResolve": may and resolved is None,
            "viewerCanUnresolve": may and resolved is not None,
            "viewerCanReply": who.may("pull_requests=write"),
            "pullRequest": lambda _info: self._pull(repo, pr, who),
            "comments": connection(
                [first, *replies], lambda one: self._comment(repo, pr, one, who)
            ),
        }  # fmt: skip

    def _comment(
        self, repo: Repository, pr: Pull, made: Comment | ReviewComment, who: Identity
    ) -> Node:
        web = f"{WEB}/{repo.full_name}/pull/{pr.number}"
        node: Node = {
            "databaseId": made.id, "fullDatabaseId": str(made.id), "body": made.body,
            "author": actor(made.user), "createdAt": made.created_at,
            "updatedAt": made.updated_at, "isMinimized": made.minimized is not None,
            "minimizedReason": made.minimized, "viewerDidAuthor": made.user == who.login,
            "viewerCanMinimize": may_moderate(repo, who),
            "pullRequest": lambda _info: self._pull(repo, pr, who),
        }  # fmt: skip
        if isinstance(made, Comment):
            own = {"__typename": "IssueComment", "url": f"{web}#issuecomment-{made.id}"}
            return node | own | {"id": f"IC_{made.id}"} | _edits(made)
        place = place_now(repo, pr, made)
        return node | {
            "__typename": "PullRequestReviewComment", "id": f"PRRC_{made.id}",
            "url": f"{web}#discussion_r{made.id}", "path": made.path, "line": place.line,
            "startLine": place.start_line, "originalLine": made.original_line,
            "originalStartLine": made.original_start_line, "outdated": place.outdated,
            "diffHunk": made.diff_hunk, "subjectType": made.subject.upper(),
            "lastEditedAt": made.updated_at if made.updated_at != made.created_at else None,
            "editor": actor(made.editor) if made.editor else None,
            "reactions": _reactions(made),
            "state": "SUBMITTED", "originalCommit": {"oid": made.commit},
            "commit": {"oid": made.commit if place.outdated else pr.head_sha},
        }  # fmt: skip

    def _all(self, who: Identity) -> Mapping[str, tuple[Repository, Pull, Any]]:
        """Every node that ``who`` can name by a global id."""
        found: dict[str, tuple[Repository, Pull, Any]] = {}
        for repo in self._world.repositories.values():
            if not sees(repo, who):
                continue
            for pr in repo.pulls.values():
                found[f"PR_{pr.id}"] = (repo, pr, None)
                found |= {f"IC_{made.id}": (repo, pr, made) for made in pr.comments}
                for made in pr.review_comments:
                    found[f"PRRC_{made.id}"] = (repo, pr, made)
                    if made.in_reply_to is None:
                        found[f"PRRT_{made.id}"] = (repo, pr, made)
        return found

    def _find(self, node_id: str, who: Identity, *kinds: str) -> tuple[Repository, Pull, Any]:
        found = self._all(who).get(node_id)
        if found is None or (kinds and not node_id.startswith(kinds)):
            text = f"Could not resolve to a node with the global id of '{node_id}'"
            raise _refuse("NOT_FOUND", text)
        return found

    def _node(self, node_id: str, who: Identity) -> Node:
        repo, pr, made = self._find(node_id, who)
        if made is None:
            return self._pull(repo, pr, who)
        if node_id.startswith("PRRT_"):
            return self._thread(repo, pr, made, who)
        return self._comment(repo, pr, made, who)

    # -- mutations --------------------------------------------------------------------------

    def _demand(self, who: Identity, *needs: str) -> None:
        if not any(who.may(need) for need in needs):
            kind = "integration" if who.kind == "installation" else "personal access token"
            raise _refuse("FORBIDDEN", f"Resource not accessible by {kind}")

    def _resolve_thread(self, who: Identity, asked: Node, *, resolved: bool) -> Node:
        """Gated on contents, not on pull requests: so it is at GitHub."""
        repo, pr, first = self._find(asked["threadId"], who, "PRRT_")
        self._demand(who, "contents=write")
        if resolved:
            pr.resolved.setdefault(first.id, who.login)
        else:
            pr.resolved.pop(first.id, None)
        thread = self._thread(repo, pr, first, who)
        return {"clientMutationId": asked.get("clientMutationId"), "thread": thread}

    def _minimize(self, who: Identity, asked: Node) -> Node:
        """Fold a comment away; without a classifier it is shown again."""
        repo, pr, made = self._find(asked["subjectId"], who, "IC_", "PRRC_")
        self._demand(who, "issues=write", "pull_requests=write")
        made.minimized = asked["classifier"].lower() if "classifier" in asked else None
        comment = self._comment(repo, pr, made, who)
        key = "minimizedComment" if "classifier" in asked else "unminimizedComment"
        return {"clientMutationId": asked.get("clientMutationId"), key: comment}

    def _update(self, who: Identity, asked: Node) -> Node:
        """Edit a comment on the diff: one's own, or as a moderator anybody's."""
        repo, pr, made = self._find(asked["pullRequestReviewCommentId"], who, "PRRC_")
        self._demand(who, "pull_requests=write")
        if made.user != who.login and not may_moderate(repo, who):
            raise _refuse("FORBIDDEN", f"{who.login} does not have permission to edit it")
        made.edit(asked["body"], who.login, self._world.now())
        comment = self._comment(repo, pr, made, who)
        return {
            "clientMutationId": asked.get("clientMutationId"), "pullRequestReviewComment": comment
        }  # fmt: skip

    def _delete(self, who: Identity, asked: Node) -> Node:
        """Delete a comment on the diff: one's own, or as a moderator anybody's."""
        repo, pr, made = self._find(asked["id"], who, "PRRC_")
        self._demand(who, "pull_requests=write")
        if made.user != who.login and not may_moderate(repo, who):
            raise _refuse("FORBIDDEN", f"{who.login} does not have permission to delete it")
        pr.review_comments.remove(made)
        return {"clientMutationId": asked.get("clientMutationId")}


def _check_runs(checks: Sequence[CheckRun]) -> Callable[..., Node]:
    """The check runs of a suite: all of them, or else the latest of each name."""

    def field(info: Any, filterBy: Node | None = None, **args: Any) -> Node:  # noqa: N803
        asked = filterBy or {}
        if asked.keys() - {"checkType"}:
            raise NotModelledError(f"checkRuns(filterBy: {asked}) is not modelled")
        latest = {made.name: made for made in checks}
        rows = checks if asked.get("checkType") == "ALL" else list(latest.values())
        return connection(rows, lambda made: {
            "__typename": "CheckRun", "name": made.name, "externalId": made.external_id,
            "summary": made.summary, "title": made.title, "text": made.text,
        })(info, **args)  # fmt: skip

    return field


def _reactions(made: ReviewComment) -> Callable[..., Node]:
    """All reactions to a comment, or those of one kind."""

    def field(info: Any, content: str | None = None, **args: Any) -> Node:
        wanted = _CONTENT.get(content or "", content)
        kept = [one for one in made.reactions if content is None or one.content == wanted]
        rows = connection(kept, lambda one: {
            "__typename": "Reaction", "content": content, "createdAt": one.created_at,
            "user": actor(one.user),
        })  # fmt: skip
        return rows(info, **args)

    return field


def _edits(made: Comment) -> Node:
    """Who has edited a comment, and each text that it had, the newest first."""
    last = made.edits[-1] if made.edits else None

    def edit(one: Edit) -> Node:
        return {
            "__typename": "UserContentEdit", "createdAt": one.created_at,
            "editedAt": one.created_at, "updatedAt": one.created_at, "deletedAt": None,
            "deletedBy": None, "diff": one.text, "editor": actor(one.editor),
        }  # fmt: skip

    return {
        "lastEditedAt": last.created_at if last else None,
        "editor": actor(last.editor) if last else None, "includesCreatedEdit": bool(last),
        "userContentEdits": connection(made.edits[::-1], edit),
    }  # fmt: skip


def _formatted(error: GraphQLError) -> dict[str, Any]:
    """As GitHub writes it: the kind of an error stands beside its message."""
    row: dict[str, Any] = dict(error.formatted)
    kind = (row.pop("extensions", None) or {}).get("type")
    return {"type": kind, **row} if kind else row
