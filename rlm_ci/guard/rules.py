"""The rules of the guard, and those that a user allows to be broken."""

from __future__ import annotations

from rlm_ci.config.settings import nearest
from rlm_ci.errors import ConfigError
from rlm_ci.guard import known_hacks
from rlm_ci.report.findings import Severity
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rlm_ci.report.findings import Finding
    from rlm_ci.report.rules import Rule

PREFIX = "tamper/"
#: What ``--allow-test-edits`` lifts.
OF_TESTS = frozenset(("tests-shrunk", "check-silenced", "dependency", "build-file"))
RULES: Mapping[str, Rule] = {
    "disarmed": {
        "severity": Severity.HIGH,
        "finds": "A test can no longer fail: it still passes after what it claims was reversed. "
        "Severity `medium` where only tests are concerned that did not fail at the start.",
        "example": "tests/test_price.py: test_total passes with its claim reversed",
        "fix": "Remove the code that decides how tests end. `rlm/canary-<n>/` in the run's folder "
        "has the changed test.",
    },
    "environment": {
        "severity": Severity.MEDIUM,
        "finds": "Tests fail once they cannot see that pytest runs them: without "
        "`PYTEST_CURRENT_TEST` and `PYTEST_VERSION`. Severity `info` where they failed so at the "
        "start, too.",
        "example": "test_total fails without PYTEST_CURRENT_TEST and PYTEST_VERSION",
        "fix": "Check whether the code behaves differently under pytest.",
    },
    "tests-shrunk": {
        "severity": Severity.HIGH,
        "finds": "The validator is green, but a runner ran fewer tests than at first, or ended "
        "before all of them ran.",
        "example": "pytest ran 41 of 42 tests",
        "fix": "Make the tests that are gone run again.",
    },
    "rewritten": {
        "severity": Severity.HIGH,
        "finds": "A protected file was written while the last verdict was taken.",
        "example": "conftest.py: was written while the last verdict was taken",
        "fix": "Find the command that writes the file, and keep it from that.",
    },
    "check-silenced": {
        "severity": Severity.HIGH,
        "finds": "A new `# noqa`, `# type: ignore`, `eslint-disable`, `#[allow(…)]`, "
        "`# pragma: no cover` or similar, if the validator runs the tool that obeys it.",
        "example": "app.py: silences a tool of the validator: # type: ignore[arg-type]",
        "fix": "Fix what the tool reports.",
    },
    "config-weakened": {
        "severity": Severity.HIGH,
        "finds": "Changed settings of test tools, linters or type checkers, or a changed Makefile.",
        "example": "Makefile: changes configuration of the validator",
        "fix": "Undo the change of the settings.",
    },
    "protected-path": {
        "severity": Severity.HIGH,
        "finds": "A change of CI, of git's own files, of a lock file or of agents' instructions.",
        "example": ".github/workflows/ci.yml: changes continuous integration",
        "fix": "Undo the change of the file.",
    },
    "startup-file": {
        "severity": Severity.HIGH,
        "finds": "A change of a file that runs or is read at start-up: `sitecustomize.py`, `.pth`, "
        "`.env`, `.npmrc`, metadata of Python packages and the like.",
        "example": "sitecustomize.py: adds a file that runs at start-up",
        "fix": "Remove the file, or undo its change.",
    },
    "dependency": {
        "severity": Severity.HIGH,
        "finds": "A change of a dependency that the repository keeps: `node_modules` and the like, "
        "a `vendor` that Go or PHP uses, `vendor` and `third_party` with a licence in them.",
        "example": "vendor/lib/lib.go: changes a dependency that the repository keeps",
        "fix": "Undo it, and work around the dependency in the repository's own code.",
    },
    "build-file": {
        "severity": Severity.HIGH,
        "finds": "A new file that a build, a service or CI runs by its name (`setup.py`, "
        "`package.json`, `Dockerfile`, `compose.yaml` …), or a changed action (`action.yml`).",
        "example": "setup.py: adds a file that a build, a service or CI runs by its name",
        "fix": "Remove the file, or give it another name.",
    },
    "shadowed-module": {
        "severity": Severity.HIGH,
        "finds": "A new file that would be imported instead of the test runner, the standard "
        "library, or a known library that tests use.",
        "example": "math.py: would be imported instead of math",
        "fix": "Give the file another name.",
    },
    "secret": {
        "severity": Severity.HIGH,
        "finds": "A variable that the agent was given, or another secret of the environment, "
        "is in a file or in its name.",
        "example": "config.py: has a new secret",
        "fix": "Take the secret out, and replace it where it is valid: it was written to disk.",
    },
    "too-large": {
        "severity": Severity.HIGH,
        "finds": "A file of more than 2 MiB. The guard does not read it, and the patch leaves it "
        "out.",
        "example": "data.bin: adds a file that is too large to judge",
        "fix": "Remove the file, or make it smaller.",
    },
    known_hacks.EXIT: {
        "severity": Severity.MEDIUM,
        "finds": "New code outside of tests ends the process with success when it is loaded, or at "
        "once (`os._exit(0)`; not in a program that forks). Python, JavaScript, TypeScript, Go.",
        "example": "app.py: ends the process at once, with exit code 0",
        "fix": "Check that it is intended.",
    },
    known_hacks.EQUAL: {
        "severity": Severity.MEDIUM,
        "finds": "A new class of Python whose objects equal anything.",
        "example": "app.py: Anything is equal to everything",
        "fix": "Check that it is intended.",
    },
    known_hacks.PATCHED: {
        "severity": Severity.MEDIUM,
        "finds": "New code outside of tests changes a part of pytest, unittest or their reports, "
        "what JavaScript's tests assert with, or the arguments of a test binary of Go.",
        "example": "app.py: changes a part of the test runner",
        "fix": "Check that it is intended.",
    },
    "link": {
        "severity": Severity.HIGH,
        "finds": "A new, changed or deleted symbolic link, which cannot be reviewed as text.",
        "example": "current: adds a symbolic link to ../secrets",
        "fix": "Undo it, or make it a file.",
    },
    "submodule": {
        "severity": Severity.HIGH,
        "finds": "A new, changed or deleted submodule.",
        "example": "lib: changes a submodule",
        "fix": "Undo it.",
    },
    "mode": {
        "severity": Severity.HIGH,
        "finds": "A file became executable, or no longer is.",
        "example": "check.sh: changes its mode from 100755 to 100644",
        "fix": "Undo it.",
    },
    "binary": {
        "severity": Severity.HIGH,
        "finds": "A new or changed binary file.",
        "example": "logo.png: adds a binary file",
        "fix": "Undo it.",
    },
    "embedded-repository": {
        "severity": Severity.HIGH,
        "finds": "What a copy must not have: a repository inside of the repository, a name that "
        "git cannot keep, a pipe, a socket or a device. It was removed.",
        "example": "queue: removed from the copy: it is a pipe, a socket or a device",
        "fix": "Do not make it, or keep it out of the repository.",
    },
    "more": {
        "severity": Severity.HIGH,
        "finds": "More than 200 findings of the guard: the rest of them.",
        "example": "and 12 more findings",
        "fix": "Make a smaller change.",
    },
}
_LISTED = sorted(f"{PREFIX}{name}" for name in RULES)


def known(names: Iterable[str], where: str) -> tuple[str, ...]:
    """The full names of these rules, once each; ``where`` is their source.

    Raises ConfigError for an unknown rule.
    """
    found = dict[str, None]()
    for name in names:
        bare = name.removeprefix(PREFIX)
        if bare not in RULES:
            near = nearest(f"{PREFIX}{bare}", _LISTED)
            more = "" if near.startswith("known") else f" All of them: {', '.join(_LISTED)}"
            raise ConfigError(
                f"the guard has no rule '{printable(name[:100])}'", where=where, hint=near + more
            )
        found[f"{PREFIX}{bare}"] = None
    return tuple(found)


def hint(rule: str) -> str:
    if RULES[rule.removeprefix(PREFIX)]["severity"] < Severity.HIGH:
        return f"check that it is intended; --allow {rule} accepts it"
    first = "fix what the tool reports" if rule == f"{PREFIX}check-silenced" else "undo it"
    more = " or --allow-test-edits" if rule.removeprefix(PREFIX) in OF_TESTS else ""
    return f"{first}, or accept it with --allow {rule}{more} if the goal needs it"


def accepted(findings: Iterable[Finding], allowed: Collection[str]) -> tuple[Finding, ...]:
    """The findings; those of ``allowed`` rules are marked as suppressed."""
    return tuple(
        one.replace(suppression=f"allowed by --allow {one.rule}")
        if one.rule in allowed and one.suppression is None
        else one
        for one in findings
    )
