"""What follows from the record of a run, made once more from it, in a folder of its own.

A review or a wiki is solved again from its sources. A fix loop takes its turns again, a question
its steps. Answers of models and outputs of commands come from the record: no model is asked, and no
command runs.

Prompts are made again, too: the record has only their hashes. It has an answer only for the very
same request, so a prompt that leads to an answer is the one that was sent.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from contextlib import contextmanager, suppress

from rlm_ci import __version__
from rlm_ci.ask.compute import FOLDER
from rlm_ci.ask.context_use import PLANNER
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import Settings
from rlm_ci.console import output
from rlm_ci.console.progress import Progress
from rlm_ci.environments.symbolic.visible_context import is_masked
from rlm_ci.errors import ConfigError, DamagedError, RlmCiError
from rlm_ci.judge.options import output_of
from rlm_ci.models.record.index import COMPLETION
from rlm_ci.pipelines.attempt import without_runs
from rlm_ci.pipelines.definition import EPISODE, EPISODE_RESULT
from rlm_ci.pipelines.repository import plan
from rlm_ci.pipelines.stored_runs import ROWS
from rlm_ci.recursion.journal import node_records, run_json
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report.wording import WORDS
from rlm_ci.review.run import ChangeReviewJob, ReviewJob
from rlm_ci.runs import archive, checksums, request
from rlm_ci.runs.journal.journal import replay
from rlm_ci.runs.request import RunRequest
from rlm_ci.runs.run import Run
from rlm_ci.runs.store import RunStore
from rlm_ci.solve import registry
from rlm_ci.solve.pipeline import CALLS, PIPELINE
from rlm_ci.system import files
from rlm_ci.text.printable import count, first_of, printable
from rlm_ci.values import Value
from rlm_ci.wiki import VERSION as PAGES_VERSION
from rlm_ci.wiki.run import WikiJob
from rlm_ci.workspace.stored_trees import SNAPSHOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from rlm_ci.git.repository import Repository
    from rlm_ci.models import ModelRequest
    from rlm_ci.pipelines.repository.plan import RepositoryOptions
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.report.findings import Report
    from rlm_ci.runs.manifest import Manifest


#: What the first of its steps left behind: the snapshot, what it ignores, the objects of every
#: tree. Nothing else of the git folder, where a configuration can be.
_BEGINNING = (SNAPSHOT, "git/excludes", "git/objects/objects")
_LIMIT = 1 << 30
#: Bytes that a stored file may have beyond twice those of the one that is made again.
_SPARE = 1 << 20
_NOT_GIVEN = "it is not what the record of the run gives"
_NOT_SHOWN = "it does not show what report.json says"
#: The files that show a report in words.
_SHOWN = ("comment.md", "report.html")
#: What a run makes besides its report; of that, what tells when, or in which order. The times of
#: a trajectory are facts.
_MADE = "rlm/"
_TIMED = re.compile(
    r"rlm/(?:(?:run|snapshot)\.json|(?!trajectory\.)[a-z]+\.jsonl|(?:before|logs)/.*)"
)
_ARTIFACTS = "rlm/artifacts/"
#: What somebody takes from a run, beside what shows the report.
_RESULTS = ("report.json", "rlm/result.patch")
_WAY_ON = "verify the folder that the run itself has left, or an export of it that brings them"
_RELEASE = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}", re.ASCII)
_FIRST = (0, 1, 0)


class DerivedFiles(Value):
    """The number of files that follow from the record, those that do not, and notes.

    ``vouched`` are files for which only their sums vouch, as they could not be made again.
    """

    files: int = 0
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    vouched: tuple[str, ...] = ()


def rests_on_of(folder: str) -> Mapping[str, Any] | None:
    """What the results of a run rest on, by its last event; None before its end."""
    last = checksums.last_event(os.path.join(folder, checksums.EVENTS))
    rests_on: Mapping[str, Any] | None = last.get("payload", {}).get("rests_on")
    return rests_on


def pages_folder(rests_on: Mapping[str, Any], root: str) -> str | None:
    """The folder of a wiki's pages, where the repository is now at ``root``; None without one."""
    pages, _ = rests_on["settings"].get("wiki.out", (None, ""))
    return pages and os.path.join(root, rests_on["folder"], pages)


def settings_of(rests_on: Mapping[str, Any], environ: Mapping[str, str], root: str) -> Settings:
    """The settings of a run, from its last event."""
    rows = {row.key: row for row in (*PROGRAM, *ROWS)}
    settings = Settings(rows.values(), {}, {})
    settings.environ = environ
    settings.recall(rests_on["settings"])
    settings.values["wiki.out"] = pages_folder(rests_on, root)
    settings.values[output.RULE_PAGES] = rests_on.get(output.RULE_PAGES) is True
    return settings


class _StoredChangeReview(ChangeReviewJob):
    def corpus(self, agreed: RepositoryOptions) -> Corpus:
        change = plan.change_of(agreed.scope, self.repository)
        if change is None:
            raise ConfigError("it is not a review of a change", where=CALLS, hint="restore it")
        self.change = change
        return super().corpus(agreed)


class _StoredWiki(WikiJob):
    def _cache(self) -> str:
        return os.path.join(self.skipped[-1], "cache")


def examine(
    folder: str,
    run: Manifest,
    report: Report,
    ending: Mapping[str, Any],
    *,
    repository: Repository,
    today: Settings,
) -> DerivedFiles:
    """Compare the report of a run and its other files with what they follow from."""
    try:
        settings = settings_of(ending["rests_on"], today.environ, repository.root)
        if run.parent_run_id and not _has_record(folder):
            reason = f"a replay: its record is that of {run.parent_run_id}"
            return DerivedFiles(notes=(printable(reason),))
        if _is_made_again(run):
            derived_files = _derive(folder, run, report, settings, repository)
        else:
            derived_files = _views(
                folder, report, settings, ending["rests_on"].get("templates", {})
            )
        pages = earlier_pages(folder, run.pipeline_id)
        derived_files = _excused(derived_files, ending["version"], pages)
        return _with_earlier_words(derived_files, ending["rests_on"].get("words", 1))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"its settings are not as a run writes them ({type(error).__name__})"
        return DerivedFiles(problems=(f"{checksums.EVENTS}: {reason}",))


def _excused(derived_files: DerivedFiles, version: str, pages: str) -> DerivedFiles:
    """Differences prove nothing where an earlier release wrote the run: its texts were others.

    ``pages`` says which earlier pages a wiki has, or nothing.
    """
    if not derived_files.problems or not (pages or _is_earlier(version)):
        return derived_files
    number = count(len(derived_files.problems), "file")
    difference = pages or f"and {__version__} words reports differently"
    note = (
        f"rlm-ci {version} wrote this run, {difference}: {number} "
        f"could not be rebuilt, only checked by checksum. To rebuild, use the rlm-ci that wrote it"
    )
    return DerivedFiles(derived_files.files, notes=(*derived_files.notes, note))


def _with_earlier_words(derived_files: DerivedFiles, words: object) -> DerivedFiles:
    """A note in place of differences in what shows a report, where a run has earlier ``words``."""
    if type(words) is not int or not 0 < words < WORDS:
        return derived_files
    expected = {f"{name}: {why}" for name in _SHOWN for why in (_NOT_GIVEN, _NOT_SHOWN)}
    problems = tuple(problem for problem in derived_files.problems if problem not in expected)
    number = len(derived_files.problems) - len(problems)
    if not number:
        return derived_files
    note = (
        f"this run words its report by version {words}, and this rlm-ci by version {WORDS}: "
        f"{count(number, 'file')} could not be rebuilt, only checked by checksum"
    )
    return derived_files.replace(problems=problems, notes=(*derived_files.notes, note))


def earlier_pages(folder: str, pipeline_id: str) -> str:
    """Which pages the wiki of a run has if this release makes others, else nothing."""
    head = run_json.read(os.path.join(folder, "rlm")) if pipeline_id == "wiki" else None
    options = (head or {}).get("options")
    version = options.get("version") if isinstance(options, dict) else None
    if type(version) is not int or not 0 < version < PAGES_VERSION:
        return ""
    return f"with pages of version {version}, and this one makes version {PAGES_VERSION}"


def _is_earlier(version: str) -> bool:
    """Whether it is a release before this one. Other versions are no excuse."""
    return bool(_RELEASE.fullmatch(version)) and _FIRST <= _numbers(version) < _numbers(__version__)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _is_made_again(run: Manifest) -> bool:
    """Whether the run has a record from which its report follows."""
    return run.pipeline_id in ("review", "wiki", "rlm", EPISODE)


def _has_record(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, CALLS)) or request.is_kept(folder)


def _views(
    folder: str, report: Report, settings: Settings, templates: Mapping[str, str] | None
) -> DerivedFiles:
    """Whether all files of a report show the same; ``templates`` is None for too long ones."""
    unknown = {"report.json"} | ({*_SHOWN} if templates is None else set())
    rendered = output_of(settings).rendered(report.replace(publication=None), templates)
    shown = ((name, b"".join(pieces)) for name, pieces in rendered if name not in unknown)
    return _compared_files(folder, shown, _NOT_SHOWN)


def _compared_files(
    folder: str,
    rebuilt: Iterable[tuple[str, bytes]],
    why: str,
    clean: Callable[[str], str] | None = None,
) -> DerivedFiles:
    """Compare the files in ``folder`` with ``rebuilt``; they may differ in what ``clean`` masks."""
    problems, number = [], 0
    for name, data in rebuilt:
        try:
            stored = files.read(_below(folder, name), 2 * len(data) + _SPARE)
        except files.UnreadableError as error:
            problems.append(f"{name}: {error}")
            continue
        if stored == data or (clean and _is_masked(stored, data, clean)):
            number += 1
        else:
            problems.append(f"{name}: {why}")
    return DerivedFiles(number, tuple(map(printable, problems)))


@contextmanager
def repetition(
    run: Manifest, settings: Settings, repository: Repository
) -> Iterator[tuple[Run, Progress, tuple[str, ...]]]:
    """A run of the same ids in a folder that is removed, and what its job must skip."""
    with (
        files.scratch("rlm-ci-repeat-") as scratch,
        Progress(settings.environ, quiet=True) as progress,
        Run.create(
            RunStore(os.path.join(scratch, "runs"), _store_of(run)),
            run.task_id,
            run_id=run.run_id,
            pipeline_id=run.pipeline_id,
            redactor=Redactor(settings.environ),
            out=os.path.join(scratch, "out"),
        ) as run_folder,
    ):
        excluded = without_runs(repository.root, settings.runs_dir, settings.out_dir)
        yield run_folder, progress, (*excluded, scratch)


def _store_of(run: Manifest) -> str:
    """The folder of all runs, as the files of ``run`` name it."""
    return run.artifact_root.removesuffix(f"/{run.task_id}/cli/{run.run_id}")


def _derive(
    folder: str, run: Manifest, report: Report, settings: Settings, repository: Repository
) -> DerivedFiles:
    """Repeat the run in ``folder``, and compare its files byte by byte."""
    with repetition(run, settings, repository) as (rerun, progress, skipped):
        calls = os.path.join(folder, CALLS)
        work: Any
        goal = None
        if run.pipeline_id == "wiki":
            work = _StoredWiki(settings, repository, progress, skipped=skipped, replay=calls)
        elif run.pipeline_id == "review":
            is_own = request.is_kept(folder)
            kind = ReviewJob if is_own else _StoredChangeReview
            work = kind(settings, repository, progress, skipped=skipped, replay=calls)
        else:
            begin_alike(folder, rerun)
            goal = RunRequest.read(folder, run.pipeline_id).goal
            job_type: Any = registry.job_type(run.pipeline_id)
            work = job_type(settings, repository, progress, skipped=skipped, replay=calls)
        error: RlmCiError | None = None
        try:
            work(rerun, goal)
        except RlmCiError as ended:
            error = ended
        if isinstance(error, DamagedError) and error.where == calls:
            raise error
        if work.report is None or (error is not None and error.code != run.exit_code):
            problem = f"report.json: it cannot be made again from the record of the run: {error}"
            return _not_made(folder, run, report, settings, printable(problem))
        # No record has how many answers were stored ones.
        usage = work.report.usage
        usage = usage.replace(replayed=min(report.usage.replayed, usage.calls))
        derived_files = _compared(folder, rerun.path, work.report.replace(usage=usage), settings)
        if derived_files.problems and error is not None:
            problem = "report.json: the error that ended the run is not made again"
            return _not_made(folder, run, report, settings, problem)
        problems = derived_files.problems
        if error is None and run.pipeline_id in ("review", "wiki"):
            clean, is_review = Redactor(settings.environ).text, run.pipeline_id == "review"
            problems += tuple(_tree_problems(folder, rerun.path, clean, is_review=is_review))
        return derived_files.replace(problems=problems)


def _not_made(
    folder: str, run: Manifest, report: Report, settings: Settings, why: str
) -> DerivedFiles:
    """A problem; a note if it is a fix whose git objects are gone.

    What shows the report must show it all the same.
    """
    rlm_folder = os.path.join(folder, "rlm")
    has_git, is_question, has_trees = (
        os.path.lexists(os.path.join(rlm_folder, name)) for name in ("git", "context", SNAPSHOT)
    )
    is_fix = has_trees and not is_question and run.pipeline_id not in ("review", "wiki")
    if has_git or not is_fix:
        return DerivedFiles(problems=(why,))
    note = f"{why}; its git objects are missing (rlm/git): {_WAY_ON}"
    vouched = [name for name in archive.names(folder) if name in _RESULTS]
    return _views(folder, report, settings, {}).replace(notes=(note,), vouched=tuple(vouched))


def damaged_journals(folder: str) -> tuple[str, ...]:
    """What is wrong with the journals of a recursion that may still be under way."""
    rlm_folder = os.path.join(folder, "rlm")
    try:
        if run_json.read(rlm_folder) is not None:
            node_records.read(rlm_folder)
    except RlmCiError as error:
        return (printable(f"rlm: {error}"),)
    return ()


def _tree_problems(
    folder: str, rebuilt: str, clean: Callable[[str], str], *, is_review: bool
) -> list[str]:
    """The nodes of a recursion of which its journals say something else than ``rebuilt`` does.

    A wiki takes facts of unchanged files from a cache, and has other nodes then: none are compared.
    """
    places = [os.path.join(path, "rlm") for path in (folder, rebuilt)]
    try:
        heads = [run_json.read(path) or {} for path in places]
        stored, again = (
            node_records.comparable(node_records.read(path), places[0]) for path in places
        )
    except RlmCiError as error:
        return [printable(f"rlm: {error}")]
    if heads[0].get("corpus") != heads[1].get("corpus"):
        problem = f"rlm/{run_json.NAME}: the files have changed since the run; restore them"
        return [problem] if is_review else []
    problems = []
    for name, nodes in stored.items():
        made_nodes = again[name]
        wrong = [
            node
            for node in sorted(nodes.keys() | made_nodes.keys())
            if clean(json.dumps(nodes.get(node))) != clean(json.dumps(made_nodes.get(node)))
        ]
        if wrong:
            what = first_of([f"node {node}" for node in wrong], "node")
            problems.append(printable(f"rlm/{name}: {what}: {_NOT_GIVEN}"))
    return problems


def _compared(folder: str, scratch: str, report: Report, settings: Settings) -> DerivedFiles:
    names = [name for name, _ in output.FILES]
    names += [name for name in made_again(scratch) if name not in names]
    views = {name: b"".join(pieces) for name, pieces in output_of(settings).rendered(report)}
    pairs = (
        (name, views[name] if name in views else files.read(_below(scratch, name), _LIMIT))
        for name in names
    )
    clean = Redactor(settings.environ).text
    derived_files = _compared_files(folder, pairs, _NOT_GIVEN, clean)
    extra = [name for name in archive.names(folder) if name.startswith(_ARTIFACTS)]
    more = (
        printable(f"{name}: the record of the run does not give it")
        for name in extra
        if name not in names
    )
    return derived_files.replace(problems=(*derived_files.problems, *more))


def made_again(folder: str) -> list[str]:
    """The files of a run besides its report that follow from its record."""
    return [
        name
        for name in archive.names(folder)
        if (name.startswith(_MADE) or name == EPISODE_RESULT) and not _TIMED.fullmatch(name)
    ]


def differing(folder: str, replay: str, clean: Callable[[str], str]) -> tuple[str, ...]:
    """What is wrong with the files of the run in ``folder`` that its ``replay`` made again.

    Their own ids may differ, and what ``clean`` masks.
    """
    old, new = map(os.path.basename, (folder, replay))
    pairs = (
        (
            name.replace(new, old),
            files.read(_below(replay, name), _LIMIT).replace(new.encode(), old.encode()),
        )
        for name in made_again(replay)
    )
    return _compared_files(folder, pairs, _NOT_GIVEN, clean).problems


def _below(folder: str, name: str) -> str:
    return os.path.join(folder, *name.split("/"))


def _is_masked(stored: bytes, rebuilt: bytes, clean: Callable[[str], str]) -> bool:
    """Whether they differ in secrets alone: others may be known today."""
    with suppress(UnicodeDecodeError):
        return is_masked(clean(stored.decode()), rebuilt.decode())
    return False


def begin_alike(folder: str, run: Run) -> None:
    """Copy the beginning of the run in ``folder`` for a replay."""
    for name in _BEGINNING:
        source = _below(os.path.join(folder, "rlm"), name)
        target = run.path_of("rlm", *name.split("/"))
        try:
            if os.path.isdir(source):
                shutil.copytree(source, target, ignore=_no_files)
            elif os.path.exists(source):
                shutil.copyfile(source, target)
        except OSError as error:
            raise files.storage_error(error, target) from None


def _no_files(folder: str, names: list[str]) -> list[str]:
    modes = ((name, os.lstat(os.path.join(folder, name)).st_mode) for name in names)
    return [name for name, mode in modes if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode))]


def read(
    folder: str,
    run: Manifest,
    repository: Repository,
    today: Settings,
    on_step: Callable[[str], None],
) -> tuple[dict[str, ModelRequest], str]:
    """The requests by their places, and why some are missing, "" if none are.

    A question keeps its prompts as files.
    """
    requests: dict[str, ModelRequest] = {}

    def keep(model_request: ModelRequest, step: str) -> None:
        requests[step] = model_request

    job_type = registry.job_type(run.pipeline_id)
    names = (PLANNER, os.path.basename(FOLDER)) if run.pipeline_id == PIPELINE else ()
    is_kept = any(os.path.isdir(os.path.join(folder, "rlm", name)) for name in names)
    if job_type is None or is_kept or not (request.is_kept(folder) and _has_calls(folder)):
        return requests, ""
    try:
        rests_on = rests_on_of(folder)
        if rests_on is None:
            return requests, "" if run.has_ended else "that needs a run that has ended"
        on_step("repeating the run without a model, for its prompts")
        settings = settings_of(rests_on, today.environ, repository.root)
        with repetition(run, settings, repository) as (rerun, progress, skipped):
            begin_alike(folder, rerun)
            goal = RunRequest.read(folder, run.pipeline_id).goal
            calls = os.path.join(folder, CALLS)
            work = job_type(settings, repository, progress, skipped=skipped, replay=calls)
            work.on_answer = keep
            work(rerun, goal)
    except RlmCiError as error:
        return requests, "" if error.code == run.exit_code else error.what
    return requests, ""


def _has_calls(folder: str) -> bool:
    """Whether the run has asked a model."""
    try:
        return any(
            call.get("kind") == COMPLETION
            for call in replay(os.path.join(folder, CALLS), live=True)
        )
    except RlmCiError:  # the page says so
        return False
