"""The analyzers that repositories set up by themselves: how each is recognised, run and read."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from rlm_ci.review.analyzer_output.json_formats import SARIF
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    #: The contents of files of a tree by path, for those that are there.
    Read = Callable[[Iterable[str]], Mapping[str, bytes]]


class KnownTool(Value):
    """``configs`` are files at the top of a repository that set a tool up, ``sections`` pairs of
    such a file and the beginning of a line in it.

    ``is_whole``: it runs on a tree. ``second`` is the command for other versions of it.
    ``python`` is its option for the interpreter with the packages, ``unseen`` are rules about
    missing packages.
    """

    name: str
    command: tuple[str, ...]
    files: tuple[str, ...]
    configs: tuple[str, ...]
    sections: tuple[tuple[str, str], ...] = ()
    second: tuple[str, ...] = ()
    is_whole: bool = False
    program: str = ""
    python: str = ""
    unseen: tuple[str, ...] = ()

    @property
    def format(self) -> str:
        """How what it prints is read."""
        return SARIF if self.name == "ruff" else self.name

    @property
    def starts(self) -> str:
        """The program that has to be there."""
        return self.program or self.command[0]

    def is_set_up(self, paths: Iterable[str], read: Read) -> bool:
        """Whether a repository that has ``paths`` uses it."""
        top = [path for path in paths if "/" not in path or path.startswith(".github/")]
        if any(fnmatchcase(path, config) for path in top for config in self.configs):
            return True
        hook = rf"\s*-?\s*id:\s*['\"]?(cargo-)?{re.escape(self.name)}(-check|-docker|-full)?\b"
        patterns = (*self.sections, (".pre-commit-config.yaml", hook))
        contents = read({path for path, _ in patterns})
        return any(
            re.search(rf"^{pattern}", contents[path].decode("utf-8", "replace"), re.MULTILINE)
            for path, pattern in patterns
            if path in contents
        )


_PYTHON = ("*.py", "*.pyi")
_GO = ("*.go",)
_SCRIPTS = ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.ts", "*.tsx", "*.mts", "*.cts", "*.vue")

TOOLS: tuple[KnownTool, ...] = (
    KnownTool(
        "ruff",
        ("ruff", "check", "--quiet", "--no-cache", "--exit-zero", "--output-format", "sarif", "."),
        (*_PYTHON, "*.pyw"),
        ("ruff.toml", ".ruff.toml"),
        (("pyproject.toml", r"\[tool\.ruff[.\]]"),),
        is_whole=True,
    ),
    KnownTool(
        "shellcheck",
        ("shellcheck", "--format", "json1", "--", "{files}"),
        ("*.sh", "*.bash", "*.ksh", "*.bats"),
        (".shellcheckrc",),
    ),
    KnownTool(
        "actionlint",
        ("actionlint", "-no-color", "-format", "{{json .}}", "{files}"),
        (".github/workflows/*.yml", ".github/workflows/*.yaml"),
        (".github/actionlint.yaml", ".github/actionlint.yml"),
    ),
    KnownTool(
        "hadolint",
        ("hadolint", "--no-fail", "--format", "json", "--", "{files}"),
        ("Dockerfile", "Dockerfile.*", "*.Dockerfile", "Containerfile"),
        (".hadolint.yaml", ".hadolint.yml", "hadolint.yaml", "hadolint.yml"),
    ),
    KnownTool(
        "mypy",
        ("mypy", "--output", "json", "--no-error-summary", "--cache-dir", "/dev/null"),
        _PYTHON,
        ("mypy.ini", ".mypy.ini"),
        (("pyproject.toml", r"\[tool\.mypy\]"), ("setup.cfg", r"\[mypy\]")),
        second=("mypy", "--output", "json", "--no-error-summary", "--cache-dir", "/dev/null", "."),
        is_whole=True,
        python="--python-executable",
        unseen=("import-not-found", "import-untyped"),
    ),
    KnownTool(
        "pyright",
        ("pyright", "--outputjson"),
        _PYTHON,
        ("pyrightconfig.json",),
        (("pyproject.toml", r"\[tool\.pyright[.\]]"),),
        is_whole=True,
        python="--pythonpath",
        unseen=("reportMissingImports", "reportMissingModuleSource", "reportMissingTypeStubs"),
    ),
    KnownTool(
        "eslint",
        ("eslint", "--format", "json", "."),
        _SCRIPTS,
        ("eslint.config.*", ".eslintrc*"),
        (("package.json", r'\s*"eslintConfig"'),),
        is_whole=True,
    ),
    KnownTool(
        "clippy",
        ("cargo", "clippy", "--quiet", "--offline", "--all-targets", "--message-format", "json"),
        ("*.rs",),
        ("clippy.toml", ".clippy.toml"),
        (("Cargo.toml", r"\[(workspace\.)?lints\.clippy\]"),),
        is_whole=True,
        program="cargo-clippy",
    ),
    KnownTool(
        "golangci-lint",
        ("golangci-lint", "run", "--output.json.path", "stdout", "--show-stats=false"),
        _GO,
        (".golangci.y*ml", ".golangci.toml", ".golangci.json"),
        second=("golangci-lint", "run", "--out-format", "json"),
        is_whole=True,
    ),
    KnownTool(
        "staticcheck",
        ("staticcheck", "-f", "json", "./..."),
        _GO,
        ("staticcheck.conf",),
        is_whole=True,
    ),
)  # fmt: skip
