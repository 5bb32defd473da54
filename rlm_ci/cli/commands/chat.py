"""``rlm-ci chat``: a conversation whose turns are episodes."""

from __future__ import annotations

import os

from rlm_ci import errors
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import BUDGET, CHAT, EPISODE, LOOP, MODEL
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.console.messages import say
from rlm_ci.errors import UsageError
from rlm_ci.lab.chat import ChatSession
from rlm_ci.pipelines import definition, stored_runs
from rlm_ci.pipelines.stored_runs import OUT_DIR, SANDBOX
from rlm_ci.solve import foreground

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments

SUMMARY = "talk to a model that remembers what was said before"
USAGE = "MESSAGE [--session-id ID] [OPTION...] | --session-id ID --reset"
TAKES = ("one message", 0, 1)
EXAMPLES = ('rlm-ci chat "And of these, which failed twice?" --session-id orders',)
EXITS = {
    errors.OK: "there is an answer",
    errors.FINDINGS: "the episode ended without one",
    errors.LIMIT: "the steps or another budget are used up",
}
_OWN = (
    Setting("reset", "forget what was said in the conversation", default=False, kind="boolean",
            flag="--reset", file=False, own_env=False),
)  # fmt: skip
_CODE = tuple(row for row in LOOP if row.key in ("loop.validator", "loop.apply"))
ROWS = (*COMMON, *CHAT, *EPISODE, *_OWN, *_CODE, *SANDBOX, *OUT_DIR, *MODEL, *BUDGET)
_DEFAULT = "default"


def run(arguments: Arguments) -> int:
    flags = {"chat.session_id": _DEFAULT, **arguments.flags}
    is_reset = flags.pop("reset", False)
    settings = stored_runs.settings_of(flags)
    message = arguments.words[0] if arguments.words else ""
    if not (message.strip() or is_reset):
        raise UsageError("there is no message", where="rlm-ci chat", hint='rlm-ci chat "MESSAGE"')
    if is_reset:
        _forget(settings)
    if not message.strip():
        return errors.OK
    return foreground.conduct(definition.EPISODE, settings, flags, message)


def _forget(settings: Settings) -> None:
    runs = stored_runs.StoredRuns(settings)
    folder = os.path.join(runs.store.root, runs.task_or_own())
    session = ChatSession(folder, settings.chat.session_id)
    say(f"{session.id} is forgotten" if session.forget() else f"{session.id} has not begun")
