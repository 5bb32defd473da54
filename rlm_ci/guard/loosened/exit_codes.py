"""Runs that may fail without anybody seeing it: by a setting of CI, or by their shell."""

from __future__ import annotations

import re

from rlm_ci.guard.loosened.numbers import RUN
from rlm_ci.guard.loosened.test_commands import TOOLS, command_lines
from rlm_ci.guard.weakening import Weakening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rlm_ci.guard.weakening import TextChange

    #: The lines (1-based) of a file, by its path and text.
    Find = Callable[[str, str], list[int]]

CI_WEAKENED = "ci-weakened"

_NEVER = re.compile(
    r"(?<![\w.-])if:\s*[\"']?(?:\$\{\{\s*)?(?:false|'false'|\"false\"|0|!\s*true|.{0,80}&& false)"
    r"\s*(?:\}\})?[\"']?\s*$",
    re.MULTILINE,
)
_MAY_FAIL = re.compile(
    r"(?:continue-on-error|allow_failure|ignore_failures):\s*[\"']?(?:\$\{\{\s*)?true\b"
    r"|^\s*ignore_(?:outcome|errors)\s*=\s*true\b"
    r"|<(?:testFailureIgnore|maven\.test\.failure\.ignore)>\s*true|\bignoreFailures\s*=\s*true",
    re.MULTILINE,
)
#: A step that uploads or downloads, and judges nothing.
_HANDS_ON = re.compile(
    r"^\s*(?:- )?(?:uses:\s*\S*(?:codecov|coveralls|upload|download|cache|comment)"
    r"|run:\s*(?:\|[-+]?\n( +)HANDS.*$(?:\n\1HANDS.*$)*(?!\n\1)|[\"']?HANDS))".replace(
        "HANDS", r"(?:npx |uvx |\S*/)?(?:codecov|coveralls|git|gh|echo)\b"
    ),
    re.MULTILINE,
)
#: Settings of runners by which fewer tests run, or none need to.
_FEWER = re.compile(
    r"\b(?:passWithNoTests|allowOnly|dangerouslyIgnoreUnhandledErrors)[\"']?\s*:\s*true\b"
    r"|\bforbidOnly[\"']?\s*:\s*false\b"
    r"|<(?:skipTests|skipITs|maven\.test\.skip)>\s*true|<excludedGroups>\s*\w"
    r"|<exclude>[^<\n]*(?:Test|IT)\b[^<\n]*</exclude>"
    r"|\b(?:excludeTestsMatching|excludeTags?)\b|\bexclude\s*\(?\s*[\"'][^\"'\n]*Test"
    r"|\btest\b[^{}\n]{0,60}\{[^{}]*\benabled\s*=\s*false"
)
#: A job of a workflow, or one of tox.
_JOB = re.compile(r"(?m)^(?:  [\w-]+:[ \t]*(?:#.*)?|\[testenv:.*\])$")
#: What the exit code of a tool is lost by, on its line.
_SHRUG = re.compile(r"\|\|\s*(?:true|:|exit 0|echo\b)|;\s*(?:true|:|exit 0)\s*[\"']?$|\bset \+e\b")
#: What looks at the output, as of a tool that lists what is wrong.
_LOOKS_AT = re.compile(r"\[ +(?:-[nz] +)?\"?(?:`|\$\()")
#: What only asks where a tool is.
_LOOKS_FOR = re.compile(r"\$\(shell (?:which|command -v)\b")
_PIPE = re.compile(r"(?<!\|)\|&?\s*(?:tee|cat|grep|tail|head|sed|awk|ts|less)\b")
#: A command whose exit code make, or tox, ignores.
_IGNORED = {"tox.ini": r"^\s*(?:commands\w*\s*=\s*)?- ", "Makefile": r"^\t[@+]*-"}
#: A command that only lists.
_LISTS = re.compile(r"\s--?(?:list\w*|collect-only|co|version|help)\b")
#: Where a failure goes through a pipe: by a word, by the shell that is named, in other CI.
_PIPEFAIL = re.compile(r"pipefail|\bshell:\s*(?:bash\s*$|pwsh|powershell|cmd|python)", re.MULTILINE)
_DEFAULT_SHELL = re.compile(
    r"^( *)defaults:\s*\n\1 +run:\s*\n(?:\1  .*\n)*?\1 +shell:\s*bash\s*$", re.MULTILINE
)
_WITHOUT_PIPEFAIL = re.compile(r"(?:^|/)(?:Makefile|package\.json|\.(?:github|gitea|forgejo)/.*)$")
#: Where a script looks at the exit code itself.
_ASKS = re.compile(r"\$\?|PIPESTATUS|\bset -e")


def loosened(changes: Sequence[TextChange]) -> Iterator[Weakening]:
    """What fails more silently than before, or never runs."""
    for find, rule, what in (
        (_by(_NEVER), CI_WEAKENED, "never runs"),
        (_may_fail, RUN, "may fail"),
        (_by(_FEWER), RUN, "leaves tests out"),
        (_shrugs, RUN, "may fail"),
    ):
        for change, line in _more(find, changes):
            command = (change.after or "").split("\n")[line - 1].strip()
            name = change.path.rpartition("/")[2]
            who = "CI" if name.endswith((".yml", ".yaml")) else name
            yield Weakening(rule, f"what {who} runs {what}: {command[:120]}", change.path, line)


def _more(find: Find, changes: Iterable[TextChange]) -> Iterator[tuple[TextChange, int]]:
    """Where a file says it more often than before, and no other less often: there it moved."""
    left, more = 0, []
    for change in changes:
        old, new = (find(change.path, text or "") for text in (change.before, change.after))
        left += max(0, len(old) - len(new))
        more += [(change, line) for line in new[len(old) :] if not _is_of_new_job(change, line)]
    yield from more[left:]


def _is_of_new_job(change: TextChange, line: int) -> bool:
    """Whether a line is one of a job of CI, or of tox, that was added to those which stay."""
    was, now = (
        {match[0]: text.count("\n", 0, match.start()) + 1 for match in _JOB.finditer(text)}
        for text in (change.before or "", change.after or "")
    )
    job = max((name for name in now if now[name] <= line), key=now.__getitem__, default="")
    return job != "" and job not in was and bool(was) and was.keys() <= now.keys()


def _by(pattern: re.Pattern[str]) -> Find:
    def lines(_path: str, text: str) -> list[int]:
        return [text.count("\n", 0, match.start()) + 1 for match in pattern.finditer(text)]

    return lines


def _may_fail(path: str, text: str) -> list[int]:
    """Where a failure is not seen, but of a step that only hands on what others measured."""
    lines, numbers = text.split("\n"), _by(_MAY_FAIL)(path, text)
    if not path.endswith((".yml", ".yaml")):
        return numbers
    return [number for number in numbers if not _HANDS_ON.search(_step(lines, number))]


def _step(lines: Sequence[str], number: int) -> str:
    """The step that has a line (1-based); "" if none has."""
    start = next((at for at in range(number, 0, -1) if re.match(r"\s*- ", lines[at - 1])), 1)
    step = [lines[start - 1], *_block(lines, start)]
    return "\n".join(step) if number < start + len(step) else ""


def _shrugs(path: str, text: str) -> list[int]:
    """The lines that run a tool, and lose its exit code."""
    name, numbers = path.rpartition("/")[2], list[int]()
    lines = text.split("\n")
    for number, line in command_lines(path, text):
        ignored = re.match(_IGNORED.get(name, r"(?!)"), line)
        tool = TOOLS.search(line[ignored.end() :] if ignored else line)
        behind = line[tool.end() :] if tool else ""
        if tool and (
            ignored
            or (_SHRUG.search(line) and not _LOOKS_FOR.search(line))
            or (
                _PIPE.search(behind)
                and not _LOOKS_AT.search(line)
                and not _LISTS.search(behind)
                and _loses(path, lines, number)
            )
        ):
            numbers.append(number)
        elif not tool and "set +e" in line:
            following = "\n".join(_block(lines, number))
            if TOOLS.search(following) and not _ASKS.search(following):
                numbers.append(number)
    return numbers


def _loses(path: str, lines: Sequence[str], number: int) -> bool:
    """Whether a pipe loses the exit code of what stands in front of it: not with ``pipefail``."""
    if not _WITHOUT_PIPEFAIL.search(path):
        return False
    if not path.endswith((".yml", ".yaml")):
        return not any("pipefail" in line for line in lines)
    is_safe = _PIPEFAIL.search(_step(lines, number)) or _DEFAULT_SHELL.search("\n".join(lines))
    return not is_safe


def _block(lines: Sequence[str], number: int) -> Iterator[str]:
    """The lines behind a line (1-based), as far as they are not indented less, or a new item."""
    first = lines[number - 1]
    indent = len(first) - len(first.lstrip())
    for line in lines[number:]:
        depth = len(line) - len(line.lstrip())
        is_item = line.lstrip().startswith("- ") and depth <= indent
        if line.strip() and (depth < indent or is_item):
            return
        yield line
