"""What manifests ask for, with the lines of those that are read by lines."""

from __future__ import annotations

import pytest

from rlm_ci.source.packages.declared import Declared, SetupScript, declared


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("requirements.txt", "# a\n-r b.txt\nc[x] >= 1  # why\nhttps://x/y.tar.gz\n",
         [Declared("c", ">= 1", "", 3)]),
        ("requirements/dev.txt", "a\x0c\nb\n",
         [Declared("a", "", "dev", 1), Declared("b", "", "dev", 2)]),
        ("setup.cfg",
         "[options]\ninstall_requires = a\n  b>1\nz = 1\n[options.extras_require]\nx = c\n  d\n",
         [Declared("a", "", "", 2), Declared("b", ">1", "", 3), Declared("c", "", "extra x", 6),
          Declared("d", "", "extra x", 7)]),
        ("setup.py",
         "b = ['b']\nsetup(install_requires=['a<2'] + b,\n  extras_require={'x': ['c'], 'y': z})\n",
         [Declared("a", "<2", "", 2), Declared("b", "", "", 1), Declared("c", "", "extra x", 3)]),
        ("go.mod", "module x\nrequire (\n\ta.b/c v1.0.0\n\td.e/f v0.1.0 // indirect\n)\n",
         [Declared("a.b/c", "v1.0.0", "", 3), Declared("d.e/f", "v0.1.0", "indirect", 4)]),
        ("pyproject.toml", "[project]\ndependencies = ['a>1']\n", [Declared("a", ">1")]),
    ],
)  # fmt: skip
def test_what_a_manifest_asks_for(path: str, text: str, expected: list[Declared]) -> None:
    assert declared(path, text.encode()) == expected


def test_a_setup_script_is_read_and_not_run() -> None:
    text = b"a = a + a\nraise SystemExit\nsetup(name=a, version='1')\nother(name='x')\n"
    script = SetupScript(text)
    assert list(script.texts("name")) == []
    assert list(script.texts("version")) == [("1", 3)]
    assert list(script.texts("author")) == []
    assert list(script.tables("version")) == []


def test_what_is_no_python_is_no_setup_script() -> None:
    with pytest.raises(ValueError, match="not Python"):
        SetupScript(b"setup(")
