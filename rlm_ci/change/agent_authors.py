"""Which coding agents wrote a change: one table of what each leaves behind, and nothing guessed.

An agent says so itself: as author or co-author of a commit, by a line of its message, by a variable
that it sets for the commands that it runs, or by a record of Agent Trace. A name that people bear
too, such as Claude or Devin, proves nothing.
"""

from __future__ import annotations

import os

from rlm_ci.change.commit_messages import login
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any

    from rlm_ci.change.commit_messages import CommitMessage
    from rlm_ci.git.repository import Repository


class CodingAgent(Value):
    """A coding agent.

    ``names`` are how texts call it, in letters and digits; ``emails`` and ``logins`` (on GitHub)
    are those of authors; ``trailers`` are keys that only it writes; ``variables`` are what it sets
    for the commands that it runs.
    """

    name: str
    names: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    logins: tuple[str, ...] = ()
    trailers: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


#: Each with the source of its facts.
AGENTS = (
    # Seen in Claude Code 2.1.197, 2.1.332; the action's bot_name.
    CodingAgent("Claude Code", ("claudecode", "claude"), ("noreply@anthropic.com",),
                ("claude[bot]",), ("claude-session",), ("CLAUDECODE",)),
    # Seen in Codex 0.171; its shell_environment.rs, process_manager.rs;
    # chaoss/ai-detection-action.
    CodingAgent("Codex", ("codex", "codexcli", "openaicodex"), ("noreply@openai.com",),
                ("chatgpt-codex-connector[bot]",), (),
                ("CODEX_THREAD_ID", "CODEX_CI", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED")),
    # Seen in Gemini CLI 0.61; its docs/tools/shell.md.
    CodingAgent("Gemini CLI", ("geminicli", "gemini"), variables=("GEMINI_CLI",)),
    # Seen in commits of keyv.
    CodingAgent("Gemini Code Assist", ("geminicodeassist",), (), ("gemini-code-assist[bot]",)),
    # Seen in commits of Agent Trace, zod, pytest; @vercel/detect-agent; mise-agent-env;
    # chaoss/ai-detection-action.
    CodingAgent("Cursor", ("cursor", "cursoragent", "cursorcli"), ("cursoragent@cursor.com",),
                ("cursoragent", "cursor[bot]"), (), ("CURSOR_AGENT", "CURSOR_SANDBOX")),
    # Seen in Copilot CLI 1.0.102, its changelog; VS Code: git.addAICoAuthor,
    # toolTerminalCreator.ts; mise-agent-env; commits of the MCP C# SDK.
    CodingAgent("GitHub Copilot", ("githubcopilot", "copilot", "copilotcli", "githubcopilotcli",
                                   "githubcopilotvscodeagent"),
                ("copilot@github.com",), ("copilot", "copilot-swe-agent[bot]"),
                ("copilot-session", "agent-logs-url"),
                ("COPILOT_CLI", "COPILOT_AGENT", "COPILOT_AGENT_SESSION_ID",
                 "COPILOT_AGENT_JOB_ID")),
    # Seen in Aider 0.86.2, repo.py; its own commits.
    CodingAgent("Aider", ("aider",),
                ("aider@aider.chat", "noreply@aider.chat", "noreply@aider.dev")),
    # Seen in commits of zod.
    CodingAgent("Devin", ("devin", "devinai"), (), ("devin-ai-integration[bot]",)),
    # Seen in public pull requests.
    CodingAgent("Jules", ("jules", "googlejules"), (), ("google-labs-jules[bot]",)),
    # Seen in commits of beads; am-i-vibing.
    CodingAgent("Amp", ("amp",), ("amp@ampcode.com",), (), ("amp-thread-id",),
                ("AMP_CURRENT_THREAD_ID",)),
    # Seen in opencode 1.18.34; commits of fastmcp; public pull requests.
    CodingAgent("opencode", ("opencode",), ("noreply@opencode.ai",), ("opencode-agent[bot]",), (),
                ("OPENCODE",)),
    # Seen in its source, the shell tool.
    CodingAgent("goose", ("goose",), variables=("GOOSE_TERMINAL",)),
    # Seen in its source, the tool bash and shell.go.
    CodingAgent("Crush", ("crush",), ("crush@charm.land",), (), (), ("CRUSH",)),
    # Seen in Qwen Code 0.15.10.
    CodingAgent("Qwen Code", ("qwencode",), ("qwen-coder@alibabacloud.com",), (), (),
                ("QWEN_CODE",)),
    # Seen in Auggie 0.36.0.
    CodingAgent("Auggie", ("auggie",), variables=("AUGMENT_AGENT",)),
    # Seen in its documentation; mise-agent-env.
    CodingAgent("Cline", ("cline",), variables=("CLINE_ACTIVE", "CLINE_TASK_ID")),
    # Seen in trailers in public repositories.
    CodingAgent("Junie", ("junie",), ("junie@jetbrains.com",)),
    # Seen in commits of beads.
    CodingAgent("Factory Droid", ("factorydroid", "droid"), (), ("factory-droid[bot]",)),
    # Seen in its prompt.
    CodingAgent("OpenHands", ("openhands",), ("openhands@all-hands.dev",)),
    # Seen in public pull requests.
    CodingAgent("Kiro", ("kiro",), (), ("kiro-agent[bot]",)),
    # Seen in @vercel/detect-agent.
    CodingAgent("Antigravity", ("antigravity",), variables=("ANTIGRAVITY_AGENT",)),
    # Seen in am-i-vibing.
    CodingAgent("Pi", (), variables=("PI_CODING_AGENT",)),
    # Seen in mise-agent-env.
    CodingAgent("Grok", ("grok", "grokcli"), variables=("GROK_AGENT",)),
    # Seen in mise-agent-env; the telemetry of the .NET SDK.
    CodingAgent("Roo Code", ("roocode",), variables=("ROO_CODE_TASK_ID",)),
    # Seen in mise-agent-env.
    CodingAgent("Trae", ("trae",), variables=("TRAE_AI_SHELL_ID",)),
)  # fmt: skip
#: What is said where a record names no agent of the table.
UNNAMED = "an agent"
#: Where the reference implementation of Agent Trace keeps its records; the format names no place.
TRACES = ".agent-trace/traces.jsonl"

_NAMES = {name: agent.name for agent in AGENTS for name in agent.names}
_EMAILS = {email: agent.name for agent in AGENTS for email in agent.emails}
_LOGINS = {login: agent.name for agent in AGENTS for login in agent.logins}
_TRAILERS = {key: agent.name for agent in AGENTS for key in agent.trailers}
#: Names that people bear too: an author of that name is an agent by the address alone.
_PERSONAL = {"amp", "claude", "cline", "crush", "devin", "droid", "goose", "grok", "jules", "junie",
             "kiro", "trae"}  # fmt: skip
#: Trailers of people and agents; those of the second kind name tools alone.
_PEOPLE = ("co-authored-by", "co-developed-by")
_TOOLS = ("assisted-by", "generated-by", "generated-with", "made-with")
#: Those whose value is a tool, whatever its name.
_ATTRIBUTIONS = ("assisted-by", "generated-by")
_SIGNATURES = ("generated with ", "generated by ", "made with ")
#: Aider's mark in the name of an author. In that of a committer it is also on people's commits.
_AIDER = " (aider)"
#: Bytes of the list of a shallow clone's ends.
_LIMIT = 64 << 20


class CommitAuthors(Value):
    """Who wrote the commits of a change, merges left out.

    ``agents`` has the commits of each agent, ``bots`` those whose author is any bot. ``is_cut``:
    the clone is shallow and may lack some.
    """

    commits: frozenset[str] = frozenset()
    agents: Mapping[str, frozenset[str]] = {}
    bots: frozenset[str] = frozenset()
    is_cut: bool = False

    def __or__(self, other: CommitAuthors) -> CommitAuthors:
        agents = {
            name: self.agents.get(name, frozenset()) | other.agents.get(name, frozenset())
            for name in (*self.agents, *other.agents)
        }
        commits, bots = self.commits | other.commits, self.bots | other.bots
        return CommitAuthors(commits, agents, bots, self.is_cut or other.is_cut)

    def counted(self) -> tuple[tuple[str, int], ...]:
        """Each agent with the number of its commits, the most first."""
        numbers = ((name, len(commits)) for name, commits in self.agents.items())
        return tuple(sorted(numbers, key=lambda pair: (-pair[1], pair[0])))


def of_messages(repository: Repository, messages: Iterable[CommitMessage]) -> CommitAuthors:
    """The authors of the commits with these messages."""
    commits, bots, agents = set[str](), set[str](), dict[str, set[str]]()
    for message in messages:
        commits.add(message.commit)
        if message.is_by_bot:
            bots.add(message.commit)
        for agent in of_message(message):
            agents.setdefault(agent, set()).add(message.commit)
    return CommitAuthors(
        frozenset(commits),
        {name: frozenset(some) for name, some in agents.items()},
        frozenset(bots),
        is_cut=not _ends(repository).isdisjoint(commits),
    )


def of_message(message: CommitMessage) -> set[str]:
    """The agents that a commit says wrote it, as author or by a line of its message."""
    return {*_authors(message.author, message.email), *signed(message.text)}


def author_agents(message: CommitMessage) -> set[str]:
    """The agents that are the author of a commit."""
    return set(_authors(message.author, message.email))


def trailers(text: str) -> Iterator[tuple[str, str]]:
    """The key of each line that names an agent or a tool, with the agent; a key in small letters.

    ``generated`` stands for lines such as ``Generated with [Name](url)``. A trailer for tools alone
    that names none of the table is one of an unnamed agent.
    """
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        key = key.strip().lower()
        agent = _of_line(line)
        if colon and key in _ATTRIBUTIONS and value.strip():
            agent = agent or UNNAMED
        if agent:
            yield (key if colon and key in (*_PEOPLE, *_TOOLS, *_TRAILERS) else "generated"), agent


def signers(text: str) -> Iterator[str]:
    """The agents that sign off."""
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        name, _, email = value.partition("<")
        is_signature = colon and key.strip().lower() == "signed-off-by"
        if is_signature and (agent := _by_author(name.strip(), email.partition(">")[0])):
            yield agent


def signed(text: str) -> set[str]:
    """The agents that a commit's message, or the body of a pull request, says wrote it."""
    return set(filter(None, map(_of_line, text.splitlines())))


def running(environ: Mapping[str, str]) -> str:
    """The agent that runs this command, by its environment; "" for none."""
    values = {name: value for name, value in environ.items() if value not in ("", "0", "false")}
    for agent in AGENTS:
        if not values.keys().isdisjoint(agent.variables):
            return agent.name
    value = values.get("AI_AGENT", "")
    # Other programs than agents know AGENT.
    return agent_by_name(value) or (UNNAMED if value else agent_by_name(values.get("AGENT", "")))


def as_agent(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` as of a command that an agent runs."""
    return {**environ, "AI_AGENT": environ.get("AI_AGENT") or "1"}


def agent_by_name(text: str) -> str:
    """The agent that ``text`` names, with or without a version behind it; "" for none."""
    name = text
    for sign in ":@/_(":
        name = name.partition(sign)[0]
    return _NAMES.get(_letters(text)) or _NAMES.get(_letters(name), "")


def traced(
    records: Iterable[str], paths: Collection[str], revisions: Collection[str] | None
) -> set[str]:
    """The agents that records of Agent Trace name for these paths.

    ``revisions`` are the commits that count, None for any. What is no record counts for nothing.
    """
    agents = set[str]()
    for line in records:
        record = _record(line)
        revision = _dict(record.get("vcs")).get("revision")
        if revisions is not None and revision not in revisions:
            continue
        touched = [_dict(file) for file in _list(record.get("files"))]
        if any(file.get("path") in paths and _is_by_agent(file) for file in touched):
            tool = _dict(record.get("tool")).get("name")
            agents.add((agent_by_name(tool) if isinstance(tool, str) else "") or UNNAMED)
    return agents


def _ends(repository: Repository) -> set[str]:
    """The commits whose parents a shallow clone lacks."""
    try:
        data = files.read(os.path.join(repository.common_dir, "shallow"), _LIMIT)
    except files.UnreadableError:
        return set()
    return set(data.decode("ascii", "replace").split())


def _authors(name: str, email: str) -> Iterator[str]:
    if name.endswith(_AIDER):
        yield _NAMES["aider"]
    if agent := _by_author(name, email):
        yield agent


def _by_author(name: str, email: str) -> str:
    email = email.strip().lower()
    if agent := _EMAILS.get(email) or _LOGINS.get(login(email), ""):
        return agent
    name = _letters(name.partition("(")[0])
    return "" if email and name in _PERSONAL else _NAMES.get(name, "")


def _of_line(line: str) -> str:
    """The agent of a line ``Key: value``, or ``Generated with [Name](url)``; "" for any other."""
    key, colon, value = line.partition(":")
    key = key.lower()
    if colon and key in _TRAILERS:
        return _TRAILERS[key]
    if colon and key in (*_PEOPLE, *_TOOLS):
        name, _, email = value.partition("<")
        agent = _by_author(name, email.partition(">")[0])
        return agent or (agent_by_name(name) if key in _TOOLS else "")
    # An emoji may stand before it.
    text = line[next((at for at, char in enumerate(line[:8]) if char.isascii()), 0) :].lstrip()
    sign = next((sign for sign in _SIGNATURES if text.lower().startswith(sign)), "")
    name = text[len(sign) :] if sign else ""
    return _NAMES.get(_letters(name[1:].partition("]")[0] if name.startswith("[") else name), "")


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


# ── Agent Trace ──


def _record(line: str) -> dict[str, Any]:
    import json

    try:
        return _dict(json.loads(line))
    except (ValueError, RecursionError):
        return {}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_by_agent(file: Mapping[str, Any]) -> bool:
    """Whether one of the conversations about a file, or a range of lines, has an agent's code."""
    talks = [_dict(talk) for talk in _list(file.get("conversations"))]
    ranges = [_dict(line_range) for talk in talks for line_range in _list(talk.get("ranges"))]
    kinds = [_dict(part.get("contributor")).get("type") for part in (*talks, *ranges)]
    return "ai" in kinds or "mixed" in kinds
