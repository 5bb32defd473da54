"""What a validator starts is followed, and never for longer than the files are long."""

from __future__ import annotations

import json

import pytest

from rlm_ci.loop.entrypoints import Tree, started

MANY = range(300)
#: Files that call themselves and each other, as often as there is room for: nobody waits for them.
CIRCLES: dict[str, tuple[str, dict[str, str]]] = {
    "a Makefile that includes itself": (
        "make",
        {"Makefile": "include Makefile Makefile Makefile Makefile\n" * 3 + "all:\n\tsh last.sh\n"},
    ),
    "make in make": (
        "make t0",
        {
            "Makefile": "".join(
                f"t{one}:\n" + "".join(f"\tmake t{other}\n" for other in MANY) for one in MANY
            )
            + "t1:\n\tsh last.sh\n"
        },
    ),
    "make to read a Makefile": (
        "make",
        {"Makefile": "X := $(shell make)$(shell make)\n" * 500 + "all:\n\tmake\n\tsh last.sh\n"},
    ),
    "scripts of a package": (
        "npm run a0",
        {
            "package.json": json.dumps(
                {
                    "scripts": {
                        f"a{one}": "; ".join(
                            [*(f"npm run a{other}" for other in MANY), "sh last.sh"]
                        )
                        for one in MANY
                    }
                }
            )
        },
    ),
    "tasks": ("just", {"justfile": "a:\n" + "    just a\n" * 500 + "    sh last.sh\n"}),
    "scripts": (
        "sh a.sh",
        {
            "a.sh": "sh a.sh\n./b.sh\n" * 900 + "sh last.sh\n",
            "b.sh": "cd sub; sh ../a.sh\nsh b.sh; cd ..; sh a.sh\n" * 900,
        },
    ),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", CIRCLES)
def test_what_calls_itself_is_followed_once(case: str) -> None:
    command, files = CIRCLES[case]
    files = {**files, "last.sh": "true\n"}
    found = started(command, Tree(dict.fromkeys(files, True), files.get))
    assert "last.sh" in found.scripts
