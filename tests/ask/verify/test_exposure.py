"""What a run showed of its source, checked on what it left behind and on what was changed."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.ask.verify.exposure import examine
from rlm_ci.ask.verify.source_leaks import REACH, PromptFrames
from rlm_ci.context.context import Context
from rlm_ci.runs.journal.journal import Journal, replay
from testing.contexts import made, scratch
from testing.scripted_questions import Stage, harbour, player

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its context in ``rlm/context``."""
    folder = tmp_path_factory.mktemp("run")
    with harbour(folder / "harbour") as context:
        Stage(folder / "run", context, player(context)).play()
    shutil.copytree(folder / "harbour" / "object", folder / "run" / "rlm" / "context")
    return folder / "run" / "rlm"


@pytest.fixture
def rlm(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished.parent, tmp_path / "run") / "rlm"


def look(rlm: Path) -> tuple[str, ...]:
    with Context.open(str(rlm / "context")) as context:
        return examine(str(rlm), context).problems


def edit(path: Path, change: Callable[[Any], object]) -> None:
    record = json.loads(path.read_bytes())
    change(record)
    path.write_text(json.dumps(record, indent=2))


def agree(rlm: Path, **limits: int) -> None:
    """Let the run have begun with these limits, by its journal and by its state."""

    def allow(record: dict[str, Any]) -> bool:
        if (record["type"], record["kind"]) == ("fact", "terms"):
            record["value"]["limits"] |= limits
        return True

    rejournalled(rlm, allow)
    edit(rlm / "state.json", lambda state: state["budgets"].update(limits))


def test_a_run_as_it_was_left(rlm: Path) -> None:
    """The bytes of every prompt stored, so that it can be checked; each within the limit."""
    with Context.open(str(rlm / "context")) as context:
        seen = examine(str(rlm), context)
        assert seen.problems == ()
        assert seen.prompts == 3
        assert seen.limit == 32768
        prompts = [path.stat().st_size for path in rlm.glob("planner/*/*/prompt.txt")]
        assert seen.largest == max(prompts) <= seen.limit
        assert 90 < seen.excerpt_bytes < context.byte_length


@pytest.mark.full
def test_a_byte_changed_anywhere_is_named(rlm: Path) -> None:
    """A tampered byte anywhere is named: every file of text, at three places each."""
    paths = [
        path
        for path in sorted(rlm.rglob("*.txt"))
        if path.name != "source.txt" and path.stat().st_size
    ]
    assert len(paths) > 12
    for path in paths:
        whole = path.read_bytes()
        for at in (0, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert any(str(path.relative_to(rlm)) in one for one in look(rlm)), (path, at)
        path.write_bytes(whole)
    assert look(rlm) == ()


def test_every_file_of_a_question_is_held_against_the_journal(rlm: Path) -> None:
    """Verify finds a changed meta.json, input.json, prompt or output, and names it: also where it
    still says what others say. Of sub-calls, failed ones included, and of plans.
    """
    files = [path for kind in ("planner", "subcalls") for path in (rlm / kind).rglob("*.*")]
    assert {path.name for path in files} == {"input.json", "meta.json", "output.txt", "prompt.txt"}
    for path in files:
        whole = path.read_bytes()
        path.write_bytes(whole + b" ")
        name = str(path.relative_to(rlm))
        assert any(f"{name} is not what was written" in one for one in look(rlm)), name
        path.write_bytes(whole)
    assert look(rlm) == ()
    meta = rlm / "planner/1/attempt-1/meta.json"
    edit(meta, lambda one: one["sections"][0].update(note="nothing of it is shown"))
    (problem,) = look(rlm)
    assert problem == ("planner/1/attempt-1: planner/1/attempt-1/meta.json is not what was written")


def test_a_count_is_counted_again(rlm: Path) -> None:
    """Verify counts in the context, also where state and journal agree on another number."""

    def more(record: dict[str, Any]) -> bool:
        if (record["type"], record["kind"], record["place"]) == ("fact", "count", "count:0:1"):
            record["value"]["rows"][0]["hits"] += 1
        return True

    rejournalled(rlm, more)
    (problem, *_) = look(rlm)
    assert "count:0:1: it is not what the journal has" in problem

    def change(state: Any) -> None:
        state["symbolic_iterations"][0]["counts"][0]["found"]["rows"][0]["hits"] += 1

    edit(rlm / "state.json", change)
    problem, *others = look(rlm)
    assert "count:0:1: the context has other hits" in problem
    assert any("it is not what count:0:1 counted" in one for one in others)


def test_a_map_is_held_against_its_parts_and_their_answers(rlm: Path) -> None:
    """Verify reduces again, and knows the parts that there must be."""
    output = rlm / "subcalls/1/mp0001/output.txt"
    whole = output.read_bytes()
    assert json.loads(whole)["count"] == 7

    def told(record: dict[str, Any]) -> bool:
        if (record["type"], record["place"]) == ("fact", "subcall/1/mp0001"):
            data = output.read_bytes()
            digest = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
            record["value"] = {"output": digest}
        return True

    output.write_bytes(whole.replace(b"7", b"8", 1))
    rejournalled(rlm, told)
    assert any("mp0001/output.txt is not the result of the answers" in one for one in look(rlm))
    output.write_bytes(whole)
    rejournalled(rlm, told)
    assert look(rlm) == ()

    def without(state: Any) -> None:
        del state["symbolic_iterations"][1]["maps"][0]["parts"][1]

    edit(rlm / "state.json", without)
    assert any("its parts are not those of the text" in one for one in look(rlm))


def test_a_changed_source_is_named(rlm: Path) -> None:
    source = rlm / "context/source.txt"
    whole = source.read_bytes()
    source.write_bytes(whole[:700] + b"#" + whole[701:])
    assert any("the context is damaged" in one and "c000002" in one for one in look(rlm))


@pytest.mark.parametrize("folder", ["subcalls/0/sc0002", "planner/1/attempt-1"])
def test_a_file_that_is_gone_is_named(rlm: Path, folder: str) -> None:
    paths = list((rlm / folder).iterdir())
    assert len(paths) >= 3
    for path in paths:
        kept = path.read_bytes()
        path.unlink()
        assert any(f"{folder}/{path.name}" in one for one in look(rlm))
        path.write_text("{")
        assert any(folder in one for one in look(rlm))
        path.write_bytes(kept)


def test_a_missing_state_is_named(rlm: Path) -> None:
    (rlm / "state.json").unlink()
    assert any(one.startswith("state.json") for one in look(rlm))


def unvouched(rlm: Path) -> None:
    """Take the digests of all files out of the journal, as somebody may who knows of them."""
    rejournalled(rlm, lambda record: record["kind"] != "artifacts")


def rejournalled(rlm: Path, change: Callable[[dict[str, Any]], bool]) -> None:
    """Write the journal anew, with right sums: its records as ``change`` leaves them, if true."""
    path = rlm.parent / "calls.jsonl"
    records = list(replay(str(path)))
    path.unlink()
    with Journal.open(str(path)) as journal:
        for record in records:
            if change(record):
                journal.append({key: record[key] for key in record.keys() - {"seq", "crc"}})


def rewritten(rlm: Path, attempt: str, change: Callable[[bytes, list[Any]], bytes]) -> None:
    """A prompt changed by somebody who knows to change all that is told of it as well."""
    unvouched(rlm)
    folder = rlm / "planner" / attempt
    meta = json.loads((folder / "meta.json").read_bytes())
    data = change((folder / "prompt.txt").read_bytes(), meta["sections"])
    meta["prompt"] = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    (folder / "prompt.txt").write_bytes(data)
    (folder / "meta.json").write_text(json.dumps(meta))

    def tell(state: Any) -> None:
        state["symbolic_iterations"][int(attempt[0])]["planner_prompt_bytes"] = len(data)

    edit(rlm / "state.json", tell)


def test_an_answer_that_is_not_in_the_journal_is_named(rlm: Path) -> None:
    """What a model answered is held against calls.jsonl, each of whose records has its CRC."""
    unvouched(rlm)
    for folder in ("planner/0/attempt-1", "subcalls/0/sc0001"):
        path = rlm / folder / "meta.json"
        kept = path.read_bytes()
        edit(path, lambda meta: [one["usage"].update(prompt_tokens=1) for one in _answers(meta)])
        assert any(folder in one and "not in the journal" in one for one in look(rlm))
        path.write_bytes(kept)
    journal = rlm.parent / "calls.jsonl"
    kept = journal.read_bytes()
    journal.write_bytes(kept.replace(b"Zusammenfassung", b"zusammenfassung", 1))
    assert look(rlm)[0].startswith("calls.jsonl: ")
    journal.unlink()
    assert look(rlm)[0].startswith("calls.jsonl: ")


def _answers(meta: Any) -> list[Any]:
    return [meta, *meta.get("attempts", ())]


def test_text_of_the_source_outside_of_an_excerpt_is_found(rlm: Path) -> None:
    """No other part of a prompt holds text of the source."""
    source = (rlm / "context/source.txt").read_bytes()

    def leak(data: bytes, sections: list[Any]) -> bytes:
        assert sections[-1]["kind"] == "frame"
        sections[-1]["end"] += 95
        return data + source[1001:1096]

    rewritten(rlm, "1/attempt-1", leak)
    (problem,) = look(rlm)
    assert "planner/1/attempt-1/prompt.txt" in problem
    assert "outside of all excerpts" in problem


def test_numbers_of_the_source_are_text_as_well(tmp_path: Path) -> None:
    source = tmp_path / "numbers.csv"
    source.write_text("\n".join(f"{n * 7919 % 10007} {n * 31 % 977} {n}" for n in range(900)))
    from rlm_ci.context.builder.build import build

    with build(str(source), str(tmp_path / "object")) as context:
        whole = source.read_bytes()
        for at in range(0, 96, 5):
            frames = PromptFrames(context)
            frames.add("here", b"x" + whole[500 + at : 595 + at] + b"y", (0, 2))
            frames.add("there", b"7 8 9 " * 40, (0, 2))
            assert list(frames.found()) == ["here"], "95 bytes in a row, wherever they begin"


@pytest.mark.parametrize("kind", ["read", "search", "subcall"])
def test_an_excerpt_that_is_another_text_is_found(rlm: Path, kind: str) -> None:
    """Each section's bytes are exactly the source's, or the sub-call's, bytes there."""

    def change(data: bytes, sections: list[Any]) -> bytes:
        one = next(one for one in sections if one["kind"] == kind)
        return data[: one["start"]] + b"~" + data[one["start"] + 1 :]

    rewritten(rlm, "1/attempt-1", change)
    (problem,) = look(rlm)
    assert "it is not what" in problem


def test_an_excerpt_beyond_its_cap_is_found(rlm: Path) -> None:
    agree(rlm, read_bytes=89, preview_bytes=100)
    problems = look(rlm)
    assert any("90 bytes of the source are more than 89" in one for one in problems)
    assert any("are more than 100" in one for one in problems)


def test_a_prompt_beyond_the_limit_is_found(rlm: Path) -> None:
    agree(rlm, prompt_bytes=5000)
    assert any("more than the limit of 5,000" in one for one in look(rlm))


def test_a_state_cannot_allow_what_the_run_did_not_begin_with(rlm: Path) -> None:
    edit(rlm / "state.json", lambda state: state["budgets"].update(prompt_bytes=10**9))
    assert look(rlm) == ("state.json: its budgets are not those that the run began with",)
    edit(rlm / "state.json", lambda state: state["budgets"].update(prompt_bytes=32768))
    edit(rlm / "state.json", lambda state: state.update(goal="another"))
    assert look(rlm) == ("state.json: its goal is not the one that the run began with",)


def test_a_prompt_that_is_gone_is_found(rlm: Path) -> None:
    shutil.rmtree(rlm / "planner")
    edit(rlm / "state.json", lambda state: state["symbolic_iterations"].clear())
    assert len([one for one in look(rlm) if "the journal has its answer" in one]) == 3


def test_a_journal_without_terms_is_found(rlm: Path) -> None:
    (rlm.parent / "calls.jsonl").write_text("")
    assert any("does not have the terms of the run" in one for one in look(rlm))


def test_a_state_that_says_something_else_is_found(rlm: Path) -> None:
    changes: dict[str, Callable[[Any], Any]] = {
        "planner_prompt_bytes": lambda turn: turn.update(planner_prompt_bytes=9),
        "output_bytes": lambda turn: turn["subcalls"][0].update(output_bytes=1),
        "input_bytes": lambda turn: turn["subcalls"][0].update(input_bytes=1),
        "status": lambda turn: turn["subcalls"][2].update(status="succeeded"),
        "id": lambda turn: turn["subcalls"][0].update(id="../../x"),
        "iteration": lambda turn: turn.update(iteration="../0"),
        "subcalls": lambda turn: turn.update(subcalls=7),
    }
    kept = (rlm / "state.json").read_bytes()
    for name, change in changes.items():
        state = json.loads(kept)
        change(state["symbolic_iterations"][0])
        (rlm / "state.json").write_text(json.dumps(state))
        assert look(rlm), name
    (rlm / "state.json").write_bytes(kept)
    edit(rlm / "state.json", lambda state: state["context"].update(object_id="sha256:0"))
    assert any("another context object" in one for one in look(rlm))


def test_sections_that_leave_a_gap_are_found(rlm: Path) -> None:
    for change in (
        lambda meta: meta["sections"].pop(),
        lambda meta: meta["sections"].pop(1),
        lambda meta: meta["sections"][0].update(kind="other"),
        lambda meta: meta.update(sections=None),
    ):
        path = rlm / "planner/1/attempt-1/meta.json"
        kept = path.read_bytes()
        edit(path, change)
        assert any("planner/1/attempt-1" in one for one in look(rlm))
        path.write_bytes(kept)


def test_what_the_planner_says_itself_is_no_leak(tmp_path: Path) -> None:
    """A planner may look for what it read, in its own words; frames repeat its queries."""
    with harbour(tmp_path / "harbour") as context:
        line = context.raw(0, 250).decode().replace("\n", " ")
        words = context.raw(0, 110).decode()
        final = {"schema_version": 1, "intent": "final", "final_answer": "so"}
        script = [
            {
                "schema_version": 1,
                "intent": "continue",
                "searches": [{"query": words, "reason": line}],
            },
            final,
        ]
        answers = iter(json.dumps(one) for one in script)
        Stage(tmp_path / "run", context, lambda _request: next(answers)).play()
        prompt = (tmp_path / "run/rlm/planner/1/attempt-1/prompt.txt").read_text()
        assert words.splitlines()[1] in prompt
        assert examine(str(tmp_path / "run/rlm"), context).problems == ()


def test_our_own_prompts_are_no_leak(tmp_path: Path) -> None:
    """A question about this very repository: its templates stand in the source."""
    from rlm_ci.context.builder.build import build
    from rlm_ci.resources import loader

    source = tmp_path / "all.txt"
    names = ("", "-state", "-repair")
    shown = (
        "This is iteration 0. At most 87 more can follow. Answer with one JSON object, the plan.\n"
    )
    source.write_text(
        "".join(loader.read_template(f"prompts/symbolic{name}.md.j2") for name in names)
        + shown * 60  # as a page of our manual may, at every place of a piece
    )
    with build(str(source), str(tmp_path / "object")) as context:
        final = '{"schema_version": 1, "intent": "final", "final_answer": "so"}'
        Stage(tmp_path / "run", context, lambda _request: final, max_iterations=88).play()
        assert examine(str(tmp_path / "run/rlm"), context).problems == ()


@pytest.mark.full
def test_the_prompts_of_an_earlier_run_are_no_leak(tmp_path: Path) -> None:
    """A question about a run: its prompts, with all that they tell, stand in the source."""
    from rlm_ci.context.builder.build import build

    prompts = tmp_path / "earlier"
    prompts.mkdir()
    with harbour(tmp_path / "harbour") as context:
        Stage(tmp_path / "first", context, player(context)).play()
    for number, path in enumerate(sorted((tmp_path / "first/rlm").rglob("prompt.txt"))):
        for shift in range(0, 48, 3):  # at many places of a piece
            copy = prompts / f"{number:02d}-{shift:02d}.txt"
            copy.write_text("." * shift + path.read_text())
    with build(str(prompts), str(tmp_path / "object"), root=str(prompts)) as context:
        Stage(tmp_path / "run", context, player(context)).play()
        rlm = tmp_path / "run/rlm"
        assert examine(str(rlm), context).problems == ()


@pytest.mark.full
def test_much_leaked_text_against_much_that_is_known(tmp_path: Path) -> None:
    """What is looked at is linear in both: half a megabyte that leaked, and as much known."""
    from rlm_ci.context.builder.build import build

    source = tmp_path / "source.txt"
    source.write_text("".join(f"the gate of berth {n} is {n * n} wide\n" for n in range(15_000)))
    with build(str(source), str(tmp_path / "object")) as context:
        frames = PromptFrames(context)
        frames.know_answer(b" ".join(b"word%d" % (n * 7) for n in range(60_000)), (0, 1))
        frames.add("there", context.raw(0, context.byte_length), (0, 2))
        frames.add("here", b"no word of it " * 1000, (0, 2))
        assert list(frames.found()) == ["there"]


@given(st.integers(0, 1 << 32), st.integers(REACH, 2 * REACH), st.integers(8, 60))
def test_a_leak_of_which_half_is_known_is_found(seed: int, size: int, stretch: int) -> None:
    """Whoever quotes 95 bytes of the source is found out, though the planner has said half of
    them, in one stretch or in many; who quotes what it said, with whatever around it, is not.
    """
    chance = Random(seed)
    words = ("".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=9)) for _ in range(60))
    source = " ".join(words).encode()
    start = chance.randrange(len(source) - size)
    leak = source[start : start + size]
    known = [leak[at : at + stretch] for at in range(0, size, 2 * stretch)]
    before = chance.choice([b"", b'Search for "', b"Read of chunk:c000001. Reason: "])
    with scratch() as folder, made(Path(folder), source, 100, 10) as context:
        frames = PromptFrames(context)
        frames.know_answer(b"I look for " + b" or else for ".join(known), (0, 1))
        frames.add("here", before + leak + b'": 3 hits in 1 chunk', (0, 2))
        for number, one in enumerate(known):
            frames.add(f"there {number}", before + one + b'": 3 hits in 1 chunk. Reason: "', (0, 2))
        assert list(frames.found()) == ["here"]


@given(st.data())
def test_what_a_planner_quotes_of_the_source_is_no_leak(data: st.DataObject) -> None:
    """No false alarms: a run whose planner repeats pieces of the source, long ones and short."""
    pieces = st.tuples(st.integers(0, 3000), st.integers(1, 400))
    with scratch() as folder:
        place = Path(folder)
        with harbour(place / "harbour") as context:

            def quoted() -> str:
                at, size = data.draw(pieces)
                return context.raw(at, min(at + size, context.byte_length)).decode(
                    "utf-8", "ignore"
                )

            turns = [
                {
                    "schema_version": 1,
                    "intent": "continue",
                    "searches": [{"query": f"{quoted()}.", "reason": quoted()} for _ in range(2)],
                    "reads": [{"pointer": "chunk:c000002", "bytes": 50, "reason": quoted()}],
                }
                for _ in range(2)
            ]
            final = {"schema_version": 1, "intent": "final", "final_answer": f"so {quoted()}"}
            answers = iter(json.dumps(one) for one in (*turns, final))
            Stage(place / "run", context, lambda _request: next(answers)).play()
            assert examine(str(place / "run/rlm"), context).problems == ()


def test_what_a_planner_says_later_was_not_known_before(tmp_path: Path) -> None:
    """A prompt that leaks is found out, though its answer, or a later one, quotes the leak."""
    from rlm_ci.context.builder.build import build

    source = tmp_path / "source.txt"
    source.write_text(" ".join(f"the gate of berth {n} is {n * n} wide" for n in range(90)))
    with build(str(source), str(tmp_path / "object")) as context:
        leak = context.raw(100, 100 + 2 * REACH)
        for said, is_leak in (((0, 1), False), ((0, 2), True), ((1, 1), True)):
            frames = PromptFrames(context)
            frames.know_answer(leak, said)
            frames.add("here", b"I say: " + leak, (0, 2))
            frames.add("later", b"I repeat: " + leak, (1, 2))
            assert list(frames.found()) == ["here"] * is_leak, said


def test_words_of_another_script_that_a_planner_said_are_no_leak(tmp_path: Path) -> None:
    from rlm_ci.context.builder.build import build

    said = "".join(chr(0x4E00 + 37 * n % 900) for n in range(120))
    source = tmp_path / "source.txt"
    source.write_text("甲" * 20 + said)
    with build(str(source), str(tmp_path / "object")) as context:
        for known, places in ((said, []), ("something else", ["here"])):
            frames = PromptFrames(context)
            frames.know_answer(known.encode(), (0, 1))
            frames.add("here", f'Search for "{said}"'.encode(), (0, 2))
            assert list(frames.found()) == places


def test_a_goal_that_is_the_context_is_the_users_own(tmp_path: Path) -> None:
    """Goal sections are exempt when the context is the goal itself."""
    import io

    from rlm_ci.context.builder.build import build
    from testing.scripted_questions import GOAL

    goal = (GOAL + " It is about a harbour with seven berths. ") * 3
    with build(io.BytesIO(goal.encode()), str(tmp_path / "object")) as context:
        final = '{"schema_version": 1, "intent": "final", "final_answer": "so"}'
        Stage(tmp_path / "run", context, lambda _request: final, goal=goal).play()
        rlm = tmp_path / "run/rlm"
        assert examine(str(rlm), context).problems == ()
        edit(rlm / "state.json", lambda state: state.update(goal="another"))
        assert any("its goal is not" in one for one in examine(str(rlm), context).problems)
