"""Pipelines: named lists of stages, built in or defined by the repository.

Definitions come from ``[[pipelines]]`` of the configuration and from an existing
``codex.orchestrator.json``, whose unknown keys belong to another program and are ignored.
"""

from __future__ import annotations

import hashlib
import json

from rlm_ci.config.options import LOOP
from rlm_ci.config.settings import nearest
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.runs import is_task_id
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

FILE = "codex.orchestrator.json"
LIMIT = 1 << 20
COMMAND = "command"
SUBPIPELINE = "subpipeline"
#: A stage that rlm-ci itself carries out: the action of the pipeline's name.
OWN = "own"
_STAGE_SET = "stage-set"
_KINDS = (COMMAND, SUBPIPELINE, _STAGE_SET)
#: Keys of the configuration file, and their spelling in the JSON file.
_CAMEL = {"timeout_ms": "timeoutMs", "allow_failure": "allowFailure", "summary_hint": "summaryHint"}
_OF_COMMAND = ("command", "cwd", "env", "timeout_ms", "allow_failure", "summary_hint")
_OF_SUBPIPELINE = ("pipeline", "optional")
_OF_ALL = ("kind", "id", "title")
_PIPELINE_KEYS = ("id", "title", "description", "stages", "inputs")
_LONGEST_TIMEOUT = 7 * 24 * 3_600_000


class Stage(Value):
    """One stage. ``command`` is a text for the shell, or an argv; ``timeout`` is in seconds, None
    means the default. ``pipeline`` is the id of the sub-pipeline, or the name of our own action.
    """

    id: str
    title: str
    kind: str = COMMAND
    command: str | tuple[str, ...] = ""
    cwd: str = "."
    env: tuple[tuple[str, str], ...] = ()
    timeout: float | None = None
    allow_failure: bool = False
    summary_hint: str | None = None
    pipeline: str = ""
    optional: bool = False

    @property
    def shown(self) -> str:
        if isinstance(self.command, str):
            return self.command or f"pipeline {self.pipeline}"
        from shlex import join

        return join(self.command)


class Pipeline(Value):
    """A named list of stages; ``source`` says where it is defined.

    ``inputs`` are defaults for settings of the section ``loop``, by name: flags, environment and
    configuration override them; they override the built-in defaults.
    """

    id: str
    title: str
    stages: tuple[Stage, ...]
    description: str = ""
    source: str = "built in"
    inputs: tuple[tuple[str, Any], ...] = ()

    def variables(self) -> dict[str, str]:
        """The inputs as environment variables of a command."""
        rows = {row.key: row for row in LOOP if row.file}
        pairs = ((rows.get(f"loop.{name}"), value) for name, value in self.inputs)
        return {row.variables[-1]: _spelled(value) for row, value in pairs if row is not None}


def variables(flags: Mapping[str, Any]) -> dict[str, str]:
    """Flags of the section ``loop`` as environment variables of a command.

    Each flag sets all of its variables, because the command line overrides them.
    """
    rows = [row for row in LOOP if row.key.startswith("loop.") and row.key in flags]
    return {name: _spelled(flags[row.key]) for row in rows for name in row.variables}


def _spelled(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


#: The pipeline with a goal in words.
WITH_GOAL = "rlm"
#: The pipeline of one episode, which has a task for its goal.
EPISODE = "run"
#: The file of an episode that has its result.
EPISODE_RESULT = "run.json"
_TITLES = {
    WITH_GOAL: "Reach the goal",
    "review": "Review the repository",
    "wiki": "Write the wiki",
    EPISODE: "Run the episode",
}
BUILT_IN: dict[str, Pipeline] = {
    name: Pipeline(name, title, (Stage(name, title, OWN, pipeline=name),))
    for name, title in _TITLES.items()
}


#: A benchmark is begun by its own command alone, so a repository's pipeline may have its name.
BENCH = "bench"
_CASES = Stage(BENCH, "Run the cases", OWN, pipeline=BENCH)
BENCHMARKS = {BENCH: Pipeline(BENCH, "Run the benchmark", (_CASES,))}


def from_settings(tables: object, source: str) -> dict[str, Pipeline]:
    """The pipelines of ``[[pipelines]]``, by id. Raises ConfigError for anything unknown."""
    return _Reader(source, foreign=False).pipelines(tables, {})


def from_json(data: bytes, source: str) -> dict[str, Pipeline]:
    """The pipelines of a ``codex.orchestrator.json``, by id. Raises ConfigError."""
    record = _object(data, source)
    reader = _Reader(source, foreign=True)
    sets = record.get("stageSets") or {}
    if not isinstance(sets, dict):
        raise reader.wrong("stageSets", "an object")
    return reader.pipelines(record.get("pipelines") or [], sets)


def loop_from_json(data: bytes, source: str) -> dict[str, Any]:
    """The settings ``loop.rlms`` as ``loops[].rlms`` has them, {} without. Raises ConfigError."""
    record = _object(data, source)
    reader = _Reader(source, foreign=True)
    loops = record.get("loops") or []
    if not isinstance(loops, list) or not all(isinstance(loop, dict) for loop in loops):
        raise reader.wrong("loops", "a list of objects")
    tables = [loop["rlms"] for loop in loops if "rlms" in loop]
    if not all(isinstance(table, dict) for table in tables):
        raise reader.wrong("loops[].rlms", "an object")
    if any(table != tables[0] for table in tables):
        raise ConfigError(
            "loops differ in their rlms, and a fix loop needs one",
            where=source,
            hint="write the same rlms into each loop, or into one of them only",
        )
    return {"rlms": tables[0]} if tables else {}


def _object(data: bytes, source: str) -> dict[str, Any]:
    try:
        record = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"not valid JSON: {printable(str(error))[:200]}", where=source, hint="fix the file"
        ) from None
    if not isinstance(record, dict):
        raise _Reader(source, foreign=True).wrong("the file", "an object")
    return record


def merge(*layers: Mapping[str, Pipeline]) -> dict[str, Pipeline]:
    """All pipelines: earlier layers override later ones, and all override the built-in ones.

    Raises ConfigError for a missing sub-pipeline, or a pipeline that contains itself.
    """
    merged: dict[str, Pipeline] = {}
    for layer in (*layers, BUILT_IN):
        merged = {**layer, **merged}
    _require_acyclic(merged)
    return merged


def choose(pipelines: Mapping[str, Pipeline], name: str) -> Pipeline:
    """The pipeline ``name``. Raises UsageError, with the nearest name as hint."""
    if name in pipelines:
        return pipelines[name]
    raise UsageError(
        f"there is no pipeline {printable(name)[:80]!r}",
        where="PIPELINE",
        hint=nearest(name, list(pipelines)),
    )


def replaced(pipelines: Mapping[str, Pipeline], name: str) -> Pipeline | None:
    """A built-in pipeline that ``name`` would carry out, but with other stages; else None.

    It may be ``name`` itself or a sub-pipeline at any depth.
    """
    waiting, seen = [name], set[str]()
    while waiting:
        pipeline_id = waiting.pop()
        if pipeline_id in seen or pipeline_id not in pipelines:
            continue
        seen.add(pipeline_id)
        stages = pipelines[pipeline_id].stages
        if pipeline_id in BUILT_IN and stages != BUILT_IN[pipeline_id].stages:
            return pipelines[pipeline_id]
        waiting += [stage.pipeline for stage in stages if stage.kind == SUBPIPELINE]
    return None


def digest(pipelines: Mapping[str, Pipeline], name: str) -> str:
    """SHA-256 of the definition of ``name`` and its sub-pipelines, as 64 hex digits."""
    definitions: dict[str, Any] = {}
    _collect(pipelines, name, definitions)
    data = json.dumps(definitions, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(data.encode()).hexdigest()


def _collect(pipelines: Mapping[str, Pipeline], name: str, definitions: dict[str, Any]) -> None:
    if name in definitions or name not in pipelines:
        return
    stages, inputs = pipelines[name].stages, pipelines[name].inputs
    definitions[name] = [[getattr(stage, field) for field in Stage._fields] for stage in stages]
    if inputs:
        definitions[name].append(inputs)
    for stage in stages:
        if stage.kind == SUBPIPELINE:
            _collect(pipelines, stage.pipeline, definitions)


def _require_acyclic(pipelines: Mapping[str, Pipeline]) -> None:
    done: set[str] = set()
    for start in pipelines:
        # Iterators instead of recursion: a chain may be longer than the stack.
        way = [(start, iter(pipelines[start].stages))]
        while way:
            name, stages = way[-1]
            stage = next((candidate for candidate in stages if candidate.kind == SUBPIPELINE), None)
            if stage is None:
                done.add(name)
                way.pop()
            elif stage.pipeline in [pipeline_id for pipeline_id, _ in way]:
                circle = " → ".join([*(pipeline_id for pipeline_id, _ in way), stage.pipeline])
                raise ConfigError(
                    f"the pipeline {stage.pipeline!r} contains itself: {circle}",
                    where=pipelines[name].source,
                    hint="take one of these sub-pipelines out",
                )
            elif stage.pipeline in pipelines:
                if stage.pipeline not in done:
                    way.append((stage.pipeline, iter(pipelines[stage.pipeline].stages)))
            elif not stage.optional:
                raise ConfigError(
                    f"the stage {stage.id!r} of {name!r} names the pipeline {stage.pipeline!r}, "
                    "which there is not",
                    where=pipelines[name].source,
                    hint=nearest(stage.pipeline, list(pipelines)),
                )


class _Reader:
    """Reads definitions; its errors name the wrong key. A ``foreign`` file has keys in camel
    case, and unknown keys are ignored.
    """

    def __init__(self, source: str, *, foreign: bool) -> None:
        self._source = source
        self._foreign = foreign

    def wrong(self, key: str, expected: str) -> ConfigError:
        return ConfigError(f"{key} must be {expected}", where=self._source, hint="fix that key")

    def pipelines(self, tables: object, sets: Mapping[str, object]) -> dict[str, Pipeline]:
        if not isinstance(tables, (list, tuple)):
            raise self.wrong("pipelines", "a list")
        pipelines: dict[str, Pipeline] = {}
        for number, table in enumerate(tables):
            key_path = f"pipelines[{number}]"
            if not isinstance(table, dict):
                raise self.wrong(key_path, "a table")
            self._require_known(table, _PIPELINE_KEYS, key_path)
            name = table.get("id")
            if not isinstance(name, str) or not is_task_id(name):
                raise self.wrong(f"{key_path}.id", "a name of letters, digits, '-', '_' and '.'")
            if name in pipelines:
                raise self.wrong(f"{key_path}.id", f"unique: {name!r} is there twice")
            inputs = self._inputs(table, key_path)
            if inputs and name in BUILT_IN and "stages" not in table:
                stages = BUILT_IN[name].stages
            else:
                stages = tuple(self._stages(table.get("stages"), f"{key_path}.stages", sets))
            title = self._text(table, "title", key_path) or name
            description = self._text(table, "description", key_path) or ""
            pipelines[name] = Pipeline(
                name, title, _distinct(stages), description, self._source, inputs
            )
        return pipelines

    def _inputs(self, table: dict[str, Any], where: str) -> tuple[tuple[str, Any], ...]:
        value = table.get("inputs")
        if value is None:
            return ()
        if not isinstance(value, dict):
            raise self.wrong(f"{where}.inputs", "a table")
        return tuple(sorted((_snake(name), input_value) for name, input_value in value.items()))

    def _stages(
        self, listed: object, where: str, sets: Mapping[str, object], *, inside: bool = False
    ) -> Iterator[Stage]:
        if not isinstance(listed, (list, tuple)) or not listed:
            raise self.wrong(where, "a list of at least one stage")
        for number, table in enumerate(listed):
            at = f"{where}[{number}]"
            if not isinstance(table, dict):
                raise self.wrong(at, "a table")
            kind = table.get("kind") or (SUBPIPELINE if "pipeline" in table else COMMAND)
            if kind == _STAGE_SET and self._foreign:
                if inside:
                    raise self.wrong(at, "a stage: a stage set cannot contain another one")
                name = table.get("ref")
                if not isinstance(name, str) or name not in sets:
                    raise self.wrong(f"{at}.ref", f"one of {', '.join(sets) or 'stageSets'}")
                yield from self._stages(sets[name], f"stageSets.{name}", {}, inside=True)
            elif kind in (COMMAND, SUBPIPELINE):
                yield self._stage(table, at, kind, f"stage-{number + 1}")
            else:
                allowed = _KINDS if self._foreign else _KINDS[:2]
                raise self.wrong(f"{at}.kind", f"one of {', '.join(allowed)}")

    def _stage(self, table: dict[str, Any], at: str, kind: str, default: str) -> Stage:
        kind_keys = _OF_COMMAND if kind == COMMAND else _OF_SUBPIPELINE
        self._require_known(table, (*_OF_ALL, *kind_keys), at)
        title = self._text(table, "title", at)
        if kind == SUBPIPELINE:
            pipeline = self._text(table, "pipeline", at)
            if not pipeline:
                raise self.wrong(f"{at}.pipeline", "the id of a pipeline")
            optional = self._flag(table, "optional", at)
            name = self._text(table, "id", at) or title or pipeline
            return Stage(name, title or pipeline, kind, pipeline=pipeline, optional=optional)
        name = self._text(table, "id", at) or title or default
        return Stage(
            name,
            title or name,
            kind,
            self._command(table, at),
            self._text(table, "cwd", at) or ".",
            self._environment(table, at),
            self._timeout(table, at),
            self._flag(table, "allow_failure", at),
            self._text(table, "summary_hint", at),
        )

    def _require_known(self, table: Mapping[str, Any], names: Sequence[str], where: str) -> None:
        if self._foreign:
            return
        for name in table:
            if name not in names:
                raise ConfigError(
                    f"{where} has the unknown key {printable(name)[:80]!r}",
                    where=self._source,
                    hint=nearest(name, names),
                )

    def _value(self, table: Mapping[str, Any], key: str) -> tuple[Any, str]:
        spelled = _CAMEL.get(key, key) if self._foreign else key
        return table.get(spelled), spelled

    def _text(self, table: Mapping[str, Any], key: str, at: str) -> str | None:
        value, spelled = self._value(table, key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise self.wrong(f"{at}.{spelled}", "a text")
        return value

    def _flag(self, table: Mapping[str, Any], key: str, at: str) -> bool:
        value, spelled = self._value(table, key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(f"{at}.{spelled}", "true or false")
        return bool(value)

    def _command(self, table: Mapping[str, Any], at: str) -> str | tuple[str, ...]:
        value = table.get("command")
        words = [value] if isinstance(value, str) else value
        good = isinstance(words, list) and all(
            isinstance(word, str) and "\0" not in word for word in words
        )
        if not good or not words or not words[0].strip():
            raise self.wrong(f"{at}.command", "a text for the shell, or a list of words")
        return value if isinstance(value, str) else tuple(words)

    def _environment(self, table: Mapping[str, Any], at: str) -> tuple[tuple[str, str], ...]:
        value = table.get("env")
        if value is None:
            return ()
        if not isinstance(value, dict):
            raise self.wrong(f"{at}.env", "a table of texts")
        for name, text in value.items():
            good = name and not {"=", "\0"} & set(name) and isinstance(text, str)
            if not good or "\0" in text:
                raise self.wrong(f"{at}.env.{printable(name)[:80]}", "a text")
        return tuple(sorted(value.items()))

    def _timeout(self, table: Mapping[str, Any], at: str) -> float | None:
        value, spelled = self._value(table, "timeout_ms")
        if value is None:
            return None
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 < value <= _LONGEST_TIMEOUT:
            raise self.wrong(f"{at}.{spelled}", "milliseconds above 0, a week at most")
        return float(value) / 1000


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _distinct(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The stages with unique ids, by which a resumed run knows what is done."""
    seen: set[str] = set()
    distinct = []
    for stage in stages:
        name, number = stage.id, 2
        while name in seen:
            name, number = f"{stage.id}-{number}", number + 1
        seen.add(name)
        distinct.append(stage if name == stage.id else stage.replace(id=name))
    return tuple(distinct)
