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
ASK, FIX, EXPLAIN, HELP = "ask", "fix", "explain", "help"
#: The commands that are answered by a reply alone.
REPLIED = (ASK, FIX, EXPLAIN, HELP)
#: The only checks whose findings a comment may wave through.
OVERRIDABLE = ("ai-policy", "diff-budget", "scope", "test-bite", "test-guard")
#: What a comment may say, and what that does.
FORMS = {
    f"{PREFIX} {CHECK} [CHECK...]": "run the checks on the current head again",
    f"{PREFIX} {REVIEW}": "review the whole current head",
    **{
        f"{PREFIX} {OVERRIDE} {check}: REASON": f"accept what {check} finds, on this head"
        for check in OVERRIDABLE
    },
    f"{PREFIX} {ASK} QUESTION": "answer from the repository at the current head, with citations",
    f"{PREFIX} {FIX} [GOAL]": "set the label that starts the fix loop",
    f"{PREFIX} {EXPLAIN} RULE|FINDING": "explain a rule, or the finding of a review comment; in a "
    "reply to one, its own",
    f"{PREFIX} {HELP}": "list the commands",
}
GRAMMAR = tuple(FORMS)
#: Characters of a reason, as it is shown.
LONGEST_REASON = 300
#: Characters of a question, of a goal, and of what is to be explained.
LONGEST = {ASK: 2000, FIX: 1000, EXPLAIN: 300}
_SHOWN = 80


class SlashCommand(Value):
    """What a comment may say: ``checks`` of ``check`` and ``override``, ``reason`` of that.

    ``text`` is a question, a goal, or what is to be explained; "" for none.
    """

    name: str
    checks: tuple[str, ...] = ()
    reason: str = ""
    text: str = ""


def is_command(body: str) -> bool:
    """Whether a comment's first line begins with a command, known or not."""
    return _after_prefix(body) is not None


def _after_prefix(body: str) -> str | None:
    line = body.partition("\n")[0].rstrip("\r")
    tail = line.removeprefix(PREFIX)
    return None if tail == line or tail[:1] not in ("", " ", "\t") else tail


def parse(body: str) -> SlashCommand | None:
    """The command at the beginning of a comment's first line, None if there is none.

    Raises ConfigError for an unknown one.
    """
    line = _after_prefix(body)
    if line is None:
        return None
    name, _, argument = line.strip(" \t").replace("\t", " ").partition(" ")
    words = [word for word in argument.split(" ") if word]
    if name == CHECK:
        names = checks.names()
        for word in words:
            if word not in names:
                raise _refused(f"{_quoted(word)} is not a check; known checks: {', '.join(names)}")
        return SlashCommand(CHECK, tuple(dict.fromkeys(words)))
    if name == REVIEW:
        if words:
            raise _refused(f"{REVIEW} takes nothing more, such as {_quoted(words[0])}")
        return SlashCommand(REVIEW)
    if name == OVERRIDE:
        return _override(argument.strip(" "))
    if name in LONGEST:
        return _with_text(name, argument)
    if name == HELP:
        return SlashCommand(HELP)
    raise _refused(f"there is no command {_quoted(name)}" if name else "the command is missing")


def _with_text(name: str, command: str) -> SlashCommand:
    text, limit = printable(command.strip()), LONGEST[name]
    if not text and name == ASK:
        raise _refused("the question is missing")
    if len(text) > limit:
        raise _refused(f"{name} takes at most {limit:,} characters, and this has {len(text):,}")
    return SlashCommand(name, text=text)


def _override(command: str) -> SlashCommand:
    check, colon, text = command.partition(":")
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
