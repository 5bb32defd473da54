"""What a reviewer found of the planted bugs, and what it said besides."""

from __future__ import annotations

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.lab.planted_bugs.generate import PlantedBug

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
