"""Cases on disk, as they are run; and the hash of a suite, by which results are comparable."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from hashlib import sha256

from rlm_ci.errors import ConfigError
from rlm_ci.lab.bench import generators
from rlm_ci.lab.bench.generators.seeded import CONTEXT, FILES, KnownCall
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.lab.bench.packs.pack import Preset
    from rlm_ci.lab.results import BenchmarkCase

_BLOCK = 1 << 20


class PreparedCase(Value):
    """A case with its task and its answer, and where its context is.

    ``workdir`` is a copy of the files that the agent edits, which it may change: for one attempt.
    """

    case: BenchmarkCase
    context: str | None = None
    workdir: str | None = None
    module: str = ""
    calls: tuple[KnownCall, ...] = ()

    def attempt(self, folder: str) -> PreparedCase:
        """The same with files of its own, copied to ``folder``."""
        if self.workdir is None:
            return self
        return self.replace(workdir=shutil.copytree(self.workdir, folder))


def with_options(preset: Preset, *, seed: int | None, tokens: int | None) -> Preset:
    """The preset with another seed or length for all that is generated: another suite."""
    changes = {
        key: value for key, value in (("seed", seed), ("tokens", tokens)) if value is not None
    }
    if not changes:
        return preset
    cases = tuple(
        replace(case, context={**case.context, **changes})
        if isinstance(case.context, dict) and "generator" in case.context
        else case
        for case in preset.cases
    )
    for case in cases:
        if isinstance(case.context, dict) and "generator" in case.context:
            generators.arguments(case.context)
    return preset.replace(cases=cases)


def prepare(case: BenchmarkCase, pack_folder: str, folder: str) -> PreparedCase:
    """Write what a case needs into the new ``folder``. Raises ConfigError, StorageError."""
    context = case.context
    if isinstance(context, dict) and "generator" in context:
        options = generators.arguments(context)
        module = generators.load(options.pop("generator"))
        files.make_folder(folder, 0o700)
        generated = module.make(folder, **options)
        resolved = replace(
            case,
            task=case.task or generated.task,
            description=case.description or generated.task[:70],
            scorer=case.scorer or generated.scorer,
            expected_answer=generated.expected
            if case.expected_answer is None
            else case.expected_answer,
        )
        return PreparedCase(
            resolved,
            os.path.join(folder, CONTEXT) if generated.context else None,
            None if generated.context else os.path.join(folder, FILES),
            generated.module,
            generated.calls,
        )
    if isinstance(context, dict):
        return PreparedCase(case, _inside(pack_folder, context["path"], case.case_id))
    if context is None:
        return PreparedCase(case)
    files.make_folder(folder, 0o700)
    path = os.path.join(folder, CONTEXT)
    files.write(path, context.encode("utf-8", "surrogatepass"))
    return PreparedCase(case, path)


def suite(preset: Preset) -> dict[str, str]:
    """The hash of each case, by its id: of what is asked and how it is judged.

    Not of how it is run: environment, steps and time may differ between two comparable results.
    """
    return {case.case_id: _case_hash(case, preset.folder) for case in preset.cases}


def suite_hash(cases: dict[str, str]) -> str:
    return _digest(sorted(cases.items()))


def _case_hash(case: BenchmarkCase, pack_folder: str) -> str:
    context: Any = case.context
    if isinstance(context, dict) and "generator" in context:
        context = generators.identity(context)
    elif isinstance(context, dict):
        context = {"sha256": _file_hash(_inside(pack_folder, context["path"], case.case_id))}
    fields = (case.task, context, case.expected_answer, case.scorer, case.rubric, case.pass_score)
    return _digest(fields)


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _file_hash(path: str) -> str:
    digest = sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise _no_context(path, error.strerror or "unreadable") from None
    return digest.hexdigest()


def _inside(folder: str, path: str, case_id: str) -> str:
    """A file of the pack's folder: a pack of a repository must not name other files."""
    if "\0" in path:
        raise _no_context(path, f"no file has such a name (case {case_id})")
    real_path = os.path.realpath(os.path.join(folder, path))
    if os.path.isabs(path) or not real_path.startswith(
        os.path.realpath(folder).rstrip(os.sep) + os.sep
    ):
        raise _no_context(path, f"it is outside of the pack's folder (case {case_id})")
    if not os.path.isfile(real_path):
        raise _no_context(path, f"there is no such file (case {case_id})")
    return real_path


def _no_context(path: str, why: str) -> ConfigError:
    return ConfigError(
        f"the context cannot be read: {printable(why)}",
        where=printable(path),
        hint="give a path relative to the pack, in its folder",
    )
