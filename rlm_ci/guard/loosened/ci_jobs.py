"""What CI does, before and after: its jobs, the tools that judge, and what may fail.

Workflows of GitHub are read by their indentation; of other files only the words count.
"""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.guard.loosened.exit_codes import CI_WEAKENED
from rlm_ci.guard.loosened.test_commands import tools
from rlm_ci.guard.weakening import REPLACED, RestOfTree, TextChange, Weakening
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

_WORKFLOW = re.compile(r"(?:^|/)\.(?:github|gitea|forgejo)/workflows/[^/]+\.ya?ml$")
_KEY = re.compile(r"^( *)(?:- +)?([\w.-]+|\"[^\"]*\"|'[^']*'):(?:[ \t]+(.*))?$")
#: Files of the repository that CI runs, or reads more jobs and steps from.
_LED_TO = re.compile(
    r"\b(?:uses:\s{1,9}[\"']?\./|local:\s{1,9}[\"']?/?)([\w.-][\w./-]{0,200})"
    r"|(?:^|[\s;&|(\"'])(?:\./)?([\w.-][\w./-]{0,200}\.(?:sh|bash|zsh|ps1|py|mk))(?![\w./-])",
    re.MULTILINE,
)
_MOST_LED_TO = 10
#: A workflow of another repository.
_OF_OTHERS = re.compile(r"\buses:\s{1,9}[\"']?(?:[\w.-]{1,99}/){2}\.github/workflows/")
#: All jobs, one of them or its steps in one line.
_FLOW = re.compile(
    r"^(?:\{|[\"']?jobs[\"']?: *[{*]| +[\"']?[\w-]+[\"']?: *\{.*\b(?:steps|uses|runs-on)\b"
    r"| +[\"']?steps[\"']?: *[\[*])",
    re.MULTILINE,
)
#: What a change starts, or another workflow for it.
_OF_CHANGES = re.compile(
    r"\b(?:pull_request|merge_group|workflow_call|workflow_run|check_|status|deployment)"
)
_TRIGGERS = re.compile(r"\b(pull_request(?=\b|_target\b)|merge_group\b|push\b)")

#: Paths whose changes start no run, and those of them that are, or have, the code.
_IGNORES = re.compile(r"\bpaths-ignore: *(\[[^\]]*\]|(?:#.*)?(?:\n *(?:- .*|#.*)?)+)")
_ALL_CODE = re.compile(
    r"\*\*?(?:/\*\*?)?|(?:\*\*/)?\*{1,2}\.(?:py|[cm]?[jt]sx?|go|rs|java|kt|rb|php|cs)"
    r"|(?:src|lib|tests?|pkg|internal|app|packages)/\*\*"
)


#: What a job does that keeps pull requests in order, or hands on what others made.
_CHORE = re.compile(
    r"(?i)\b(?:auto-?)?(?:label(?:er)?|close|stale|comment|greet|welcome|assign|lock"
    r"|push|publish|release|deploy|sync|backport|preview|documentation|notif\w+)\b"
)
#: What starts a job for the changes of a bot alone.
_OF_BOT = re.compile(
    r"(?m)^ +if:.*\bgithub\.(?:actor|event\.pull_request\.user\.login) *== *[\"'][\w-]+\[bot\]"
)
#: The kind of a note: a job whose work another name stands for.
RENAMED_JOB = "renamed-job"
#: Words of a job's steps, and those that nearly every job has.
_WORK = re.compile(r"(?:[\w.-]+/)+[\w.-]+(?=@)|(?<![\w/@-])[\w-]{2,}(?![\w/@-])")
_EVERY_JOB = frozenset(
    (
        "actions/checkout", "actions/setup-python", "actions/setup-node", "actions/setup-go",
        "runs-on", "ubuntu-latest", "windows-latest", "macos-latest", "steps", "uses", "with",
        "run", "name", "strategy", "matrix", "env", "if", "needs", "python-version",
        "node-version", "go-version", "fetch-depth", "persist-credentials", "false", "true",
        "permissions", "contents", "read", "timeout-minutes", "fail-fast", "cache", "latest",
    )
)  # fmt: skip
#: Scripts of package.json that a command runs.
_SCRIPTS = re.compile(r"\b(?:npm run|yarn(?: run)?|pnpm(?: run)?|bun run) ([\w:-]{1,60})")
#: The file with the commands of a task runner.
_FILES = {"tox": "tox.ini", "nox": "noxfile.py"}
#: Files of task runners that CI starts.
_TASKS = re.compile(
    r"(?:^|/)(?:tox\.ini|noxfile\.py|Makefile|package\.json|pyproject\.toml|justfile)$"
)


#: Tools of which each does the work of the others, or more of it; the last are those of tests.
_ALIKE = tuple(
    frozenset(row.split(", "))
    for row in (
        "flake8, pylint, ruff, bandit", "black, isort, ruff, ruff-format",
        "mypy, pyright, ty, pyrefly", "pre-commit, prek", "eslint, oxlint, biome",
        "prettier, biome, oxfmt, dprint", "go vet, go fmt, gofmt, golangci-lint, staticcheck",
        "cargo fmt, rustfmt", "jest, vitest, mocha",
    )
)  # fmt: skip


class _Job(Value):
    id: str
    name: str
    line: int


def not_read(changes: Sequence[TextChange]) -> Iterator[tuple[str, str]]:
    """The workflows with jobs in flow style, of which only the words are compared; and why."""
    for change in changes:
        if _WORKFLOW.search(change.path) and any(
            _FLOW.search(text or "") for text in (change.before, change.after)
        ):
            yield (
                change.path,
                "jobs in flow style ({...} or [...]) are compared by their words alone",
            )


def weakened(
    changes: Sequence[TextChange],
    tree: RestOfTree | None = None,
    settings: Sequence[TextChange] = (),
    gone: Collection[str] = (),
) -> Iterator[Weakening]:
    """How these files of CI judge less than before; ``tree`` has what they may call.

    ``settings`` are the changed files of task runners, ``gone`` the paths of files that are gone. A
    job with another name is a note, and so is one that went with the script that it ran.
    """
    yield from _lost_tools(changes, tree or RestOfTree(), settings)
    yield from _lost_jobs(changes, gone, _elsewhere(changes, tree))
    for change in changes:
        if change.after is not None and _WORKFLOW.search(change.path):
            was, now = (
                set(_TRIGGERS.findall(re.sub(r"(?m)(?:^|\s)#.*$", "", _block(text or "", "on"))))
                for text in (change.before, change.after)
            )
            for trigger in sorted(was - now):
                message = f"the workflow no longer runs on {trigger}"
                yield Weakening(CI_WEAKENED, message, change.path)
            ignored, before = (set(_ignored(text or "")) for text in (change.after, change.before))
            for path in sorted(ignored - before):
                message = f"the workflow does not run for changes of {path}"
                yield Weakening(CI_WEAKENED, message, change.path)


def _lost_tools(
    changes: Sequence[TextChange], tree: RestOfTree, settings: Sequence[TextChange]
) -> Iterator[Weakening]:
    """Tools that CI ran: as many others may have taken their place.

    One that a file runs to which CI leads by now, and did not before, is none of them; nor is one
    that the same change has a task runner start, or that a workflow runs which took the place of
    another kind of CI.
    """
    was, now = dict[str, TextChange](), dict[str, TextChange]()
    more = Counter[str]()
    for change in changes:
        was.update((tool, change) for tool in tools(change.before or ""))
        now.update((tool, change) for tool in tools(change.after or ""))
        more.update(tools(change.after or ""))
        more.subtract(tools(change.before or ""))
    elsewhere = set[str]()
    if was.keys() - now.keys():
        texts = _led_texts(changes, tree, settings)
        elsewhere = {tool for text in texts for tool in tools(text)}
    is_longer = any(
        _WORKFLOW.search(text_change.path) and _new_lines(text_change) for text_change in changes
    )
    is_of_others = any(_OF_OTHERS.search(_new_lines(text_change)) for text_change in changes)
    takers = {tool: _takers(tool, {*+more, *elsewhere}) for tool in was.keys() - now.keys()}
    lost = sorted(tool for tool, some in takers.items() if not some and tool not in elsewhere)
    for tool in lost[len(now.keys() - was.keys() - set[str]().union(*takers.values())) :]:
        change, message = was[tool], f"CI no longer runs {tool} here"
        is_other = change.after is None and not _WORKFLOW.search(change.path) and is_longer
        others = _elsewhere(changes, tree) if change.after is None else set[str]()
        is_doubtful = is_other or is_of_others or _is_run([tool], others)
        doubt = REPLACED if is_doubtful else ""
        side = "old" if change.after is None else "new"
        yield Weakening(CI_WEAKENED, message, change.path, None, side, doubt)


def _led_texts(
    changes: Sequence[TextChange], tree: RestOfTree, settings: Sequence[TextChange]
) -> Iterator[str]:
    """What CI runs by now, and did not run before, outside of its changed files."""
    if any(change.after is None and not _WORKFLOW.search(change.path) for change in changes):
        others = sorted(filter(_WORKFLOW.search, tree.paths()))[:_MOST_LED_TO]
        yield from tree.read(others).values()
    led = _led_to(change.after for change in changes) - _led_to(file.before for file in changes)
    paths = sorted(led - {change.path for change in changes})[:_MOST_LED_TO]
    yield from tree.read(paths).values() if paths else ()
    if started := _SCRIPTS.findall("\n".join(map(_new_lines, changes))):
        texts = [*tree.read(["package.json"]).values()]
        texts += [setting.after or "" for setting in settings if setting.path == "package.json"]
        for text in texts:
            yield "\n".join(re.findall(rf'"(?:{"|".join(started)})": *"(.*)"', text))
    fresh = {tool for change in changes for tool in tools(_new_lines(change))}
    tasks = {_FILES[tool] for tool in fresh & _FILES.keys()}
    yield from tree.read(tasks - {setting.path for setting in settings}).values() if tasks else ()
    for setting in settings:
        if setting.path in tasks:
            yield setting.after or ""
        elif _TASKS.search(setting.path):
            yield _new_lines(setting)


def _elsewhere(changes: Sequence[TextChange], tree: RestOfTree | None) -> set[str]:
    """The tools in workflows that did not change, where files of CI are gone."""
    if tree is None or all(change.after is not None for change in changes):
        return set()
    others = sorted(filter(_WORKFLOW.search, tree.paths()))[:_MOST_LED_TO]
    return {tool for text in tree.read(others).values() for tool in tools(text)}


def _is_run(ran: Collection[str], others: Collection[str]) -> bool:
    """Whether tools are among others, or each has one that does its work."""
    return bool(ran) and all(tool in others or _takers(tool, others) for tool in ran)


def _takers(tool: str, others: Iterable[str]) -> set[str]:
    """Those of other tools that do what a tool did."""
    return {other for kind in _ALIKE if tool in kind for other in kind & {*others}} - {tool}


def _new_lines(change: TextChange) -> str:
    old_lines = set((change.before or "").split("\n"))
    return "\n".join(line for line in (change.after or "").split("\n") if line not in old_lines)


def _led_to(texts: Iterable[str | None]) -> set[str]:
    """The paths that these texts name; of an action, those of its file."""
    paths = set[str]()
    for text in texts:
        for match in _LED_TO.finditer(text or ""):
            path = (match[1] or match[2]).rstrip("/")
            is_file = match[2] or path.endswith((".yml", ".yaml"))
            paths |= {path} if is_file else {f"{path}/action.yml", f"{path}/action.yaml"}
    return paths


def _lost_jobs(
    changes: Sequence[TextChange], gone: Collection[str], elsewhere: set[str]
) -> Iterator[Weakening]:
    """Jobs whose name in a required check is gone; none stands for a job that no change starts.

    One that another job of another name took over, or stands in place of, or that has a name of its
    own by now, is a note. The tools that it ran are looked for by themselves.
    """
    workflows = [change for change in changes if _WORKFLOW.search(change.path)]
    now = {_filled(job.name) for workflow in workflows for job in _jobs(workflow.after or "")}
    work_by_job = {
        job.name: _work(job, workflow.before or "")
        for workflow in workflows
        for job in _jobs(workflow.before or "")
    }
    added = [
        _work(job, workflow.after or "") - work_by_job.get(job.name, set())
        for workflow in workflows
        for job in _jobs(workflow.after or "")
        if _starts_with_changes(_block(workflow.after or "", "on"))
    ]
    of_others = any(_OF_OTHERS.search(_new_lines(workflow)) for workflow in workflows)
    judges = frozenset[str]().union(*_ALIKE[:-1])  # not what runs tests: where it does so matters
    fresh = {
        tool
        for workflow in workflows
        for job in _jobs(workflow.after or "")
        if job.name not in work_by_job and _starts_with_changes(_block(workflow.after or "", "on"))
        for tool in tools(_body(job, workflow.after or ""))
    }
    job_ids = {job.id for workflow in workflows for job in _jobs(workflow.after or "")}
    for workflow in workflows:
        if not _starts_with_changes(_block(workflow.before or "", "on")):
            continue
        able = fresh if workflow.after is None else fresh & judges
        for job in _jobs(workflow.before or ""):
            if _filled(job.name) in now or _is_chore(job, workflow.before or ""):
                continue
            work = _work(job, workflow.before or "")
            message = f"the job {job.name!r} is gone: a required check may stand for it"
            ran = tools(_body(job, workflow.before or ""))
            is_replaced = _has_successor(job, workflow) or _is_run(ran, able)
            is_doubtful = of_others or (workflow.after is None and _is_run(ran, elsewhere))
            doubt = RENAMED_JOB if is_doubtful else ""
            scripts = _led_to([_body(job, workflow.before or "")])
            is_replaced = is_replaced or (not ran and not scripts.isdisjoint(gone))
            if (
                is_replaced
                or job.id in job_ids
                or any(2 * len(work & other) > len(work) for other in added)
            ):
                yield Weakening(RENAMED_JOB, job.name, workflow.path, job.line, "old")
            else:
                yield Weakening(CI_WEAKENED, message, workflow.path, job.line, "old", doubt)


def _has_successor(job: _Job, workflow: TextChange) -> bool:
    """Whether a new job stands where one stood: below the same job, in a workflow with as many."""
    before, after = (
        [entry.id for entry in _jobs(text or "")] for text in (workflow.before, workflow.after)
    )
    at = before.index(job.id)
    above = before[at - 1 : at] or [""]
    following = dict(zip(["", *after], after, strict=False))
    return len(after) >= len(before) and following.get(above[0], job.id) not in before


def _work(job: _Job, text: str) -> set[str]:
    """What a job does, in words: its actions without their versions, and what it runs."""
    return set(_WORK.findall(_body(job, text))) - _EVERY_JOB


def _body(job: _Job, text: str) -> str:
    """The lines of a job below its name."""
    lines = text.split("\n")[job.line :]
    end = next((at for at, line in enumerate(lines) if re.match(r" {0,2}[^\s#]", line)), len(lines))
    return "\n".join(lines[:end])


def _is_chore(job: _Job, text: str) -> bool:
    """Whether a job has the name of what tidies pull requests up, or is one for those of a bot, and
    runs no tool that judges.
    """
    body = _body(job, text)
    is_chore = _CHORE.search(f"{job.id} {job.name}") or _OF_BOT.search(body)
    return is_chore is not None and not tools(body)


def _filled(name: str) -> str:
    """A job's name with the same word for every expression: a key of its matrix may be renamed."""
    return re.sub(r"\$\{\{.*?\}\}", "*", name)


def _starts_with_changes(trigger: str) -> bool:
    """Whether what starts a workflow is a change, a push of a branch, or not to be read."""
    of_branches = "push" in trigger and ("tags" not in trigger or "branches" in trigger)
    return not trigger or of_branches or _OF_CHANGES.search(trigger) is not None


def _ignored(text: str) -> Iterator[str]:
    """The paths with code whose changes start no run."""
    for match in _IGNORES.finditer(_block(text, "on")):
        words = re.findall(r"[^\s,\[\]\"'-][^\s,\[\]\"']*", match[1])
        yield from (word for word in words if _ALL_CODE.fullmatch(word))


def _block(text: str, key: str) -> str:
    """What stands below a key of the top level, with its own line."""
    block: list[str] = []
    for line in text.split("\n"):
        is_top = line[:1] not in ("", " ", "\t", "#", "-")
        if is_top and block:
            break
        if block or re.match(rf"[\"']?{key}[\"']?:", line):
            block.append(line)
    return "\n".join(block)


def _jobs(text: str) -> list[_Job]:
    """The jobs of a workflow, by the indentation of the first one."""
    jobs: list[_Job] = []
    inside, indent = False, 0
    for number, line in enumerate(text.split("\n"), 1):
        key = _KEY.match(line.rstrip())
        if not key or line.lstrip().startswith("#"):
            continue
        depth = len(key[1])
        if not depth:
            inside, indent = key[2].strip("\"'") == "jobs", 0
        elif inside and "- " not in line[: depth + 2]:
            indent = indent or depth
            name = key[2].strip("\"'")
            if depth == indent:
                jobs.append(_Job(name, name, number))
            elif (
                jobs and name == "name" and jobs[-1].name == jobs[-1].id
                and key[3] and depth == _depth(text, jobs[-1].line)
            ):  # fmt: skip
                jobs[-1] = jobs[-1].replace(name=key[3].strip(" \"'"), line=number)
    return jobs


def _depth(text: str, line: int) -> int:
    """How far what follows a line is indented."""
    following = (row for row in text.split("\n")[line:] if row.strip() and row.strip()[0] != "#")
    first = next(following, "")
    return len(first) - len(first.lstrip())
