"""Which files are guidelines, and for which paths."""

from __future__ import annotations

import pytest

from rlm_ci.review.guidelines import (
    BY_FOLDER,
    BY_PATTERN,
    GENERAL,
    candidate,
    front_matter,
    scope_of,
)

PATHS = ("a.ts", "src/b.tsx", "web/c.py", "web/src/d.ts")


@pytest.mark.parametrize(
    ("path", "head", "rank", "about"),
    [
        ("AGENTS.md", "", BY_FOLDER, PATHS),
        ("web/AGENTS.md", "", BY_FOLDER, PATHS[2:]),
        ("web/CLAUDE.md", "", BY_FOLDER, PATHS[2:]),
        ("CONTRIBUTING.md", "", GENERAL, PATHS),
        ("docs/CONTRIBUTING.md", "", GENERAL, PATHS),
        (".github/CONTRIBUTING.md", "", GENERAL, PATHS),
        (".github/copilot-instructions.md", "", BY_FOLDER, PATHS),
        (".github/instructions/x.instructions.md", 'applyTo: "**"', BY_FOLDER, PATHS),
        (".github/instructions/x/y.instructions.md", "applyTo: '**/*.ts,**/*.tsx'",
         BY_PATTERN, (PATHS[0], PATHS[1], PATHS[3])),
        (".github/instructions/x.instructions.md", "applyTo: src/**", BY_PATTERN, PATHS[1:2]),
        (".github/instructions/x.instructions.md", "description: on demand", None, ()),
        (".github/instructions/x.instructions.md",
         'applyTo: "**"\nexcludeAgent: "code-review"', None, ()),
        (".cursor/rules/x.mdc", "alwaysApply: true\nglobs:", BY_FOLDER, PATHS),
        (".cursor/rules/x.mdc", "globs: *.{ts,tsx}\nalwaysApply: false", BY_PATTERN,
         (PATHS[0], PATHS[1], PATHS[3])),
        (".cursor/rules/x.mdc", 'globs: ["*.py", "a.ts"]', BY_PATTERN, (PATHS[0], PATHS[2])),
        (".cursor/rules/x.mdc", "globs:\n  - '*.py'\n  - a.ts", BY_PATTERN, (PATHS[0], PATHS[2])),
        ("web/.cursor/rules/x.mdc", "globs: src/*.ts", BY_PATTERN, PATHS[3:]),
        (".cursor/rules/x.mdc", "description: asked for by name", None, ()),
        (".cursor/rules/x.mdc", f"globs: {'{a,b}' * 40}", None, ()),
    ],
)  # fmt: skip
def test_a_file_is_about_the_paths_that_it_names(
    path: str, head: str, rank: int | None, about: tuple[str, ...]
) -> None:
    assert candidate(path)
    fields, _ = front_matter(f"---\n{head}\n---\nText\n" if head else "Text\n")
    scope = scope_of(path, fields)
    if rank is None:
        assert scope is None
        return
    assert scope is not None
    assert (scope.rank, tuple(filter(scope.test(), PATHS))) == (rank, about)


@pytest.mark.parametrize(
    "path",
    ["agents.md", "AGENTS.md.orig", ".github/instructions/x.md", ".cursor/rules/x.txt", "README.md",
     "x/.github/copilot-instructions.md", "x/.github/instructions/y.instructions.md"],
)  # fmt: skip
def test_other_files_are_none(path: str) -> None:
    assert not candidate(path)


def test_front_matter_that_does_not_end_is_text() -> None:
    assert front_matter("---\napplyTo: '**'\nText") == ({}, 0)
    assert front_matter("Text\n---\nx: y\n---") == ({}, 0)
    assert front_matter("---\r\napplyTo: a\r\n---\r\nText") == ({"applyTo": ("a",)}, 3)
