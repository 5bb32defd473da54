"""The pages of a small repository, judged, as texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testing import wiki_stage as stage

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo


def pages_of(repo: GitRepo, tmp_path: Path, files: dict[str, str]) -> dict[str, str]:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, files))
    out = tmp_path / "wiki"
    pages, _, _ = stage.wiki(corpus, out, tmp_path)
    stage.judge(pages, corpus, out, stage.opened(repo))
    return stage.texts(out)
