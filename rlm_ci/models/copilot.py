"""GitHub's models, asked through Copilot: the package ``github-copilot-sdk``.

The package starts the program ``copilot`` and talks to it. Each question is a session of its own,
without tools and without Copilot's own prompt, in an empty folder: the model reads what a request
holds, and nothing of the machine. The program alone knows the address and the retries of the
service. It takes no cap on the tokens of an answer.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import shutil
import threading
import time
from contextlib import ExitStack, suppress
from http import HTTPStatus

from rlm_ci.errors import RemoteError, UnavailableError
from rlm_ci.models import Completion, SpentError, TokenUsage, is_wish
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.system import files, installation
from rlm_ci.text.printable import printable
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final

    from rlm_ci.models import Message, ModelRequest

#: The program, and where npm has it.
PROGRAM: Final = "copilot"
PACKAGE: Final = "@github/copilot"
#: The newest version that was tried.
TRIED: Final = "1.0.102"
TOKEN: Final = "COPILOT_GITHUB_TOKEN"  # noqa: S105 - the name of a variable
#: What the program hears of the environment: its files, the way to GitHub, and which GitHub.
VARIABLES: Final = frozenset((
    "PATH", "HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA", "SYSTEMROOT", "TMPDIR", "TEMP",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
    "GH_HOST", "COPILOT_GH_HOST", "COPILOT_API_URL", "COPILOT_CACHE_HOME", TOKEN,
))  # fmt: skip
_SERVERS: Final = ["github-mcp-server", "githubiq"]
_START: Final = 60.0
_END: Final = 10.0
_MESSAGE: Final = 300
_PERMISSION: Final = (
    f"the token in {TOKEN} needs the permission copilot-requests: write; the organization must "
    "let Copilot CLI be billed to it"
)
_LATER: Final = "resume the run; if it stays so, use another model"


class CopilotModel(Closing):
    """A model at GitHub, with one program for all threads, started when first asked.

    ``variables`` are what the program hears of the environment, with the token. Raises
    UnavailableError where the package or the program is not installed.
    """

    name = "github"

    def __init__(
        self,
        variables: Mapping[str, str],
        *,
        own_name: Callable[[str], str] = str,
        seconds: float = 120,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._variables = {name: variables[name] for name in VARIABLES & variables.keys()}
        self._own_name = own_name
        self._seconds = seconds
        self._clock = clock
        self._redact = Redactor({TOKEN: self._variables.get(TOKEN, "")}).text
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread
        self._client: Any = None
        self._folder = ExitStack()

    def complete(self, request: ModelRequest) -> Completion:
        """See Model. The program itself asks a busy service again."""
        form = request.response_format
        if request.tools or (form is not None and not is_wish(form)):
            lack = "tools" if request.tools else "JSON schemas"
            raise RemoteError(
                f"the endpoint does not support {lack}",
                where=self._where(request.model),
                hint="use another provider",
            )
        seconds = min(self._seconds, request.seconds or self._seconds)
        try:
            loop = self._started()
            question = self._complete_once(request, self._clock() + seconds)
            return asyncio.run_coroutine_threadsafe(question, loop).result()
        except RemoteError as error:
            error.where = error.where or self._where(request.model)
            error.what = self._redact(error.what)
            error.args = (error.what,)
            raise

    def context_tokens(self, model: str) -> int | None:
        """The tokens that ``model`` reads in one prompt; None where GitHub does not say it."""
        name = self._own_name(model)
        loop = self._started()
        rows = asyncio.run_coroutine_threadsafe(self._listed(), loop).result()
        candidates = (row.capabilities.limits for row in rows if row.id == name)
        limits = next(candidates, None)
        if limits is None:
            return None
        figures = (limits.max_prompt_tokens, limits.max_context_window_tokens)
        return min((figure for figure in figures if figure), default=None)

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
            client, self._client = self._client, None
        atexit.unregister(self.close)
        if loop is not None:
            asyncio.run_coroutine_threadsafe(_stopped(client), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(_END)
        self._folder.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        """The loop of the program. Raises UnavailableError, RemoteError."""
        with self._lock:
            if self._loop is None:
                client = _new_client(self._variables, self._folder)
                atexit.register(self.close)  # a run does not close its model
                loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(loop,), daemon=True)
                self._thread.start()
                self._loop, self._client = loop, client
                started = asyncio.wait_for(client.start(), _START)
                try:
                    asyncio.run_coroutine_threadsafe(started, loop).result()
                except Exception as error:  # noqa: BLE001 - whatever keeps a program from starting
                    raise RemoteError(
                        f"{PROGRAM} does not start: {_error_text(str(error))}",
                        where=self._variables.get("PATH", ""),
                        hint=f"install it again: npm install --global {PACKAGE}@{TRIED}",
                    ) from None
            return self._loop

    async def _listed(self) -> list[Any]:
        """The models that GitHub lists; none where it lists them not."""
        with suppress(Exception):
            rows: list[Any] = await asyncio.wait_for(self._client.list_models(), _END)
            return rows
        return []

    async def _complete_once(self, request: ModelRequest, deadline: float) -> Completion:
        """One question, in a session that is deleted afterwards."""
        heard: list[Any] = []
        system, prompt = texts_of(request.messages)
        name = self._own_name(request.model)
        session = None
        try:
            session = await self._client.create_session(
                model=name,
                system_message={"mode": "replace", "content": system},
                available_tools=[],
                disabled_mcp_servers=_SERVERS,
                streaming=False,
                enable_session_telemetry=False,
                infinite_sessions={"enabled": False},  # which would shorten a long prompt
                on_event=lambda event: heard.append(event.data),
            )
            left = max(0.001, deadline - self._clock())
            reply = await session.send_and_wait(prompt, timeout=left)
        except TimeoutError:
            # The program still asked a service that refused: nothing was spent.
            failed = _last(heard, "ModelCallFailureData")
            if failed is not None and failed.status_code == HTTPStatus.TOO_MANY_REQUESTS:
                reply = failed.error_message or ""
                raise _refused(name, reply, failed.status_code) from None
            raise SpentError(
                "the answer did not come in time",
                hint="allow more time: models.timeout",
            ) from None
        except Exception as error:  # noqa: BLE001 - the package raises no narrower one
            if (usage := _usage(heard)) is not None:
                raise SpentError(_error_text(str(error)), hint=_LATER, usage=usage) from None
            status = getattr(_last(heard, "SessionErrorData"), "status_code", None)
            raise _refused(name, str(error), status) from None
        finally:
            if session is not None:
                with suppress(Exception):
                    await session.disconnect()
                    await self._client.delete_session(session.session_id)
        return _completion(reply, heard, request.model)

    def _where(self, model: str) -> str:
        return f"GitHub Copilot, model {printable(self._own_name(model)[:100])}"


def program(path: str) -> str | None:
    """Where the program is, in the folders of ``path``; None if it is not installed."""
    return shutil.which(PROGRAM, path=path)


def texts_of(messages: tuple[Message, ...]) -> tuple[str, str]:
    """The system's text, and all else as one prompt: a session begins with one message."""
    system = "\n\n".join(
        str(message["content"]) for message in messages if message["role"] == "system"
    )
    dialogue = [message for message in messages if message["role"] != "system"]
    if len(dialogue) == 1:
        return system, str(dialogue[0]["content"])
    turns = (f"[{message['role']}]\n{message.get('content') or ''}" for message in dialogue)
    return system, "\n\n".join([*turns, "Answer the last message of this conversation."])


def _new_client(variables: Mapping[str, str], stack: ExitStack) -> Any:
    """A client of the program; ``stack`` removes its folder. Raises UnavailableError."""
    try:
        from copilot import CopilotClient, RuntimeConnection
    except ImportError:
        raise UnavailableError(
            "the package github-copilot-sdk is not installed",
            where="models",
            hint=installation.command("copilot"),
        ) from None
    path = program(variables.get("PATH", os.defpath))
    if path is None:
        raise UnavailableError(
            f"the program {PROGRAM} is not installed",
            where="models",
            hint=f"npm install --global {PACKAGE}@{TRIED}",
        )
    # It would print what it raises as well.
    log = logging.getLogger("copilot")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    folder = stack.enter_context(files.scratch("rlm-ci-copilot-"))
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    return CopilotClient(
        mode="empty",
        base_directory=os.path.join(folder, "state"),
        working_directory=empty,
        connection=RuntimeConnection.for_stdio(path=path),
        env={**variables, "COPILOT_AUTO_UPDATE": "false"},
    )


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


async def _stopped(client: Any) -> None:
    """End the program, and close its pipes, which the package leaves open."""
    process = client._cli_process  # noqa: SLF001 - it has no other name
    with suppress(Exception):
        await asyncio.wait_for(client.stop(), _END)
    for pipe in (process.stdin, process.stdout, process.stderr) if process else ():
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _completion(answer: Any, heard: Sequence[Any], model: str) -> Completion:
    """Raises SpentError for an answer without text."""
    text, usage = answer.data.content if answer is not None else "", _usage(heard)
    if not text:
        raise SpentError("the answer is empty", hint=_LATER, usage=usage)
    reason = getattr(_last(heard, "AssistantUsageData"), "finish_reason", None) or "stop"
    return Completion(text, (), reason, answer.data.model or model, usage)


def _usage(heard: Sequence[Any]) -> TokenUsage | None:
    """What GitHub counted; None without a plausible count."""
    used = _last(heard, "AssistantUsageData")
    if used is None or not used.input_tokens or used.output_tokens is None:
        return None
    cached = min(used.cache_read_tokens or 0, used.input_tokens)
    return TokenUsage(used.input_tokens, used.output_tokens, cached)


def _last(heard: Sequence[Any], kind: str) -> Any:
    """The last event of a kind, by the name of its class; None without one."""
    return next((event for event in reversed(heard) if type(event).__name__ == kind), None)


def _error_text(message: str) -> str:
    return printable(message.removeprefix("Session error: "))[:_MESSAGE]


def _refused(model: str, message: str, status: int | None) -> RemoteError:
    """The error of a question without an answer."""
    reason = _error_text(message)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) or "authenticate" in message:
        return RemoteError(f"GitHub refused the token: {reason}", hint=_PERMISSION)
    if "is not available" in message:
        return RemoteError(
            f"GitHub does not know the model {printable(model[:100])}: {reason}",
            hint="name one that your plan has, or github:auto",
        )
    if status in (HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.TOO_MANY_REQUESTS):
        return RemoteError(
            f"a limit of Copilot is reached ({status}): {reason}",
            hint="what was done is kept: resume the run when there is room again",
        )
    suffix = f" ({status})" if status else ""
    return RemoteError(f"GitHub gave no answer{suffix}: {reason}", hint=_LATER)
