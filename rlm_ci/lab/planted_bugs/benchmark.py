"""Reviews of changes with planted bugs, beside the same model with one plain prompt, and scored.

Each change is a repository of its own in a folder, and its review a process of its own. What is
done stays there, so that a second run goes on with the rest.

The machine's own packages that a project needs are put where the sandbox sees them: else no
reproduction of a claim could import the project.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import sys
import sysconfig
import venv
from collections import Counter

from rlm_ci.errors import DamagedError, LimitError, RemoteError, UnavailableError
from rlm_ci.lab.planted_bugs.recording import ANSWERS
from rlm_ci.models import ModelRequest
from rlm_ci.models.strict_json import read_object
from rlm_ci.resources import loader
from rlm_ci.system import files, process
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.lab.planted_bugs.generate import PlantedBug, ReviewCase
    from rlm_ci.models.gateway import Gateway


#: Lines beside a bug at which a finding still counts as one of it.
_NEAR = 2


class Claimed(Value):
    """A finding of a reviewer, at one or several places: path, first and last line."""

    places: tuple[tuple[str, int, int], ...]
    proven: bool = False


class CaseScore(Value):
    """What one reviewer made of one change."""

    id: str
    bugs: int
    found: int = 0
    findings: int = 0
    false_alarms: int = 0
    proven: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    error: str = ""


def scored(case: str, bugs: Sequence[PlantedBug], claims: Sequence[Claimed]) -> CaseScore:
    """A bug is found by a finding at its line or beside it; any other finding is a false alarm."""
    hits = [{at for at, bug in enumerate(bugs) if _is_at(bug, claim)} for claim in claims]
    return CaseScore(
        case,
        len(bugs),
        found=len(set().union(*hits)),
        findings=len(claims),
        false_alarms=sum(not hit for hit in hits),
        proven=sum(claim.proven for claim in claims),
    )


def _is_at(bug: PlantedBug, claim: Claimed) -> bool:
    return any(
        path == bug.path and first - _NEAR <= bug.line <= last + _NEAR
        for path, first, last in claim.places
    )


def of_report(report: Mapping[str, Any]) -> list[Claimed]:
    """The findings of a model in ``report.json`` that count."""
    return [
        Claimed(_places(finding["evidence"]), (finding.get("proof") or {}).get("level") == "proven")
        for finding in report["findings"]
        if finding["source"].startswith("model:") and finding["suppression"] is None
    ]


def of_answer(answer: Mapping[str, Any]) -> list[Claimed]:
    """The findings in the answer to the plain prompt; what has no place is at none."""
    rows = answer.get("findings")
    return [Claimed(_places([row])) for row in rows or () if isinstance(row, dict)]


def _places(rows: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, int, int], ...]:
    places = []
    for row in rows:
        path, first, last = (row.get(name) for name in ("path", "line_start", "line_end"))
        if isinstance(path, str) and type(first) is int:
            places.append((path, first, last if type(last) is int else first))
    return tuple(places)


class ArmTotals(Value):
    """The sums over all changes, and what follows from them; None where there is no number."""

    changes: int
    failed: int
    bugs: int
    found: int
    findings: int
    false_alarms: int
    proven: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None

    @classmethod
    def of(cls, scores: Sequence[CaseScore]) -> ArmTotals:
        """A change that could not be reviewed counts as one in which nothing was found."""
        costs = [score.cost_usd for score in scores if score.cost_usd is not None]
        names = [name for name in cls._fields if name not in ("changes", "failed", "cost_usd")]
        sums = {name: sum(getattr(score, name) for score in scores) for name in names}
        failed = sum(bool(score.error) for score in scores)
        return cls(len(scores), failed, cost_usd=sum(costs) if costs else None, **sums)

    def to_dict(self) -> dict[str, Any]:
        shares = {
            "recall": _share(self.found, self.bugs),
            "precision": _share(self.findings - self.false_alarms, self.findings),
            "false_alarms_per_change": _share(self.false_alarms, self.changes),
            "proven_share": _share(self.proven, self.findings),
        }
        return {**super().to_dict(), **shares}


def _share(part: int, total: int) -> float | None:
    return round(part / total, 4) if total else None


NAME = ".venv"
#: What tests are run by, where it is installed.
_FRAMEWORK = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")


def make(root: str, needs: Iterable[str]) -> None:
    """Make ``.venv`` at ``root`` with the distributions ``needs``; git does not see it.

    Distributions that are not installed are left out. Raises StorageError.
    """
    folder = os.path.join(root, NAME)
    try:
        venv.EnvBuilder(symlinks=os.name != "nt").create(folder)
        paths = {"base": folder, "platbase": folder}
        target = sysconfig.get_path("purelib", "venv", vars=paths)
        for name in (*needs, *_FRAMEWORK):
            _copy(name, target)
        files.append(os.path.join(root, ".git", "info", "exclude"), f"{NAME}/\n".encode())
    except OSError as error:
        raise files.storage_error(error, folder) from None


def _copy(name: str, target: str) -> None:
    try:
        paths = importlib.metadata.distribution(name).files or ()
    except importlib.metadata.PackageNotFoundError:
        return
    for path in paths:
        if ".." not in path.parts and path.suffix != ".pyc":
            copy = os.path.join(target, *path.parts)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copyfile(os.fspath(path.locate()), copy)


REVIEW, PLAIN = "review", "plain prompt"
#: Seconds of one review, bytes of its report, tokens of the plain answer.
_SECONDS = 4 * 3600
_LIMIT = 64 << 20
_ANSWER = 16_384
_TEMPLATE = "prompts/bench-plain-review.md.j2"
_BASE, _HEAD = "base", "head"
#: The variable that names the file of a review's answers.
_KEPT = "RLM_CI_MODELS_RECORDING"
_GIT = {
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@localhost", "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@localhost", "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}  # fmt: skip


class Reviewer(Value):
    """How changes are reviewed: ``flags`` of ``rlm-ci review``, and the way to the same model.

    ``gateway`` is given what the reviews have spent in USD, and the file that gets the answer;
    ``budget_usd`` limits both together. ``played``: the answers are recorded.
    """

    flags: tuple[str, ...]
    environ: Mapping[str, str]
    gateway: Callable[[float, str], Gateway]
    budget_usd: float | None = None
    played: bool = False


def write(case: ReviewCase, folder: str, environ: Mapping[str, str]) -> str:
    """Make the repository of a change, if it is not there; its path. The tests stay outside."""
    repository = os.path.join(folder, case.id, "repository")
    if os.path.lexists(os.path.join(repository, ".git", "refs", "heads", _HEAD)):
        return repository
    files.make_folder(repository)
    _git(repository, environ, "init", "-q", "-b", _BASE)
    for branch, tree in ((_BASE, case.base), (_HEAD, case.head)):
        for path, content in tree.items():
            full = os.path.join(repository, path)
            files.make_folder(os.path.dirname(full))
            files.write(full, content)
        _git(repository, environ, "add", "-A")
        _git(repository, environ, "commit", "-q", "-m", f"The {branch}")
        if branch == _BASE:
            _git(repository, environ, "checkout", "-q", "-b", "work")
    make(repository, case.needs)
    _git(repository, environ, "branch", "-q", _HEAD)
    for number, bug in enumerate(case.bugs, 1):
        files.write(os.path.join(folder, case.id, f"test_bug_{number}.py"), bug.test.encode())
    return repository


def _git(folder: str, environ: Mapping[str, str], *words: str) -> bytes:
    env = {**_GIT, "PATH": environ.get("PATH", os.defpath)}
    ended = process.run(("git", "-C", folder, *words), env=env, timeout=300, limit=_LIMIT)
    if ended.returncode != 0:
        why = printable(ended.stderr.decode("utf-8", "replace"))[-300:]
        raise DamagedError(f"git {words[0]} failed: {why}", where=folder, hint="use another folder")
    return ended.stdout


def carry_out(
    cases: Iterable[ReviewCase], folder: str, reviewer: Reviewer, say: Callable[[str], None]
) -> dict[str, Any]:
    """Review each change both ways; the result, as JSON.

    Raises LimitError at the budget, UnavailableError if a recording lacks an answer: without it the
    figures would count what nobody was asked.
    """
    scores: dict[str, list[CaseScore]] = {REVIEW: [], PLAIN: []}
    kinds: Counter[str] = Counter()
    spent = 0.0
    for case in cases:
        say(f"reviewing {case.id}")
        repository = write(case, folder, reviewer.environ)
        kinds.update(bug.kind for bug in case.bugs)
        done = _reviewed(case, repository, reviewer, spent)
        spent += done.cost_usd or 0.0
        plain = _plain_score(case, repository, reviewer, spent)
        scores[REVIEW].append(done)
        scores[PLAIN].append(plain)
        if reviewer.played and (why := done.error or plain.error):
            raise UnavailableError(
                f"the recorded answers do not fit {case.id}: {why}",
                hint="play them with the version of rlm-ci that they were made with, or name a "
                "model that answers",
            )
    return {
        "schema_version": 1,
        "kinds": dict(sorted(kinds.items())),
        "arms": {arm: ArmTotals.of(some).to_dict() for arm, some in scores.items()},
        "cases": {arm: [score.to_dict() for score in some] for arm, some in scores.items()},
    }


def _reviewed(case: ReviewCase, repository: str, reviewer: Reviewer, spent: float) -> CaseScore:
    """The review of a change, which its folder has already or gets."""
    path = os.path.join(os.path.dirname(repository), "report.json")
    data = files.read_or_none(path, _LIMIT)
    why = ""
    if data is None:
        left = None if reviewer.budget_usd is None else reviewer.budget_usd - spent
        if left is not None and left <= 0:
            raise LimitError("the budget is spent", budget="budget_usd", hint="raise --budget-usd")
        budget = () if left is None else ("--budget-usd", f"{left:.4f}")
        words = (
            "review",
            "--repo",
            repository,
            "--base",
            _BASE,
            "--head",
            _HEAD,
            "--format",
            "json",
        )
        argv = (sys.executable, "-I", "-m", "rlm_ci", *words, *reviewer.flags, *budget)
        # Words about the change are no findings.
        off = {"RLM_CI_REVIEW_DESCRIBE": "off"}
        env = {**reviewer.environ, **off, _KEPT: _answers(repository)}
        ended = process.run(argv, env=env, timeout=_SECONDS, limit=_LIMIT)
        data = ended.stdout
        why = printable(ended.stderr.decode("utf-8", "replace"))[-300:]
    try:
        report = json.loads(data)
    except ValueError:
        return CaseScore(case.id, len(case.bugs), error=why or "there is no report")
    usage = report["usage"]
    failed = report["verdict"] in ("not_run", "incomplete")
    if not failed:
        files.write(path, data)
    return scored(case.id, case.bugs, of_report(report)).replace(
        calls=usage["calls"],
        prompt_tokens=usage["prompt_tokens"],
        completion_tokens=usage["completion_tokens"],
        cost_usd=usage["cost_usd"],
        error=report["verdict"] if failed else "",
    )


def _answers(repository: str) -> str:
    """The file of what was answered about a change."""
    return os.path.join(os.path.dirname(repository), ANSWERS)


def _plain_score(case: ReviewCase, repository: str, reviewer: Reviewer, spent: float) -> CaseScore:
    """The same change in one plain prompt."""
    diff = _git(repository, reviewer.environ, "diff", "-U10", _BASE, _HEAD).decode(
        "utf-8", "replace"
    )
    prompt = loader.load_template(_TEMPLATE)({"diff": diff})
    gateway = reviewer.gateway(spent, _answers(repository))
    request = ModelRequest(gateway.model, ({"role": "user", "content": prompt},), _ANSWER)
    empty = CaseScore(case.id, len(case.bugs))
    try:
        completion = gateway.complete(request, case.id)
    except RemoteError as error:
        return empty.replace(error=str(error))
    usage = completion.usage
    cost = {} if completion.cost is None else {"cost_usd": float(completion.cost)}
    used = {} if usage is None else {
        "calls": 1, "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }  # fmt: skip
    try:
        claims = of_answer(read_object(completion.text))
    except ValueError as error:
        return empty.replace(error=f"no answer in JSON: {error}", **used, **cost)
    return scored(case.id, case.bugs, claims).replace(**used, **cost)


# ── for people ──


_ROWS = (
    ("recall", "planted bugs found"), ("precision", "findings that are a planted bug"),
    ("false_alarms_per_change", "false alarms a change"), ("proven_share", "findings proven"),
    ("calls", "calls"), ("prompt_tokens", "prompt tokens"), ("completion_tokens", "answer tokens"),
    ("cost_usd", "USD"), ("failed", "changes that failed"),
)  # fmt: skip


def table(result: Mapping[str, Any]) -> str:
    """The figures of both, side by side."""
    arms: Mapping[str, Mapping[str, Any]] = result["arms"]
    first = arms[REVIEW]
    answers = result["answers"]
    bugs = f"{count(first['bugs'], 'bug')} of {count(len(result['kinds']), 'kind')}"
    lines = [*([answers["note"], ""] if answers["recorded"] else [])]
    lines += [f"{count(first['changes'], 'change')} with {bugs}", ""]
    lines.append(f"{'':<34}" + "".join(f"{arm:>16}" for arm in arms))
    for name, label in _ROWS:
        shown = (_shown(name, arm[name]) for arm in arms.values())
        lines.append(f"{label:<34}" + "".join(f"{text:>16}" for text in shown))
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name in ("recall", "precision", "proven_share"):
        return f"{100 * value:.0f} %"
    return f"{value:,.4f}" if name == "cost_usd" else f"{value:,}"


def outline(cases: Iterable[ReviewCase]) -> dict[str, Any]:
    """What the changes are, without a model."""
    rows: Sequence[ReviewCase] = list(cases)
    kinds = Counter(bug.kind for row in rows for bug in row.bugs)
    return {
        "changes": [
            {"id": row.id, "bugs": [bug.kind for bug in row.bugs], "harmless": row.harmless}
            for row in rows
        ],
        "kinds": dict(sorted(kinds.items())),
    }


def changes(record: Mapping[str, Any]) -> str:
    """The changes, a line each."""
    rows = [
        f"{change['id']:<28}{', '.join(change['bugs']) or 'no bug'}; "
        f"{count(change['harmless'], 'harmless edit')}\n"
        for change in record["changes"]
    ]
    bugs = sum(record["kinds"].values())
    kinds = count(len(record["kinds"]), "kind")
    return "".join(rows) + f"{count(len(rows), 'change')}, {count(bugs, 'bug')} of {kinds}\n"
