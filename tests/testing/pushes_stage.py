"""A model on loopback that finds the same faults whenever it is shown them."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlm_ci.github.posting import review_threads, summary_comment
from rlm_ci.models import gateway
from rlm_ci.models.record.record import AbsentModel
from testing.loopback_github.state import ACTIONS_BOT, Comment
from testing.loopback_model.replies import Answer

if TYPE_CHECKING:
    from testing.comment_commands_stage import Stage
    from testing.loopback_model.server import Asked, ModelServer

_FILE = re.compile(r"^=== (.+) === (.*)$")
_LINE = re.compile(r"^(\d+)[+|](.*)$")


@dataclass
class Critic:
    """Finds each line that has ``FAULT`` and a word; ``seen`` counts what it was shown."""

    llm: ModelServer
    severity: str = "medium"
    #: Begins the name of each rule.
    name: str = "fault"
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Faults that it does not find yet.
    overlooked: set[str] = field(default_factory=set)
    #: Whether it shows each fault, of a function with its name, by a script.
    proves: bool = False
    #: What a judge says, and a second look.
    judged: str = "fault"
    refuted: str = "upheld"
    #: Quoted in place of the lines.
    quote: str | None = None
    #: What each claim rests on, besides.
    guideline: dict[str, Any] | None = None
    #: Whether it says what each file does; ``asked`` are the files of each such question.
    describes: bool = False
    asked: list[list[str]] = field(default_factory=list)
    #: What it doubts of the description, and the questions about it.
    doubts: list[dict[str, Any]] = field(default_factory=list)
    doubted: list[str] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Answer:
        text = str(asked.messages[-1]["content"])
        if "Try to refute it" in text:
            return Answer(json.dumps({"verdict": self.refuted, "reason": "nobody needs it"}))
        if '"verdict"' in text:
            return Answer(json.dumps({"verdict": self.judged, "reason": "it is one"}))
        if '"edits"' in text and (broken := re.search(r"\(\w+, (src/\w+\.py), ", text)):
            edit = {"path": broken[1], "old": "return 1", "new": "return 0"}
            return Answer(json.dumps({"edits": [edit]}))
        if self.proves and (
            claimed := re.search(r"\(\w+, src/(\w+)\.py, .*\n?The fault (\w+)", text)
        ):
            return Answer(json.dumps(_reproduction(*claimed.groups())))
        if text.startswith("The author of a change"):
            self.doubted.append(text)
            return Answer(json.dumps({"doubts": self.doubts}))
        if text.startswith("Say what a change"):
            return Answer(json.dumps(self._description(text)))
        found: list[dict[str, Any]] = []
        shown: dict[str, list[str]] = {}
        path = ""
        for line in text.split("\n"):
            if head := _FILE.match(line):
                is_read = not re.search("unchanged|not shown|not part|another part", head[2])
                path = head[1] if is_read else ""
                shown |= {path: []} if is_read else {}
            elif path and (numbered := _LINE.match(line)):
                shown[path].append(numbered[2])
                fault = re.search(r"FAULT (\w+)", numbered[2])
                if fault and fault[1] not in self.overlooked:
                    found.append(self._claim(path, int(numbered[1]), numbered[2], fault[1]))
        self.seen.update((path, "\n".join(lines)) for path, lines in shown.items())
        return Answer(json.dumps({"findings": found}))

    def _description(self, text: str) -> dict[str, Any]:
        lines = re.findall(r"=== (src/\w+\.py) === .*\n(?:@@.*\n)?(\d+)\+(.*)", text)
        if not self.describes:
            return {"about": []}
        self.asked.append([path for path, _, _ in lines])
        quotes = [
            {"path": path, "line_start": int(number), "line_end": int(number), "quote": line}
            for path, number, line in lines
        ]
        groups = [
            {
                "text": f"`{one['path']}` has {one['quote']}.",
                "files": [one["path"]],
                "quotes": [one],
            }
            for one in quotes
        ]
        return {"about": [{"text": "It counts.", "quotes": quotes[:1]}], "groups": groups}

    def _claim(self, path: str, line: int, quote: str, word: str) -> dict[str, Any]:
        return {
            "rule": f"{self.name}-{word}", "severity": self.severity, "domain": "quality",
            "confidence": 0.8, "message": f"The fault {word} is here.", "path": path,
            "line_start": line, "line_end": line, "suggested_fix": None,
            "quote": quote if self.quote is None else self.quote,
            **({} if self.guideline is None else {"guideline": self.guideline}),
        }  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        return {
            "OPENAI_API_KEY": self.llm.key, "OPENAI_BASE_URL": self.llm.url,
            "RLM_CI_MODEL": "critic", "RLM_CI_REVIEW_ENABLED": "auto",
            "RLM_CI_DIFF_BUDGET_MAX_FILES": "99", "RLM_CI_REVIEW_DEPTH": "quick",
            "RLM_CI_REVIEW_PROOFS": "auto" if self.proves else "off",
        }  # fmt: skip

    def take(self) -> set[str]:
        """The paths that were shown since the last time; none of them in the same words twice."""
        assert max(self.seen.values(), default=0) <= 1, self.seen
        paths = {path for path, _ in self.seen}
        self.seen.clear()
        return paths


def _reproduction(module: str, word: str) -> dict[str, Any]:
    """Shows the fault of ``def word():`` in ``module``."""
    content = f"from {module} import {word}\n\nassert {word}() == 0, {word}()\n"
    return {"kind": "script", "path": "shows.py", "content": content,
            "expects": "AssertionError", "breaks": f"{word} is not 0"}  # fmt: skip


@dataclass
class Pushes:
    """Pushes to one pull request, each judged by a run with the model."""

    stage: Stage
    critic: Critic
    models: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        """The program runs in this process, which does not end with it: connections are closed."""
        answering = gateway._answering

        def kept(*args: Any, **more: Any) -> Any:
            model = answering(*args, **more)
            if not isinstance(model, AbsentModel):  # a replay has no connection to close
                self.models.append(model)
            return model

        self.stage.monkeypatch.setattr(gateway, "_answering", kept)

    def close(self) -> None:
        for model in self.models:
            model.close()
        self.models.clear()

    def push(self, **files: str) -> None:
        """Write ``src/NAME.py`` for each keyword, and push."""
        self.stage.author.checkout("feature")
        for name, text in files.items():
            self.stage.author.write(f"src/{name}.py", text)
        self.stage.author.run("add", "-A")
        self.stage.author.run("commit", "-q", "--allow-empty", "-m", "More")
        self.stage.publish_head()

    def judge(self, *args: str, **env: str) -> set[str]:
        """The paths that the model was asked about."""
        self.stage.clone.fetch("origin", "+refs/pull/12/head:refs/remotes/pull")
        event = self.stage.events.pull_request()
        self.stage.run(event, *args, **{**self.critic.environment, **env})
        self.close()
        return self.critic.take()

    def say(self, text: str, author: str = "ada", **env: str) -> tuple[int, set[str]]:
        """The exit code of the job that a comment starts, and what the model was asked about."""
        made = self.stage.comment(text, author)
        code = self.stage.run(made, **{**self.critic.environment, **env})
        self.close()
        return code, self.critic.take()

    @property
    def part(self) -> dict[str, Any]:
        (found,) = (one for one in self.stage.report["parts"] if one["id"] == "review")
        assert isinstance(found, dict)
        return found

    @property
    def faults(self) -> set[str]:
        """The faults that the report tells."""
        rules = (one["rule"] for one in self.stage.report["findings"])
        return {rule.removeprefix("review/fault-") for rule in rules if "fault" in rule}

    def beside(self) -> dict[str, bool]:
        """For each fault with a comment beside its line whether that is open; none has two."""
        found: dict[str, bool] = {}
        marks = [review_threads.read_marker(one.body) for one in self.stage.pull.review_comments]
        assert len(marks) == len(set(marks)), marks
        for one in self.stage.pull.review_comments:
            word = re.search(r"review/fault-(\w+)", one.body)
            if word:
                is_over = one.id in self.stage.pull.resolved or one.minimized is not None
                found[word[1]] = not is_over
        return found

    @property
    def comment(self) -> Comment:
        (only,) = (one for one in self.stage.pull.comments if one.user == ACTIONS_BOT)
        return only

    def forge(self, **changed: Any) -> None:
        """Change the state in our summary, as whoever may edit a comment can."""
        last = summary_comment.checkpoint_of(self.comment.body)
        assert last
        rest = self.comment.body.partition("\n")[2]
        self.comment.body = f"{last.replace(**changed).marker()}\n{rest}"
