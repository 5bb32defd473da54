"""The grammar of commands in comments on a pull request.

Anybody can comment, so there are no options, paths or addresses.
"""

from __future__ import annotations

from rlm_ci import checks
from rlm_ci.errors import ConfigError
from rlm_ci.text import dates
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

PREFIX = "/rlm-ci"
CHECK, REVIEW, OVERRIDE = "check", "review", "override"
#: The only checks whose findings a comment may wave through.
OVERRIDABLE = ("diff-budget", "test-guard")
GRAMMAR = (
    f"{PREFIX} {CHECK} [CHECK...]",
    f"{PREFIX} {REVIEW}",
    *(f"{PREFIX} {OVERRIDE} {check}: REASON" for check in OVERRIDABLE),
)
#: Characters of a reason, as it is shown.
LONGEST_REASON = 300
_SHOWN = 80


class SlashCommand(Value):
    """What a comment may say: ``checks`` of ``check`` and ``override``, ``reason`` of that."""

    name: str
    checks: tuple[str, ...] = ()
    reason: str = ""


def parse(body: str) -> SlashCommand | None:
    """The command at the beginning of a comment's first line, None if there is none.

    Raises ConfigError for an unknown one.
    """
    line = body.partition("\n")[0].rstrip("\r")
    rest = line.removeprefix(PREFIX)
    if rest == line or rest[:1] not in ("", " ", "\t"):
        return None
    name, _, said = rest.strip(" \t").replace("\t", " ").partition(" ")
    words = [word for word in said.split(" ") if word]
    if name == CHECK:
        known = checks.names()
        for word in words:
            if word not in known:
                raise _refused(f"{_quoted(word)} is not a check; known checks: {', '.join(known)}")
        return SlashCommand(CHECK, tuple(dict.fromkeys(words)))
    if name == REVIEW:
        if words:
            raise _refused(f"{REVIEW} takes nothing more, such as {_quoted(words[0])}")
        return SlashCommand(REVIEW)
    if name == OVERRIDE:
        return _override(said.strip(" "))
    raise _refused(f"there is no command {_quoted(name)}" if name else "the command is missing")


def _override(said: str) -> SlashCommand:
    check, colon, text = said.partition(":")
    check = check.rstrip(" ")
    if check not in OVERRIDABLE:
        raise _refused(f"{_quoted(check)} cannot be overridden by a comment")
    reason = printable(text.strip())
    if not colon or not reason:
        raise _refused(f"an override of {check} needs a reason")
    if len(reason) > LONGEST_REASON:
        raise _refused(f"the reason has {len(reason):,} characters, more than {LONGEST_REASON}")
    if flaw := dates.flaw_of_end(reason, dates.today()):
        raise _refused(f"the override of {check} is not valid: {flaw}")
    return SlashCommand(OVERRIDE, (check,), reason)


def _refused(what: str) -> ConfigError:
    return ConfigError(what, where="the comment", hint=f"commands are: {', '.join(GRAMMAR)}")


def _quoted(text: str) -> str:
    return repr(printable(text[:_SHOWN])[:_SHOWN])
