"""Which files decide what green means, by name. Paths are relative, with ``/``.

A name counts where its tool looks for it: anywhere, beside a manifest, or at the root alone.
"""

from __future__ import annotations

import re
import sys
from fnmatch import translate
from functools import cache

from rlm_ci.text.globs import LOCK_FILES
from rlm_ci.validators import test_file_names
from rlm_ci.workspace import lookalike_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Container

TESTS = "tests"
HOOKS = "hooks"
VALIDATOR = "validator"
CI = "ci"
ACTION = "action"
GIT = "git"
AGENT = "agent"
STARTUP = "startup"
LOCK = "lock"
DEPENDENCY = "dependency"

#: In a folder of tests, these are data.
OF_REPOSITORY = frozenset((CI, ACTION, AGENT, LOCK, DEPENDENCY))
#: What ``--allow-test-edits`` lifts.
OF_TESTS = (TESTS, HOOKS, DEPENDENCY, ACTION)
#: What each kind is called in a message.
NAMES = {
    TESTS: "a test",
    HOOKS: "what tests are run with",
    VALIDATOR: "configuration of the validator",
    CI: "continuous integration",
    ACTION: "an action that CI runs",
    GIT: "configuration of git",
    AGENT: "instructions or tools of agents",
    STARTUP: "a file that runs at start-up",
    LOCK: "a lock file of dependencies",
    DEPENDENCY: "a dependency that the repository keeps",
}

#: Folders, at any depth, everything below which is of one kind.
_FOLDERS = {
    ".github": CI, ".gitlab": CI, ".circleci": CI, ".buildkite": CI, ".woodpecker": CI,
    ".gitea": CI, ".forgejo": CI, ".builds": CI, ".semaphore": CI, ".teamcity": CI, ".tekton": CI,
    ".azure-pipelines": CI, ".azuredevops": CI, ".zuul.d": CI, ".harness": CI,
    ".githooks": GIT, ".husky": GIT, ".claude": AGENT, ".codex": AGENT, ".gemini": AGENT,
    ".cursor": AGENT, ".vscode": AGENT, ".idea": AGENT, ".devcontainer": AGENT,
    ".cargo": STARTUP, ".yarn": STARTUP, ".mvn": STARTUP,
    "node_modules": DEPENDENCY, "bower_components": DEPENDENCY, "site-packages": DEPENDENCY,
    "__pypackages__": DEPENDENCY, ".bundle": DEPENDENCY, ".pnpm-store": DEPENDENCY,
}  # fmt: skip
#: Files by which a tool takes a folder ``vendor`` for the dependencies.
_VENDORING = ("modules.txt", "autoload.php")
#: How the name of a folder ends that tells Python of an installed package, and of its plugins.
_METADATA = (".dist-info", ".egg-info")
#: Where a name counts: anywhere, at the root or beside a manifest, at the root.
_ANYWHERE, _HOME, _ROOT = range(3)
#: Names in lower case; the first that matches counts.
_PATTERNS = (
    (HOOKS, _ANYWHERE, ("conftest.py", ".rspec", "phpunit.xml*", "phpunit.dist.xml")),
    (HOOKS, _HOME, ("run_tests*", "run-tests*", "runtests*")),
    (STARTUP, _ANYWHERE, ("sitecustomize.py", "usercustomize.py", ".envrc", "pyvenv.cfg")),
    ("", _ANYWHERE, (".env.example", ".env.sample", ".env.template", ".env.dist", ".gitkeep")),
    (STARTUP, _HOME, (
        "*.pth", ".env", ".env.*", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs",
        ".tool-versions", ".python-version", ".pnp.cjs", ".pnp.loader.mjs", "rust-toolchain",
        "rust-toolchain.toml", ".node-version", ".nvmrc",
    )),
    (CI, _HOME, (
        ".gitlab-ci*.y*ml", "azure-pipelines*.y*ml", "jenkinsfile", ".travis.y*ml",
        "bitbucket-pipelines.y*ml", ".drone.*", "appveyor.y*ml", ".appveyor.y*ml", ".cirrus.*",
        "cloudbuild.y*ml", "cloudbuild.json", "buildspec*.y*ml", "rlm-ci.toml",
        "codex.orchestrator.json", ".woodpecker.y*ml", ".build.y*ml", ".zuul.y*ml",
        "codemagic.yaml", "bitrise.yml", "wercker.yml", "screwdriver.yaml",
    )),
    (ACTION, _ANYWHERE, ("action.yml", "action.yaml")),
    (GIT, _ANYWHERE, (".git*", "codeowners")),
    (GIT, _HOME, (
        ".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml",
        "lefthook*.y*ml", ".lefthook*.y*ml", "lefthook*.toml", ".lefthook*.toml", "lefthook*.json",
        ".lefthook*.json", ".huskyrc*", ".overcommit.yml",
    )),
    (AGENT, _ANYWHERE, (
        ".mcp.json", ".cursorrules", ".devcontainer.json", ".windsurfrules", ".aider*",
        ".ripgreprc",
    )),
    (AGENT, _ROOT, ("agents.md", "claude.md", "claude.local.md", "gemini.md")),
    (LOCK, _HOME, (*sorted(map(str.lower, LOCK_FILES)), "go.work.sum", "mix.lock")),
    (VALIDATOR, _ANYWHERE, (  # tools that look beside each file, or in folders of their own
        "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", ".coveragerc", "ruff.toml",
        ".ruff.toml", ".mypy.ini", ".flake8", ".pylintrc", "pylintrc", ".eslintrc", ".eslintrc.*",
        "eslint.config.*", ".eslintignore", "jest.config.*", "jest.setup.*", "vite.config.*",
        "babel.config.*", ".babelrc*", ".swcrc", "cmakelists.txt", "vitest.config.*",
        "vitest.setup.*", "vitest.workspace.*", "playwright.config.*", "cypress.config.*",
        "karma.conf.*", ".mocharc*", "tsconfig.json", "tsconfig.*.json", ".nycrc*", ".c8rc*",
        ".prettierrc*", ".prettierignore", ".stylelintrc*", "makefile", "gnumakefile", "*.mk",
        ".justfile", ".golangci.yml", ".golangci.yaml", ".golangci.toml", ".clippy.toml",
        ".rustfmt.toml", "nextest.toml", ".codecov.yml", ".bandit", "pylintrc.toml",
        ".pylintrc.toml", ".oxlintrc.json", ".rubocop*.yml", ".phpcs.xml*", ".clang-tidy",
        ".clang-format", ".shellcheckrc", ".yamllint*", ".isort.cfg", ".codespellrc",
        ".style.yapf", ".pydocstyle*", ".pycodestyle", ".importlinter", ".sqlfluff", ".djlintrc",
        ".noserc", ".pyre_configuration", ".stylelintignore", ".markdownlint*", ".jshintrc",
        "jasmine.json", "nightwatch.conf.*", "codecept.conf.*", "web-test-runner.config.*",
        "setuptests.[jt]s*", "jest-setup.*", "jest.preset.*", ".lintstagedrc*", ".php-cs-fixer*",
        ".credo.exs", ".formatter.exs", ".reek.yml", ".simplecov", "gradle-wrapper.properties",
        "junit-platform.properties", ".scalafmt.conf", "*.csproj", "*.fsproj", "*.vbproj",
        "directory.build.*", "*.runsettings", ".bazelrc", "build.bazel", "module.bazel",
        "meson.build", "ctestcustom.cmake", "configure.ac", "makefile.am", "makefile.in",
        ".tarpaulin.toml", ".swiftformat", ".hadolint.y*ml", ".ansible-lint*", ".spectral.y*ml",
        ".editorconfig", "ava.config.*", ".taprc", "wdio.conf.*", ".mise.toml", ".swiftlint.yml",
    )),
    (VALIDATOR, _HOME, (
        "mypy.ini", "pyrightconfig.json", "rakefile", "pom.xml", "build.gradle*",
        "settings.gradle*", "build.rs", "biome.json", "biome.jsonc", "deno.json", "deno.jsonc",
        "bunfig.toml", "justfile", "*.just", "taskfile.y*ml", "taskfile.dist.y*ml", "noxfile.py",
        "tox.ini", "tox.toml", "clippy.toml", "rustfmt.toml", "codecov.yml",
        "sonar-project.properties", "bandit.yaml", "ty.toml", "phpstan*.neon*", "phpcs.xml*",
        "nose2.cfg", "unittest.cfg", "hatch.toml", "dodo.py", "tslint.json", "cucumber.[cm]js",
        "cucumber.js", "cucumber.json", "cucumber.y*ml", "lerna.json", "project.json",
        "psalm.xml*", "behat.y*ml*", "ecs.php", "rector.php", "infection.json*", "steepfile",
        "guardfile", "gradle.properties", "gradlew*", "mvnw*", "testng.xml", "build.xml",
        "build.sbt", "detekt*.yml", "cmakepresets.json", "tarpaulin.toml", "deny.toml",
        "package.swift", "dart_test.yaml", "analysis_options.yaml", "behave.ini", "gruntfile.*",
        "gulpfile.*", "turbo.json", "nx.json", "pnpm-workspace.yaml", "mix.exs", "mise.toml",
        "go.work", "checkstyle.xml",
    )),
)  # fmt: skip
#: What makes a folder one of a package, in which its tools look for their settings.
_MANIFESTS = frozenset(
    (
        "package.json", "pyproject.toml", "setup.py", "setup.cfg", "cargo.toml", "go.mod",
        "composer.json", "gemfile", "pom.xml", "build.gradle", "build.gradle.kts", "mix.exs",
        "pubspec.yaml", "package.swift", "deno.json", "pipfile",
    )
)  # fmt: skip
#: What a build, a service or an editor runs or obeys by its name alone, in
#: lower case. What was there before is source like any other.
_RUN_BY_NAME = (
    # packages: building or installing one runs it
    "setup.py", "setup.cfg", "pyproject.toml", "package.json", "composer.json", "gemfile",
    "*.gemspec", "binding.gyp", "conanfile.py", "podfile", "cargo.toml", "build.zig", "configure",
    "autogen.sh", "bootstrap.sh", "sconstruct", "sconscript", "wscript", "rebar.config",
    # images and environments
    "dockerfile", "containerfile", "docker-compose.y*ml", "docker-compose.override.y*ml",
    "compose.y*ml", "compose.override.y*ml", "docker-bake.hcl", "docker-bake.json", "flake.nix",
    "default.nix", "shell.nix", "devenv.nix", "devenv.yaml", "vagrantfile",
    "earthfile", "tiltfile", "skaffold.y*ml", "snapcraft.y*ml", "procfile",
    "brewfile", ".replit", "replit.nix", "*.code-workspace",
    # services that look for their file in every repository
    "renovate.json*", ".renovaterc*", ".readthedocs.y*ml", "readthedocs.y*ml", "netlify.toml",
    "vercel.json", "now.json", "fly.toml", "render.yaml", "railway.toml", "railway.json",
    "heroku.yml", "app.json", "wrangler.toml", "wrangler.json*", "serverless.y*ml",
    "firebase.json", "dangerfile", "dangerfile.[jt]s", "fastfile", ".goreleaser.y*ml",
    ".releaserc*", "release.config.*", "dagger.json",
)  # fmt: skip
#: Names that a module at the top must not take: the runners, and what tests lean on.
_TAKEN = frozenset({
    "pytest", "_pytest", "pluggy", "iniconfig", "xdist", "nose", "nose2", "coverage", "mypy",
    "ruff", "tox", "nox", "hypothesis", "mock", "attr", "attrs", "numpy", "pandas", "requests",
    "httpx",
    "yaml", "pydantic", "django", "flask", "fastapi", "sqlalchemy", "pytest_asyncio", "pytest_cov",
    "pytest_mock", "pytest_timeout", "flake8", "pylint", "black", "isort", "setuptools", "pip",
    "pkg_resources", "importlib_metadata", "typing_extensions", "freezegun", "responses",
    "packaging", "pygments", "exceptiongroup", "tomli", "colorama", "anyio", "trio", "sniffio",
    "execnet", "sortedcontainers", "faker", "typeguard", "syrupy", "respx", "time_machine",
    "requests_mock", "jaxtyping", "langsmith", "logfire", "ddtrace", "platformdirs",
    "_distutils_hack", "hamcrest", "assertpy", "dirty_equals", "deepdiff", "parameterized",
    "testfixtures", "approvaltests", "absl", "scipy", "torch", "jax", "polars", "tensorflow",
    "chex", "moto", "testtools", "twisted", "werkzeug", "starlette", "aiohttp", "click",
    "jsonschema", "six", "dateutil", "pexpect", "inline_snapshot", "snapshottest", "beartype",
    "marshmallow", "sklearn", "xarray",
})  # fmt: skip
#: Names of modules with plugins of pytest, in any package.
_PLUGIN = re.compile(r"_?pytest_\w|\w*pytest_?plugin$")
_ROOTS = ("src", "lib")
#: But for the tests of Python itself, whose name many a project has for its own.
_STANDARD = sys.stdlib_module_names - {"test"}


def kind_of(path: str, homes: Container[str] = ("",)) -> str:
    """The kind of a protected file, or ""; ``homes``: the root ("") and folders with a manifest."""
    if lookalike_names.place_of_git(path) is not None:
        return GIT
    *folders, name = lookalike_names.plain(path).split("/")
    if folders and _FOLDERS.get(folders[0].lower()) == CI:
        return CI
    kinds = [_FOLDERS.get(folder.lower(), "") for folder in folders]
    for kind in (GIT, AGENT, STARTUP):
        if kind in kinds:
            return kind
    if any(folder.lower().endswith(_METADATA) for folder in folders):
        return STARTUP
    if DEPENDENCY in kinds or (folders[-1:] == ["vendor"] and name in _VENDORING):
        return DEPENDENCY
    match = _name_pattern().match(name.lower())
    if not match:
        return ""
    kind, where, _ = _PATTERNS[int((match.lastgroup or "")[1:])]
    folder = "/".join(folders)
    if where == _ANYWHERE or not folder or (where == _HOME and folder in homes):
        return kind
    # Agents find their orders in any folder, by a name in capitals.
    return kind if kind == AGENT and name.partition(".")[0].isupper() else ""


def is_manifest(path: str) -> bool:
    return path.rpartition("/")[2].lower() in _MANIFESTS


def is_run_by_name(path: str, homes: Container[str] = ("",)) -> bool:
    """Whether a new file is run or obeyed because of its name; ``homes`` as above."""
    folder, _, name = lookalike_names.plain(path).rpartition("/")
    return folder in homes and _run_by_name().match(name.lower()) is not None


@cache
def _run_by_name() -> re.Pattern[str]:
    return re.compile("|".join(map(translate, _RUN_BY_NAME)))


@cache
def _name_pattern() -> re.Pattern[str]:
    """One expression for all names; the first kind that matches counts."""
    kinds = ("|".join(map(translate, patterns)) for *_, patterns in _PATTERNS)
    return re.compile("|".join(f"(?P<k{at}>{kind})" for at, kind in enumerate(kinds)))


def shadowed(path: str, names: Collection[str] = ()) -> str:
    """The module that a new file would be imported instead of, or "".

    There is none if a path of ``names`` is that module already, and none for a file in a folder.
    """
    if not path.endswith((".py", ".so", ".pyi")):
        return ""
    *folders, last = path.split("/")
    name = last.partition(".")[0]
    if name == "__init__" and folders:
        name = folders.pop()
    module = "/".join((*folders, name))
    while folders and (folders[0] in _ROOTS or test_file_names.is_folder(folders[0])):
        folders = folders[1:]
    if folders or not (name in _TAKEN or name in _STANDARD or _PLUGIN.match(name)):
        return ""
    ending = "pyi" if path.endswith(".pyi") else "py"
    files = (f"{module}.{ending}", f"{module}/__init__.{ending}")
    return "" if any(file in names for file in files) else name
