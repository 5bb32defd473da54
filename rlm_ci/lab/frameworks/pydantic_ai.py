"""Pydantic AI: an agent with native tool calls, which ends by an answer in text."""

from __future__ import annotations

import asyncio
import json
from functools import partial

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import (
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel

from rlm_ci.environments.tool_calls import from_tools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.lab.frameworks.episode import FrameworkEpisode


def run(episode: FrameworkEpisode) -> str:
    """One episode of an agent."""

    async def ask(messages: list[Any], info: Any) -> Any:
        history = [{"role": "system", "content": info.instructions}] if info.instructions else []
        for message in messages:
            history += _messages(message)
        completion = episode.ask(history, tools=bool(info.function_tools))
        calls = from_tools(completion.tool_calls, len(messages))
        parts = [TextPart(completion.text)] if completion.text else []
        parts += [ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in calls]
        is_cut = completion.finish_reason == "length"
        return ModelResponse(parts, finish_reason="length" if is_cut else None)

    # Tools that are coroutines run one after the other, in the order of the calls.
    tools = [
        Tool.from_schema(
            partial(_call, episode, tool["function"]["name"]),
            tool["function"]["name"],
            tool["function"]["description"],
            tool["function"]["parameters"],
            sequential=True,
        )
        for tool in episode.tools
    ]
    agent = Agent(
        FunctionModel(ask, model_name=episode.model),
        instructions=episode.system or None,
        tools=tools,
        retries=episode.bounds.mistakes,
    )
    return str(asyncio.run(agent.run(episode.goal, usage_limits=None)).output)


async def _call(episode: FrameworkEpisode, name: str, /, **arguments: Any) -> str:
    return episode.call(name, arguments)


def _messages(message: Any) -> list[dict[str, Any]]:
    """A message of Pydantic AI in OpenAI's format."""
    if isinstance(message, ModelResponse):
        text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
        calls = [
            {
                "id": part.tool_call_id,
                "type": "function",
                "function": {"name": part.tool_name, "arguments": _sound(part)},
            }
            for part in message.parts
            if isinstance(part, ToolCallPart)
        ]
        reply: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
        return [{**reply, "tool_calls": calls} if calls else reply]
    return [entry for part in message.parts if (entry := _part(part))]


def _sound(part: Any) -> str:
    """The arguments of a call, as endpoints accept them: a JSON object."""
    text = part.args_as_json_str()
    try:
        return text if isinstance(json.loads(text), dict) else "{}"
    except (ValueError, RecursionError):
        return "{}"


def _part(part: Any) -> dict[str, Any]:
    match part:
        case SystemPromptPart():
            return {"role": "system", "content": part.content}
        case UserPromptPart():
            return {"role": "user", "content": str(part.content)}
        case ToolReturnPart():
            content = part.model_response_str()
            return {"role": "tool", "tool_call_id": part.tool_call_id, "content": content}
        case RetryPromptPart() if part.tool_name:
            content = part.model_response()
            return {"role": "tool", "tool_call_id": part.tool_call_id, "content": content}
        case RetryPromptPart():
            return {"role": "user", "content": part.model_response()}
    return {}
