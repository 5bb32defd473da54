"""Which files decide what green means, by their names alone. Paths are relative, with ``/``."""

from __future__ import annotations

import re
import sys
from fnmatch import translate
from functools import cache

from rlm_ci.loop import lookalikes, testnames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

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
#: Names, at any depth, in lower case; the first that matches counts.
_PATTERNS = (
    (HOOKS, (
        "conftest.py", "run_tests*", "run-tests*", "runtests*", ".rspec", "phpunit.xml*",
        "phpunit.dist.xml",
    )),
    (STARTUP, (
        "sitecustomize.py", "usercustomize.py", "entry_points.txt", "*.pth", ".envrc",
        ".env", ".env.*", ".npmrc",
        ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".tool-versions", ".python-version",
        ".pnp.cjs", ".pnp.loader.mjs", "pyvenv.cfg",
        "rust-toolchain", "rust-toolchain.toml", ".node-version", ".nvmrc",
    )),
    (CI, (
        ".gitlab-ci*.y*ml", "azure-pipelines*.y*ml", "jenkinsfile", ".travis.y*ml",
        "bitbucket-pipelines.y*ml", ".drone.*", "appveyor.y*ml", ".appveyor.y*ml", ".cirrus.*",
        "cloudbuild.y*ml", "cloudbuild.json", "buildspec*.y*ml", "rlm-ci.toml",
        "codex.orchestrator.json", ".woodpecker.y*ml", ".build.y*ml", ".zuul.y*ml",
        "codemagic.yaml", "bitrise.yml", "wercker.yml", "screwdriver.yaml",
    )),
    (ACTION, ("action.yml", "action.yaml")),
    (GIT, (
        ".git*", ".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml",
        "lefthook*.y*ml", ".lefthook*.y*ml", "lefthook*.toml", ".lefthook*.toml", "lefthook*.json",
        ".lefthook*.json", ".huskyrc*", ".overcommit.yml", "codeowners",
    )),
    (AGENT, (
        "agents.md", "claude.md", "claude.local.md", "gemini.md", ".mcp.json", ".cursorrules",
        ".devcontainer.json", ".windsurfrules", ".aider*", ".ripgreprc", "copilot-instructions.md",
    )),
    (LOCK, (
        "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock",
        "bun.lockb", "poetry.lock", "uv.lock", "pdm.lock", "pipfile.lock", "cargo.lock", "go.sum",
        "go.work.sum", "composer.lock", "gemfile.lock", "mix.lock",
    )),
    (VALIDATOR, (
        "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", ".coveragerc", "ruff.toml",
        ".ruff.toml", "mypy.ini", ".mypy.ini", ".flake8", ".pylintrc", "pylintrc",
        "pyrightconfig.json", ".eslintrc",
        ".eslintrc.*", "eslint.config.*", ".eslintignore", "jest.config.*", "jest.setup.*",
        "vite.config.*", "babel.config.*", ".babelrc*", ".swcrc", "rakefile", "pom.xml",
        "build.gradle*", "settings.gradle*", "cmakelists.txt", "build.rs",
        "vitest.config.*", "vitest.setup.*", "vitest.workspace.*", "playwright.config.*",
        "cypress.config.*", "karma.conf.*", ".mocharc*", "tsconfig.json", "tsconfig.*.json",
        ".nycrc*", ".c8rc*", "biome.json", "biome.jsonc", "deno.json", "deno.jsonc", "bunfig.toml",
        ".prettierrc*", ".prettierignore", ".stylelintrc*", "makefile", "gnumakefile", "*.mk",
        "justfile", ".justfile", "taskfile.yml", "taskfile.yaml", "noxfile.py", "tox.ini",
        ".golangci.yml", ".golangci.yaml", ".golangci.toml", "clippy.toml", ".clippy.toml",
        "rustfmt.toml", ".rustfmt.toml", "nextest.toml", "codecov.yml", ".codecov.yml",
        "sonar-project.properties", ".bandit", "bandit.yaml", "pylintrc.toml", ".pylintrc.toml",
        "ty.toml", ".oxlintrc.json", ".rubocop*.yml", "phpstan*.neon*", "phpcs.xml*",
        ".phpcs.xml*", ".clang-tidy", ".clang-format", ".shellcheckrc", ".yamllint*",
        # Python
        ".isort.cfg", "tox.toml", ".codespellrc", ".style.yapf", ".pydocstyle*", ".pycodestyle",
        ".importlinter", ".sqlfluff", ".djlintrc", "nose2.cfg", "unittest.cfg", ".noserc",
        ".pyre_configuration", "hatch.toml", "dodo.py",
        # JavaScript
        ".stylelintignore", ".markdownlint*", ".jshintrc", "tslint.json", "jasmine.json",
        "cucumber.[cm]js", "cucumber.js", "cucumber.json", "cucumber.y*ml", "nightwatch.conf.*",
        "codecept.conf.*", "web-test-runner.config.*", "setuptests.[jt]s*", "jest-setup.*",
        "jest.preset.*", "lerna.json", "project.json", ".lintstagedrc*",
        # PHP, Ruby, Elixir
        "psalm.xml*", "behat.y*ml*", "ecs.php", "rector.php", "infection.json*", ".php-cs-fixer*",
        ".credo.exs", ".formatter.exs", ".reek.yml", "steepfile", ".simplecov", "guardfile",
        # the JVM, .NET
        "gradle.properties", "gradlew*", "mvnw*", "gradle-wrapper.properties",
        "junit-platform.properties", "testng.xml", "build.xml", "build.sbt", ".scalafmt.conf",
        "detekt*.yml", "*.csproj", "*.fsproj", "*.vbproj", "directory.build.*", "*.runsettings",
        # C, Rust, Swift, Dart, and what builds them all
        ".bazelrc", "build.bazel", "module.bazel", "meson.build", "ctestcustom.cmake",
        "configure.ac", "makefile.am", "makefile.in", "cmakepresets.json", ".tarpaulin.toml",
        "tarpaulin.toml", "deny.toml", "package.swift", ".swiftformat", "dart_test.yaml",
        "analysis_options.yaml", "taskfile.dist.y*ml", "*.just",
        # others
        ".hadolint.y*ml", ".ansible-lint*", ".spectral.y*ml",
        ".editorconfig", "ava.config.*", ".taprc", "wdio.conf.*", "behave.ini", "gruntfile.*",
        "gulpfile.*", "turbo.json", "nx.json", "pnpm-workspace.yaml", "mix.exs", "mise.toml",
        ".mise.toml", "go.work", ".swiftlint.yml", "checkstyle.xml",
    )),
)  # fmt: skip
#: What a build, a service or an editor runs or obeys as soon as it is there, by name alone, in
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
#: How the modules are called that bring the plugins of pytest, whatever their packages are.
_PLUGIN = re.compile(r"_?pytest_\w|\w*pytest_?plugin$")
_ROOTS = ("src", "lib")
#: But for the tests of Python itself, whose name many a project has for its own.
_STANDARD = sys.stdlib_module_names - {"test"}


def kind_of(path: str) -> str:
    """The kind of a protected file, or "" for one that is source like any other."""
    if lookalikes.place_of_git(path) is not None:
        return GIT
    *folders, name = lookalikes.plain(path).split("/")
    kinds = [kind for folder in folders if (kind := _kind_of_folder(folder))]
    for kind in (CI, GIT, AGENT, STARTUP):
        if kind in kinds:
            return kind
    if any(folder.lower().endswith(_METADATA) for folder in folders):
        return STARTUP
    of_tests = kinds[:1] == [TESTS]  # what else lies in a folder of tests is theirs
    if not of_tests and (kinds or (folders[-1:] == ["vendor"] and name in _VENDORING)):
        return DEPENDENCY
    is_test = of_tests or testnames.is_file(path)
    kind = kind_of_name(name.lower())
    return TESTS if is_test and kind == ACTION else kind or (TESTS if is_test else "")


def _kind_of_folder(name: str) -> str:
    return _FOLDERS.get(name.lower(), "") or (TESTS if testnames.is_folder(name) else "")


def kind_of_name(name: str) -> str:
    """The kind of a file by its own name, in lower case, whatever folder it is in."""
    found = _named().match(name)
    return _PATTERNS[int((found.lastgroup or "")[1:])][0] if found else ""


def is_run_by_name(path: str) -> bool:
    """Whether a file that is new is run or obeyed because of its name."""
    name = lookalikes.plain(path).rpartition("/")[2]
    return _run_by_name().match(name.lower()) is not None


@cache
def _run_by_name() -> re.Pattern[str]:
    return re.compile("|".join(map(translate, _RUN_BY_NAME)))


@cache
def _named() -> re.Pattern[str]:
    """One expression for all names; the first kind that matches counts."""
    kinds = ("|".join(map(translate, patterns)) for _, patterns in _PATTERNS)
    return re.compile("|".join(f"(?P<k{at}>{one})" for at, one in enumerate(kinds)))


def shadowed(path: str, known: Collection[str] = ()) -> str:
    """The module that a new file would be imported in place of, or "".

    None where a path that is ``known`` is that module already, nor for what lies in a folder: one
    without ``__init__`` gives way to every module of its name, one with it is found by that.
    """
    if not path.endswith((".py", ".so", ".pyi")):
        return ""
    *folders, last = path.split("/")
    name = last.partition(".")[0]
    if name == "__init__" and folders:
        name = folders.pop()
    place = "/".join((*folders, name))
    while folders and (folders[0] in _ROOTS or testnames.is_folder(folders[0])):
        folders = folders[1:]
    if folders or not (name in _TAKEN or name in _STANDARD or _PLUGIN.match(name)):
        return ""
    ending = "pyi" if path.endswith(".pyi") else "py"
    there = (f"{place}.{ending}", f"{place}/__init__.{ending}")
    return "" if any(one in known for one in there) else name
