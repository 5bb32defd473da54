"""The files of an iteration: what each role was asked and what it said, for the roles after it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rlm_ci.fix.role_prompts import RoleTurn

#: Files that are written at the same time.
_WRITERS = 4


def answer_of(number: int, turn: RoleTurn) -> str:
    """The name of the file with what was said in the turn of this number."""
    return f"{number}-{turn.role}-answer.md"


class Handover:
    """Files of a run, by their names in its folder: ``rlm/iteration-1/1-planner-answer.md``."""

    def __init__(self, path_of: Callable[..., str]) -> None:
        """``path_of`` places a file in the run's folder."""
        self._path_of = path_of

    def path_of(self, name: str) -> str:
        """The path of the file ``name``."""
        return self._path_of(*name.split("/"))

    def keep(self, iteration: int, number: int, turn: RoleTurn) -> str:
        """Write what was asked and said in a turn, as its end; returns the name of the answer."""
        outcome = turn.outcome
        reason = f"\n\nended early: {outcome.reason}" if outcome.reason else ""
        undone = f"\n\nIts changes were taken back:\n{turn.undone}" if turn.undone else ""
        answer = answer_of(number, turn)
        self.write(
            iteration,
            {
                f"{number}-{turn.role}-prompt.md": turn.prompt,
                answer: f"{outcome.output or outcome.summary}{reason}{undone.rstrip()}\n",
            },
        )
        return f"rlm/iteration-{iteration}/{answer}"

    def files_of(self, iteration: int, number: int, turn: RoleTurn) -> dict[str, str]:
        """What ``keep`` has written, by what it is."""
        folder = f"rlm/iteration-{iteration}"
        prompt = f"{folder}/{number}-{turn.role}-prompt.md"
        return {"Prompt": prompt, "Answer": f"{folder}/{answer_of(number, turn)}"}

    def write(self, iteration: int, contents: Mapping[str, str | bytes]) -> None:
        """Write files of an iteration, side by side: the disk takes the time."""
        paths = [self._path_of("rlm", f"iteration-{iteration}", name) for name in contents]
        texts = [
            content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
            for content in contents.values()
        ]
        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(files.write, paths, texts, repeat(0o600)))
