"""Google's Agent Development Kit: an agent with native tool calls, which ends by a text."""

from __future__ import annotations

import asyncio
import json

from google.adk.agents import LlmAgent, RunConfig
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import BaseTool
from google.genai import types

from rlm_ci.environments.tool_calls import from_tools
from rlm_ci.models import TokenUsage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from rlm_ci.environments.tool_calls import ToolCall
    from rlm_ci.lab.frameworks.episode import FrameworkEpisode

_APP, _USER, _SESSION = "rlm_ci", "user", "episode"
#: In the place of arguments that are no JSON object.
_BROKEN = "not_json"


class _Model(BaseLlm):
    """Our model as the kit asks one."""

    episode: object

    async def generate_content_async(
        self,
        llm_request: Any,
        stream: bool = False,  # noqa: ARG002, FBT001, FBT002 - of the kit
    ) -> AsyncIterator[Any]:
        episode: FrameworkEpisode = self.episode  # type: ignore[assignment]
        system = llm_request.config.system_instruction
        messages = [{"role": "system", "content": str(system)}] if system else []
        for content in llm_request.contents:
            messages += _messages(content)
        has_tools = bool(llm_request.config.tools)
        completion = episode.ask(messages, tools=has_tools)
        parts = [types.Part(text=completion.text)] if completion.text else []
        for call in from_tools(completion.tool_calls, len(llm_request.contents)):
            function = types.FunctionCall(id=call.id, name=call.name, args=_arguments(call))
            parts.append(types.Part(function_call=function))
        used = completion.usage or TokenUsage(0, 0)
        yield LlmResponse(
            content=types.Content(role="model", parts=parts),
            # Without it the kit warns. What counts is the ledger.
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=used.prompt_tokens,
                candidates_token_count=used.completion_tokens,
            ),
        )


class _Tool(BaseTool):
    """One of our tools as the kit calls it."""

    def __init__(self, episode: FrameworkEpisode, function: dict[str, Any]) -> None:
        super().__init__(name=function["name"], description=function["description"])
        self._episode = episode
        self._parameters = function["parameters"]

    def _get_declaration(self) -> Any:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=self._parameters,
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:  # noqa: ARG002
        return {"result": self._episode.call(self.name, args)}


def run(episode: FrameworkEpisode) -> str:
    """One episode of an agent."""
    return asyncio.run(_run(episode))


async def _run(episode: FrameworkEpisode) -> str:
    agent = LlmAgent(
        name="agent",
        model=_Model(model=episode.model, episode=episode),
        # A function, as the kit would fill in {names} in a text.
        instruction=lambda _context: episode.system,
        tools=[_Tool(episode, tool["function"]) for tool in episode.tools],
    )
    runner = InMemoryRunner(agent=agent, app_name=_APP)
    await runner.session_service.create_session(app_name=_APP, user_id=_USER, session_id=_SESSION)
    answer = ""
    goal = types.Content(role="user", parts=[types.Part(text=episode.goal)])
    config = RunConfig(max_llm_calls=episode.bounds.turns + 1)
    async for event in runner.run_async(
        user_id=_USER, session_id=_SESSION, new_message=goal, run_config=config
    ):
        if event.is_final_response() and event.content:
            answer = "".join(part.text or "" for part in event.content.parts or ())
    return answer


def _arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call; a text that is no JSON object fails our check of the tool."""
    try:
        value = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return {_BROKEN: call.arguments[:200]}
    return value if isinstance(value, dict) else {_BROKEN: call.arguments[:200]}


def _messages(content: Any) -> list[dict[str, Any]]:
    """A message of the kit in OpenAI's format."""
    results = [part.function_response for part in content.parts or () if part.function_response]
    if results:
        return [
            {"role": "tool", "tool_call_id": result.id, "content": _result(result.response)}
            for result in results
        ]
    text = "".join(part.text or "" for part in content.parts or ())
    if content.role != "model":
        return [{"role": "user", "content": text}]
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.args or {})},
        }
        for part in content.parts or ()
        if (call := part.function_call)
    ]
    reply: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    return [{**reply, "tool_calls": calls} if calls else reply]


def _result(response: Any) -> str:
    if isinstance(response, dict) and list(response) == ["result"]:
        return str(response["result"])
    return json.dumps(response, default=str)
