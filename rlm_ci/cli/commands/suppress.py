"""``rlm-ci suppress``: accept a finding, by an entry in the config file."""

from __future__ import annotations

import os

from rlm_ci import errors
from rlm_ci.cli.commands.verify import read_report, report_of
from rlm_ci.config.core_options import CORE
from rlm_ci.config.extended_file import extended
from rlm_ci.config.settings import CONFIG_FILES, Setting, Settings, parse_config
from rlm_ci.console.messages import warn
from rlm_ci.errors import ConfigError, RlmCiError, UsageError
from rlm_ci.judge import config_file
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.stored_runs import StoredRuns
from rlm_ci.report.details import claim_mark
from rlm_ci.report.findings import fingerprints
from rlm_ci.report.suppressions import DIGITS
from rlm_ci.system import files
from rlm_ci.text import dates, neutralise
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.report.findings import Finding, Report

SUMMARY = "accept a finding: write a suppression into the config file"
USAGE = "FINDING --reason TEXT [OPTION...]"
TAKES = ("one finding: its fingerprint, the beginning of it, or PATH:LINE", 1, 1)
EXAMPLES = (
    'rlm-ci suppress src/shop.py:41 --reason "the list is never empty"',
    'rlm-ci suppress 3f2a9c1b --reason "agreed in the design" --until 2027-06-30',
)
FORMS = ("text", "json")
EXITS = {errors.OK: "the config file accepts the finding; also if it did before"}
ROWS = (
    Setting("reason", "why the finding is accepted", flag="--reason", metavar="TEXT",
            file=False, own_env=False),
    Setting("until", "last day of the suppression, YYYY-MM-DD", flag="--until",
            metavar="DAY", file=False, own_env=False),
    Setting("report", "report.json, or the run, that has the finding (default: the newest "
            "run that has it)", flag="--report", metavar="FILE|RUN", file=False, own_env=False),
    *stored_runs.ROWS,
)  # fmt: skip
#: Fewest digits of a fingerprint's beginning.
_FEWEST = 6
#: Runs that are looked through, and bytes of a report.
_RUNS = 50
_LIMIT = 64 << 20
_SHOWN = 100
#: Findings that a message lists.
_LISTED = 5


class _NamedFinding(Value):
    """A finding of a stored report, with its fingerprint."""

    mark: str
    finding: Finding

    @property
    def position(self) -> str:
        for location in self.finding.evidence[:1]:
            line = f":{location.line_start}" if location.line_start else ""
            return f"{printable(encodable(location.path))}{line}"
        return "the whole change"

    def summary(self) -> str:
        message = neutralise.one_line(encodable(self.finding.message))
        return f"{self.position}: {neutralise.clip(message, _SHOWN)}"


def run(arguments: Arguments) -> int:
    settings = Settings((*CORE, *stored_runs.OUT_DIR, *ROWS), arguments.flags)
    output = output_of(settings).require_text_or_json("suppress")
    entry = _entry_options(settings)
    runs = StoredRuns(settings)
    target = _only(arguments.words[0], runs)
    claim = claim_mark.of(target.finding)
    about = {"claim": claim} if claim else {}
    entry = {"rule": target.finding.rule, "fingerprint": target.mark, **about, **entry}
    path, name, data = _config(settings, runs)
    is_shared = os.path.basename(path) == CONFIG_FILES[1]
    keys = ("tool", config_file.TABLE) if is_shared else ()
    table = config_file.TABLE if is_shared else None
    existing = parse_config(data, name, table).get("suppressions")
    existing = existing if isinstance(existing, list) else []
    is_new = not any(isinstance(row, dict) and _is_same(row, entry) for row in existing)
    if is_new:
        remark = target.summary()
        content = extended(data, (*keys, "suppressions"), entry, remark=remark, source=name)
        files.write(path, content, _mode(path))
    if settings.format == "json":
        output.emit(neutralise.record({"config": name, "written": is_new, "entry": entry}))
    else:
        done = "accepts" if is_new else "accepts already"
        lines = [f"{printable(name)} {done} {entry['rule']} at {target.summary()}"]
        if is_new:
            lines.append("A pull request is judged by its base branch: merge the file there first.")
        output.emit("".join(f"{neutralise.log(line)}\n" for line in lines))
    return errors.OK


def _entry_options(settings: Settings) -> dict[str, str]:
    """What the options say of the entry. Raises UsageError."""
    reason, until = settings.reason, settings.until
    reason = printable(encodable((reason or "").strip()))
    if not reason:
        raise UsageError(
            "a suppression needs a reason",
            where="--reason",
            hint="say why the finding is accepted; the report shows it",
        )
    if until and not dates.is_day(until):
        raise UsageError(
            f"--until must be a day YYYY-MM-DD, not {until[:80]!r}",
            where="--until",
            hint="write it as 2027-01-31",
        )
    return {"reason": reason, **({"until": until} if until else {})}


def _is_same(existing: dict[str, Any], entry: dict[str, str]) -> bool:
    same = ("rule", "fingerprint")
    is_older = (existing.get("until") or "9999") < entry.get("until", "9999")
    now, before = entry.get("claim", ""), str(existing.get("claim") or "")
    is_covered = now == before or (
        claim_mark.is_mark(before) and not claim_mark.is_worse(now, before)
    )
    return is_covered and not is_older and all(existing.get(name) == entry[name] for name in same)


# ── which finding ──


def _only(word: str, runs: StoredRuns) -> _NamedFinding:
    """The one finding that ``word`` names. Raises UsageError."""
    hits: list[_NamedFinding] = []
    where = "the stored runs"
    for name, report in _reports(runs):
        candidates = map(_NamedFinding, fingerprints(report.findings), report.findings)
        hits = [hit for hit in candidates if _is_meant(word, hit)]
        hits = [hit for hit in hits if hit.finding.suppression is None] or hits
        if hits:
            where = printable(name)
            break
    if len(hits) == 1:
        return hits[0]
    if hits:
        listed = [
            f"{hit.mark[: _FEWEST + 2]} {hit.finding.rule} at {hit.summary()}" for hit in hits
        ]
        raise UsageError(
            f"{count(len(hits), 'finding')} of {where} match {printable(word)[:80]!r}",
            where="FINDING",
            hint=f"name one by its fingerprint: {'; '.join(listed[:_LISTED])}",
        )
    where = printable(runs.settings.report or where)
    raise UsageError(
        f"no finding of {where} matches {printable(word)[:80]!r}",
        where="FINDING",
        hint="name it as PATH:LINE or by its fingerprint in report.json; name the report: --report",
    )


def _reports(runs: StoredRuns) -> Iterator[tuple[str, Report]]:
    """The named report, else those of the newest runs, with their places."""
    report_name = runs.settings.report
    if report_name:
        path, _ = report_of(report_name, runs.settings)
        yield path, read_report(path, _LIMIT)
        return
    for entry in runs.entries()[:_RUNS]:
        path = os.path.join(entry.path, "report.json")
        if not os.path.lexists(path):
            continue
        try:
            report = read_report(path, _LIMIT)
        except RlmCiError as error:  # another run may have the finding
            warn(error)
            continue
        yield entry.run_id, report


def _is_meant(word: str, candidate: _NamedFinding) -> bool:
    digits = word.casefold()
    is_mark = _FEWEST <= len(digits) <= DIGITS and set(digits) <= set("0123456789abcdef")
    if is_mark and candidate.mark.startswith(digits):
        return True
    path, _, line = word.rpartition(":")
    number = int(line) if line.isascii() and line.isdigit() and len(line) < 10 else None
    for location in candidate.finding.evidence[:1]:
        names = (location.path, encodable(location.path), printable(encodable(location.path)))
        first, last = location.line_start, location.line_end or location.line_start
        if number is None or first is None or last is None:
            return word in names
        return path in names and first <= number <= last
    return False


# ── which file ──


def _config(settings: Settings, runs: StoredRuns) -> tuple[str, str, bytes]:
    """The config file: its path, its name in messages, its content. Raises ConfigError."""
    if settings.config:
        try:
            return settings.config, settings.config, files.read(settings.config, config_file.LIMIT)
        except files.UnreadableError as error:
            raise ConfigError(
                f"the config file cannot be read: {error}",
                where=settings.config,
                hint="name a file that exists",
            ) from None
    repository = open_repository(settings)
    configs = []
    for name in CONFIG_FILES:
        data = config_file.read_worktree(repository, name)
        is_own = name == CONFIG_FILES[0]
        if data is not None and (is_own or parse_config(data, name, config_file.TABLE)):
            configs.append((os.path.join(runs.root, name), name, data))
    if len(configs) > 1:
        raise ConfigError(
            "there are two configurations",
            where=" and ".join(CONFIG_FILES),
            hint="keep one: rlm-ci.toml, or [tool.rlm-ci] in pyproject.toml",
        )
    name = CONFIG_FILES[0]
    return configs[0] if configs else (os.path.join(runs.root, name), name, b"")


def _mode(path: str) -> int:
    """The permissions of the file, or those of a new one."""
    try:
        return os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        return 0o644
