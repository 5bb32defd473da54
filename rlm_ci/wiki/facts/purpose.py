"""What a command of a project is for, by the name of its task or by its first words."""

from __future__ import annotations

import re

#: What commands are for.
SETUP, BUILD, RUN, TEST, CHECK, DOCS, OTHER = (
    "setup", "build", "run", "test", "check", "docs", "other",
)  # fmt: skip

#: Words of a task's name, the strongest first.
_NAMED = (
    (TEST, frozenset(("test", "tests", "testing", "pytest", "unittest", "unit", "e2e", "spec",
                      "specs", "integration", "coverage", "cov"))),
    (CHECK, frozenset(("lint", "linter", "format", "fmt", "style", "typing", "types", "typecheck",
                       "mypy", "pyright", "ruff", "black", "flake8", "pylint", "eslint",
                       "prettier", "clippy", "vet"))),
    (DOCS, frozenset(("docs", "doc", "html", "documentation", "apidoc", "site"))),
    (BUILD, frozenset(("build", "compile", "dist", "bundle", "wheel", "sdist"))),
    (SETUP, frozenset(("install", "setup", "bootstrap", "deps", "develop", "venv"))),
)  # fmt: skip
#: Words that say so only at the start of a name.
_STARTS = frozenset(("run", "start", "serve", "server", "dev", "watch", "preview"))
#: An environment of tox for one version of Python.
_PYTHON = re.compile(r"py(?:py)?(?:-?\d[\d.]*t?)?|3\.\d+t?")

_HEADS = tuple(
    (purpose, re.compile(rf"(?:{pattern})(?![\w-])"))
    for purpose, pattern in (
        (TEST, (r"pytest|py\.test|unittest|ctest|jest|vitest|mocha|ava|rspec|phpunit|gotestsum"
               r"|stestr|trial|ginkgo|cypress run|playwright test|zig build test"
               r"|(?:go|cargo|bun|deno|dotnet|swift|mix) test|cargo (?:nextest|llvm-cov|miri test)"
               r"|(?:mvnw?|gradlew?)(?: \S+)* (?:test|check|verify)|npm t")),
        (CHECK, (r"ruff|mypy|pyright|flake8|pylint|black|isort|eslint|prettier|biome|stylelint"
                r"|golangci-lint|staticcheck|pre-commit run|prek run|rubocop|shellcheck|gofmt"
                r"|clang-format|clang-tidy|codespell|actionlint|zizmor|tsc .*--noEmit"
                r"|go (?:vet|fmt)|cargo (?:clippy|fmt|check|deny|audit)")),
        (SETUP, (r"pip[\d.]* install|uv (?:sync|pip install)|poetry install|pdm (?:install|sync)"
                r"|pipenv install|(?:npm|pnpm|bun) (?:ci|i|install)|yarn install|yarn$"
                r"|go mod download|bundle install|composer install|cargo fetch|setup\.py develop")),
        (DOCS, r"sphinx-build|mkdocs|zensical|typedoc|cargo doc|pdoc|jekyll|hugo|mdbook"),
        (BUILD, (r"build|(?:uv|hatch|poetry|flit|dotnet|docker|vite|cargo|pdm) build|go build"
                r"|cmake|meson|ninja|make$|tsc|webpack|rollup|esbuild|tsup|maturin"
                r"|cibuildwheel|setup\.py (?:build|sdist|bdist_wheel)"
                r"|(?:mvnw?|gradlew?)(?: \S+)* (?:package|assemble|build)")),
        (RUN, r"(?:cargo|go|dotnet) run|flask run|uvicorn|gunicorn|manage\.py runserver"),
    )
)  # fmt: skip
#: Runners of named tasks: the name decides.
_TASK = re.compile(
    r"(?:make|just|poe|rake|npm run|pnpm run|bun run|yarn run|npm|pnpm|yarn|hatch run)"
    r" (?:-\S+ )*([\w:./-]+)"
)
_ENVIRONMENT = re.compile(r"(?:tox|nox)\b(?:.* (?:-e|-s|--env|--session)[ =]?([\w.-]+))?")
#: Programs that run another one, with the word behind which that begins.
_RUNNERS = {
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "pipenv", "pixi", "rye"), "run"),
    **dict.fromkeys(("bundle", "npm", "pnpm", "yarn"), "exec"),
    **dict.fromkeys(("python", "python3", "py"), "-m"),
    "coverage": "run",
}  # fmt: skip
_BEFORE = frozenset(("sudo", "time", "exec", "env", "npx", "bunx", "uvx", "command"))
#: Options of such programs that another word follows.
_VALUED = frozenset((
    "--group", "--only-group", "--with", "--extra", "--python", "-p", "--project", "--package",
    "--directory", "-m", "--env-file", "--source",
))  # fmt: skip
_VARIABLE = re.compile(r"[A-Za-z_]\w*=\S*")


def purpose_of(name: str, runs: str = "") -> str:
    """What the task ``name`` is for, which ``runs`` this command; OTHER if neither says it."""
    return by_name(name) or by_command(runs) or OTHER


def by_name(name: str) -> str:
    """What the name of a task says; "" for nothing."""
    words = [word for word in re.split(r"[-_:./ ]+", name.lower()) if word]
    if not words:
        return ""
    if words[0] in _STARTS:
        return RUN
    for purpose, keywords in _NAMED:
        if keywords.intersection(words):
            return purpose
    return TEST if any(map(_PYTHON.fullmatch, words)) else ""


def by_command(text: str) -> str:
    """What the first telling part of a shell's line is for; "" for nothing."""
    for part in re.split(r"&&|\|\||[;|]", text[:1000]):
        purpose = _by_head(bare(part.split()))
        if purpose:
            return purpose
    return ""


def _by_head(head: str) -> str:
    match = _ENVIRONMENT.match(head)
    if match and "--devenv" in head:
        return SETUP
    if match:
        name = match[1] or ""
        return (by_name(name) or OTHER) if name else TEST
    for purpose, pattern in _HEADS:
        if pattern.match(head):
            return purpose
    return by_name(task_of(head))


def task_of(head: str) -> str:
    """The named task that a command without its variables runs; "" for none.

    An environment of tox for a version of Python, or for all, is none: it is what tox runs anyway.
    """
    task = _TASK.match(head) or _ENVIRONMENT.match(head)
    name = (task[1] or "") if task else ""
    return "" if head.startswith(("tox", "nox")) and _PYTHON.fullmatch(name) else name


def bare(words: list[str]) -> str:
    """A command without variables, and without the programs that only start it."""
    while words:
        first = words[0].rpartition("/")[2].lstrip("@")
        if _VARIABLE.fullmatch(words[0]) or first in _BEFORE:
            words = words[1:]
        elif words[1:2] == [_RUNNERS.get(first, "")]:
            words = _behind_options(words[2:])
        elif first in ("python", "python3") and words[1:2] == ["setup.py"]:
            words = words[1:]
        else:
            words = [first, *words[1:]]
            break
    return " ".join(words[:12])


def _behind_options(words: list[str]) -> list[str]:
    while words and words[0].startswith("-"):
        words = words[1 + (words[0] in _VALUED and words[0] != "-m") :]
    return words
