"""Run an analyzer that fails on a group of files by halves, until the files it fails on are known.

So no file can hide the findings in others by crashing a parser or spoiling the output.
"""

from __future__ import annotations

from time import monotonic

from rlm_ci.review.analyzers.sandboxed import AnalyzerError, AnalyzerUnavailableError
from rlm_ci.review.analyzers.scratch_folder import ScratchInput
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlm_ci.review.analyzer_output.sarif import AnalyzerOutput

    #: Runs an analyzer over some files, for so many seconds. Raises AnalyzerError.
    Run = Callable[[Sequence[ScratchInput], float], AnalyzerOutput]

#: Seconds for all files together, and as many again to find those that an analyzer fails on.
SECONDS = 300.0
#: Runs to find them: enough for 4 among 1,000.
_RUNS = 80
#: Characters of why it failed.
_SAID = 200


class _Broken(Value):
    """A group of files that an analyzer fails on, why, and what it printed before.

    ``is_hopeless``: the analyzer cannot be started at all.
    """

    files: Sequence[ScratchInput]
    why: str
    heard: tuple[AnalyzerOutput, ...] = ()
    is_hopeless: bool = False


def by_halves(
    inputs: Sequence[ScratchInput], run: Run
) -> tuple[list[AnalyzerOutput], list[tuple[Sequence[ScratchInput], str]]]:
    """What ``run`` gives for ``inputs``, in parts; and what it fails on, each with the reason."""
    search = _Search(run)
    broken = search.tried(inputs, SECONDS)
    if broken and len(inputs) > 1 and not broken[0].is_hopeless:
        halves = search.parted(broken)
        # If it fails on an empty file too, no file is to blame.
        if len(halves) < 2 or search.is_well_with(
            ScratchInput(inputs[0].text, inputs[0].path, b"")
        ):
            broken = halves
            while any(len(group.files) > 1 for group in broken) and not search.is_over():
                broken = search.parted(broken)
    heard = [*search.heard, *(part for group in broken for part in group.heard)]
    return heard, [(group.files, group.why) for group in broken]


class _Search:
    def __init__(self, run: Run) -> None:
        self.heard: list[AnalyzerOutput] = []
        self._run = run
        self._left = _RUNS
        self._end: float | None = None

    def is_over(self) -> bool:
        return self._left <= 0 or self._seconds() < 1

    def _seconds(self) -> float:
        """The time left for the search, which begins with the first half."""
        if self._end is None:
            self._end = monotonic() + SECONDS
        return self._end - monotonic()

    def tried(self, files: Sequence[ScratchInput], seconds: float) -> list[_Broken]:
        """Run it: its output goes to ``heard``, or the group is returned as broken."""
        self._left -= 1
        try:
            heard = self._run(files, seconds)
        except AnalyzerError as error:
            is_hopeless = isinstance(error, AnalyzerUnavailableError)
            return [_Broken(files, printable(str(error))[:_SAID], (), is_hopeless)]
        if heard.failed:
            return [_Broken(files, heard.failed, (heard,))]
        self.heard.append(heard)
        return []

    def parted(self, broken: Sequence[_Broken]) -> list[_Broken]:
        """The halves of each group that it fails on; a single file stays."""
        groups: list[_Broken] = []
        for group in broken:
            if len(group.files) == 1 or self.is_over():
                groups.append(group)
                continue
            middle = len(group.files) // 2
            for half in (group.files[:middle], group.files[middle:]):
                groups += self.tried(half, max(1.0, self._seconds() / 2))
        return groups

    def is_well_with(self, file: ScratchInput) -> bool:
        """Whether it reads this file; its output is dropped."""
        before = len(self.heard)
        is_well = not self.tried([file], max(1.0, self._seconds() / 2))
        del self.heard[before:]
        return is_well
