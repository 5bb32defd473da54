"""A changed file that is broken in the copy: its language still reads it, and it fails."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from rlm_ci.fix.verdict.planting import raising, unreadable

if TYPE_CHECKING:
    from pathlib import Path

CODE = {
    "shop.py": "def add(a, b):\n    return a + b",
    "shop.js": "exports.add = (a, b) => a + b",
    "shop.mjs": "export const add = (a, b) => a + b // no line ends here",
    "shop.rb": "def add(a, b) = a + b\n",
}
LOADED = {
    "shop.py": ("python3", "-c", "import shop"),
    "shop.js": ("node", "-e", "require('./shop.js')"),
    "shop.mjs": ("node", "--input-type=module", "-e", "import './shop.mjs'"),
    "shop.rb": ("ruby", "-e", "require './shop'"),
}


@pytest.mark.parametrize("name", CODE)
@pytest.mark.parametrize("plant", [raising, unreadable])
def test_loading_it_fails(tmp_path: Path, name: str, plant: object) -> None:
    argv = LOADED[name]
    if shutil.which(argv[0]) is None:
        pytest.skip(f"no {argv[0]}")

    def load(content: bytes) -> subprocess.CompletedProcess[bytes]:
        (tmp_path / name).write_bytes(content)
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False)

    content = CODE[name].encode()
    assert load(content).returncode == 0
    planted = (raising if plant is raising else unreadable)({name: content})
    ended = load(planted[name])
    assert ended.returncode != 0
    assert (b"planted by rlm-ci" in ended.stderr) >= (plant is raising)


def test_only_what_is_loaded_can_raise() -> None:
    names = ("a.py", "b.d.ts", "b.ts", "c.rs", "README.md", "data.json", "types.pyi")
    contents = dict.fromkeys(names, b"x\n")
    assert raising(contents).keys() == {"a.py", "b.ts"}
    assert unreadable(contents).keys() == set(names)
