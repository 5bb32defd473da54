"""The prompts of a change as leaves of a recursion."""

from __future__ import annotations

from rlm_ci.pipelines.repository import scope
from rlm_ci.recursion.corpus.corpus import CorpusFile
from rlm_ci.recursion.split.tree import PromptPart
from rlm_ci.review.change.affected_files import AffectedFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.git.repository import Repository
    from rlm_ci.pipelines.repository.scope import RepositoryScope
    from rlm_ci.review.change_prompts.listing import ChangePrompt


def near_of(
    within: RepositoryScope, repository: Repository, own_folders: Sequence[str]
) -> AffectedFiles:
    """All files at the head; ``own_folders`` are folders in which rlm-ci writes."""
    change = scope.change_of(within, repository)
    kinds = {} if change is None else change.kinds
    gone = [path for path, kind in kinds.items() if kind == "D"]
    return AffectedFiles(scope.corpus(within, repository, own_folders), gone)


def part_of(prompt: ChangePrompt, files: AffectedFiles) -> PromptPart:
    """A prompt as a leaf, with the files that it answers for and those that it shows besides."""
    by_path = {file.path: file for file in files.files((*prompt.paths, *prompt.files))}
    covered = tuple(by_path.pop(path, CorpusFile.of((path, "", 0))) for path in prompt.paths)
    size = len(prompt.text.encode("utf-8", "replace"))
    return PromptPart.of((prompt.label, covered, tuple(by_path.values()), size))
