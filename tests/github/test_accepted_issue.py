"""Is a named issue accepted? GitHub on the loopback says so, or does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.github.accepted_issue import IssueLookup, look_up, names_issue, numbers
from rlm_ci.github.session import Access
from testing.loopback_github.scene import NAME, NUMBER, READER, Scene, build
from testing.repositories.events import actions_environment, pull_request, write_event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testing.loopback_github.server import GitHub
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo


@pytest.fixture
def scene(github: GitHub, tmp_path: Path) -> Iterator[Scene]:
    built = build(github, tmp_path)
    github.world.add_issue(NAME, 20, labels=["Accepted", "tax"])
    github.world.add_issue(NAME, 21, state="closed")
    github.world.add_issue(NAME, 22)
    yield built
    built.close()


def looked_up(scene: Scene, text: str, label: str = "", token: str = READER) -> IssueLookup:
    return look_up([text], NAME, label, Access(token, scene.url))


@pytest.mark.parametrize(
    ("text", "label", "number"),
    [
        ("Closes #20", "", 20),
        ("Closes #20", "accepted", 20),
        ("See #21, #22 and acme/shop#20", "accepted", 20),
        (f"See https://github.com/{NAME}/issues/22", "", 22),
    ],
)
def test_an_open_issue_with_the_label_is_accepted(
    scene: Scene, text: str, label: str, number: int
) -> None:
    assert looked_up(scene, text, label) == IssueLookup(accepted=number)


@pytest.mark.parametrize(
    ("text", "label", "why"),
    [
        ("Closes #21", "", "#21 is closed"),
        ("Closes #22", "accepted", "#22 has no label accepted"),
        (f"Closes #{NUMBER}", "", f"#{NUMBER} is a pull request"),
        ("Closes other/shop#20", "", f"none of {NAME} is named"),
    ],
)
def test_any_other_is_refused_with_its_reason(
    scene: Scene, text: str, label: str, why: str
) -> None:
    assert looked_up(scene, text, label) == IssueLookup(refused=(why,))


def test_one_that_is_not_there_is_refused(scene: Scene) -> None:
    (why,) = looked_up(scene, "Closes #404").refused
    assert why == f"#404 is no issue of {NAME} that the token may see"


def test_only_the_first_issues_are_looked_up_and_the_rest_counted(scene: Scene) -> None:
    many = " ".join(f"#{number}" for number in (21, 1, 2, 3, 4, 20))
    refused = looked_up(scene, many).refused
    assert len(refused) == 6
    assert refused[-1] == "1 more issue not looked up"


def test_what_cannot_be_looked_up_is_neither(scene: Scene) -> None:
    unknown = {
        "there is no token": look_up(["#20"], NAME, "", None),
        "name on GitHub is not known": look_up(["#20"], "../../x", "", Access("t", scene.url)),
        "GitHub answered 401": looked_up(scene, "#20", token="wrong"),
    }
    for why, lookup in unknown.items():
        assert why in lookup.unknown
        assert (lookup.accepted, lookup.refused) == (0, ())


def test_a_text_names_issues_by_number_and_by_address() -> None:
    text = f"#7, (#8) {NAME}#9 Acme/Shop#10 x/y#11 https://github.com/{NAME}/issues/12 #0 a#13 &#14"
    assert numbers([text, "#7"], NAME) == [7, 8, 9, 10, 12]
    assert names_issue(["See x/y#11"])
    assert not names_issue(["a#13", "#0", "nothing"])


@pytest.mark.full
def test_a_check_in_a_job_asks_github_and_without_a_token_does_not_pass(
    cli: Cli, repo: GitRepo, scene: Scene, tmp_path: Path
) -> None:
    base = repo.write("rlm-ci.toml", '[ai_policy]\nissue = "accepted"\n').commit("Begin")
    repo.checkout("feature", new=True).write("a", "1")
    head = repo.commit("Sell\n\nAssisted-by: Claude:claude-opus-5")
    codes = {}
    for body, token in (("Closes #20", READER), ("Closes #21", READER), ("Closes #20", "")):
        event = write_event(tmp_path, pull_request(base, head, body=body))
        env = actions_environment("pull_request", event)
        env |= {"GITHUB_API_URL": scene.url, "GITHUB_TOKEN": token}
        ended = cli("check", "ai-policy", cwd=repo, env=env)
        codes[body, bool(token)] = ended.code
        assert ("was not looked up: there is no token" in " ".join(ended.stdout.split())) is (
            not token
        )
    assert codes == {("Closes #20", True): 0, ("Closes #21", True): 1, ("Closes #20", False): 3}
