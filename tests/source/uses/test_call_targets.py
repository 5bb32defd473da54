"""Which definition a call means, by names, imports and classes."""

from __future__ import annotations

import pytest

from rlm_ci.source.import_graph import ImportGraph
from rlm_ci.source.outline import outline
from rlm_ci.source.uses.call_sites import CallSite
from rlm_ci.source.uses.call_targets import CallResolver
from rlm_ci.source.uses.references import Definition

FILES = {
    "shop/base.py": """\
class Base:
    def get(self):
        pass

    def tell(self):
        pass
""",
    "shop/util.py": "def get():\n    pass\n\n\ndef weigh():\n    pass\n",
    "shop/app.py": """\
from shop import util
from shop.base import Base
from shop.util import weigh as heavy


class App(Base):
    def __init__(self):
        pass

    def run(self):
        pass
""",
}


@pytest.mark.parametrize(
    ("base", "name", "expected", "is_sure"),
    [
        ("", "heavy", ["weigh"], True),
        ("util", "get", ["get"], True),
        ("", "App", ["App.__init__"], True),
        ("self", "run", ["App.run"], True),
        ("self", "get", ["Base.get"], True),
        ("super", "tell", ["Base.tell"], True),
        ("thing", "tell", ["Base.tell"], False),
        ("_cv_app", "get", [], False),
        ("ContextVar", "tell", [], False),
        ("", "tell", [], False),
        ("?", "get", [], False),
    ],
)
def test_what_a_call_means(base: str, name: str, expected: list[str], is_sure: bool) -> None:
    outlines = {path: outline(path, text.encode()) for path, text in FILES.items()}
    resolver = CallResolver(outlines, ImportGraph.of(list(outlines.values()), list(FILES)))
    run = next(one for one in outlines["shop/app.py"].symbols if one.name == "App.run")
    found = resolver.targets(Definition("shop/app.py", run), CallSite(11, base, name))
    assert [one.symbol.name for one in found.found] == expected
    assert found.is_sure is is_sure
