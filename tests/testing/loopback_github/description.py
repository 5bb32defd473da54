"""GitHub's own OpenAPI description, as the judge of every request and every answer.

The description is OpenAPI 3.0; its schemas become draft 4 for ``jsonschema-rs``. Requests are
judged more strictly than GitHub does: a property or query parameter that the description does not
know is a deviation, because GitHub would ignore it in silence.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import jsonschema_rs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NODE_MODULES = Path(__file__).resolve().parents[2] / "tools" / "node_modules"
OPENAPI = NODE_MODULES / ".github/api.github.com.json"

Json = Any
Schema = dict[str, Any]

_PROSE = frozenset({"description", "summary", "example", "examples", "externalDocs", "title"})
_COMBINERS = ("allOf", "anyOf", "oneOf")
_REF = "#/components/schemas/"
#: Path parameters that may hold slashes.
_SLASHES = frozenset({"path", "basehead", "ref"})


def package_file(path: Path) -> bytes:
    """The content of a file of a test tool. Raises AssertionError when it is not installed."""
    assert path.exists(), f"{path} is missing: `make test` installs it"
    return path.read_bytes()


@dataclass
class Operation:
    """One method of one path, with its validators; ``template`` is written as GitHub does."""

    method: str
    template: str
    parameters: Mapping[str, Schema]
    request: Schema | None
    responses: Mapping[str, Schema | None]
    pattern: re.Pattern[str]
    validators: dict[str, jsonschema_rs.Draft4Validator] = field(default_factory=dict)


class Description:
    """The operations that the loopback GitHub serves, out of the official description.

    Raises AssertionError when one of ``wanted`` (method, template) is not in the description.
    """

    def __init__(self, document: Json, wanted: Iterable[tuple[str, str]]) -> None:
        self._schemas: dict[str, Schema] = {}
        self._document = document
        self.operations = {
            (method, template): self._operation(method, template) for method, template in wanted
        }
        self.basic_error: Schema = {"$ref": f"{_REF}basic-error"}
        self._keep(self.basic_error)
        self._errors: jsonschema_rs.Draft4Validator | None = None
        del self._document  # 13 MB, of which a twentieth is used

    # -- reading ----------------------------------------------------------------------------

    def _operation(self, method: str, template: str) -> Operation:
        paths = self._document["paths"]
        assert method.lower() in paths.get(template, {}), f"no {method} {template} at GitHub"
        source = paths[template][method.lower()]
        rows = [self._component(row) for row in source.get("parameters", ())]
        parameters = {row["name"]: row["schema"] for row in rows}
        content = source.get("requestBody", {}).get("content", {})
        request = content.get("application/json", {}).get("schema")
        responses = {}
        for status, row in source["responses"].items():
            kinds = self._component(row).get("content", {})
            responses[status] = kinds.get("application/json", {}).get("schema")
        for schema in (request, *responses.values()):
            self._keep(schema)
        places = {row["name"]: row["schema"].get("type") for row in rows if row["in"] == "path"}
        queries = {row["name"]: parameters[row["name"]] for row in rows if row["in"] == "query"}
        return Operation(method, template, queries, request, responses, _pattern(template, places))

    def _component(self, node: Json) -> Json:
        if "$ref" not in node:
            return node
        found = self._document
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return found

    def _keep(self, node: Json) -> None:
        """Remember every component that ``node`` needs."""
        for name in _references(node):
            if name not in self._schemas:
                self._schemas[name] = self._document["components"]["schemas"][name]
                self._keep(self._schemas[name])

    # -- finding ----------------------------------------------------------------------------

    def find(self, method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
        """The operation of a path without query, and its path parameters, decoded."""
        for operation in self.operations.values():
            if operation.method == method and (match := operation.pattern.fullmatch(path)):
                return operation, {k: unquote(v) for k, v in match.groupdict().items()}
        return None

    # -- judging ----------------------------------------------------------------------------

    def request_deviations(
        self, operation: Operation, query: Mapping[str, str], body: Json
    ) -> list[str]:
        """What is wrong with a request; ``body`` is None where none was sent."""
        wrong = [f"query: {text}" for text in self._query_deviations(operation, query)]
        if body is None:
            if operation.request and operation.request.get("required"):
                wrong.append("body: is missing")
            return wrong
        if operation.request is None:
            return [*wrong, "body: the operation takes none"]
        validator = self._validator(operation, "request", operation.request)
        return wrong + _errors(validator, body, "body")

    def _query_deviations(self, operation: Operation, query: Mapping[str, str]) -> Iterator[str]:
        for name, text in query.items():
            if name not in operation.parameters:
                yield f"no parameter {name!r}"
                continue
            schema = self.resolve(operation.parameters[name])
            if schema.get("type") == "integer" and not re.fullmatch(r"-?\d+", text):
                yield f"{name}={text!r} is no integer"
            if "enum" in schema and text not in schema["enum"]:
                yield f"{name}={text!r} is none of {schema['enum']}"

    def response_deviations(self, operation: Operation, status: int, body: Json) -> list[str]:
        """What is wrong with an answer. A status beyond the description is an error's shape."""
        schema = operation.responses.get(str(status))
        if str(status) in operation.responses and schema is None:
            return [] if body is None else [f"a {status} has no body"]
        if schema is not None:
            return _errors(self._validator(operation, str(status), schema), body, str(status))
        if status < 400:
            return [f"status {status} is not foreseen"]
        if self._errors is None:
            self._errors = self._compile(self.basic_error, closed=False)
        return _errors(self._errors, body, str(status))

    def _validator(
        self, operation: Operation, key: str, schema: Schema
    ) -> jsonschema_rs.Draft4Validator:
        if key not in operation.validators:
            operation.validators[key] = self._compile(schema, closed=key == "request")
        return operation.validators[key]

    def _compile(self, schema: Schema, *, closed: bool) -> jsonschema_rs.Draft4Validator:
        needed: dict[str, Schema] = {}
        self._closure(schema, needed)
        components = {name: draft4(body) for name, body in needed.items()}
        document = {
            "allOf": [draft4(schema, closed=closed)],
            "components": {"schemas": components},
        }
        return jsonschema_rs.Draft4Validator(document, validate_formats=True)

    def _closure(self, node: Json, needed: dict[str, Schema]) -> None:
        for name in _references(node):
            if name not in needed:
                needed[name] = self._schemas[name]
                self._closure(needed[name], needed)

    # -- completing -------------------------------------------------------------------------

    def resolve(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._schemas[schema["$ref"].removeprefix(_REF)]
        return schema

    def complete(self, operation: Operation, status: int, body: Json) -> Json:
        """``body`` with the dullest value for each required property that it leaves out.

        Raises AssertionError for a property that GitHub's description does not have: what the
        loopback GitHub answers is never more than GitHub would.
        """
        schema = operation.responses.get(str(status))
        return body if schema is None else self._complete(schema, body, operation.template)

    def _complete(self, schema: Schema, value: Json, step: str) -> Json:
        schema = self._alternative(self.resolve(schema), value)
        if isinstance(value, list):
            items = schema.get("items")
            if items is None:
                return value
            return [self._complete(items, entry, step) for entry in value]
        if not isinstance(value, dict) or "properties" not in schema:
            return value
        known = schema["properties"]
        filled = {}
        for name, entry in value.items():
            if name in known:
                filled[name] = self._complete(known[name], entry, f"{step}.{name}")
            else:
                assert schema.get("additionalProperties"), f"GitHub has no {step}.{name}"
                filled[name] = entry
        for name in schema.get("required", ()):
            if name not in filled:
                filled[name] = self._dull(known.get(name, {}), f"{step}.{name}")
        return filled

    def _alternative(self, schema: Schema, value: Json) -> Schema:
        """The part of a combined schema that speaks of values like ``value``."""
        if "allOf" in schema:
            parts = [self.resolve(part) for part in schema["allOf"]]
            merged: Schema = {"properties": {}, "required": []}
            for part in [*parts, {k: v for k, v in schema.items() if k != "allOf"}]:
                merged["properties"] |= part.get("properties", {})
                merged["required"] += part.get("required", ())
            return merged
        for key in ("anyOf", "oneOf"):
            if key in schema and "properties" not in schema:
                parts = [self._alternative(self.resolve(p), value) for p in schema[key]]
                return next((part for part in parts if _fits(part, value)), parts[0])
        return schema

    def _dull(self, schema: Schema, place: str) -> Json:
        schema = self.resolve(schema)
        if schema.get("nullable"):
            return None
        if "enum" in schema:
            return schema["enum"][0]
        schema = self._alternative(schema, {})
        kind = schema.get("type", "object" if "properties" in schema else "string")
        if kind == "string":
            formats = {"uri": "https://github.com/", "date-time": "2026-01-05T09:00:00Z"}
            return formats.get(schema.get("format", ""), "")
        if kind == "object":
            return self._complete(schema, {}, place)
        values: dict[str, Json] = {"integer": 0, "number": 0, "boolean": False, "array": []}
        return values[kind]


def draft4(node: Json, *, closed: bool = False) -> Json:
    """An OpenAPI 3.0 schema as draft 4; ``closed`` refuses properties that it does not list."""
    if not isinstance(node, dict):
        return node
    made: Schema = {}
    for key, value in node.items():
        if key == "properties":
            made[key] = {name: draft4(sub, closed=closed) for name, sub in value.items()}
        elif key in _COMBINERS:
            made[key] = [draft4(sub) for sub in value]
        elif key in {"items", "additionalProperties", "not"}:
            made[key] = draft4(value, closed=closed)
        elif key not in _PROSE and key not in {"nullable", "discriminator", "default"}:
            made[key] = value
    if closed and "properties" in made and not any(key in made for key in _COMBINERS):
        made.setdefault("additionalProperties", False)
    return {"anyOf": [{"type": "null"}, made]} if node.get("nullable") else made


def _pattern(template: str, places: Mapping[str, str]) -> re.Pattern[str]:
    def group(match: re.Match[str]) -> str:
        name = match[1]
        if places.get(name) == "integer":
            return rf"(?P<{name}>\d+)"
        return rf"(?P<{name}>{'.+' if name in _SLASHES else '[^/]+'})"

    return re.compile(re.sub(r"\\{(\w+)\\}", group, re.escape(template)))


def _references(node: Json) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(ref := node.get("$ref"), str):
            yield ref.removeprefix(_REF)
        for key, value in node.items():
            if key not in {"example", "examples"}:
                yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _fits(schema: Schema, value: Json) -> bool:
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}
    kind = schema.get("type") or ("object" if "properties" in schema else "")
    return kinds.get(type(value)) == kind


def _shortened(text: str) -> str:
    """A message quotes the whole value first; what is wrong with it stands at the end."""
    return text if len(text) < 400 else f"{text[:200]} ... {text[-200:]}"


def _errors(validator: jsonschema_rs.Draft4Validator, value: Json, place: str) -> list[str]:
    return [
        f"{'.'.join([place, *map(str, error.instance_path)])}: {_shortened(error.message)}"
        for error in validator.iter_errors(value)
    ]


def amended() -> Json:
    """The official description, where GitHub answers otherwise than it says put right.

    A comment on a whole file or on lines that are gone has neither line nor position; a deleted
    fork is no repository; and labels may be added by a bare list, which is told in prose only.
    """
    document = json.loads(package_file(OPENAPI))
    schemas = document["components"]["schemas"]
    comment = schemas["pull-request-review-comment"]["properties"]
    for name in ("line", "position", "original_line", "original_position"):
        comment[name]["nullable"] = True
    for name in ("pull-request", "pull-request-simple"):
        head = schemas[name]["properties"]["head"]["properties"]
        head["repo"] = {"nullable": True, "allOf": [head["repo"]]}
    labels = document["paths"]["/repos/{owner}/{repo}/issues/{issue_number}/labels"]["post"]
    ways = labels["requestBody"]["content"]["application/json"]["schema"]["oneOf"]
    ways.append({"type": "array", "items": {"type": "string"}})
    return document


@functools.cache
def load(wanted: frozenset[tuple[str, str]]) -> Description:
    """The description of ``wanted``, read once in a process (0.3 s)."""
    return Description(amended(), sorted(wanted, key=_specific_first))


def _specific_first(operation: tuple[str, str]) -> tuple[int, str]:
    """A path with fewer parameters, as ``/pulls/comments``, is tried before ``/pulls/{n}``."""
    return operation[1].count("{") + 10 * operation[1].endswith(("{ref}", "{path}")), operation[1]
