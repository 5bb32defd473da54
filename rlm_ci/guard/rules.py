"""The rules of the guard, and those that a user allows to be broken."""

from __future__ import annotations

from rlm_ci.config.settings import nearest
from rlm_ci.errors import ConfigError
from rlm_ci.guard import blind_spots, known_hacks
from rlm_ci.report.findings import Severity
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rlm_ci.report.findings import Finding

PREFIX = "tamper/"
#: What ``--allow-test-edits`` lifts.
OF_TESTS = frozenset(("tests-shrunk", "check-silenced", "dependency", "build-file"))
RULES = {
    "disarmed": Severity.HIGH,
    "environment": Severity.MEDIUM,
    "only-in-copy": Severity.HIGH,
    "unprobed-test": Severity.MEDIUM,
    "decisive-edit": Severity.MEDIUM,
    "tests-shrunk": Severity.HIGH,
    "rewritten": Severity.HIGH,
    "check-silenced": Severity.HIGH,
    "config-weakened": Severity.HIGH,
    "protected-path": Severity.HIGH,
    "startup-file": Severity.HIGH,
    "dependency": Severity.HIGH,
    "build-file": Severity.HIGH,
    "shadowed-module": Severity.HIGH,
    "secret": Severity.HIGH,
    "too-large": Severity.HIGH,
    known_hacks.ASKS: Severity.MEDIUM,
    known_hacks.PATCHED: Severity.MEDIUM,
    known_hacks.EXIT: Severity.MEDIUM,
    known_hacks.COMPARES: Severity.MEDIUM,
    known_hacks.DATED: Severity.MEDIUM,
    known_hacks.HIDDEN: Severity.MEDIUM,
    blind_spots.SPECIAL: Severity.MEDIUM,
    blind_spots.WEAKER: Severity.MEDIUM,
    "link": Severity.HIGH,
    "submodule": Severity.HIGH,
    "mode": Severity.HIGH,
    "binary": Severity.HIGH,
    "embedded-repository": Severity.HIGH,
    "more": Severity.HIGH,
}
_LISTED = sorted(f"{PREFIX}{name}" for name in RULES)


def canonical_names(names: Iterable[str], where: str) -> tuple[str, ...]:
    """The full names of these rules, once each; ``where`` is their source.

    Raises ConfigError for an unknown rule.
    """
    full_names = dict[str, None]()
    for name in names:
        bare = name.removeprefix(PREFIX)
        if bare not in RULES:
            hint = nearest(f"{PREFIX}{bare}", _LISTED)
            more = "" if hint.startswith("known") else f" All of them: {', '.join(_LISTED)}"
            raise ConfigError(
                f"the guard has no rule '{printable(name[:100])}'", where=where, hint=hint + more
            )
        full_names[f"{PREFIX}{bare}"] = None
    return tuple(full_names)


def hint(rule: str, severity: Severity | None = None) -> str:
    if (severity or RULES[rule.removeprefix(PREFIX)]) < Severity.HIGH:
        return f"check that it is intended; --allow {rule} accepts it"
    first = "fix what the tool reports" if rule == f"{PREFIX}check-silenced" else "undo it"
    more = " or --allow-test-edits" if rule.removeprefix(PREFIX) in OF_TESTS else ""
    return f"{first}, or accept it with --allow {rule}{more} if the goal needs it"


def accepted(findings: Iterable[Finding], allowed: Collection[str]) -> tuple[Finding, ...]:
    """The findings; those of ``allowed`` rules are marked as suppressed."""
    return tuple(
        finding.replace(suppression=f"allowed by --allow {finding.rule}")
        if finding.rule in allowed and finding.suppression is None
        else finding
        for finding in findings
    )
