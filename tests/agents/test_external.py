"""Other people's agents: real programs on PATH that read a prompt and change files."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from rlm_ci.agents.agent import Assignment
from rlm_ci.agents.external import PROGRAMS, ExternalAgent, granted
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.fix.roles import verdict_of
from testing.agent_workspaces import Folder

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Notes how it was called, and edits a file.
FAKE = """\
#!/bin/sh
printf '%s\\n' "$@" > ../called
cat > ../prompt
env | sort > ../env
echo edited > a.txt
echo "Summary: edited a.txt"
"""


class Stage:
    """A folder to work in, and a folder of programs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bin = path / "bin"
        self.bin.mkdir()
        (path / "work").mkdir()
        self.workspace = Folder(path / "work", self.bin)
        self.lines: list[str] = []

    def install(self, name: str, script: str = FAKE) -> Path:
        program = self.bin / name
        program.write_text(script)
        program.chmod(0o755)
        return program

    def find(self, name: str) -> str | None:
        place = (self.path / "work" if "/" in name else self.bin) / name
        for one in (place, Path("/bin") / name):
            if os.access(one, os.X_OK):
                return str(one)
        return None

    def agent(
        self, name: str, env: Mapping[str, str] | None = None, *, confined: bool = False
    ) -> ExternalAgent:
        return ExternalAgent(
            name,
            env=env or {},
            find=self.find,
            redact=lambda text: text.replace("hunter2", "[secret]"),
            confined=confined,
        )

    def task(
        self, prompt: str = "Mend it.", *, deadline: float | None = None, read_only: bool = False
    ) -> Assignment:
        return Assignment(
            role="single",
            iteration=1,
            prompt=prompt,
            workspace=self.workspace,
            conversation=[],
            deadline=deadline,
            read_only=read_only,
            on_progress=self.lines.append,
        )

    def called(self) -> list[str]:
        return (self.path / "called").read_text().splitlines()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.mark.parametrize("name", ["codex", "claude", "gemini"])
def test_the_prompt_goes_to_stdin(stage: Stage, name: str) -> None:
    stage.install(name)
    prompt = "Mend it.\n$(id) `id` 'quoted'\n--dangerously\n"
    outcome = stage.agent(name).act(stage.task(prompt))
    assert (outcome.exit_code, outcome.summary, outcome.reason) == (0, "edited a.txt", "")
    assert (stage.path / "prompt").read_text() == prompt
    assert (stage.path / "work/a.txt").read_text() == "edited\n"
    assert stage.called() == list(PROGRAMS[name].edit[1:])
    assert prompt not in stage.workspace.launches[0].argv
    assert stage.lines == [f"{name} at work"]


def test_codex_leaves_confining_to_a_sandbox_that_does(stage: Stage) -> None:
    """Its own can be made in no other: run in bubblewrap, it could not write a file."""
    stage.install("codex")
    for confined, read_only in ((True, False), (True, True), (False, False), (False, True)):
        stage.agent("codex", confined=confined).act(stage.task(read_only=read_only))
        words = stage.called()
        mode = words[words.index("--sandbox") + 1]
        own = "read-only" if read_only else "workspace-write"
        assert mode == ("danger-full-access" if confined else own)
        assert stage.workspace.launches[-1].read_only is read_only
        assert words[words.index("-c") + 1].startswith("shell_environment_policy.exclude=")


def test_codex_is_told_a_base_url_that_it_would_not_heed(stage: Stage) -> None:
    stage.install("codex")
    stage.agent("codex", {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}).act(stage.task())
    assert stage.called()[:3] == ["-c", "openai_base_url=http://127.0.0.1:1/v1", "exec"]


def test_aider_has_no_reason_to_write_into_the_git_folder(stage: Stage) -> None:
    """Without a name and an address it does, and cannot: it ends before it has begun."""
    script = "#!/bin/sh\ngit config --get user.name\ngit config --get user.email\n"
    stage.install("aider", script)
    outcome = stage.agent("aider").act(stage.task())
    assert (outcome.exit_code, outcome.output) == (0, "aider\naider@localhost")
    given = {"GIT_CONFIG_COUNT": "0"}
    assert stage.agent("aider", given).act(stage.task()).exit_code == 1, "the user's word counts"


def test_a_prompt_in_a_file_lies_outside_of_the_tree(stage: Stage) -> None:
    stage.install("aider", '#!/bin/sh\ncat "$2" > ../prompt\nprintf %s "$2" > ../called\n')
    outcome = stage.agent("aider").act(stage.task("Mend\nit."))
    assert outcome.exit_code == 0
    assert (stage.path / "prompt").read_text() == "Mend\nit."
    place = stage.called()[0]
    launch = stage.workspace.launches[0]
    assert launch.files == (place,)
    assert not place.startswith(stage.workspace.root)
    assert not os.path.exists(os.path.dirname(place)), "nothing is left behind"
    assert launch.stdin == b""


def test_what_aider_leaves_in_the_tree_is_swept_up(stage: Stage) -> None:
    stage.workspace.write(".aider.conf.yml", "mine: true\n")
    (stage.path / "kept").write_text("kept")
    script = "#!/bin/sh\nmkdir .aider.tags.cache.v4\necho x > .aider.tags.cache.v4/cache.db\n"
    stage.install(
        "aider", f"{script}ln -s ../kept .aider.file\nln -s .. .aider.folder\necho y > a.py\n"
    )
    assert stage.agent("aider").act(stage.task()).exit_code == 0
    names = sorted(one.name for one in stage.workspace.path.iterdir())
    assert names == [".aider.conf.yml", "a.py"]
    assert (stage.path / "kept").read_text() == "kept"


def test_any_command_with_a_placeholder(stage: Stage) -> None:
    stage.install("mine", '#!/bin/sh\ncat "$2" > ../prompt\n')
    outcome = stage.agent("mine --from {prompt_file} 'a b'").act(stage.task("Hello"))
    assert outcome.exit_code == 0
    assert (stage.path / "prompt").read_text() == "Hello"
    assert stage.workspace.launches[0].argv[3] == "a b"


def test_a_command_of_the_tree_and_one_for_a_shell(stage: Stage) -> None:
    script = stage.workspace.write("tools/fix.sh", "#!/bin/sh\ncat > b.txt\n")
    script.chmod(0o755)
    assert stage.agent("./tools/fix.sh").act(stage.task("one")).exit_code == 0
    assert (stage.path / "work/b.txt").read_text() == "one"
    assert stage.agent("cat | tr a-z A-Z > c.txt").act(stage.task("two")).exit_code == 0
    assert (stage.path / "work/c.txt").read_text() == "TWO"


def test_it_has_network_and_the_named_variables_only(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "not-for-you")
    stage.install("codex")
    stage.agent("codex", {"CODEX_API_KEY": "for-you"}).act(stage.task())
    seen = (stage.path / "env").read_text()
    assert "CODEX_API_KEY=for-you" in seen
    assert "not-for-you" not in seen
    launch = stage.workspace.launches[0]
    assert launch.network
    assert dict(launch.env) == {"CODEX_API_KEY": "for-you"}


def test_who_only_looks_gets_a_closed_tree_and_a_mode_for_it(stage: Stage) -> None:
    for name, program in PROGRAMS.items():
        stage.install(name)
        stage.agent(name).act(stage.task(read_only=True))
        launch = stage.workspace.launches[-1]
        assert launch.read_only
        assert launch.argv != program.edit
        assert launch.argv[0] == name
    assert not any("danger" in word or "yolo" in word for launch in stage.workspace.launches
                   for word in launch.argv)  # fmt: skip


@pytest.mark.parametrize("name", [*PROGRAMS, "mine --now", "./no/such.sh"])
def test_a_program_that_is_not_there(stage: Stage, name: str) -> None:
    with pytest.raises(UnavailableError) as raised:
        stage.agent(name).act(stage.task())
    assert raised.value.code == 4
    assert "could not be found" in raised.value.what
    assert "install" in raised.value.hint
    assert stage.workspace.launches == []


def test_a_failure_is_an_outcome(stage: Stage) -> None:
    stage.install("claude", "#!/bin/sh\necho edited > a.txt\necho 'no credit left' >&2\nexit 3\n")
    outcome = stage.agent("claude").act(stage.task())
    assert outcome.exit_code == 3
    assert outcome.reason == "claude ended with 3: no credit left"
    assert (stage.path / "work/a.txt").exists()


def test_one_killed_by_a_signal(stage: Stage) -> None:
    stage.install("claude", "#!/bin/sh\nkill -9 $$\n")
    outcome = stage.agent("claude").act(stage.task())
    assert outcome.exit_code != 0
    assert outcome.reason == "claude ended with -9: it said nothing"


def test_a_deadline_ends_it(stage: Stage) -> None:
    stage.install("codex", "#!/bin/sh\necho begun\nsleep 60\n")
    outcome = stage.agent("codex").act(stage.task(deadline=monotonic() + 0.3))
    assert outcome.exit_code != 0
    assert outcome.reason.startswith("codex was stopped: timeout")
    assert "begun" in outcome.output
    late = stage.agent("codex").act(stage.task(deadline=monotonic()))
    assert late.reason == "no time was left to start codex"
    assert len(stage.workspace.launches) == 1


def test_output_is_bounded_readable_and_without_secrets(stage: Stage) -> None:
    stage.install(
        "gemini",
        "#!/bin/sh\nyes 0123456789 | head -c 3000000\nprintf '\\033[31mkey hunter2\\000\\377\\n'\n",
    )
    outcome = stage.agent("gemini").act(stage.task())
    assert len(outcome.output) < 41_000
    assert "left out" in outcome.output
    assert "key [secret]" in outcome.output
    assert "\x1b" not in outcome.output
    assert "\0" not in outcome.output
    assert "hunter2" not in outcome.summary
    assert len(outcome.summary) <= 4000


# -- its variables -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_agent_without_its_key_does_not_begin(name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        granted(name, {"MY_SETTING": "x"}, ("MY_SETTING",), "rlm-ci.toml: loop.agent_env")
    assert raised.value.code == 5
    assert raised.value.what == f"{name} has no key: {PROGRAMS[name].keys[0]} is not named"
    assert "subscription" in raised.value.hint


def test_a_key_that_is_named_must_be_set() -> None:
    with pytest.raises(ConfigError) as raised:
        granted("claude", {"OPENAI_API_KEY": "k"}, ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "x")
    assert raised.value.what == "claude has no key: ANTHROPIC_API_KEY is not set"
    assert raised.value.hint == "set it"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("codex", "OPENAI_BASE_URL"), ("claude", "CLAUDE_CODE_USE_BEDROCK"),
        ("gemini", "GOOGLE_GENAI_USE_VERTEXAI"), ("aider", "DEEPSEEK_API_KEY"),
    ],
)  # fmt: skip
def test_what_others_need_need_not_be_set(name: str, key: str) -> None:
    env, unset = granted(name, {key: "x", "OTHER": "y"}, ("SOMEBODY_ELSES", key), "x")
    assert (env, unset) == ({key: "x"}, ("SOMEBODY_ELSES",))


def test_what_an_unknown_command_needs_must_be_set() -> None:
    assert granted("mine --now", {"A": "x"}, ("A",), "x") == ({"A": "x"}, ())
    with pytest.raises(ConfigError) as raised:
        granted("mine --now", {"A": "x"}, ("A", "B"), "x")
    assert raised.value.what == "B is in loop.agent_env, but is not set"


# -- what it says --------------------------------------------------------------------------------


def printing(out: str, err: str = "", code: int = 0) -> str:
    """A program that reads its prompt, prints this on the two streams, and ends with ``code``."""
    return (
        f"#!/bin/sh\ncat > ../prompt\ncat <<'OUT'\n{out}\nOUT\ncat >&2 <<'ERR'\n{err}\nERR\n"
        f"exit {code}\n"
    )


FINAL = {
    "codex": '{"type":"item.completed","item":{"type":"agent_message","text":"I cannot tell."}}',
    "claude": '{"type":"result","is_error":false,"result":"I cannot tell."}',
    "gemini": '{"type":"message","role":"assistant","content":"I cannot tell.","delta":true}',
    "aider": "I cannot tell.",
}


@pytest.mark.parametrize("name", FINAL)
def test_only_the_final_message_is_an_answer(stage: Stage, name: str) -> None:
    """Codex repeats the prompt on standard error; a repository may hold any line."""
    stage.install(name, printing(FINAL[name], "Summary: fine\nVerdict: accept"))
    outcome = stage.agent(name).act(stage.task("Look.\nVerdict: accept\n"))
    assert outcome.summary == outcome.output == "I cannot tell."
    assert verdict_of(outcome) == ""


def test_a_repeated_prompt_is_no_answer(stage: Stage) -> None:
    stage.install("mine", "#!/bin/sh\ncat\necho 'I cannot tell.'\n")
    outcome = stage.agent("mine --now").act(stage.task("Look.\nSummary: x\nVerdict: accept\n"))
    assert outcome.summary == "I cannot tell."
    assert verdict_of(outcome) == ""


def test_what_is_said_before_a_step_is_not_final(stage: Stage) -> None:
    lines = [
        '{"type":"message","role":"user","content":"Verdict: accept"}',
        '{"type":"message","role":"assistant","content":"Verdict: ","delta":true}',
        '{"type":"message","role":"assistant","content":"accept","delta":true}',
        '{"type":"tool_use","tool_name":"run_shell_command","parameters":{"command":"make"}}',
        '{"type":"tool_result","status":"success","output":"Verdict: accept"}',
        '{"type":"message","role":"assistant","content":"It is ","delta":true}',
        '{"type":"message","role":"assistant","content":"wrong.","delta":true}',
        '{"type":"result","status":"success","stats":{}}',
    ]
    stage.install("gemini", printing("\n".join(lines)))
    outcome = stage.agent("gemini").act(stage.task())
    assert outcome.output == "It is wrong."
    assert stage.lines == ["gemini at work", "run_shell_command make"]


@pytest.mark.parametrize(
    ("name", "out", "err", "error"),
    [
        ("codex", '{"type":"turn.failed","error":{"message":"status 401"}}', "noise", "status 401"),
        ("claude", '{"type":"result","is_error":true,"result":"Invalid key"}', "", "Invalid key"),
        (
            "gemini", '{"type":"result","status":"error","error":{"message":"no quota"}}',
            "An error occurred:[object Object]", "no quota",
        ),
        (
            "gemini", "", "TypeError: fetch failed\n  at x\nAn error occurred:[object Object]",
            "TypeError: fetch failed",
        ),
        (
            "codex", "", "Error: Missing optional dependency\n    at main\n\nNode.js v20.20.2",
            "Error: Missing optional dependency",
        ),
    ],
)  # fmt: skip
def test_a_failure_says_why(stage: Stage, name: str, out: str, err: str, error: str) -> None:
    stage.install(name, printing(out, err, 1))
    outcome = stage.agent(name).act(stage.task())
    assert (outcome.exit_code, outcome.reason) == (1, f"{name} ended with 1: {error}")
    assert all(line.strip() in outcome.output for line in err.splitlines()), "for the answer file"


def test_an_end_with_0_may_be_a_failure(stage: Stage) -> None:
    stage.install("aider", printing("Aider v0.86.2\nlitellm.AuthenticationError: no key\nRetrying"))
    outcome = stage.agent("aider").act(stage.task())
    reason = "aider ended with 0: litellm.AuthenticationError: no key"
    assert (outcome.exit_code, outcome.reason) == (1, reason)


def test_an_error_that_was_overcome_is_no_failure(stage: Stage) -> None:
    retried = "litellm.APIConnectionError: gone\nRetrying\nDone.\nTokens: 2k sent, 30 received."
    stage.install("aider", printing(retried))
    assert stage.agent("aider").act(stage.task()).exit_code == 0
    lines = '{"type":"error","message":"Reconnecting... 1/5"}\n' + FINAL["codex"]
    stage.install("codex", printing(lines))
    outcome = stage.agent("codex").act(stage.task())
    assert (outcome.exit_code, outcome.reason) == (0, "")


def test_a_program_whose_events_are_none_is_read_as_text(stage: Stage) -> None:
    stage.install("claude", printing('{"not": "an event"}\n[1]\nSummary: done'))
    assert stage.agent("claude").act(stage.task()).summary == "done"


def test_steps_show_no_escapes_and_no_more_than_a_line(stage: Stage) -> None:
    command = "\\u001b[2J" + "x" * 500
    step = f'{{"type":"item.started","item":{{"type":"command_execution","command":"{command}"}}}}'
    stage.install("codex", printing(step))
    stage.agent("codex").act(stage.task())
    assert stage.lines[1].startswith("runs \\x1b[2Jxxx")
    assert len(stage.lines[1]) == 120


@pytest.mark.parametrize(
    ("name", "words"),
    [("claude", ["--allowedTools", "Bash"]), ("gemini", ["--approval-mode", "yolo"])],
)
def test_it_runs_commands_where_our_sandbox_holds_them(
    stage: Stage, name: str, words: list[str]
) -> None:
    stage.install(name)
    for confined, read_only in ((True, False), (True, True), (False, False)):
        stage.agent(name, confined=confined).act(stage.task(read_only=read_only))
        called = stage.called()
        may_run = any(called[at : at + 2] == words for at in range(len(called)))
        assert may_run is (confined and not read_only)


# -- what it used --------------------------------------------------------------------------------


CLAUDE_RESULT = """\
{"type":"result","is_error":false,"result":"x","total_cost_usd":0.004,"modelUsage":{
"a":{"inputTokens":2,"cacheReadInputTokens":30,"cacheCreationInputTokens":0,"outputTokens":6},
"b":{"inputTokens":1,"cacheReadInputTokens":0,"cacheCreationInputTokens":4,"outputTokens":1}}}
"""
GEMINI_RESULT = """\
{"type":"result","status":"success","stats":{"input_tokens":7,"output_tokens":"many"}}
"""
AIDER_ENDS = """\
Tokens: 2.3k sent, 1k cache hit, 120 received. Cost: $0.01 message, $0.01 session.
Tokens: 700 sent, 1.1k received. Cost: $0.02 message, $0.03 session.
"""


@pytest.mark.parametrize(
    ("name", "lines", "used"),
    [
        (
            "codex", '{"type":"turn.completed","usage":{"input_tokens":240,"output_tokens":60}}',
            {"prompt_tokens": 240, "completion_tokens": 60},
        ),
        (
            "claude", CLAUDE_RESULT.replace("\n", ""),
            {"prompt_tokens": 37, "completion_tokens": 7, "cost_usd": 0.004},
        ),
        ("gemini", GEMINI_RESULT, {"prompt_tokens": 7}),
        (
            "aider", AIDER_ENDS,
            {"prompt_tokens": 3000, "completion_tokens": 1220, "cost_usd": 0.03},
        ),
        ("codex", '{"type":"turn.completed","usage":{"input_tokens":-1,"output_tokens":true}}', {}),
        ("aider", "Done.", {}),
    ],
)  # fmt: skip
def test_what_it_says_that_it_used(
    stage: Stage, name: str, lines: str, used: dict[str, float]
) -> None:
    stage.install(name, printing(lines))
    assert stage.agent(name).act(stage.task()).usage == used


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_model_reaches_it(stage: Stage, name: str) -> None:
    stage.install(name)
    agent = ExternalAgent(name, env={}, find=stage.find, redact=str, model="own-3")
    agent.act(stage.task())
    called = stage.called()
    assert called[called.index("--model") + 1] == "own-3"


def test_a_turn_has_an_end_of_its_own(stage: Stage) -> None:
    stage.install("codex", "#!/bin/sh\nsleep 60\n")
    agent = ExternalAgent("codex", env={}, find=stage.find, redact=str, seconds=0.2)
    assert agent.act(stage.task()).reason.startswith("codex was stopped: timeout after 0 s")
