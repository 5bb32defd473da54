"""``rlm-ci verify``: check every cited place of a stored report again, offline.

For a run, also its files, made once more from its record; for a question, also its counts. A
receipt is checked in either of its forms.
"""

from __future__ import annotations

import json
import os

from rlm_ci import errors
from rlm_ci.ask.run import REPL
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
from rlm_ci.receipts import verify_file
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
    from collections.abc import Collection, Iterator
    from typing import Any

    from rlm_ci.ask.context_use import ContextUse
    from rlm_ci.change.evidence import CheckedReport
    from rlm_ci.config.arguments import Arguments
    from rlm_ci.console.output import Output
    from rlm_ci.git.repository import Repository
    from rlm_ci.report.findings import Location, Part
    from rlm_ci.review.proofs.runner import ProofsAgain

SUMMARY = "check every cited place of a stored report again, offline"
USAGE = "REPORT|RUN|RECEIPT [OPTION...]"
TAKES = ("one report, run or receipt", 1, 1)
EXAMPLES = (
    "rlm-ci verify latest",
    "rlm-ci verify report.json",
    "rlm-ci verify .delegation/0142-ship-to-europe.intoto.jsonl",
)
FORMS = ("text", "json")
EXITS = {
    errors.OK: "every pointer is valid, and every file unchanged",
    errors.FINDINGS: "a pointer is not valid, or a file differs",
    errors.LIMIT: "nothing is wrong, but files of a fix could not be made again",
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
    if verify_file.is_receipt(arguments.words[0]):
        return _receipt(arguments.words[0], settings, output)
    path, folder = report_of(arguments.words[0], settings)
    if folder is not None:
        stored_runs.require_ours(manifest.read(folder))
    report = read_report(path) if folder is None or os.path.lexists(path) else None
    repository = open_repository(settings)
    question = _Question.of(folder) if folder and report and _is_question(folder, report) else None
    stored = None if folder is None else _RunCheck.of(folder, report, repository, settings)
    problems = [*(stored.problems if stored else ()), *(question.problems if question else ())]
    checked = None
    if report is not None:
        places: Collection[Location] = ()
        if folder is not None and question is None:
            places = _places_in_trees(folder, report, repository, settings)
        elif stored is not None and stored.derived and not problems:
            # They were looked up in the run's own context when its report was made again.
            places = {location for document in report.documents for location in document.evidence}
        checked = evidence.verify(report, repository, places)
        problems += checked.problems
    is_asked = settings.run_proofs or settings.proof
    proofs = _proofs(folder, report, repository, arguments) if is_asked else None
    problems += proofs.problems if proofs else ()
    notes = (*(checked.notes if checked else ()), *(stored.notes if stored else ()))
    use = question.use() if question and not problems else None
    problems += use.problems if use else ()
    if settings.format == "json":
        record: dict[str, Any] = {} if checked is None else {"evidence": checked.counts.to_dict()}
        record["problems"] = problems
        if notes or checked is None:
            record["notes"] = notes
        record |= _question_record(report, use) if report and question else {}
        record |= {} if stored is None else {"files": stored.counts}
        record |= {} if proofs is None else {"proofs": proofs.to_dict()}
        output.emit(neutralise.record(record))
    else:
        lines = [*(f"✗ {problem}" for problem in problems), *(f"· {note}" for note in notes)]
        lines += _lines(report, checked)
        lines += _question_lines(report, use) if report and question else []
        lines += [stored.summary] if stored else []
        lines += [proofs.summary] if proofs else []
        output.emit("".join(f"{neutralise.log(line)}\n" for line in lines))
    if problems:
        return errors.FINDINGS
    return errors.LIMIT if stored and stored.vouched else errors.OK


def _receipt(path: str, settings: Settings, output: Output) -> int:
    """Check a receipt or its in-toto statement."""
    checked = verify_file.verify(path, open_repository(settings))
    if settings.format == "json":
        output.emit(neutralise.record({"receipt": path, **checked.to_dict()}))
    else:
        lines = [*(f"✗ {problem}" for problem in checked.problems)]
        lines += [f"✓ {checked.summary}"] if checked.summary and not checked.problems else []
        lines += [f"· {note}" for note in checked.notes]
        output.emit("".join(f"{neutralise.log(line)}\n" for line in lines))
    return errors.FINDINGS if checked.problems else errors.OK


def _places_in_trees(
    folder: str, report: Report, repository: Repository, settings: Settings
) -> Collection[Location]:
    """The places of a report that hold in the trees of a fix."""
    from rlm_ci.workspace import stored_trees

    return stored_trees.locations_held(
        os.path.join(folder, "rlm"), report, repository, settings.environ
    )


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
    from rlm_ci.review.proofs import runner
    from rlm_ci.trials.trees import ProofPlace

    settings = Settings((*CORE, *LOOP, *REVIEW, *ROWS), arguments.flags)
    subject = report.subject
    proof_place = ProofPlace.of(
        repository,
        str(subject.merge_base),
        None if subject.worktree else subject.head,
        settings.environ,
        sandbox=settings.sandbox,
        setup=settings.loop.setup,
        validator=settings.loop.validator,
    )
    with Progress(settings.environ, quiet=settings.quiet, colour=settings.color) as progress:
        return runner.run(folder, proof_place, progress.step, settings.proof)


class _RunCheck(Value):
    """The files of a run: ``checked`` are compared with its list, ``derived`` made again.

    Only their sums vouch for those ``vouched``.
    """

    checked: int
    derived: int
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    vouched: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, Any]:
        lacking = {"not_made_again": list(self.vouched)} if self.vouched else {}
        facts = {"checked": self.checked, "derived": self.derived, **lacking}
        return {**facts, "problems": list(self.problems)}

    @property
    def summary(self) -> str:
        flaws = len(self.problems)
        outcome = "all unchanged" if not flaws else f"{count(flaws, 'flaw')} in them"
        text = f"files of the run: {self.checked:,}, {outcome}"
        text += f"; {self.derived:,} rebuilt from its record" if self.derived else ""
        if not self.vouched:
            return text
        return f"{text}; NOT made again, so that a forger could have written: " + ", ".join(
            self.vouched
        )

    @classmethod
    def of(
        cls, folder: str, report: Report | None, repository: Repository, settings: Settings
    ) -> _RunCheck:
        """Check the files of a run, and of the runs in it."""
        from rlm_ci.solve import verify_record

        run = manifest.read(folder)
        if not run.has_ended:
            if checksums.tells_an_end(folder):
                text = f"{checksums.EVENTS} records another end of the run"
                return cls(0, 0, (f"{manifest.NAME}: {text}",), ())
            text = "the run has not ended: its files are not checked yet"
            return cls(0, 0, verify_record.damaged_journals(folder), (text,))
        sums = checksums.check(folder, run)
        checked, derived, vouched = sums.files, 0, list[str]()
        problems, notes = [*sums.problems], list[str]()
        if sums.ending and "rests_on" not in sums.ending:
            text = "it does not have the settings of the run, so nothing is rebuilt"
            problems.append(f"{checksums.EVENTS}: {text}")
        elif report is not None and sums.ending:
            try:
                made_again = verify_record.examine(
                    folder, run, report, sums.ending, repository=repository, today=settings
                )
            except DamagedError as error:
                if not problems:
                    raise
                made_again = verify_record.DerivedFiles(problems=(printable(str(error)),))
            problems += made_again.problems
            notes += made_again.notes
            derived = made_again.files
            vouched += made_again.vouched
        for child in checksums.children(folder):
            path = os.path.join(folder, child, "report.json")
            child_report = read_report(path) if os.path.lexists(path) else None
            child_check = cls.of(os.path.dirname(path), child_report, repository, settings)
            problems += [f"{child}/{problem}" for problem in child_check.problems]
            problems += _differences(report, child_report)
            notes += [f"{child}/{note}" for note in child_check.notes]
            checked += child_check.checked
            derived += child_check.derived
            vouched += [f"{child}/{name}" for name in child_check.vouched]
        problems = list(dict.fromkeys(problems))
        return cls(checked, derived, tuple(problems), tuple(notes), tuple(vouched))


def _differences(report: Report | None, child: Report | None) -> list[str]:
    """The differences of a report from the inner run that made a part, without what people said."""
    parts = {part.id: part for part in report.parts} if report is not None else {}
    problems = []
    for child_part in child.parts if child is not None and parts else ():
        part = parts.get(child_part.id)
        if part is not None and not part.enabled:  # it was optional, and could not run
            continue
        if part is None or _result(part) != _result(child_part):
            problem = f"its part {child_part.id} is not that of the run within"
            problems.append(printable(f"report.json: {problem}"))
    return problems


def _result(part: Part) -> list[Any]:
    findings = [claim_mark.without(finding).replace(suppression=None) for finding in part.findings]
    return [answers.without(part.summary), dict(part.metrics), part.state, findings]


def _is_question(folder: str, report: Report) -> bool:
    """Whether the run is a question with a record of its own: a replay has the original's."""
    run = manifest.read(folder)
    has_record = any(os.path.lexists(os.path.join(folder, name)) for name in (request.NAME, CALLS))
    if run.pipeline_id == EPISODE or (run.parent_run_id and not has_record):
        return False
    is_symbolic = any(part.metrics.get("mode") == SYMBOLIC for part in report.parts)
    return is_symbolic or os.path.lexists(os.path.join(folder, "rlm", "context"))


class _Question(Value):
    """The text of a question's run; ``problems`` are those of its bytes."""

    folder: str
    problems: tuple[str, ...]

    @classmethod
    def of(cls, folder: str) -> _Question:
        """Check the text, also parts that no model was shown. Raises DamagedError if it is gone."""
        from rlm_ci.context.context import Context

        context = os.path.join(folder, "rlm", "context")
        for path in (context, os.path.join(folder, CALLS)):
            if not os.path.lexists(path):
                raise DamagedError(
                    "it is gone, and what the planner saw cannot be checked without it",
                    where=printable(path),
                    hint="restore it from a copy",
                )
        problems = []
        with Context.open(context) as opened:
            try:
                opened.verify()
            except (DamagedError, ConfigError) as error:
                problems.append(printable(f"rlm/context: {error}"))
        return cls(folder, tuple(problems))

    def use(self) -> ContextUse | None:
        """What a planner was shown, once all files hold; None where code answered."""
        from rlm_ci.ask import context_use
        from rlm_ci.context.context import Context

        folder = os.path.join(self.folder, "rlm")
        if not os.path.isdir(os.path.join(folder, context_use.PLANNER)):
            return None
        with Context.open(os.path.join(folder, "context")) as opened:
            return context_use.examine(folder, opened)


def _citations(report: Report) -> tuple[int, int] | None:
    """The citations of an answer that hold, and those marked as unverified; None without one."""
    counts = report.evidence
    return (counts.verified, counts.offered - counts.verified) if report.documents else None


def _question_record(report: Report, use: ContextUse | None) -> dict[str, Any]:
    verified, marked = _citations(report) or (None, 0)
    answer: dict[str, Any] = {"answer": {"verified": verified, "marked": marked, "problems": []}}
    return answer if use is None else {"exposure": use.to_dict(), **answer}


def _lines(report: Report | None, checked: CheckedReport | None) -> Iterator[str]:
    if report is None or checked is None:
        yield "there is no report"
        return
    wrong = len(checked.problems)
    fallen = f"{wrong:,} {'does' if wrong == 1 else 'do'} not hold"
    outcome = fallen if wrong else "all hold" if checked.counts.offered else "nothing to open"
    yield f"{count(checked.counts.offered, 'cited place')}, {outcome}"
    if (verdict := report.verdict()) in (INCOMPLETE, NOT_RUN):
        yield f"the report itself says: {headline(report)} ({verdict})"


def _question_lines(report: Report, use: ContextUse | None) -> Iterator[str]:
    if citations := _citations(report):
        verified, marked = citations
        hold = "holds" if verified == 1 else "hold"
        more = f"; {marked:,} more marked as unverified" if marked else ""
        yield f"{count(verified, 'citation')} {hold} in the run's context{more}"
    for part in report.parts:
        if part.metrics.get("environment") == REPL:
            blocks, turns, subcalls = (part.metrics[key] for key in ("blocks", "turns", "subcalls"))
            yield (
                f"{count(blocks, 'block')} of code, {count(turns, 'prompt')} of the model that "
                f"wrote it, {count(subcalls, 'sub-call')}"
            )
    if use is None:
        return
    again = [
        f"{count(number, noun)} {verb}"
        for number, noun, verb in (
            (use.counts, "count", "counted again"),
            (use.maps, "map", "reduced again"),
        )
        if number
    ]
    if again:
        yield ", ".join(again)
    yield (
        f"{count(use.prompts, 'prompt')} of the planner, the largest of {use.largest:,} bytes "
        f"where {use.limit:,} are allowed; {count(use.excerpt_bytes, 'byte')} of the context in "
        "excerpts"
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
