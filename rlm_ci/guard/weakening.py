"""What two trees are compared by: changed files, the rest of the tree, and what is found."""

from __future__ import annotations

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


#: The kind of a note: what silences a tool that came with it, or took the place of another.
REPLACED = "replaced"


class TextChange(Value):
    """A file with its text before and after; None where it is not there."""

    path: str
    before: str | None
    after: str | None


class Weakening(Value):
    """``rule`` is the condition; ``line`` is 1-based in the file at ``path``, on ``side``.

    ``doubt`` is the kind of note that it is where a person wrote the change: something else in it
    suggests that the test went with its subject, or is there in other words. "": there is none.
    """

    rule: str
    message: str
    path: str
    line: int | None = None
    side: str = "new"
    doubt: str = ""


class RestOfTree:
    """What the change leaves alone; it is asked only where something seems to be lost."""

    def with_names(self, _names: Collection[str]) -> Iterable[tuple[str, str]]:
        """The files of tests that did not change and say one of these names, with their texts."""
        return ()

    def read(self, _paths: Iterable[str]) -> Mapping[str, str]:
        """The texts of those of these files that are there after the change, by path."""
        return {}

    def paths(self) -> frozenset[str]:
        """All files that did not change."""
        return frozenset()
