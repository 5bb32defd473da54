"""Rules of linters, type checkers and coverage that a configuration switches off."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache
from operator import attrgetter

from rlm_ci.guard.lint_silencing import SILENCED
from rlm_ci.guard.new_silencers import EXPLAINED, Tightened, says_why, selects
from rlm_ci.guard.protected import config_sections
from rlm_ci.guard.weakening import REPLACED, Weakening

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
#: Keys whose lists name the paths that a tool looks at.
_PATHS = ("files", "include", "source", "src", "packages", "paths")
#: What ruff looks for by itself.
_BY_DEFAULT = ("E", "F")
#: What begins a comment that silences the tools with such switches.
_COMMENTS = {"mypy": "# type: ignore", "pyright": "# pyright: ignore", "ty": "# ty: ignore"}
#: What stands in front of a setting by the file and the section that it is in.
_PLACE = re.compile(
    r"^(?:tool\.)?(?:(?:ruff|coverage)[.:])?(?:lint\.)?(?:extend-(?=select|ignore))?"
    r"|(?<=^flake8\.)extend-(?=select|ignore)"
)
#: A rule on a line of its own, with nothing behind it; or the beginning of a list of them.
_ITEM = re.compile(r"\s*[\"'][^\"']{1,99}[\"']\s*,?\s*$|[\w.\"'-]+\s*=\s*\[\s*$")
_WORDS = re.compile(r"[^\s,\[\]\"']+")
#: Where rules are switched off one by one, in files of JavaScript's tools.
_RULE_OFF = re.compile(r"[\"']([\w@/-]{2,80})[\"']\s{0,4}:\s{0,4}\[?\s{0,4}(?:[\"']off[\"']|0\b)")
_RULED = re.compile(
    r"(?:^|/)(?:\.eslintrc[\w.]*|eslint\.config\.\w+|\.oxlintrc\.json|biome\.jsonc?)$"
)
#: A plugin whose rules have its name in front, and one whose rules have letters of their own.
_PLUGIN = re.compile(r"(?:(@[\w-]{1,60})/)?\beslint-plugin(?:-([\w-]{2,60}))?")
_LETTERED = re.compile(r"\b(?:flake8-[a-z][\w-]{1,60}|pep8-naming)")
#: The file of Go's linters, and those that it may enable.
_LINTERS = re.compile(r"(?:^|/)\.golangci\.ya?ml$")
_ENABLED = re.compile(r"(?m)^ *- ([a-z][\w-]{2,40})$")
_STRICT = re.compile(r"\"(strict\w*|noImplicit\w+|noUnused\w+|noUnchecked\w+)\"\s{0,4}:\s{0,4}true")
_TSCONFIG = re.compile(r"(?:^|/)tsconfig[\w.-]*\.json$")
#: Files that are all of one tool, and sectioned ones.
_SETTINGS = re.compile(
    r"(?:^|/)(?:\.?ruff\.toml|\.flake8|\.?mypy\.ini|tox\.ini|\.?pylintrc|\.coveragerc|setup\.cfg"
    r"|pyproject\.toml|cargo\.toml)$",
    re.IGNORECASE,
)


def is_read(path: str) -> bool:
    """Whether the file may have rules that :func:`switched_off` knows."""
    return any(pattern.search(path) for pattern in (_SETTINGS, _RULED, _TSCONFIG))


def switched_off(
    changes: Sequence[TextChange], gone: Collection[str] = (), runs: Sequence[TextChange] = ()
) -> Iterator[Weakening]:
    """What the configuration says by now that makes a tool report less.

    A rule that is selected in the same change, or was not selected before, may be left out
    somewhere: that is no less. Nor is the new path of a file that stood at one of ``gone``, or one
    in a folder that the tool did not look at before. What
    says why beside it is a note. A rule in place of another one is doubtful, and so is one of a
    plugin that is new here or in the files of CI in ``runs``.
    """
    counts, chosen = Counter[str](), Counter[str]()
    for change in changes:
        counts.update(map(_last, _silent(change.path, change.before or "")))
        chosen.update(map(_last, _heeded(change.path, change.after or "")))
    for change in changes:
        chosen.subtract(map(_last, _heeded(change.path, change.before or "")))
    fresh = tuple(rule for rule, number in chosen.items() if number > 0 and rule)
    picked = {
        _last(what)
        for text_change in changes
        for what in _selected_rules(text_change.path, text_change.before or "")
    }
    all_but = _all_but(changes)
    plugins = _new_plugins([*changes, *runs])
    is_replaced = any(
        text_change.after is None and _RULED.search(text_change.path) for text_change in changes
    )
    moved = {path.rpartition("/")[2] for path in counts if path in gone}
    for change in changes:
        tools = {_tool(name) for name in _settings(change.path, change.before or "")}
        was, now = (_silent(change.path, text or "") for text in (change.before, change.after))
        silenced = []
        for what in [
            *(entry for entry in now if entry in was),
            *(entry for entry in now if entry not in was),
        ]:
            counts[_last(what)] -= 1
            is_adopted = _RULED.search(change.path) is None and _tool(what) not in tools
            is_moved = "/" in what and what.rpartition("/")[2] in moved
            rule = _last(what)
            is_fresh = rule.startswith(fresh) or any(new.startswith(rule) for new in fresh)
            is_of_ruff = _is_of_ruff(change.path, what)
            if is_of_ruff and all_but is not None:
                is_fresh = not any(selects(code, rule) or selects(rule, code) for code in all_but)
            is_unasked = bool(picked) and is_of_ruff and not _has(picked, rule)
            is_known = is_moved or _is_in_new_path(what, change)
            if not (counts[rule] >= 0 or is_adopted or is_known or is_fresh or is_unasked):
                silenced.append(what)
        is_new = change.before is None and is_replaced  # whether another linter has as much
        why = [entry for entry in silenced if is_new or _has_reason(_last(entry), change)]
        left = [entry for entry in silenced if entry not in why]
        for doubt, is_doubtful in (("", False), (REPLACED, True)):
            group = [entry for entry in left if _is_doubtful(entry, change, plugins) is is_doubtful]
            yield from _switched(SILENCED, group, change.path, doubt)
        yield from _switched(EXPLAINED, why, change.path)
    yield from _no_more(changes)


def _switched(
    rule: str, settings: Sequence[str], path: str, doubt: str = ""
) -> Iterator[Weakening]:
    if settings:
        more = f" and {len(settings) - _NAMED:,} more" if len(settings) > _NAMED else ""
        shown = ", ".join(name[:100] for name in settings[:_NAMED])
        yield Weakening(rule, f"switches off: {shown}{more}", path, doubt=doubt)


def _is_doubtful(what: str, change: TextChange, plugins: Collection[str]) -> bool:
    """Whether its setting has no more rules than before, or its plugin or file is new.

    Letters of rules of flake8 that the file had nowhere are those of a new plugin.
    """
    setting, _, rule = what.rpartition(" ")
    was, now = (
        [entry for entry in _silent(change.path, text or "") if entry.rpartition(" ")[0] == setting]
        for text in (change.before, change.after)
    )
    if (setting and len(now) <= len(was)) or change.before is None:
        return True
    letters = re.match(r"[A-Z]+", rule.rpartition(":")[2])
    is_lettered = "" in plugins and _tool(what) == "flake8" and letters is not None
    if is_lettered and letters and not re.search(rf"\b{letters[0]}\d", change.before or ""):
        return True
    return rule.startswith(tuple(filter(None, plugins)))


def _new_plugins(changes: Sequence[TextChange]) -> frozenset[str]:
    """How rules of plugins begin that no side before says; "" if one has letters of its own."""
    was, now = (
        {_prefix(match) for text in side for match in _PLUGIN.finditer(text)}
        | {match[0] for text in side for match in _LETTERED.finditer(text)}
        for side in zip(
            *((change.before or "", change.after or "") for change in changes), strict=True
        )
    )
    return frozenset(prefix if prefix.endswith("/") else "" for prefix in now - was)


def _prefix(plugin: re.Match[str]) -> str:
    """What begins the rules of a plugin of ESLint: its scope and its name."""
    return "".join(f"{part}/" for part in plugin.groups() if part)


def _is_of_ruff(path: str, what: str) -> bool:
    return _tool(what) == "ruff" or path.endswith("ruff.toml")


def _selected_rules(path: str, text: str) -> list[str]:
    """The rules that a file has ruff look for; none if it only adds to others."""
    chosen = [what for what in _heeded(path, text) if _is_of_ruff(path, what)]
    chosen = [what for what in chosen if _PLACE.sub("", what).startswith("select ")]
    return chosen if any("extend-" not in what for what in chosen) else []


def _all_but(changes: Sequence[TextChange]) -> tuple[str, ...] | None:
    """The rules that ruff looked for before it looks for all; None if it does not, or did so."""
    was, now = (
        [
            _last(what)
            for text_change in changes
            for what in _heeded(text_change.path, text(text_change) or "")
            if _is_of_ruff(text_change.path, what)
        ]
        for text in (attrgetter("before"), attrgetter("after"))
    )
    return (*_BY_DEFAULT, *filter(None, was)) if "ALL" in now and "ALL" not in was else None


def _is_in_new_path(what: str, change: TextChange) -> bool:
    """Whether a path that a tool leaves out is in one that it looks at by now, and did not."""
    section = what.rpartition(" ")[0].rpartition(".")[0]
    was, now = (
        {
            path.strip("/*.")
            for key in _PATHS
            for path in _listed(_settings(change.path, text or "").get(f"{section}.{key}", ""))
        }
        for text in (change.before, change.after)
    )
    return bool(was) and any(f"{_last(what)}/".startswith(f"{path}/") for path in now - was if path)


def _has(rules: Collection[str], rule: str) -> bool:
    """Whether one of these rules is a part of another, or has it."""
    return any(code == "ALL" or rule.startswith(code) or code.startswith(rule) for code in rules)


def _has_reason(rule: str, change: TextChange) -> bool:
    """Whether a comment beside a rule in a new line, or above it and others, says why it is off."""
    old_lines = set((change.before or "").split("\n"))
    pattern = re.compile(rf"(?<![\w-]){re.escape(rule)}(?![\w-])(.*)")
    above = ""
    for line in (change.after or "").split("\n"):
        match = pattern.search(line) if line not in old_lines else None
        if match and (says_why(match[1]) or says_why(above)):
            return True
        if line.strip().startswith(("#", "//")):
            above = line
        elif not _ITEM.match(line):
            above = ""
    return False


def tightened(changes: Sequence[TextChange]) -> Tightened:
    """Rules that were off for all, or not selected, and the comments of tools that look at more."""
    silent, heeded = (
        [
            {what for change in changes for what in read(change.path, text(change) or "")}
            for text in (attrgetter("before"), attrgetter("after"))
        ]
        for read in (_silent, _heeded)
    )
    more = [*(silent[0] - silent[1]), *(heeded[1] - heeded[0])]
    rules = {_last(what) for what in more if not what.endswith(" ") and " " in what}
    tools = {_tool(what) for what in more if what.endswith(" ") or " " not in what}
    plugins = Counter[str]()
    for change in changes:
        if _RULED.search(change.path):
            plugins.update(set(map(_prefix, _PLUGIN.finditer(change.after or ""))))
            plugins.subtract({_prefix(name): 2 for name in _PLUGIN.finditer(change.before or "")})
        if _LINTERS.search(change.path):
            plugins.update(_ENABLED.findall(change.after or ""))
            plugins.subtract(dict.fromkeys(re.findall(r"[\w-]+", change.before or ""), 2))
    rules |= set(+plugins)
    begins = rules - {""} | {_COMMENTS[tool] for tool in tools & _COMMENTS.keys()}
    return Tightened(tuple(begins), _all_but(changes))


def not_read(changes: Sequence[TextChange]) -> Iterator[tuple[str, str]]:
    """The files whose settings cannot be read, before or after; and why."""
    for change in changes:
        texts = (text for text in (change.before, change.after) if text)
        if _SETTINGS.search(change.path) and any(
            _read(change.path, text) is None for text in texts
        ):
            yield change.path, "its settings cannot be read"


def _last(what: str) -> str:
    """A rule without the setting that names it."""
    return what.rpartition(" ")[2]


def _tool(name: str) -> str:
    parts = name.partition(" ")[0].split(".")
    return parts[1] if parts[0] == "tool" and len(parts) > 1 else parts[0]


def _silent(path: str, text: str) -> list[str]:
    """What a file switches off, each in words."""
    if _RULED.search(path):
        return [match[1] for match in _RULE_OFF.finditer(text)]
    if path.endswith("package.json"):
        return [match[1] for match in _RULE_OFF.finditer(text.partition('"eslintConfig"')[2])]
    switches = []
    for name, value in _settings(path, text).items():
        if _OFF.search(name):
            switches += [f"{name} {word}" for word in _listed(value)]
        elif _LESS.search(name) and value.strip('"').lower() in ("true", "1"):
            switches.append(name)
    return switches


def _no_more(changes: Sequence[TextChange]) -> Iterator[Weakening]:
    """What was looked at, and is not: rules that were selected, switches that were on."""
    after = {
        _PLACE.sub("", what)
        for text_change in changes
        for what in _heeded(text_change.path, text_change.after or "")
    }
    for change in changes:
        if change.after is None and not after:  # the tool is gone, or set up elsewhere
            continue
        names = {what.rpartition(" ")[0] for what in _heeded(change.path, change.after or "")}
        for what in _heeded(change.path, change.before or ""):
            name, _, rule = what.rpartition(" ")
            setting = _PLACE.sub("", name)
            wider = (f"{setting} {rule[:end]}" for end in range(bool(rule), len(rule) + 1))
            all_of_them = (f"{setting.rpartition('.')[0]}.strict ", f"{setting} ALL")
            if not after.isdisjoint((*wider, *all_of_them)):
                continue
            if name in names or _is_off(change, name):
                yield Weakening(SILENCED, f"no longer asks for: {what[:120].strip()}", change.path)


def _is_off(change: TextChange, name: str) -> bool:
    """Whether a switch was turned, and is not gone with all of its section."""
    if _TSCONFIG.search(change.path):
        return change.after is not None
    section = name.rpartition(".")[0]
    return any(
        setting.rpartition(".")[0] == section
        for setting in _settings(change.path, change.after or "")
    )


def _heeded(path: str, text: str) -> list[str]:
    if _TSCONFIG.search(path):
        plain = re.sub(r"(?m)//.*$", "", text)
        return [f"{match[1]} " for match in _STRICT.finditer(plain)]
    switches = []
    for name, value in _settings(path, text).items():
        if _ON.search(name):
            switches += [f"{name} {word}" for word in _listed(value)]
        elif _MORE.search(name) and value.strip('"').lower() in ("true", "1"):
            switches.append(f"{name} ")
    return switches


def _listed(value: str) -> list[str]:
    """The items of a setting; lines of a comment are none."""
    try:
        read = json.loads(value)
    except ValueError:
        read = value
    if isinstance(read, list):
        return [str(item) for item in read]
    return [word for word in _WORDS.findall(re.sub(r"#.*", "", str(read))) if word]


def _settings(path: str, text: str) -> dict[str, str]:
    """The settings of tools in a file by dotted names, as JSON; none if it cannot be read."""
    return (_SETTINGS.search(path) and text and _read(path, text)) or {}


@lru_cache(maxsize=64)
def _read(path: str, text: str) -> dict[str, str] | None:
    settings = config_sections.settings(path, text.encode("utf-8", "surrogateescape"))
    return settings and {name: value for name, value in settings.items() if _TOOLS.search(name)}
