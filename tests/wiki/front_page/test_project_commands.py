"""How to build, run and test a project, as its first page says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testing.wiki_stage import facts_page, rows

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo


def test_people_come_before_ci_and_the_lock_file_names_the_manager(
    repo: GitRepo, tmp_path: Path
) -> None:
    steps = "".join(f"      - run: pnpm test --shard {n}\n" for n in range(1, 5))
    page = facts_page(repo, tmp_path, {
        "README.md": "# Web\n\nIt serves what the web asks for.\n",
        "CONTRIBUTING.md": "# How\n\nRun the tests.\n",
        "docs/index.md": "# Docs\n",
        "LICENSE": "MIT\n",
        "pnpm-lock.yaml": "lockfileVersion: 9\n",
        "package.json": '{"name": "web",\n"scripts": {\n"test": "vitest | tee x",\n'
        '"dev": "vite"},\n"dependencies": {}}\n',
        "sub/package.json": '{"scripts": {"test": "jest"}}\n',
        "Makefile": "release:\n\tgit push\n",
        "src/web.ts": "export function serve(): void {}\nexport class Web {}\n",
        ".github/workflows/ci.yml": f"steps:\n{steps}      - run: tsc --noEmit\n",
    })  # fmt: skip
    assert rows(page, "Build, run and test") == [
        "set up | `pnpm install` | “usual” | [`package.json#L5`]",
        "run | `pnpm run dev` | `vite` | [`package.json#L4`]",
        "test | `pnpm test` | <code>vitest &#124; tee x</code> | [`package.json#L3`]",
        "test | `pnpm test --shard 1` |  | [`.github/workflows/ci.yml#L2`]",
        "test | `pnpm test --shard 2` |  | [`.github/workflows/ci.yml#L3`]",
        "check | `tsc --noEmit` |  | [`.github/workflows/ci.yml#L6`]",
    ]
    assert "- `make release` [`Makefile#L1`]" in page
    assert "Not listed: 2 other commands." in page
    assert "jest" not in page
    assert "\n- `sub`: `pnpm test` [`sub/package.json#L1`]\n" in page
    assert page.count("- task") == 1  # of `sub`: the others are among the commands


def test_programs_and_uv(repo: GitRepo, tmp_path: Path) -> None:
    page = facts_page(repo, tmp_path, {
        "pyproject.toml": '[project]\nname = "a"\n[project.scripts]\nsay = "a.b:c"\n'
        "[tool.pytest.ini_options]\naddopts = \"-m 'not slow'\"\n",
        "uv.lock": "version = 1\n",
        "src/a/__init__.py": "def c() -> None: ...\n",
        "src/a/__main__.py": "from a import c\n\nc()\n",
        "cmd/go/main.go": "package main\n\nfunc main() {}\n",
        "go.mod": "module x.org/a\n",
    })  # fmt: skip
    assert rows(page, "Build, run and test") == [
        "set up | `uv sync` | “usual” | [`pyproject.toml#L1`]",
        "build | `go build ./...` | “usual” | [`go.mod#L1`]",
        "run | `say` | `a.b:c` | [`pyproject.toml#L4`]",
        "run | `go run ./cmd/go` | “usual” | [`cmd/go/main.go#L3`]",
        "run | `python -m a` | “usual” | [`src/a/__main__.py#L1`]",
        "test | `go test ./...` | “usual” | [`go.mod#L1`]",
        "test | `uv run pytest` | “usual”, with `-m 'not slow'` | [`pyproject.toml#L6`]",
    ]


def test_packages_of_a_repository_without_a_manifest_at_its_top(
    repo: GitRepo, tmp_path: Path
) -> None:
    page = facts_page(repo, tmp_path, {
        **{f"crates/c{n:02}/Cargo.toml": '[package]\nname = "c"\n' for n in range(18)},
        "crates/c00/src/lib.rs": "pub fn one() {}\npub fn two() {}\n",
        "examples/shop/Cargo.toml": '[package]\nname = "shop"\n',
    })  # fmt: skip
    said = page.split("\n## Build, run and test\n", 1)[1].split("\n## ", 1)[0]
    place = "[`crates/c00/Cargo.toml#L1`]"
    assert f"\n- `crates/c00`: `cargo build` {place}, `cargo test` {place}\n" in said
    assert "- and 2 other folders" in said
    assert "examples" not in said
    assert "| to |" not in said
