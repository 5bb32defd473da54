"""``/rlm-ci ask``: a model answers from git's objects, and what it says is data."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci.models import gateway
from testing.ask_stage import Script, final, going_on, prompt_of, read, span
from testing.comment_commands_stage import Stage, stage
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from testing.loopback_model.server import ModelServer

__all__ = ["llm", "stage"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")

LOOK = going_on(reads=[read(span(0, 400))])
HOSTILE = """\
# Look at @everyone

* **Both** are `x`, see src/limits.py:1 and src/limits.py:90
- <img src=x onerror=alert(1)> [here](https://evil.example) www.evil.example #1

::error::forged
##[error]forged
<!-- rlm-ci:report -->
```mermaid
graph TD
::warning::forged
```
| a | b |
|---|---|
| <b>1</b> | @ada |
"""


@pytest.fixture
def asking(stage: Stage, llm: ModelServer) -> Iterator[Callable[..., int]]:
    """Ask a question by a comment; the exit code."""
    stage.author.write("src/limits.py", "LIMIT = 5\n").write("logo.bin", b"\0")
    stage.author.symlink("out", "/etc").commit("Limits")
    stage.publish_head()
    made: list[Any] = []
    answering = gateway._answering

    def kept(*args: Any, **more: Any) -> Any:
        made.append(answering(*args, **more))
        return made[-1]

    stage.monkeypatch.setattr(gateway, "_answering", kept)

    def ask(text: str = "/rlm-ci ask What is the limit?", **env: str) -> int:
        known = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url, "RLM_CI_MODEL": "m"}
        return stage.run(stage.comment(text), **{**known, **env})

    yield ask
    for model in made:
        model.close()


def test_the_answer_is_a_reply_with_verified_places(
    stage: Stage, llm: ModelServer, asking: Callable[..., int]
) -> None:
    files = sorted(path.name for path in stage.clone.path.iterdir())
    llm.script(Script(LOOK, final("It is 5: src/limits.py:1. Not src/other.py:7.")))
    assert asking() == 0, stage.said
    head = stage.head
    assert stage.reply.startswith("> What is the limit?\n\nIt is 5: src/limits.py:1. Not ")
    link = f"https://github.com/acme/shop/blob/{head}/src/limits.py#L1"
    assert f"- [`src/limits.py, line 1`]({link})" in stage.reply
    assert "1 citation verified" in stage.reply
    assert "1 could not be verified" in stage.reply
    # The model was shown the head's files; none of them is on the disk, and nothing was judged.
    shown = "".join(map(prompt_of, llm.completions))
    assert "LIMIT = 5" in shown
    assert files == sorted(path.name for path in stage.clone.path.iterdir())
    assert stage.clone.text("status", "--porcelain") == ""
    assert not (stage.folder / "out").exists()
    assert not stage.conclusions


def test_nothing_of_an_answer_is_obeyed(
    stage: Stage, llm: ModelServer, asking: Callable[..., int]
) -> None:
    llm.script(Script(LOOK, final(HOSTILE)))
    assert asking("/rlm-ci ask Who is @everyone? ::error::x <!-- rlm-ci:report -->") == 0, (
        stage.said
    )
    reply = stage.reply
    for told in ("@everyone", "@ada", "<img", "<b>", "](https://evil", "www.evil", "```mermaid"):
        assert told not in reply.replace("\\<", "&lt;").replace("\\]", "&#93;"), told
    assert "<!-- rlm-ci:" not in reply.replace("\\<", "&lt;")
    assert "\n- Both are `x`, see src/limits.py:1" in reply
    assert "\n| a | b |\n|---|---|\n| " in reply
    assert not any(line.lstrip().startswith(("::", "##[")) for line in reply.split("\n"))
    assert stage.clone.path.joinpath("out").exists() is False


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}, "The question has no model: neither"),
        ({"RLM_CI_MODEL": ""}, "The question has no model: no model is named."),
    ],
)
def test_without_a_model_the_reply_says_what_is_missing(
    stage: Stage, llm: ModelServer, asking: Callable[..., int], env: dict[str, str], why: str
) -> None:
    assert asking(**env) == 5
    assert why in stage.reply.replace("\\_", "_")
    assert not llm.asked
    assert len(stage.github.writes) == 1


def test_a_model_that_fails_is_told_in_the_reply(
    stage: Stage, llm: ModelServer, asking: Callable[..., int]
) -> None:
    llm.script(Script("no plan", "no plan"))
    assert asking() == 5
    assert stage.reply.startswith("**Not done.** The planner's answer is not a plan")
    assert "Ask again; or take a model that keeps to JSON." in stage.reply
    assert "resume" not in stage.said


def test_a_long_answer_is_cut(stage: Stage, llm: ModelServer, asking: Callable[..., int]) -> None:
    llm.script(Script(LOOK, Answer(_plan("#" * 60_000))))
    assert asking(RLM_CI_MODELS_MAX_COMPLETION_TOKENS="100000") == 0, stage.said
    assert "…" in stage.reply
    assert len(stage.reply) < 65_000


def _plan(answer: str) -> str:
    import json

    return json.dumps(final(answer))


def test_in_a_thread_the_model_learns_what_it_is_about(
    stage: Stage, llm: ModelServer, asking: Callable[..., int]
) -> None:
    from testing.loopback_github.state import ReviewComment

    now = stage.github.world.now()
    first = ReviewComment(
        stage.github.world.new_id(), 1, "bob", "Hm", stage.head, "src/limits.py", "line", 1,
        "RIGHT", None, None, 1, "", None, now, now,
    )  # fmt: skip
    stage.pull.review_comments.append(first)
    llm.script(Script(LOOK, final("Because.")))
    event = stage.events.review_comment("/rlm-ci ask Why?", to=first)
    env = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url, "RLM_CI_MODEL": "m"}
    assert stage.run(event, **env) == 0, stage.said
    assert stage.reply.startswith("> Why?\n\nBecause.")
    assert "in a thread about 'src/limits.py', line 1" in prompt_of(llm.completions[0])
    assert asking is not None
