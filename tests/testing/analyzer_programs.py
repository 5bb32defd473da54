"""Analyzers of the settings: scripts that print what a test likes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

TOOL = """#!{python}
import json, os, sys
files = sys.argv[2:]
{body}
"""


def tool(tmp_path: Path, body: str, *more: str, **row: Any) -> dict[str, Any]:
    """An analyzer of the settings that is this script."""
    path = tmp_path / "bin" / "tool"  # a sandbox shows the folder that a program lies in
    path.parent.mkdir(exist_ok=True)
    path.write_text(TOOL.format(python=sys.executable, body=body))
    path.chmod(0o755)
    return {"name": "tool", "command": [str(path), *(more or ("x", "{files}"))], **row}


def log(results: str, rules: str = "[]") -> str:
    return (
        f"results = {results}\n"
        "print(json.dumps({'runs': [{'tool': {'driver': {'name': 't', 'rules': "
        f"{rules}"
        "}}, 'results': results}]}))"
    )


def at(uri: str, line: int = 2, **more: object) -> str:
    region = {"startLine": line, **more}
    return (
        "{'ruleId': 'Big.Rule_1', 'level': 'error', 'message': {'text': 'It is wrong'}, "
        "'locations': [{'physicalLocation': {'artifactLocation': {'uri': "
        f"{uri}}}, 'region': {region}}}}}]}}"
    )
