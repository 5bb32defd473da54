"""``rlm-ci verify``: check every evidence pointer of a stored report again, offline.

For a run, also its files and its journals; for a question, also the planner's prompts.
"""

from __future__ import annotations

import json
import os

from rlm_ci import errors
from rlm_ci.ask.report import REPL
from rlm_ci.ask.verify.computed import ComputedExposure
from rlm_ci.change import evidence
from rlm_ci.config.core_options import COMMON, CORE
from rlm_ci.config.options import LOOP, REVIEW
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.console.progress import Progress
from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.definition import EPISODE
from rlm_ci.pull_request import answers
from rlm_ci.report.details import claim_mark
from rlm_ci.report.findings import INCOMPLETE, NOT_RUN, SCHEMA_VERSION, Report
from rlm_ci.report.wording import headline
from rlm_ci.resources import loader
from rlm_ci.runs import checksums, manifest, request
from rlm_ci.solve.pipeline import CALLS, SYMBOLIC
from rlm_ci.system import files
from rlm_ci.text import neutralise
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rlm_ci.ask.verify.answer import AnswerCheck
    from rlm_ci.ask.verify.exposure import Exposure
    from rlm_ci.change.evidence import CheckedReport
    from rlm_ci.config.arguments import Arguments
    from rlm_ci.git.repository import Repository
    from rlm_ci.report.findings import Part
    from rlm_ci.review.proofs.again import ProofsAgain

SUMMARY = "check every evidence pointer of a stored report again, offline"
USAGE = "REPORT|RUN [OPTION...]"
TAKES = ("one report or run", 1, 1)
EXAMPLES = (
    "rlm-ci verify latest",
    "rlm-ci verify report.json",
)
FORMS = ("text", "json")
EXITS = {
    errors.OK: "every pointer is valid, and every file unchanged",
    errors.FINDINGS: "a pointer is not valid, or a file differs",
    errors.DAMAGED: "the report or the run cannot be read",
}
#: Bytes of a report with a hundred thousand findings.
_LIMIT = 512 << 20
ROWS = (
    Setting("run_proofs", "run the proofs of a review once more, in the sandbox, with the settings "
            "of today", default=False, kind="boolean", flag="--run-proofs", file=False,
            own_env=False),
    Setting("proof", "run one of them, by its id", flag="--proof", metavar="ID", file=False,
            own_env=False),
    *stored_runs.SANDBOX,
    *COMMON,
)  # fmt: skip


def run(arguments: Arguments) -> int:
    settings = Settings((*CORE, *stored_runs.OUT_DIR, *ROWS), arguments.flags)
    output = output_of(settings).require_text_or_json("verify")
    path, folder = report_of(arguments.words[0], settings)
    if folder is not None:
        stored_runs.require_ours(manifest.read(folder))
    tree = _tree(folder)
    report = read_report(path) if folder is None or os.path.lexists(path) else None
    question = None if folder is None or report is None else _Question.of(folder, report)
    repository = open_repository(settings)
    checked = None
    if report is not None:
        kept = frozenset(question.review.held if question else ())
        if folder is not None and question is None:
            from rlm_ci.workspace import stored_trees

            inner = os.path.join(folder, "rlm")
            kept = stored_trees.held(inner, report, repository, settings.environ)
        checked = evidence.verify(report, repository, kept)
    stored = None if folder is None else _Stored.of(folder, report, repository, settings, tree)
    problems = [*(checked.problems if checked else ()), *(question.problems if question else ())]
    problems += [*(tree or ()), *(stored.problems if stored else ())]
    is_asked = settings.run_proofs or settings.proof
    proofs = _proofs(folder, report, repository, arguments) if is_asked else None
    problems += proofs.problems if proofs else ()
    notes = (*(checked.notes if checked else ()), *(stored.notes if stored else ()))
    if settings.format == "json":
        record = _record(checked, question, problems, notes)
        record |= {} if tree is None else {"journals": tree}
        record |= {} if stored is None else {"files": stored.counts}
        record |= {} if proofs is None else {"proofs": proofs.to_dict()}
        output.emit(neutralise.record(record))
    else:
        lines = [*(f"✗ {problem}" for problem in problems), *(f"· {note}" for note in notes)]
        lines += _lines(checked, question) if checked else ["there is no report"]
        if report and (verdict := report.verdict()) in (INCOMPLETE, NOT_RUN):
            lines.append(f"the report itself says: {headline(report)} ({verdict})")
        if tree is not None:
            flaws = count(len(tree), "flaw") if tree else "intact"
            lines.append(f"journals of the recursion: {flaws}")
        lines += [stored.told] if stored else []
        if proofs is not None:
            lines.append(proofs.told)
        output.emit("".join(f"{neutralise.log(line)}\n" for line in lines))
    return errors.FINDINGS if problems else errors.OK


def _proofs(
    folder: str | None, report: Report | None, repository: Repository, arguments: Arguments
) -> ProofsAgain:
    """Run the proofs of a review again, with the settings of today."""
    if folder is None or report is None or not report.subject.merge_base:
        raise ConfigError(
            "there are no proofs to run",
            where="--run-proofs",
            hint="name the run of a review of a change",
        )
    from rlm_ci.review.proofs import again
    from rlm_ci.review.proofs.trees import ProofPlace

    settings = Settings((*CORE, *LOOP, *REVIEW, *ROWS), arguments.flags)
    subject = report.subject
    place = ProofPlace.of(
        repository,
        str(subject.merge_base),
        None if subject.worktree else subject.head,
        settings.environ,
        sandbox=settings.sandbox,
        setup=settings.review.setup,
        validator=settings.loop.validator,
    )
    with Progress(settings.environ, quiet=settings.quiet, colour=settings.color) as progress:
        return again.run(folder, place, progress.step, settings.proof)


class _Stored(Value):
    """The files of a run: ``checked`` are compared with its list, ``derived`` made again."""

    checked: int
    derived: int
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def counts(self) -> dict[str, Any]:
        return {"checked": self.checked, "derived": self.derived, "problems": list(self.problems)}

    @property
    def told(self) -> str:
        flaws = len(self.problems)
        held = "all unchanged" if not flaws else f"{count(flaws, 'flaw')} in them"
        text = f"files of the run: {self.checked:,}, {held}"
        return f"{text}; {self.derived:,} rebuilt from its record" if self.derived else text

    @classmethod
    def of(
        cls,
        folder: str,
        report: Report | None,
        repository: Repository,
        settings: Settings,
        tree: Sequence[str] | None,
    ) -> _Stored:
        """Check the files of a run, and of the runs in it."""
        from rlm_ci.solve import verify_record

        run = manifest.read(folder)
        if not run.has_ended:
            if checksums.tells_an_end(folder):
                text = f"{checksums.EVENTS} records another end of the run"
                return cls(0, 0, (f"{manifest.NAME}: {text}",), ())
            text = "the run has not ended: its files are not checked yet"
            return cls(0, 0, (), (text,))
        held = checksums.check(folder, run)
        problems, derived = [*held.problems], 0
        notes: list[str] = []
        if held.ending and "rests_on" not in held.ending:
            text = "it does not have the settings of the run, so nothing is rebuilt"
            problems.append(f"{checksums.EVENTS}: {text}")
        elif report is not None and held.ending and not tree:
            found = verify_record.examine(
                folder, run, report, held.ending, repository=repository, today=settings
            )
            problems += found.problems
            notes += found.notes
            derived = found.files
        for inner in checksums.children(folder):
            below = os.path.join(folder, inner)
            path = os.path.join(below, "report.json")
            inner_tree = _tree(below) or []
            inside = read_report(path) if os.path.lexists(path) else None
            more = cls.of(below, inside, repository, settings, inner_tree)
            problems += [f"{inner}/{one}" for one in (*inner_tree, *more.problems)]
            problems += _unlike(report, inside)
            notes += [f"{inner}/{one}" for one in more.notes]
            held = held.replace(files=held.files + more.checked)
            derived += more.derived
        return cls(held.files, derived, tuple(dict.fromkeys(problems)), tuple(notes))


def _unlike(report: Report | None, inside: Report | None) -> list[str]:
    """The differences of a report from the inner run that made a part, without what people said."""
    own = {part.id: part for part in report.parts} if report is not None else {}
    problems = []
    for part in inside.parts if inside is not None and own else ():
        own_part = own.get(part.id)
        if own_part is not None and not own_part.enabled:  # it was optional, and could not run
            continue
        if own_part is None or _result(own_part) != _result(part):
            what = f"its part {part.id} is not that of the run within"
            problems.append(printable(f"report.json: {what}"))
    return problems


def _result(part: Part) -> list[Any]:
    found = [claim_mark.without(one).replace(suppression=None) for one in part.findings]
    return [answers.without(part.summary), dict(part.metrics), part.state, found]


def _tree(folder: str | None) -> list[str] | None:
    """The problems in the journals of a review or a wiki; None for other runs."""
    inner = "" if folder is None else os.path.join(folder, "rlm")
    if not inner or not os.path.lexists(os.path.join(inner, "run.json")):
        return None
    from rlm_ci.recursion.journal import verify

    return verify.verify(inner)


class _Question(Value):
    """The checks of a question: what it showed its planner, and its answer."""

    exposure: Exposure | ComputedExposure
    review: AnswerCheck
    damage: str = ""

    @property
    def problems(self) -> tuple[str, ...]:
        # Both read the same files, and may find the same problem.
        damage = (f"rlm/context: {self.damage}",) if self.damage else ()
        return tuple(dict.fromkeys((*damage, *self.exposure.problems, *self.review.problems)))

    @classmethod
    def of(cls, folder: str, report: Report) -> _Question | None:
        """Check a question; None for a run without a context, and for a replay.

        The answers of a replay are the original's. Raises DamagedError if a needed file is gone.
        """
        place = os.path.join(folder, "rlm")
        context, calls = os.path.join(place, "context"), os.path.join(folder, CALLS)
        is_question = any(part.metrics.get("mode") == SYMBOLIC for part in report.parts)
        is_computed = any(part.metrics.get("environment") == REPL for part in report.parts)
        # Removing one of these files does not turn a run into a replay.
        own = (os.path.join(folder, request.NAME), calls)
        run = manifest.read(folder)
        is_replay = not any(map(os.path.lexists, own)) and bool(run.parent_run_id)
        if is_replay or not (is_question or os.path.lexists(context)):
            return None
        if run.pipeline_id == EPISODE:  # all of it is rebuilt from its record
            return None
        for path in (context, calls):
            if not os.path.lexists(path):
                raise DamagedError(
                    "it is gone, and what the planner saw cannot be checked without it",
                    where=printable(path),
                    hint="restore it from a copy",
                )
        from rlm_ci.ask.verify import computed
        from rlm_ci.ask.verify.answer import review
        from rlm_ci.ask.verify.exposure import examine
        from rlm_ci.context.context import Context

        with Context.open(context) as opened:
            damage = ""
            try:
                opened.verify()  # also the parts that no model was shown
            except (DamagedError, ConfigError) as error:
                damage = printable(str(error))
            if is_computed:
                return cls(*computed.examine(place, opened), damage)
            return cls(examine(place, opened), review(place, opened, report), damage)


def _record(
    checked: CheckedReport | None,
    question: _Question | None,
    problems: Sequence[str],
    notes: Sequence[str],
) -> dict[str, Any]:
    record: dict[str, Any] = {} if checked is None else {"evidence": checked.counts.to_dict()}
    record["problems"] = problems
    if notes or checked is None:
        record["notes"] = notes
    if question:
        exposure, review = question.exposure, question.review
        record["exposure"] = exposure.to_dict()
        names = ("verified", "marked", "problems")
        record["answer"] = {name: getattr(review, name) for name in names}
    return record


def _lines(checked: CheckedReport, question: _Question | None) -> Iterator[str]:
    wrong = len(checked.problems)
    fallen = f"{wrong:,} {'does' if wrong == 1 else 'do'} not hold"
    held = fallen if wrong else "all hold" if checked.counts.offered else "nothing to open"
    yield f"{count(checked.counts.offered, 'evidence pointer')}, {held}"
    if question is None:
        return
    exposure, number = question.exposure, question.review.verified
    if number is not None:
        hold = "holds" if number == 1 else "hold"
        marked = question.review.marked
        more = f"; {marked:,} more marked as unverified" if marked else ""
        yield f"{count(number, 'citation')} {hold} in the run's context{more}"
    if isinstance(exposure, ComputedExposure):
        yield (
            f"{count(exposure.blocks, 'block')} of code, {count(exposure.prompts, 'prompt')} of "
            f"the model that wrote it, {count(exposure.subcalls, 'sub-call')}: "
            f"{count(exposure.prompt_bytes, 'byte')} shown to models, at most "
            f"{exposure.largest:,} at once"
        )
        return
    again = [
        f"{count(number, what)} {done}"
        for number, what, done in (
            (exposure.counts, "count", "counted again"),
            (exposure.maps, "map", "reduced again"),
        )
        if number
    ]
    if again:
        yield ", ".join(again)
    flaws = count(len(exposure.problems), "flaw") if exposure.problems else "nothing else of it"
    yield (
        f"{count(exposure.prompts, 'prompt')} of the planner, the largest of "
        f"{exposure.largest:,} bytes where {exposure.limit:,} are allowed; "
        f"{count(exposure.excerpt_bytes, 'byte')} of the context in excerpts, {flaws}"
    )


def report_of(word: str, settings: Settings) -> tuple[str, str | None]:
    """The path of the report that ``word`` names, or of the run's report, and the run's folder."""
    is_path = os.path.lexists(word) or word.endswith(".json") or os.sep in word
    if not is_path:
        folder = stored_runs.StoredRuns(settings).find(word).path
        return os.path.join(folder, "report.json"), folder
    # The folder of a run, or a file in it, also after it was copied or moved.
    folder = word if os.path.isdir(word) else os.path.dirname(word)
    is_ours = os.path.basename(word) in (os.path.basename(folder), manifest.NAME, "report.json")
    left = (os.path.join(folder, name) for name in (manifest.NAME, checksums.EVENTS))
    if not (is_ours and any(map(os.path.lexists, left))):
        return os.path.join(word, "report.json") if os.path.isdir(word) else word, None
    return os.path.join(folder, "report.json"), folder


def read_report(path: str, limit: int = _LIMIT) -> Report:
    """A stored report, valid under its schema. Raises ConfigError or DamagedError."""
    try:
        record = json.loads(files.read(path, limit))
    except files.UnreadableError as error:
        raise _unusable(f"cannot be read: {error}", path, _OURS) from None
    except (ValueError, RecursionError) as error:
        raise _unusable(f"is not valid JSON: {printable(str(error))[:200]}", path, _OURS) from None
    version = record.get("schema_version") if isinstance(record, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise DamagedError(
            f"the report has version {version}, this rlm-ci knows {SCHEMA_VERSION}",
            where=printable(path),
            hint="install a newer rlm-ci",
        )
    loader.validate(record, "report.schema.json", path)
    try:
        return Report.from_dict(record)
    except ValueError as error:
        why = f"is not valid: {printable(str(error))[:200]}"
        raise _unusable(why, path, "make it again with rlm-ci pr") from None


_OURS = "name a report.json that rlm-ci wrote"


def _unusable(why: str, path: str, hint: str) -> ConfigError:
    return ConfigError(f"the report {why}", where=printable(path), hint=hint)
