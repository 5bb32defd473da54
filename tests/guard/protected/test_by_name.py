"""Files that tools take their settings from, by name; and names that are nobody's."""

from __future__ import annotations

import pytest

from rlm_ci.guard.protected import by_name

SETTINGS = """
.isort.cfg tox.toml sub/.codespellrc .style.yapf .pydocstyle.ini .pycodestyle .importlinter
.sqlfluff .djlintrc nose2.cfg unittest.cfg .noserc .pyre_configuration hatch.toml dodo.py
.stylelintignore .markdownlint.json .markdownlint-cli2.yaml .jshintrc tslint.json
spec/support/jasmine.json cucumber.js cucumber.cjs cucumber.yml nightwatch.conf.js
codecept.conf.ts web-test-runner.config.mjs src/setupTests.ts src/setupTests.jsx jest-setup.js
jest.preset.js lerna.json project.json .lintstagedrc.json psalm.xml.dist behat.yml ecs.php
rector.php infection.json5 .php-cs-fixer.dist.php .credo.exs .formatter.exs .bazelrc BUILD.bazel
MODULE.bazel gradle.properties gradlew gradlew.bat mvnw gradle/wrapper/gradle-wrapper.properties
src/main/resources/junit-platform.properties testng.xml build.xml App.csproj
Directory.Build.props ci.runsettings build.sbt .scalafmt.conf Package.swift dart_test.yaml
analysis_options.yaml meson.build CTestCustom.cmake configure.ac Makefile.am Makefile.in
CMakePresets.json .reek.yml Steepfile .simplecov Guardfile detekt.yml .hadolint.yaml
.ansible-lint .spectral.yaml .swiftformat .tarpaulin.toml deny.toml Taskfile.dist.yml mod.just
"""
NOBODYS = """
tasks.py build src/project.py cucumber.py setup.js src/unittest.js package.js Gemfile build.py
hatch.py deny.py gradle.py config.yaml resources/app.properties src/dart.yaml
data/project.json shop/data/build.xml docs/agents.md data/models/net.pth .env.example
app/.env.sample templates/.github/workflows/ci.yml src/fixtures/package-lock.json src/run_tests.py
templates/azure-pipelines.yml assets/.gitkeep res/turbo.json resources/checkstyle.xml
"""
#: In a folder with a manifest, its tools look for them.
BESIDE = "project.json package-lock.json flake.lock .env tox.ini Jenkinsfile noxfile.py"


@pytest.mark.parametrize("path", SETTINGS.split())
def test_settings_of_a_tool_are_known_by_name(path: str) -> None:
    assert by_name.kind_of(path) == by_name.VALIDATOR


@pytest.mark.parametrize("path", NOBODYS.split())
def test_other_names_are_source(path: str) -> None:
    assert not by_name.kind_of(path)


@pytest.mark.parametrize("name", BESIDE.split())
def test_a_name_counts_where_its_tool_would_look(name: str) -> None:
    assert by_name.kind_of(name)
    assert by_name.kind_of(f"web/app/{name}", {"", "web/app"})
    assert not by_name.kind_of(f"web/app/{name}", {"", "web"})
    assert by_name.is_manifest("web/app/package.json")


def test_orders_for_agents_are_in_capitals_or_at_the_top() -> None:
    for path in ("AGENTS.md", "agents.md", "sub/CLAUDE.md", "sub/CLAUDE.local.md"):
        assert by_name.kind_of(path) == by_name.AGENT
