"""``rlm-ci verify``: re-check every evidence pointer of a stored report, offline."""

from __future__ import annotations

import json
import os

from rlm_ci import errors, evidence, files, resources
from rlm_ci.cli import output, running
from rlm_ci.cli.judging import open_repository
from rlm_ci.errors import ConfigError, DamagedError, UsageError
from rlm_ci.findings import SCHEMA_VERSION, Report
from rlm_ci.publishing import neutral
from rlm_ci.runs import manifest
from rlm_ci.settings import Settings
from rlm_ci.table import COMMON, CORE
from rlm_ci.texts import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.cli.arguments import Arguments
    from rlm_ci.settings import Setting

SUMMARY = "re-check every evidence pointer of a stored report, offline"
USAGE = "REPORT|RUN [OPTION...]"
_LIMIT = 64 << 20


def rows(_argv: Sequence[str]) -> tuple[Setting, ...]:
    return COMMON


def run(arguments: Arguments) -> int:
    if len(arguments.positionals) != 1:
        raise UsageError(
            "verify takes one report or run", where="rlm-ci verify", hint=f"rlm-ci verify {USAGE}"
        )
    settings = Settings((*CORE, *running.OUT_DIR), arguments.flags)
    output.require_text_or_json(settings, "verify")
    report = read_report(_path(arguments.positionals[0], settings))
    counts, problems = evidence.verify(report, open_repository(settings))
    if settings.format == "json":
        fields = {name: getattr(counts, name) for name in counts._fields}
        text = neutral.record({"evidence": fields, "problems": problems})
    else:
        lines = [f"✗ {problem}" for problem in problems]
        fallen = f"{len(problems):,} {'does' if len(problems) == 1 else 'do'} not hold"
        held = fallen if problems else "all hold"
        lines.append(f"{count(counts.offered, 'evidence pointer')}, {held}")
        text = "".join(f"{neutral.log(line)}\n" for line in lines)
    output.emit(text, settings)
    return errors.FINDINGS if problems else errors.OK


def _path(word: str, settings: Settings) -> str:
    """The report that ``word`` names: itself, or that of a run."""
    is_manifest = os.path.basename(word) == manifest.NAME
    is_file = os.path.lexists(word) or word.endswith(".json") or os.sep in word
    if is_file and not is_manifest:
        return word
    return os.path.join(running.Runs(settings).find(word).path, "report.json")


def read_report(path: str, limit: int = _LIMIT) -> Report:
    """A stored report of at most ``limit`` bytes, valid under its schema.

    Raises ConfigError or DamagedError.
    """
    try:
        record = json.loads(files.read(path, limit))
    except files.UnreadableError as error:
        raise ConfigError(
            f"the report cannot be read: {error}",
            where=printable(path),
            hint="name a report.json that rlm-ci wrote",
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"the report is not valid JSON: {printable(str(error))[:200]}",
            where=printable(path),
            hint="name a report.json that rlm-ci wrote",
        ) from None
    version = record.get("schema_version") if isinstance(record, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise DamagedError(
            f"the report has version {version}, this rlm-ci knows {SCHEMA_VERSION}",
            where=printable(path),
            hint="install a newer rlm-ci",
        )
    resources.validate(record, "report.schema.json", path)
    try:
        return Report.from_dict(record)
    except ValueError as error:
        raise ConfigError(
            f"the report is not valid: {printable(str(error))[:200]}",
            where=printable(path),
            hint="make it again with rlm-ci pr",
        ) from None
