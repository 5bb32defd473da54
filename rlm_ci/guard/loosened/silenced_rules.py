"""Rules of linters, type checkers and coverage that a configuration switches off."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter

from rlm_ci.guard.lint_silencing import SILENCED
from rlm_ci.guard.new_silencers import EXPLAINED, says_why
from rlm_ci.guard.protected import config_sections
from rlm_ci.guard.weakening import Weakening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from rlm_ci.guard.weakening import TextChange

#: Rules that are named of one file.
_NAMED = 3

#: Sections of files that hold those of many tools.
_TOOLS = re.compile(
    r"^(?:tool\.)?(?:ruff|mypy|pylint|flake8|coverage|pyright|basedpyright|bandit|pydocstyle|ty"
    r"|pycodestyle|isort|black|MESSAGES CONTROL|lint|run|report|lints|workspace\.lints|per-file-"
    r"|ignore|extend-|select|disable|exclude)",
    re.IGNORECASE,
)
#: Keys whose lists name what is not looked at, and what is.
_OFF = re.compile(
    r"(?:^|[.-])(?:ignore|extend-ignore|disable|disable_error_code|omit|exclude|extend-exclude"
    r"|exclude_lines|exclude_also|skips|per-file-ignores)(?:$|\.)"
)
_ON = re.compile(r"(?:^|\.)(?:select|extend-select|enable|enable_error_code|(?<!paths\.)source)$")
#: Switches by which a tool says less, and more.
_LESS = re.compile(r"(?:^|\.)(?:ignore_errors|ignore_missing_imports|skip_empty|exit-zero)$")
_MORE = re.compile(
    r"(?:^|\.)(?:strict|strict_\w+|check_untyped_defs|disallow_\w+|warn_\w+|branch"
    r"|no_implicit_\w+|extra_checks)$"
)
#: What begins a comment that silences the tools with such switches.
_COMMENTS = {"mypy": "# type: ignore", "pyright": "# pyright: ignore", "ty": "# ty: ignore"}
#: The section of ruff that its rules stand in, or stood in front of.
_RUFF = re.compile(r"^(tool\.ruff\.)lint\.|^lint\.(?=(?:extend-)?select )")
_WORDS = re.compile(r"[^\s,\[\]\"']+")
#: Where rules are switched off one by one, in files of JavaScript's tools.
_RULE_OFF = re.compile(r"[\"']([\w@/-]{2,80})[\"']\s{0,4}:\s{0,4}\[?\s{0,4}(?:[\"']off[\"']|0\b)")
_RULED = re.compile(
    r"(?:^|/)(?:\.eslintrc[\w.]*|eslint\.config\.\w+|\.oxlintrc\.json|biome\.jsonc?)$"
)
#: A plugin whose rules have its name in front.
_PLUGIN = re.compile(r"\beslint-plugin-([\w-]{2,60})")
#: The file of Go's linters, and those that it may enable.
_LINTERS = re.compile(r"(?:^|/)\.golangci\.ya?ml$")
_ENABLED = re.compile(r"(?m)^ *- ([a-z][\w-]{2,40})$")
_STRICT = re.compile(r"\"(strict\w*|noImplicit\w+|noUnused\w+|noUnchecked\w+)\"\s{0,4}:\s{0,4}true")
_TSCONFIG = re.compile(r"(?:^|/)tsconfig[\w.]*\.json$")
#: Files that are all of one tool, and sectioned ones.
_SETTINGS = re.compile(
    r"(?:^|/)(?:\.?ruff\.toml|\.flake8|\.?mypy\.ini|tox\.ini|\.?pylintrc|\.coveragerc|setup\.cfg"
    r"|pyproject\.toml|cargo\.toml)$",
    re.IGNORECASE,
)


def is_read(path: str) -> bool:
    """Whether the file may have rules that :func:`switched_off` knows."""
    return any(one.search(path) for one in (_SETTINGS, _RULED, _TSCONFIG))


def switched_off(changes: Sequence[TextChange], gone: Collection[str] = ()) -> Iterator[Weakening]:
    """What the configuration says by now that makes a tool report less.

    A rule that is selected in the same change may be left out somewhere: that is no less. Nor is
    the new path of a file that stood at one of ``gone``. What says why beside it is a note.
    """
    known, chosen = Counter[str](), Counter[str]()
    for change in changes:
        known.update(map(_last, _silent(change.path, change.before or "")))
        chosen.update(map(_last, _heeded(change.path, change.after or "")))
    for change in changes:
        chosen.subtract(map(_last, _heeded(change.path, change.before or "")))
    fresh = tuple(rule for rule, number in chosen.items() if number > 0 and rule)
    is_replaced = any(one.after is None and _RULED.search(one.path) for one in changes)
    moved = {path.rpartition("/")[2] for path in known if path in gone}
    for change in changes:
        tools = {_tool(name) for name in _settings(change.path, change.before or "")}
        found = []
        for what in _silent(change.path, change.after or ""):
            known[_last(what)] -= 1
            is_adopted = _RULED.search(change.path) is None and _tool(what) not in tools
            is_moved = "/" in what and what.rpartition("/")[2] in moved
            rule = _last(what)
            is_fresh = rule.startswith(fresh) or any(new.startswith(rule) for new in fresh)
            if not (known[_last(what)] >= 0 or is_adopted or is_moved or is_fresh):
                found.append(what)
        is_new = change.before is None and is_replaced  # whether another linter has as much
        why = [one for one in found if is_new or _has_reason(_last(one), change)]
        for rule, told in ((SILENCED, [one for one in found if one not in why]), (EXPLAINED, why)):
            if told:
                more = f" and {len(told) - _NAMED:,} more" if len(told) > _NAMED else ""
                shown = ", ".join(one[:100] for one in told[:_NAMED])
                yield Weakening(rule, f"switches off: {shown}{more}", change.path)
    yield from _no_more(changes)


def _has_reason(rule: str, change: TextChange) -> bool:
    """Whether a comment beside a rule in a new line, or right above it, says why it is off."""
    known = set((change.before or "").split("\n"))
    lines = ["", *(change.after or "").split("\n")]
    pattern = re.compile(rf"(?<![\w-]){re.escape(rule)}(?![\w-])(.*)")
    found = ((above, pattern.search(line)) for above, line in pairwise(lines) if line not in known)
    return any(
        says_why(one[1]) or (above.strip().startswith(("#", "//")) and says_why(above))
        for above, one in found
        if one
    )


def tightened(changes: Sequence[TextChange]) -> tuple[str, ...]:
    """Rules that were off for all, or not selected, and the comments of tools that look at more."""
    silent, heeded = (
        [
            {what for one in changes for what in read(one.path, text(one) or "")}
            for text in (attrgetter("before"), attrgetter("after"))
        ]
        for read in (_silent, _heeded)
    )
    more = [*(silent[0] - silent[1]), *(heeded[1] - heeded[0])]
    rules = {_last(what) for what in more if not what.endswith(" ") and " " in what}
    tools = {_tool(what) for what in more if what.endswith(" ") or " " not in what}
    plugins = Counter[str]()
    for one in changes:
        if _RULED.search(one.path):
            plugins.update({f"{name}/" for name in _PLUGIN.findall(one.after or "")})
            plugins.subtract({f"{name}/": 2 for name in _PLUGIN.findall(one.before or "")})
        if _LINTERS.search(one.path):
            plugins.update(_ENABLED.findall(one.after or ""))
            plugins.subtract(dict.fromkeys(re.findall(r"[\w-]+", one.before or ""), 2))
    rules |= set(+plugins)
    return tuple(rules - {""} | {_COMMENTS[tool] for tool in tools & _COMMENTS.keys()})


def not_read(changes: Sequence[TextChange]) -> Iterator[tuple[str, str]]:
    """The files whose settings cannot be read, before or after; and why."""
    for one in changes:
        texts = (text for text in (one.before, one.after) if text)
        if _SETTINGS.search(one.path) and any(_read(one.path, text) is None for text in texts):
            yield one.path, "its settings cannot be read"


def _last(what: str) -> str:
    """A rule without the setting that names it."""
    return what.rpartition(" ")[2]


def _tool(name: str) -> str:
    parts = name.partition(" ")[0].split(".")
    return parts[1] if parts[0] == "tool" and len(parts) > 1 else parts[0]


def _silent(path: str, text: str) -> list[str]:
    """What a file switches off, each in words."""
    if _RULED.search(path):
        return [one[1] for one in _RULE_OFF.finditer(text)]
    found = []
    for name, value in _settings(path, text).items():
        if _OFF.search(name):
            found += [f"{name} {word}" for word in _listed(value)]
        elif _LESS.search(name) and value.strip('"').lower() in ("true", "1"):
            found.append(name)
    return found


def _no_more(changes: Sequence[TextChange]) -> Iterator[Weakening]:
    """What was looked at, and is not: rules that were selected, switches that were on."""
    heeded = [what for one in changes for what in _heeded(one.path, one.after or "")]
    after = {*heeded, *(_RUFF.sub(r"\1", what) for what in heeded)}
    for change in changes:
        if change.after is None and not after:  # the tool is gone, or set up elsewhere
            continue
        own = {what.rpartition(" ")[0] for what in _heeded(change.path, change.after or "")}
        for what in _heeded(change.path, change.before or ""):
            name = what.rpartition(" ")[0]
            all_of_them = f"{name.rpartition('.')[0]}.strict "
            if what in after or all_of_them in after:
                continue
            if name in own or _is_off(change, name):
                yield Weakening(SILENCED, f"no longer asks for: {what[:120].strip()}", change.path)


def _is_off(change: TextChange, name: str) -> bool:
    """Whether a switch was turned, and is not gone with all of its section."""
    if _TSCONFIG.search(change.path):
        return change.after is not None
    section = name.rpartition(".")[0]
    return any(
        one.rpartition(".")[0] == section for one in _settings(change.path, change.after or "")
    )


def _heeded(path: str, text: str) -> list[str]:
    if _TSCONFIG.search(path):
        plain = re.sub(r"(?m)//.*$", "", text)
        return [f"{one[1]} " for one in _STRICT.finditer(plain)]
    found = []
    for name, value in _settings(path, text).items():
        if _ON.search(name):
            found += [f"{name} {word}" for word in _listed(value)]
        elif _MORE.search(name) and value.strip('"').lower() in ("true", "1"):
            found.append(f"{name} ")
    return found


def _listed(value: str) -> list[str]:
    """The items of a setting; lines of a comment are none."""
    try:
        read = json.loads(value)
    except ValueError:
        read = value
    if isinstance(read, list):
        return [str(one) for one in read]
    return [word for word in _WORDS.findall(re.sub(r"#.*", "", str(read))) if word]


def _settings(path: str, text: str) -> dict[str, str]:
    """The settings of tools in a file by dotted names, as JSON; none if it cannot be read."""
    return (_SETTINGS.search(path) and text and _read(path, text)) or {}


@lru_cache(maxsize=64)
def _read(path: str, text: str) -> dict[str, str] | None:
    found = config_sections.settings(path, text.encode("utf-8", "surrogateescape"))
    return found and {name: value for name, value in found.items() if _TOOLS.search(name)}
