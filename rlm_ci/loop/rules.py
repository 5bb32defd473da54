"""The rules of the guard of a fix loop, and those that a user has allowed to be broken."""

from __future__ import annotations

from rlm_ci.errors import ConfigError
from rlm_ci.loop import hacks
from rlm_ci.settings import nearest
from rlm_ci.texts import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rlm_ci.findings import Finding

PREFIX = "tamper/"
#: What ``--allow-test-edits`` lifts.
OF_TESTS = frozenset(("tests-shrunk", "check-silenced", "dependency", "build-file"))
#: What is told, and refuses nothing.
TOLD = frozenset((hacks.EXIT, hacks.EQUAL, hacks.PATCHED))
RULES = OF_TESTS | TOLD | {
    "config-weakened", "protected-path", "startup-file", "shadowed-module", "rewritten", "secret",
    "too-large", "link", "submodule", "mode", "binary", "embedded-repository", "more", "disarmed",
    "environment",
}  # fmt: skip
_LISTED = sorted(f"{PREFIX}{name}" for name in RULES)


def known(names: Iterable[str], where: str) -> tuple[str, ...]:
    """The rules of these names, in full and once each; ``where`` says who has set them.

    Raises ConfigError for a rule that the guard does not have.
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
    """What to do about a finding of this rule."""
    if rule.removeprefix(PREFIX) in TOLD:
        return f"check that it is intended; --allow {rule} accepts it"
    first = "mend what the tool reports" if rule == f"{PREFIX}check-silenced" else "undo it"
    more = " or --allow-test-edits" if rule.removeprefix(PREFIX) in OF_TESTS else ""
    return f"{first}, or accept it with --allow {rule}{more} if the goal needs it"


def accepted(findings: Iterable[Finding], allowed: Collection[str]) -> tuple[Finding, ...]:
    """The findings, those of ``allowed`` rules marked: they are told and count for nothing."""
    return tuple(
        one.replace(suppression=f"allowed by --allow {one.rule}")
        if one.rule in allowed and one.suppression is None
        else one
        for one in findings
    )
