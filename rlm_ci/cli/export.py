"""``rlm-ci export``: a run as one file, to be attached, kept, or looked at elsewhere."""

from __future__ import annotations

from rlm_ci import errors
from rlm_ci.cli import write
from rlm_ci.cli.output import require_text_or_json
from rlm_ci.cli.running import ROWS, Runs, one_run
from rlm_ci.publishing import neutral
from rlm_ci.runs.export import export
from rlm_ci.settings import Settings
from rlm_ci.texts import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.cli.arguments import Arguments
    from rlm_ci.settings import Setting

SUMMARY = "write a run to one tar.gz, with the sha256 of each file"
USAGE = "RUN [-o FILE] [OPTION...]"


def rows(_argv: Sequence[str]) -> tuple[Setting, ...]:
    return ROWS


def run(arguments: Arguments) -> int:
    word = one_run(arguments, "export")
    settings = Settings(ROWS, arguments.flags)
    require_text_or_json(settings, "export")
    entry = Runs(settings).find(word)
    target = settings.output or f"{entry.run_id}.tar.gz"
    done = export(entry.path, entry.run_id, target)
    if settings.format == "json":
        facts = {"file": target, "run_id": entry.run_id, "files": done.files, "bytes": done.size}
        write(neutral.record(facts | {"sha256": done.sha256}))
    elif not settings.quiet:
        write(f"{printable(target)}: {count(done.files, 'file')}, {count(done.size, 'byte')}\n")
        write(f"sha256 {done.sha256}\n")
    return errors.OK
