"""Files of a repository that wants to be more than data on a wiki page."""

from __future__ import annotations

import json

EVIL = "<script>document.title='broken'</script>"


#: Folders with two modules that import each other, so that each is in a diagram.
NAMES = (
    "plain",
    EVIL.replace("/", "⁄"),
    '"]; click n0 href "javascript:alert(1)',
    "end",
    "subgraph",
    "%%{init: {'securityLevel': 'loose'}}%%",
    "#quot;#93;",
    "1. one",
    "`tick` **bold** $x$ @alice #1 https:",
    "a|b\tc\nd",
    "![image](x)[link](y)",
    "-- dash > x",
    "ünïcödé 統計 🥖",
    "\u202ekcab",
    "con",
    "UPPER",
    "upper",
    "x" * 120,
)


def hostile() -> dict[str, str]:
    text = f'''"""{EVIL} ![i](http://evil.example/x.png) @alice #1 [l](javascript:alert(1))
<!-- c -->.

# Heading
"""

import os

def f(a: str = "{EVIL} `x` | y") -> None:
    """| a | [x]: http://evil.example ``` {EVIL} https://evil.example ~~~
    $$x$$ {{{{ x }}}} {{% raw %}}."""
    if a == "`|<img src=x onerror=alert(1)>":
        raise ValueError("</code></pre>{EVIL} :smile: {{: onclick=alert(1) }}")
    os.getenv("{EVIL} | @alice ` ![i](http://evil.example/x.png)")
    eval("<b>")  # TODO: {EVIL} @bob https://evil.example
'''
    files: dict[str, str] = {}
    for number, name in enumerate(NAMES):
        other = (number + 1) % len(NAMES)
        files[f"pkg/{name}/mod_{number}.py"] = text
        files[f"pkg/{name}/more_{number}.py"] = f"from mod_{other} import f\n{text}"
    files["README.md"] = f"{EVIL}\n\nA [project](javascript:alert(1)) of {EVIL} and @alice.\n"
    files["pyproject.toml"] = f'[project]\nname = "x"\ndependencies = [\'{EVIL}\', "a|`b"]\n'
    bad = f"pytest {EVIL} | `x` ![i](http://evil.example/x.png) @alice [l](javascript:alert(1))"
    files["Makefile"] = f"test:\n\t{bad}\n"
    scripts = {"test": f"::error::{bad}", f"run {EVIL}": "x", "lint": "##[error]eslint"}
    files["package.json"] = json.dumps({"scripts": scripts}, indent=1)
    files["tox.ini"] = f"[testenv:types]\ncommands = {bad}\n[testenv:{EVIL}]\n"
    files[".github/workflows/a.yml"] = f"      - run: {bad}\n      - run: pytest ::error::x\n"
    files["odd/\udcff\udcfe.py"] = text
    return files
