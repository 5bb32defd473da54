"""The packages of lock files, by ecosystem."""

from __future__ import annotations

import pytest

from rlm_ci.source.packages import locked

TABLES = """\
[[package]]
name = "a"
version = "1"
[package.optional]
name = "no"
[[package]]
name = "b"
version = "2"
"""
BUN = """{
  "lockfileVersion": 1,
  "packages": {
    "x": ["x@workspace:packages/x"],
    // "c": ["c@1"],
    "a": ["a@1", "", {}, "sha512-,}"],
    "a/b": ["b@2", "", { "bin": ",]", }, ""],
  },
}
"""
COMPOSER = """\
{"packages": [{"name": "a", "version": "1"}], "packages-dev": [{"name": "b", "version": "2"}]}
"""
NPM = (
    '{"packages": {"node_modules/a": {"version": "1"}, "node_modules/x/node_modules/b": '
    '{"version": "2"}}}'
)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("uv.lock", TABLES),
        ("Pipfile.lock", '{"default": {"a": {"version": "==1"}, "b": {"version": "==2"}}}'),
        ("package-lock.json", NPM),
        ("package-lock.json",
         '{"dependencies": {"a": {"version": "1", "dependencies": {"b": {"version": "2"}}}}}'),
        ("yarn.lock", '# x\n\na@^1, a@~1:\n  version "1"\n\n"b@npm:^2":\n  version: 2\n'),
        ("pnpm-lock.yaml", "packages:\n\n  a@1:\n    x: y\n\n  /b@2(z@1):\n    x: y\n"),
        ("bun.lock", BUN),
        ("pylock.toml", TABLES.replace("[[package]]", "[[packages]]")),
        ("Gemfile.lock", "GEM\n  specs:\n    a (1)\n      c (> 1)\n    b (2)\n"),
        ("composer.lock", COMPOSER),
    ],
)  # fmt: skip
def test_lock_files(path: str, text: str) -> None:
    assert locked.locked(path, text.encode()) == {"a": (("1",), False), "b": (("2",), False)}


def test_scripts_of_packages_that_bun_trusts_run() -> None:
    text = '{"trustedDependencies": ["@s/a",], "packages": {"x": ["@s/a@1"], "b": ["b@2"]},}'
    assert locked.locked("bun.lock", text.encode()) == {
        "@s/a": (("1",), True),
        "b": (("2",), False),
    }
