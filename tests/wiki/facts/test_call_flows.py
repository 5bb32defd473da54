"""Which steps a flow follows, and which flows there are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from testing.wiki_pages import pages_of

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

README = {"README.md": "It keeps what is sold.\n"}


def flows(repo: GitRepo, tmp_path: Path, files: dict[str, str]) -> dict[str, list[str]]:
    """The names of the steps of each flow, by its heading."""
    page = pages_of(repo, tmp_path, README | files)["flows.md"]
    return {
        section.partition("\n")[0]: re.findall(r"^\d+\. `([^`]*)`", section, re.MULTILINE)
        for section in page.split("\n## ")[1:]
    }


def test_of_too_many_calls_those_are_followed_that_do_most(repo: GitRepo, tmp_path: Path) -> None:
    short = "".join(f"def s{n:02}():\n    return {n}\n\n\n" for n in range(20))
    long = "def work():\n" + "    print(1)\n" * 30 + "\n\ndef hands_on():\n    work()\n\n\n"
    calls = "".join(f"    s{n:02}()\n" for n in range(20))
    files = {"shop/__main__.py": f"{short}{long}def main():\n{calls}    hands_on()\n\n\nmain()\n"}
    (steps,) = flows(repo, tmp_path, files).values()
    assert steps[:2] == ["shop/__main__.py", "main"]
    assert steps[-2:] == ["hands_on", "work"]
    assert len(steps) < 16  # half of the room is kept for what is called further on


def test_private_methods_of_javascript_are_followed(repo: GitRepo, tmp_path: Path) -> None:
    source = (
        "export class Shop {\n  static begin(x) {\n    const shop = new Shop();\n"
        "    shop.#fetch(x);\n"
        "    return this.#end();\n  }\n  #fetch(x) {\n    return x;\n  }\n  #end() {\n  }\n}\n"
    )
    users = {"test/a.test.js": "import {Shop} from '../src/shop.js';\nShop.begin(1);\n"}
    found = flows(repo, tmp_path, {"src/shop.js": source, **users})
    assert found == {"function `Shop.begin`": ["Shop.begin", "Shop", "Shop.#fetch", "Shop.#end"]}


def test_a_server_calls_an_application(repo: GitRepo, tmp_path: Path) -> None:
    wsgi = (
        "class App:\n    def __call__(self, environ: dict, start_response) -> list:\n"
        "        return self.answer(environ)\n\n    def answer(self, environ):\n        return []\n"
    )
    asgi = wsgi.replace("environ: dict, start_response", "scope, receive, send")
    other = wsgi.replace("environ: dict, start_response", "value, other")
    files = {
        "shop/w.py": wsgi,
        "shop/a.py": asgi.replace("environ", "scope"),
        "shop/o.py": other.replace("environ", "value"),
    }
    assert flows(repo, tmp_path, files) == {
        "route `ASGI App.__call__`": ["App.__call__", "App.answer"],
        "route `WSGI App.__call__`": ["App.__call__", "App.answer"],
    }


def test_each_folder_has_its_flow_and_one_of_two_steps_comes_last(
    repo: GitRepo, tmp_path: Path
) -> None:
    def chain(name: str, length: int) -> str:
        return "".join(
            f"def {name}{'_' * bool(n)}{n or ''}():\n"
            + (f"    {name}_{n + 1}()\n\n\n" if n + 1 < length else "    pass\n\n\n")
            for n in range(length)
        )

    names = [f"f{n}" for n in range(8)]
    files = {f"shop/{name}.py": chain(name, 2 if name == "f0" else 3) for name in names}
    files["shop/far/g.py"] = chain("g", 3)
    calls = "".join(f"{name}()\n" * (9 - n) for n, name in enumerate(names))
    files["tests/test_shop.py"] = f"{calls}g()\n"
    found = list(flows(repo, tmp_path, files))
    assert found == [f"function `{name}`" for name in ("f1", "f2", "g", "f3", "f4", "f5")]


COMMANDS = """\
import sys

from shop import buy, clean, sell


def read(words):
    return words


def main(args):
    read(args)
    if args.command == "sell":
        return sell.sell(args)
    elif args.command == "buy":
        return buy.buy(args)
    elif args.command == "clean":
        return clean.clean(args)
    else:
        raise NotImplementedError
"""
SELL = """\
def take(one):
    return one


def give(one):
    return one


def sell(args):
    for one in args.names:
        take(one)
        if one.is_free:
            give(one)
    else:
        take(None)
"""


def test_a_dispatcher_is_one_flow_for_each_command(repo: GitRepo, tmp_path: Path) -> None:
    short = "def {0}(args):\n    return _do(args)\n\n\ndef _do(args):\n    return args\n"
    files = {
        "pyproject.toml": '[project]\nname = "shop"\n[project.scripts]\nshop = "shop.cli:main"\n',
        "shop/__init__.py": "",
        "shop/cli.py": COMMANDS,
        "shop/sell.py": SELL,
        "shop/buy.py": short.format("buy"),
        "shop/clean.py": short.format("clean"),
    }
    made = pages_of(repo, tmp_path, README | files)
    page = re.sub(r"\[(`[^`]*`)\]\([^)]*\)", r"\1", made["flows.md"])
    sections = dict(section.split("\n", 1) for section in page.split("\n## ")[1:])
    assert list(sections) == [
        "command `shop`", "subcommand `shop sell`", "subcommand `shop buy`",
        "subcommand `shop clean`",
    ]  # fmt: skip
    first = sections["command `shop`"]
    assert re.findall(r"^\d+\. `(\w+)`", first, re.MULTILINE) == ["main", "read"]
    assert ("- if `args.command == 'buy'`: calls `buy.buy` `shop/cli.py#L15`: `buy`") in " ".join(
        first.split()
    )
    diagram = sections["subcommand `shop sell`"].split("```")[1].split("\n")[5:]
    assert [line.strip() for line in diagram if line.strip()] == [
        "p0->>p1: sell#40;#41;",
        "p1->>p1: take#40;#41;",  # which is called behind the loop, too
        "loop for one in args.names",
        "opt one.is_free",
        "p1->>p1: give#40;#41;",
        "end",
        "end",
    ]
    index = re.sub(r"\[(`[^`]*`)\]\([^)]*\)", r"\1", made["index.md"])
    assert "\n2. chooses a command: `sell`, `buy`, `clean`\n3. `shop sell`: `sell` " in index
    assert "| the command `shop sell` | `shop/sell.py#L9` |" in index


def test_a_diagram_has_six_participants_and_twelve_steps_at_most(
    repo: GitRepo, tmp_path: Path
) -> None:
    names = [f"s{n:02}" for n in range(9)]
    main = "".join(f"from shop.{name} import {name}\n" for name in names)
    main += "\n\ndef main():\n" + "".join(f"    {name}()\n" for name in names) + "\n\nmain()\n"
    files = {f"shop/{name}.py": f"def {name}():\n    return 1\n" for name in names}
    page = pages_of(repo, tmp_path, README | files | {"shop/__main__.py": main})["flows.md"]
    (diagram,) = re.findall(r"```mermaid\n(.*?)```", page, re.DOTALL)
    assert diagram.count("participant") == 6
    assert diagram.count("->>") <= 12
    drawn = len(re.findall(r"->>", diagram))
    listed = len(re.findall(r"(?m)^\d+\. ", page))
    assert f"Not drawn, for want of room: {listed - drawn} steps, which are in the list." in page
