"""GitHub events: each kind means its change, and no payload, however hostile, means another."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.change import trigger
from rlm_ci.change.change_set import PullRequest
from rlm_ci.errors import CONFIG, ConfigError
from rlm_ci.git.repository import Repository, discover
from testing.repositories import events
from testing.repositories.changes import HOSTILE_BRANCHES, HOSTILE_TEXTS, small_change
from testing.repositories.git_repo import ZERO_SHA, GitRepo, History
from testing.repositories.shapes import criss_cross, forced_push, set_traps, sprung

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.change.change_set import ChangeSet


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return small_change(GitRepo(tmp_path_factory.mktemp("events") / "repo"))


def read(repo: GitRepo, path: Path, name: str = "") -> ChangeSet | None:
    return trigger.from_event(Repository(*discover(os.fspath(repo)), os.environ), str(path), name)


def change_of(history: History, folder: Path, payload: events.Payload, name: str = "") -> ChangeSet:
    change = read(history.repo, events.write_event(folder, payload), name)
    assert change is not None
    return change


def failure(history: History, path: Path, name: str = "") -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(history.repo, path, name)
    assert caught.value.code == CONFIG
    assert caught.value.hint
    assert str(path) in caught.value.where
    assert caught.value.what.isprintable()
    assert len(caught.value.what) < 400
    return caught.value


def hunt(payload: Any, *keys: str) -> Any:
    for key in keys:
        payload = payload[key]
    return payload


# -- what each event means ----------------------------------------------------------------------

#: Case of ``every_event`` to the trigger that it makes, None for no change, a text for an error.
MEANINGS: dict[str, str | None] = {
    "pull request": "pull_request",
    "pull request opened": "pull_request",
    "pull request without body": "pull_request",
    "pull request, hostile": "pull_request",
    "pull request from a fork": "pull_request",
    "pull request, fork deleted": "pull_request",
    "pull request target": "pull_request",
    "pull request target from a fork": "pull_request",
    "push": "push",
    "push, forced": "push",
    "push of a new branch": "push",
    "push that deletes": "error: the push deletes a branch: there is nothing to check",
    "push of a tag": "push",
    "merge group": "merge_group",
    "schedule": None,
    "workflow dispatch": None,
    "workflow dispatch with inputs": None,
    "comment on a pull request": "error: a comment on a pull request does not name its commits",
    "comment on an issue": "error: the event is about an issue, not about a change",
    "comment by a bot": "error: a comment on a pull request does not name its commits",
}


def test_every_event_is_spoken_of(history: History) -> None:
    assert MEANINGS.keys() == events.every_event(history.base, history.head).keys()


@pytest.mark.parametrize("case", MEANINGS)
@pytest.mark.parametrize("named", [True, False])
def test_what_each_event_means(history: History, tmp_path: Path, case: str, *, named: bool) -> None:
    name, payload = events.every_event(history.base, history.head)[case]
    path = events.write_event(tmp_path, payload)
    meaning = MEANINGS[case]
    if meaning is not None and meaning.startswith("error: "):
        assert failure(history, path, name if named else "").what == meaning.removeprefix("error: ")
        return
    change = read(history.repo, path, name if named else "")
    assert (None if change is None else change.trigger) == meaning
    if change is not None:
        assert (change.head, change.merge_base) == (history.head, history.base)
        assert [file.path for file in change.files()] == ["src/cart.py", "src/tax.py"]
        assert change.policy_commit == history.base
        assert change.name == "acme/shop"


def test_what_is_known_of_a_pull_request(history: History, tmp_path: Path) -> None:
    payload = events.pull_request(history.base, history.head, labels=["a", "b"])
    change = change_of(history, tmp_path, payload)
    assert change.target == "main"
    assert change.pull_request == PullRequest(
        12, "Add taxes", "Taxes, as the law has them.", ("a", "b"), from_fork=False, author="ada"
    )
    for odd in (
        events.from_fork(history.base, history.head),
        events.pull_request(history.base, history.head, deleted_fork=True),
    ):
        found = change_of(history, tmp_path, odd).pull_request
        assert found is not None
        assert found.from_fork


def test_the_target_of_a_push_and_of_a_merge_group(history: History, tmp_path: Path) -> None:
    for payload, target in (
        (events.push(history.base, history.head, ref="refs/heads/a/b"), "a/b"),
        (events.push(ZERO_SHA, history.head, ref="refs/tags/v1"), "refs/tags/v1"),
        (events.merge_group(history.base, history.head), "main"),
    ):
        assert change_of(history, tmp_path, payload).target == target


def test_a_forced_push_is_judged_from_what_the_branch_was(tmp_path: Path) -> None:
    history = forced_push(GitRepo(tmp_path / "origin"), tmp_path / "clone")
    before, after = history.commits["before"], history.commits["after"]
    change = change_of(history, tmp_path, events.push(before, after, forced=True))
    assert (change.base, change.merge_base) == (before, history.base)
    assert [(file.path, file.lines) for file in change.files()] == [("feature.py", 7)]


def test_two_merge_bases_are_as_git_takes_them(repo: GitRepo, tmp_path: Path) -> None:
    history = criss_cross(repo)
    change = change_of(history, tmp_path, events.pull_request(history.base, history.head))
    assert change.merge_base == repo.text("merge-base", history.base, history.head)


@pytest.mark.parametrize("name", ["workflow_run", "release", "check_suite", "delete", ""])
def test_an_event_of_another_kind_is_an_error(history: History, tmp_path: Path, name: str) -> None:
    # A workflow_run has a workflow as well, and is no dispatch: it must not pass for one.
    payload = {
        "action": "completed", "repository": events.repository(), "workflow": {"id": 1},
        "workflow_run": {"head_sha": history.head, "pull_requests": []},
    }  # fmt: skip
    error = failure(history, events.write_event(tmp_path, payload), name)
    assert "--base" in error.hint


# -- payloads that mean harm --------------------------------------------------------------------

BAD_FILES: dict[str, bytes] = {
    "empty": b"",
    "no json": b"{",
    "text": b"hello",
    "list": b"[]",
    "string": b'"pull_request"',
    "number": b"12",
    "null": b"null",
    "nan": b"NaN",
    "not utf-8": b'{"a": "\xff"}',
    "utf-16": json.dumps({"a": 1}).encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"a": 1}',
    "nul": b"\0" * 100,
    "two values": b"{}{}",
    "trailing comma": b'{"a": 1,}',
    "huge number": b'{"number": ' + b"9" * 5000 + b"}",
    "empty object": b"{}",
    "control characters": b'{"a": "\x1b[31m"}',
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_payload_that_is_none(history: History, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "event.json"
    path.write_bytes(BAD_FILES[kind])
    failure(history, path)


@pytest.mark.parametrize("unit", [b"[", b'{"a":'])
@pytest.mark.parametrize("inside", [True, False])
def test_a_payload_that_is_nested_too_deeply(
    history: History, tmp_path: Path, unit: bytes, *, inside: bool
) -> None:
    path = tmp_path / "event.json"
    nested = unit * 100_000
    path.write_bytes(b'{"pull_request": ' + nested if inside else nested)
    failure(history, path)


def test_a_payload_that_is_too_large(history: History, tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    payload = events.pull_request(history.base, history.head, body="x" * (33 << 20))
    path.write_text(json.dumps(payload))
    assert "bytes" in failure(history, path).what


def test_the_largest_payload_that_github_sends_is_read(history: History, tmp_path: Path) -> None:
    payload = events.pull_request(history.base, history.head, body="x" * (25 << 20))
    assert change_of(history, tmp_path, payload).head == history.head


@pytest.mark.skipif(os.name != "posix", reason="links, pipes and folders of POSIX")
@pytest.mark.parametrize("kind", ["missing", "folder", "link", "pipe", "device"])
def test_a_payload_that_is_no_regular_file(history: History, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "event.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        events.write_event(tmp_path, events.push(history.base, history.head), "real.json")
        path.symlink_to("real.json")
    elif kind == "pipe":
        os.mkfifo(path)
    failure(history, path if kind != "device" else _zero())


def _zero() -> Path:
    from pathlib import Path

    return Path("/dev/zero")


BAD_IDS: tuple[Any, ...] = (
    None, "", "HEAD", "main", "-rf", "--output=canary", "a" * 39, "A" * 40, "g" * 40, "a" * 41,
    " " + "a" * 39, "a" * 40 + "\n", "HEAD^{/x}", 12, ["a" * 40], {}, True, "\u0661" * 40,
    "a" * 1_000_000, "\ud800" * 40,
)  # fmt: skip


@pytest.mark.parametrize("bad", BAD_IDS, ids=lambda bad: repr(bad)[:20])
def test_an_id_that_is_none_is_named_and_never_guessed(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    base, head = history.base, history.head
    places = {
        "pull_request.base.sha": (events.pull_request(base, head), ("pull_request", "base"), "sha"),
        "pull_request.head.sha": (events.pull_request(base, head), ("pull_request", "head"), "sha"),
        "before": (events.push(base, head), (), "before"),
        "after": (events.push(base, head), (), "after"),
        "merge_group.base_sha": (events.merge_group(base, head), ("merge_group",), "base_sha"),
        "merge_group.head_sha": (events.merge_group(base, head), ("merge_group",), "head_sha"),
    }
    for named, (payload, way, key) in places.items():
        hunt(payload, *way)[key] = bad
        path = events.write_event(tmp_path, payload)
        assert failure(history, path).what == f"{named} is not an object id"
    assert os.listdir(tmp_path) == ["event.json"]


@pytest.mark.parametrize("side", ["base", "head"])
def test_an_id_that_the_clone_lacks_says_how_to_fetch_it(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    payload = events.pull_request(history.base, history.head)
    payload["pull_request"][side]["sha"] = "dead" * 10
    path = events.write_event(tmp_path, payload)
    error = failure(history, path)
    assert error.hint == f"git fetch origin {'dead' * 10}"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    error = failure(history, path)
    assert error.hint.endswith("; with actions/checkout: fetch-depth: 0")


def test_an_id_of_a_tree_or_a_file_is_no_commit(history: History, tmp_path: Path) -> None:
    for revision in ("HEAD^{tree}", "HEAD:README.md"):
        payload = events.pull_request(history.base, history.repo.sha(revision))
        failure(history, events.write_event(tmp_path, payload))


#: A place of the payload of a pull request, and what may stand there without harm.
ODD_FIELDS: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("pull_request", "title"), None),
    (("pull_request", "title"), 12),
    (("pull_request", "body"), ["Diff budget override: x"]),
    (("pull_request", "labels"), None),
    (("pull_request", "labels"), "diff-budget-override"),
    (("pull_request", "labels"), [None, 1, "x", {}, {"name": None}, {"name": "real"}]),
    (("pull_request", "base", "ref"), None),
    (("pull_request", "base", "repo"), None),
    (("pull_request", "head", "repo"), []),
    (("pull_request", "head", "user"), None),
    (("repository",), None),
    (("repository",), "acme/shop"),
    (("repository", "full_name"), ["acme/shop"]),
    (("sender",), None),
)


@pytest.mark.parametrize(("place", "value"), ODD_FIELDS, ids=repr)
def test_what_is_not_needed_may_be_anything(
    history: History, tmp_path: Path, place: tuple[str, ...], value: Any
) -> None:
    payload = events.pull_request(history.base, history.head)
    hunt(payload, *place[:-1])[place[-1]] = value
    change = change_of(history, tmp_path, payload)
    assert (change.base, change.head) == (history.base, history.head)
    found = change.pull_request
    assert found is not None
    assert all(isinstance(text, str) for text in (found.title, found.body, *found.labels))
    assert found.from_fork == (place[1:] in (("base", "repo"), ("head", "repo")))


@pytest.mark.parametrize("number", [None, 0, -1, "12", 1.5, True, [], 1e400])
def test_a_pull_request_has_a_number(history: History, tmp_path: Path, number: Any) -> None:
    payload = events.pull_request(history.base, history.head)
    payload["pull_request"]["number"] = number
    assert "number" in failure(history, events.write_event(tmp_path, payload)).what


@pytest.mark.parametrize(
    "text", [*HOSTILE_TEXTS, "\ud800 lone", "a\0b"], ids=lambda t: repr(t)[:20]
)
def test_hostile_texts_stay_texts(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    payload = events.pull_request(
        history.base, history.head, title=text, body=text, labels=[text], author=text or "x"
    )
    payload["pull_request"]["base"]["ref"] = text
    payload["pull_request"]["head"]["ref"] = text
    payload["repository"]["full_name"] = text
    change = change_of(history, tmp_path, payload)
    assert change.pull_request is not None
    assert (change.pull_request.title, change.pull_request.body) == (text, text)
    assert [file.path for file in change.files()] == ["src/cart.py", "src/tax.py"]
    assert os.listdir(tmp_path) == ["event.json"]
    assert not history.repo.text("status", "--porcelain")


@pytest.mark.parametrize("branch", HOSTILE_BRANCHES)
def test_hostile_branch_names_are_never_given_to_git(
    history: History, tmp_path: Path, branch: str
) -> None:
    payload = events.pull_request(history.base, history.head, base_ref=branch, head_ref=branch)
    change = change_of(history, tmp_path, payload)
    assert (change.base, change.head, change.target) == (history.base, history.head, branch)
    pushed = events.push(ZERO_SHA, history.head, ref=f"refs/heads/{branch}")
    assert change_of(history, tmp_path, pushed).target == branch


@pytest.mark.sample(2)
@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize("case", [case for case, to in MEANINGS.items() if to and " " not in to])
def test_no_event_runs_what_a_repository_configures(
    repo: GitRepo, tmp_path: Path, case: str
) -> None:
    history = small_change(repo)
    set_traps(repo, tmp_path / "canary")
    name, payload = events.every_event(history.base, history.head)[case]
    change = change_of(history, tmp_path, payload, name)
    assert len(change.files()) == 2
    assert len(change.hunks()[0]) == 2
    assert sprung(tmp_path / "canary") == []
