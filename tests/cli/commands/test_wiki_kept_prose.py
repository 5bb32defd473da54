"""Prose that was paid for, through whatever may happen to a refresh: as processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer, refusal
from testing.pipelines_stage import Stage
from testing.repositories.git_repo import GitRepo
from testing.wiki_sentences import FILES, SAID, numbered, of_flows, says, sentence, supports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from testing.loopback_model.replies import Reply
    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli, Ended

    Speaker = Callable[[Asked], Reply]

__all__ = ["llm"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")
ALL = len(SAID) + 1
KEPT = f"{ALL} sentences kept"


def speaks(asked: Asked) -> Answer:
    prompt = asked.messages[-1]["content"]
    place = "tell" if '"quotes"' in prompt else "tell-whole"
    place = "support" if '"unsupported"' in prompt else place
    return Answer(json.dumps(says(place, prompt)))


#: What becomes of a refresh: the flags, what the model's service says, the exit code, the end.
WAYS: dict[str, tuple[tuple[str, ...], Speaker | None, int, str]] = {
    "no model": ((), None, 0, "Written"),
    "no key": ((), None, 0, "Written"),
    "a refused key": (("--model", "m-1"), lambda _: refusal(401, "no"), 8, "Not finished"),
    "no calls left": (("--model", "m-1", "--max-calls", "0"), speaks, 3, "Not finished"),
    "one call": (("--model", "m-1", "--max-calls", "1"), speaks, 0, "Written"),
    "garbage": (("--model", "m-1"), lambda _: Answer("no"), 3, "Not finished"),
    "a model": (("--model", "m-1"), speaks, 0, "Written"),
}


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    for path, text in FILES.items():
        repo.write(path, text)
    repo.write(".gitignore", ".runs/\n").commit()
    yield found
    found.clean()


def reach(llm: ModelServer) -> dict[str, str]:
    return {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}


def paid(stage: Stage, llm: ModelServer, *where: str) -> Ended:
    """A first wiki, all of whose sentences a model wrote, and a change of one function."""
    llm.script(speaks)
    ended = stage.cli("wiki", "--model", "m-1", *where, env=reach(llm))
    assert ended.code == 0, ended.stderr
    assert f"{ALL} new sentences" in " ".join(ended.stdout.split())
    stage.repo.commit("The wiki")
    stage.repo.append("till/desk.py", "\n\ndef refund(net):\n    return -net\n").commit()
    return ended


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def require_prose(pages: dict[str, bytes], *but: str) -> None:
    shown = b"".join(data for name, data in pages.items() if name.endswith((".md", ".html")))
    for text in (*SAID, "It is a shop."):
        assert (text.encode() in shown) == (text not in but), text


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
def test_a_refresh_loses_nothing(stage: Stage, llm: ModelServer, way: str) -> None:
    paid(stage, llm, "--out", "docs/wiki")
    shutil.rmtree(stage.repo.path / ".runs")  # a job in CI has what is committed
    flags, speaker, code, word = WAYS[way]
    llm.script(speaker or (lambda _: Answer("no")))
    env = reach(llm) if speaker else {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
    if way == "no key":  # a setting may name a model that a job cannot ask
        env["RLM_CI_MODEL"] = "m-1"
    asked = len(llm.completions)
    ended = stage.cli("wiki", "--out", "docs/wiki", *flags, env=env)
    assert ended.code == code, ended
    assert " ".join(ended.stdout.split()).endswith(f"{word}: 4 pages, {KEPT}")
    pages = tree(stage.repo.path / "docs/wiki")
    require_prose(pages)
    assert len(llm.completions) - asked <= 2
    again = stage.cli("wiki", "--out", "docs/wiki", *flags, env=env)
    assert again.code == code, again
    assert "docs/wiki: nothing new" in again.stderr
    assert tree(stage.repo.path / "docs/wiki") == pages
    replayed = stage.cli("replay", stage.ids()[0], "--check")
    assert replayed.code == 0, replayed.stderr


def test_what_goes_is_counted_and_named(stage: Stage, llm: ModelServer) -> None:
    paid(stage, llm, "--out", "docs/wiki")
    text = FILES["till/desk.py"].replace("net + tax(net)", "tax(net) + net")
    stage.repo.write("till/desk.py", f"# Ours.\n{text}")
    (stage.repo.path / "store/stock.py").unlink()
    stage.repo.commit()
    ended = stage.cli("wiki", "--out", "docs/wiki")
    assert ended.code == 0, ended
    assert "dropped: till/desk.py#L5-L5, its lines are gone: Taxes are on top." in ended.stderr
    assert "dropped: store/stock.py#L5-L5, its file is gone: All things count." in ended.stderr
    end = "5 sentences kept (3 at other lines), 1 dropped: its file is gone, 1 dropped: its lines"
    assert end in " ".join(ended.stdout.split())
    require_prose(tree(stage.repo.path / "docs/wiki"), "Taxes are on top.", "All things count.")
    checked = stage.cli("verify", stage.ids()[-1])
    assert checked.code == 0, checked


@pytest.mark.full
def test_a_killed_refresh_goes_on(stage: Stage, llm: ModelServer) -> None:
    paid(stage, llm, "--out", "docs/wiki")
    known, waiting, gone = set(stage.ids()), threading.Event(), threading.Event()

    def hangs(_asked: Asked) -> Reply:
        waiting.set()
        gone.wait(30)
        return Answer("no")

    llm.script(hangs)
    child = subprocess.Popen(
        [sys.executable, "-I", "-m", "rlm_ci", "wiki", "--model", "m-1", "--out", "docs/wiki"],
        cwd=stage.repo, env={**os.environ, **reach(llm)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert waiting.wait(30)
    child.kill()
    child.wait()
    gone.set()
    require_prose(tree(stage.repo.path / "docs/wiki"))
    llm.script(speaks)
    [run_id] = set(stage.ids()) - known
    resumed = stage.cli("resume", run_id, "--out", "docs/wiki", env=reach(llm))
    assert resumed.code == 0, resumed.stderr
    assert KEPT in " ".join(resumed.stdout.split())
    require_prose(tree(stage.repo.path / "docs/wiki"))


TRUE = {
    "Taxes are on top.": ((5, 5), "    due = net + tax(net)"),
    "It is rounded.": ((1, 2), "    return round(due, 2)"),  # shifted
    "Home has a rate.": ((10, 10), 'rate = RATES["home"]'),  # dedented
}
LIES = {
    "It never taxes.": ((5, 5), "    due = net + tax(net)"),
    "It waives taxes.": ((5, 5), "    due = net"),
    "It pays twice.": ((900, 900), "    due = 2 * net + tax(net)"),
    "It pays in one step.": ((4, 6), "def pay(net):\n    ...\n    return round(due, 2)"),
    "It is held by nothing.": ((4, 4), "def"),
}
WHYS = dict.fromkeys(LIES, "a quote of it is not in its file") | {
    "It never taxes.": "its lines do not support it",
    "It waives taxes.": "a quote of it is too short to be looked up",
    "It is held by nothing.": "a quote of it is too short to be looked up",
}


def lies(asked: Asked) -> Answer:
    """Some that is true, and everything that a model may say of it that is not."""
    prompt = asked.messages[-1]["content"]
    if '"unsupported"' in prompt:
        return Answer(json.dumps(supports(prompt, "never taxes", "a bank")))
    if '"quotes"' not in prompt:
        said = {"It is a shop.": [1], "It is a bank.": [2], "It is on the moon.": [1, 99]}
        rows = [{"text": text, "rests_on": numbers} for text, numbers in said.items()]
        return Answer(json.dumps({"sentences": rows}))
    told = {**LIES, **TRUE}.items()
    found = [sentence(text, "till/desk.py", lines, quote) for text, (lines, quote) in told]
    return Answer(json.dumps({"sentences": found}))


def test_lies_are_on_no_page_and_named_with_why(stage: Stage, llm: ModelServer) -> None:
    llm.script(lies)
    ended = stage.cli(
        "wiki", "--model", "m-1", "--out", "docs/wiki", "--format", "json", env=reach(llm)
    )
    assert ended.code == 0, ended.stderr
    shown = b"".join(tree(stage.repo.path / "docs/wiki").values()).decode()
    for text in (*TRUE, "It is a shop."):
        assert text in shown
    for text in (*LIES, "a bank", "the moon"):
        assert text not in shown
    for text, why in WHYS.items():
        assert any(row.startswith("dropped: till/desk.py#L") and row.endswith(f", {why}: {text}")
                   for row in ended.stderr.split("\n"))  # fmt: skip
    why = "it rests on a number that was not shown"
    assert f"dropped: of the whole, {why}: It is on the moon." in ended.stderr
    assert "what it rests on does not support it: It is a bank." in ended.stderr
    report = json.loads(ended.stdout)
    told = report["parts"][0]["metrics"]["prose"]
    assert told == (
        "4 new sentences, 2 dropped: quotes of them are not in their files, 2 dropped: quotes of "
        "them are too short, 1 dropped: it rests on a number that was not shown, 1 dropped: its "
        "lines do not support it, 1 dropped: what it rests on does not support it"
    )
    assert report["evidence"]["rejected"] == 5
    again = stage.cli("wiki", "--out", "docs/wiki")
    assert "4 sentences kept" in " ".join(again.stdout.split())


@pytest.mark.full
def test_one_call_a_run_is_enough_in_the_end(stage: Stage, llm: ModelServer) -> None:
    """A budget may end behind any question: what was said before stays, and is not asked again."""
    llm.script(speaks)
    argv = ("wiki", "--model", "m-1", "--max-calls", "1", "--out", "docs/wiki")
    codes, shown, pages = [], [0], ""
    for _ in range(5):
        ended = stage.cli(*argv, env=reach(llm))
        codes.append(ended.code)
        pages = b"".join(tree(stage.repo.path / "docs/wiki").values()).decode()
        shown.append(sum(text in pages for text in (*SAID, "It is a shop.")))
        assert shown[-1] >= shown[-2]
    assert codes == [3, 3, 3, 0, 0]
    assert shown[1:] == [len(SAID), len(SAID), ALL, ALL, ALL]
    assert len(llm.completions) == 4
    assert "nobody has asked" not in pages


PROGRAM = {
    "pyproject.toml": '[project]\nname = "till"\n[project.scripts]\ntill = "till.desk:main"\n',
    "till/__init__.py": "",
    "till/desk.py": FILES["till/desk.py"] + "\n\ndef main():\n    return pay(3)\n",
}


@pytest.mark.full
@pytest.mark.parametrize("at", range(4))
def test_a_first_wiki_that_was_killed_is_the_same_when_it_is_resumed(
    stage: Stage, llm: ModelServer, at: int
) -> None:
    for path, text in PROGRAM.items():
        stage.repo.write(path, text)
    stage.repo.commit()

    def tells(asked: Asked) -> Answer:
        answer = speaks(asked)
        prompt = asked.messages[-1]["content"]
        if "=== how calls flow ===" in prompt:
            said = json.loads(answer.text or "")["sentences"]
            return Answer(json.dumps({"sentences": [*said, *of_flows(prompt)]}))
        return answer

    llm.script(tells)
    argv = ["wiki", "--model", "m-1", "--out", "docs/wiki"]
    assert stage.cli(*argv, env=reach(llm)).code == 0
    whole = tree(stage.repo.path / "docs/wiki")
    assert "At the end `tax` runs." in whole["flows.md"].decode()
    shutil.rmtree(stage.repo.path / "docs/wiki")
    shutil.rmtree(stage.repo.path / ".runs")
    waiting, gone = threading.Event(), threading.Event()
    asked_before = len(llm.completions)

    def hangs(asked: Asked) -> Reply:
        if len(llm.completions) - asked_before <= at:
            return tells(asked)
        waiting.set()
        gone.wait(30)
        return Answer("no")

    llm.script(hangs)
    child = subprocess.Popen(
        [sys.executable, "-I", "-m", "rlm_ci", *argv],
        cwd=stage.repo, env={**os.environ, **reach(llm)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert waiting.wait(30)
    child.kill()
    child.wait()
    gone.set()
    llm.script(tells)
    asked = len(llm.completions)
    resumed = stage.cli("resume", stage.only(), "--out", "docs/wiki", env=reach(llm))
    assert resumed.code == 0, resumed.stderr
    assert tree(stage.repo.path / "docs/wiki") == whole
    assert len(llm.completions) - asked == 4 - at  # what was answered is not asked again


#: Modules of which each fills most of a prompt: seven questions, six of them side by side.
MANY = {
    f"part{number}/work.py": "".join(
        f"def work_{number}_{n}(state):\n    if state > {n}:\n        raise ValueError(state)\n"
        f"    return state + {n}\n\n\n" for n in range(900)
    ) for number in range(7)
}  # fmt: skip


def first_of_each(asked: Asked) -> Answer:
    """A sentence about the first function of each file in a prompt."""
    prompt = asked.messages[-1]["content"]
    if '"unsupported"' in prompt:
        return Answer(json.dumps(supports(prompt)))
    if '"quotes"' not in prompt:
        return Answer(json.dumps({"sentences": [{"text": "It works.", "rests_on": [1, 2]}]}))
    firsts = {path: (at, line) for (path, at), line in reversed(numbered(prompt).items())
              if line.startswith("def ")}  # fmt: skip
    rows = [
        sentence(f"`{line[4:]}` of {path} begins.", path, (at, at), line)
        for path, (at, line) in sorted(firsts.items())
    ]
    return Answer(json.dumps({"sentences": rows}), usage=(len(prompt) // 3, 100))


@pytest.mark.long
@pytest.mark.full
@pytest.mark.parametrize("concurrency", ["1", "8"])
def test_a_round_that_is_killed_goes_on_with_the_questions_that_it_had(
    stage: Stage, llm: ModelServer, concurrency: str
) -> None:
    for path, text in MANY.items():
        stage.repo.write(path, text)
    stage.repo.commit()
    llm.script(first_of_each)
    argv = ["wiki", "--model", "m-1", "--out", "docs/wiki", "--concurrency"]
    ended = stage.cli(*argv, concurrency, env=reach(llm))
    assert ended.code == 0, ended.stderr
    whole, every = tree(stage.repo.path / "docs/wiki"), len(llm.completions)
    assert every > 7
    assert stage.cli("replay", stage.only(), "--check").code == 0
    shutil.rmtree(stage.repo.path / "docs/wiki")
    shutil.rmtree(stage.repo.path / ".runs")
    waiting, gone, lock = threading.Event(), threading.Event(), threading.Lock()
    answered: list[str] = []

    def hangs(asked: Asked) -> Reply:
        with lock:
            is_free = len(answered) < 4
            answered.extend(["one"] * is_free)
        if is_free:
            return first_of_each(asked)
        waiting.set()
        gone.wait(30)
        return Answer("no")

    llm.script(hangs)
    child = subprocess.Popen(
        [sys.executable, "-I", "-m", "rlm_ci", *argv, "8"],
        cwd=stage.repo, env={**os.environ, **reach(llm)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert waiting.wait(60)
    child.kill()
    child.wait()
    gone.set()
    llm.script(first_of_each)
    before = len(llm.completions)
    # How many are asked at once is another now, and what they are asked is the same.
    env = reach(llm) | {"RLM_CI_RECURSION_CONCURRENCY": "3"}
    resumed = stage.cli("resume", stage.only(), "--out", "docs/wiki", env=env)
    assert resumed.code == 0, resumed.stderr
    assert tree(stage.repo.path / "docs/wiki") == whole
    assert every - 4 <= len(llm.completions) - before < every
    assert stage.cli("replay", stage.only(), "--check").code == 0


@pytest.mark.full
def test_a_budget_that_ends_within_a_round_leaves_the_others_for_a_resume(
    stage: Stage, llm: ModelServer
) -> None:
    for path, text in MANY.items():
        stage.repo.write(path, text)
    stage.repo.commit()
    llm.script(first_of_each)
    argv = ["wiki", "--model", "m-1", "--out", "docs/wiki"]
    ended = stage.cli(*argv, "--max-calls", "4", env=reach(llm))
    assert ended.code == 3, ended
    assert "not looked at in full" in " ".join(ended.stdout.split())
    assert len(llm.completions) == 4
    run_id = stage.only()
    assert stage.cli("replay", run_id, "--check").code == 0
    resumed = stage.cli("resume", run_id, "--out", "docs/wiki", "--max-calls", "40",
                        env=reach(llm))  # fmt: skip
    assert resumed.code == 0, resumed
    pages = b"".join(tree(stage.repo.path / "docs/wiki").values()).decode()
    assert all(f"of {path} begins." in pages.replace("\\", "") for path in MANY)
    assert "nobody has asked" not in pages


@pytest.mark.full
def test_pushed_prose_is_kept_by_whoever_has_no_model(
    stage: Stage, llm: ModelServer, cli: Cli, tmp_path: Path
) -> None:
    bare = GitRepo(tmp_path / "up.git", bare=True)
    stage.repo.remote(f"file://{bare.path}").run("push", "-q", "origin", "main")
    push = ("--push", "--to", "branch:wiki")
    paid(stage, llm, *push)
    subprocess.run(["git", "clone", "-q", stage.repo.path, tmp_path / "fresh"], check=True)
    fresh = GitRepo(tmp_path / "fresh")
    fresh.run("remote", "set-url", "origin", f"file://{bare.path}")
    ended = cli("wiki", *push, cwd=fresh)
    assert ended.code == 0, ended
    assert KEPT in " ".join(ended.stdout.split())
    names = bare.text("ls-tree", "-r", "--name-only", "wiki").split()
    require_prose({name: bare.text("show", f"wiki:{name}").encode() for name in names})


@pytest.mark.full
@pytest.mark.skipif(find_spec("zensical") is None, reason="the extra site")
def test_a_site_alone_remembers_its_prose(stage: Stage, llm: ModelServer, tmp_path: Path) -> None:
    site = str(tmp_path / "site")
    paid(stage, llm, "--site", site)
    require_prose(tree(tmp_path / "site"))
    shutil.rmtree(stage.repo.path / ".runs")
    ended = stage.cli("wiki", "--site", site)
    assert ended.code == 0, ended
    assert KEPT in " ".join(ended.stdout.split())
    require_prose(tree(tmp_path / "site"))
