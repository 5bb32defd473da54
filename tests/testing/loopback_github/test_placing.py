"""What GitHub derives from git: files, patches, where comments may stand and where they go."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from testing.loopback_github.operations import refused
from testing.loopback_github.pulls import MAX_PATCH_LINES, Source, anchors_of
from testing.loopback_github.scene import ADA, NAME, NUMBER, Scene, lines
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from pathlib import Path

    from testing.loopback_github import GitHub

_HUNK = ("missing_field", "pull_request_review_thread.diff_hunk", None)


def _post(scene: Scene, **more: Any) -> Any:
    asked = {"body": "x", "commit_id": scene.state.head_sha, "path": "src/a.py"} | more
    return scene.raw("POST", f"/pulls/{NUMBER}/comments", asked)


def _review(scene: Scene, *comments: dict[str, Any], **more: Any) -> Any:
    asked = {"body": "x", "event": "COMMENT", "comments": list(comments)} | more
    return scene.raw("POST", f"/pulls/{NUMBER}/reviews", asked)


# -- files --------------------------------------------------------------------------------------


def test_files_are_what_git_says(scene: Scene) -> None:
    files = {file.filename: file for file in scene.pull().get_files()}
    assert files["renamed.txt"].previous_filename == "old.txt"
    shown = {name for name, file in files.items() if file.raw_data.get("patch")}
    assert shown == {"edited.txt", "gone.txt", "new.py", "src/a.py"}
    assert files["new.py"].patch == (
        "@@ -0,0 +1,3 @@\n+a = 1\n+b = 2\n+c = 3\n\\ No newline at end of file"
    )
    assert (files["src/a.py"].additions, files["src/a.py"].deletions) == (2, 2)
    assert files["gone.txt"].sha == scene.git.sha("main:gone.txt")
    assert files["src/a.py"].sha == scene.git.sha("feature:src/a.py")


def test_patches_apply(scene: Scene, tmp_path: Path) -> None:
    """An independent reader, git itself, understands each patch."""
    there = GitRepo(tmp_path / "there")
    for file in scene.pull().get_files():
        if file.raw_data.get("patch") and file.status == "modified":
            there.write(file.filename, scene.git.run("show", f"main:{file.filename}"))
            names = f"--- a/{file.filename}\n+++ b/{file.filename}\n"
            there.run("apply", "-", stdin=f"{names}{file.patch}\n".encode())
            expected = scene.git.run("show", f"feature:{file.filename}")
            assert there.read(file.filename) == expected


def test_the_diff_is_three_dot(scene: Scene) -> None:
    scene.git.run("checkout", "-q", "main")
    scene.git.write("elsewhere.txt", "x").write("src/a.py", lines(60))
    scene.git.run("add", "-A")
    scene.git.run("commit", "-qm", "On main")
    scene.github.push(NAME, NUMBER, "feature", base="main")
    pull = scene.pull()
    assert pull.base.sha == scene.git.sha("main") != scene.git.sha("feature~")
    files = {file.filename: file for file in pull.get_files()}
    assert "elsewhere.txt" not in files
    assert (files["src/a.py"].additions, files["src/a.py"].deletions) == (2, 2)
    assert files["src/a.py"].patch.count("\n+") == 2
    compared = scene.repo().compare("main", "feature")
    assert (compared.status, compared.behind_by) == ("diverged", 1)


@pytest.mark.full
def test_files_come_in_pages_and_end_at_3000(github: GitHub, tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "big").write("a", "")
    repo.run("add", "-A")
    repo.run("commit", "-qm", "base")
    repo.run("checkout", "-qb", "feature")
    repo.write_all({f"n/{number:04}.txt": f"{number}\n" for number in range(3200)})
    repo.run("add", "-A")
    repo.run("commit", "-qm", "many")
    github.repository(NAME, repo)
    github.pull(NAME, NUMBER, head="feature")
    github.token("t-bot")
    scene = Scene(github, repo, github.url)
    pull = scene.pull()
    assert pull.changed_files == 3200
    assert len(list(pull.get_files())) == 3000
    assert len(github.sent("GET", "/files")) == 30
    requester = scene.client().requester
    media = {"Accept": "application/vnd.github.diff"}
    status, _, text = requester.requestJson("GET", f"/repos/{NAME}/pulls/{NUMBER}", headers=media)
    assert status == 406
    assert "maximum number of files (300)" in text
    scene.close()


def test_a_huge_patch_is_left_out(scene: Scene) -> None:
    scene.git.write("huge.txt", "x\n" * (MAX_PATCH_LINES + 1))
    scene.commit()
    (huge,) = [file for file in scene.pull().get_files() if file.filename == "huge.txt"]
    assert "patch" not in huge.raw_data
    assert huge.additions == MAX_PATCH_LINES + 1


def test_anchors_of_headers_without_counts() -> None:
    found = anchors_of("@@ -1 +1,2 @@ def f():\n-a\n+b\n+c\n@@ -9,2 +10 @@\n d\n-e")
    places = {place: (anchor.hunk, anchor.position) for place, anchor in found.items()}
    assert places == {
        ("LEFT", 1): (0, 1), ("RIGHT", 1): (0, 2), ("RIGHT", 2): (0, 3),
        ("LEFT", 9): (1, 5), ("RIGHT", 10): (1, 5), ("LEFT", 10): (1, 6),
    }  # fmt: skip


def test_lines_are_followed(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "r").write("[a]*.txt", lines(total=30))
    repo.run("add", "-A")
    repo.run("commit", "-qm", "one")
    text = lines(12, total=30).splitlines(keepends=True)
    repo.write("[a]*.txt", "".join(["new\n", *text[:4], *text[6:]]))
    repo.run("add", "-A")
    repo.run("commit", "-qm", "two")
    source = Source(repo)
    moved = [source.moved_line(repo.sha("HEAD~"), repo.sha(), "[a]*.txt", n) for n in range(1, 31)]
    after = repo.read("[a]*.txt").decode().splitlines()
    for before, now in enumerate(moved, start=1):
        assert now == (None if before in {5, 6, 12} else after.index(f"line {before}") + 1)


# -- placing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "faults"),
    [
        ({"line": 25}, [("custom", "line", "must be part of the diff"), _HUNK]),
        ({"line": 70}, [("custom", "line", "must be part of the diff"), _HUNK]),
        ({}, [("custom", "line", "must be part of the diff"), _HUNK]),
        (
            {"line": 40, "start_line": 10},
            [("custom", "start_line", "must be part of the same hunk as the line.")],
        ),
        (
            {"line": 25, "start_line": 10},
            [
                ("custom", "line", "must be part of the diff"),
                ("custom", "start_line", "must be part of the same hunk as the line."),
                _HUNK,
            ],
        ),
        ({"line": 10, "start_line": 10}, [("custom", "start_line", "must precede the end line.")]),
        ({"line": 10, "start_line": 11}, [("custom", "start_line", "must precede the end line.")]),
        ({"path": "nowhere", "line": 1}, [("invalid", "path", None), _HUNK]),
        ({"path": "logo.bin", "line": 1}, [("custom", "line", "must be part of the diff"), _HUNK]),
        ({"path": "old.txt", "line": 1}, [("invalid", "path", None), _HUNK]),
    ],
)  # fmt: skip
def test_misplaced_comments(scene: Scene, asked: Any, faults: Any) -> None:
    data = refused(422, _post, scene, **asked).data
    rows = []
    for code, name, text in faults:
        field = name if "." in name else f"pull_request_review_thread.{name}"
        row = {"resource": "PullRequestReviewComment", "code": code, "field": field}
        rows.append(row | ({"message": f"{field} {text}"} if text else {}))
    assert data["message"] == "Validation Failed"
    assert data["errors"] == rows


@pytest.mark.parametrize(
    ("asked", "position"),
    [
        ({"line": 10, "side": "RIGHT"}, 5), ({"line": 10, "side": "LEFT"}, 4),
        ({"line": 7}, 1), ({"line": 13}, 8), ({"line": 43}, 17),
        ({"line": 12, "start_line": 8}, 7),
        ({"line": 10, "start_line": 10, "start_side": "LEFT", "side": "RIGHT"}, 5),
        ({"position": 5}, 5),
    ],
)  # fmt: skip
def test_placed_comments(scene: Scene, asked: Any, position: int) -> None:
    made = _post(scene, **asked)
    assert made["position"] == made["original_position"] == position
    assert made["line"] == asked.get("line", 10)
    rows = made["diff_hunk"].split("\n")
    assert rows[0].startswith("@@ -")
    patch = next(f.patch for f in scene.pull().get_files() if f.filename == "src/a.py")
    assert rows[-1] == patch.split("\n")[position]


def test_a_review_is_all_or_nothing_and_does_not_say_which(scene: Scene) -> None:
    good = {"path": "src/a.py", "line": 10, "body": "good"}
    bad = {"path": "src/a.py", "line": 25, "start_line": 11, "body": "bad"}
    data = refused(422, _review, scene, good, bad).data
    assert data["message"] == "Unprocessable Entity"
    sentence = (
        "Pull request review thread line must be part of the diff, Pull request review thread "
        "start line must be part of the same hunk as the line., and Pull request review thread "
        "diff hunk can't be blank"
    )
    assert data["errors"] == [sentence]
    assert not scene.state.reviews
    assert not scene.state.review_comments
    data = refused(422, _review, scene, {**good, "start_line": 10}).data
    assert data["errors"] == ["Pull request review thread start line must precede the end line."]
    assert _review(scene, good)["state"] == "COMMENTED"


def test_commits_that_are_not_in_the_pull_request(scene: Scene) -> None:
    for commit in ("0" * 40, scene.git.sha("main")):
        data = refused(422, _post, scene, line=10, commit_id=commit).data
        assert data["errors"][0]["field"] == "commit_id"
        refused(422, _review, scene, commit_id=commit)
    old = scene.state.head_sha
    scene.git.run("commit", "-q", "--amend", "-m", "Forced")
    scene.github.push(NAME, NUMBER, "feature")
    assert scene.state.head_sha != old
    refused(422, _post, scene, line=10, commit_id=old)


# -- after a push -------------------------------------------------------------------------------


def _places(scene: Scene) -> dict[str, tuple[Any, ...]]:
    return {
        c["body"]: (c["line"], c["start_line"], c["position"], c["original_line"], c["commit_id"])
        for c in scene.raw("GET", f"/pulls/{NUMBER}/comments")
    }


def test_comments_follow_their_lines_or_become_outdated(scene: Scene) -> None:
    first = scene.state.head_sha
    wanted: dict[str, dict[str, Any]] = {
        "stays": {"line": 40}, "range": {"line": 41, "start_line": 39}, "changes": {"line": 10},
        "left": {"line": 40, "side": "LEFT"}, "file": {"path": "new.py", "subject_type": "file"},
    }  # fmt: skip
    for body, asked in wanted.items():
        _post(scene, body=body, **asked)
    # Three lines at the top, line 10 written anew.
    scene.git.write("src/a.py", "x\ny\nz\n" + lines(40).replace("line 10\n", "once more\n"))
    second = scene.commit()
    found = _places(scene)
    assert found["stays"][0::4] == (43, second)
    assert found["range"][:2] == (44, 42)
    assert found["left"][0::4] == (40, second)
    assert found["changes"] == (None, None, None, 10, first)
    assert found["file"] == (None, None, 1, None, second)
    # What was outdated is so in GraphQL too, and the file's comment goes with the file.
    scene.git.run("rm", "-qf", "new.py", "kind.txt")
    scene.commit()
    assert _places(scene)["file"][2] is None
    document = (
        '{repository(owner:"acme",name:"shop"){pullRequest(number:12){'
        "reviewThreads(first:9){nodes{isOutdated line originalLine}}}}}"
    )
    threads = scene.graph(document)["repository"]["pullRequest"]["reviewThreads"]["nodes"]
    assert [thread["isOutdated"] for thread in threads] == [False, False, True, False, True]
    assert [thread["originalLine"] for thread in threads] == [40, 41, 10, 40, None]


def test_a_reverted_file_takes_its_comments_along(scene: Scene) -> None:
    _post(scene, body="x", line=10)
    scene.git.run("checkout", "-q", "main", "--", "src/a.py")
    scene.commit()
    assert _places(scene)["x"][:3] == (None, None, None)


def test_an_answer_stays_in_the_thread(scene: Scene) -> None:
    made = _post(scene, body="first", line=10)
    people = scene.pull(ADA)
    reply = people.create_review_comment_reply(made["id"], "answer")
    nested = people.create_review_comment_reply(reply.id, "answer to the answer")
    assert reply.in_reply_to_id == nested.in_reply_to_id == made["id"]
    assert (nested.raw_data["line"], nested.user.login) == (10, "ada")


def test_git_is_not_asked_twice(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        _post(scene, line=10)
    scene.git.write("src/a.py", "top\n" + lines(10, 40))
    scene.commit()
    scene.pull()
    _places(scene)

    def fail(*_args: object, **_more: object) -> None:
        raise AssertionError("git was asked again")

    monkeypatch.setattr(subprocess, "run", fail)
    assert _places(scene)["x"][0] == 11
