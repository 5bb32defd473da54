"""Who imports whom: small repositories in which each import has one right answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.source import PARSED, Import, Outline
from rlm_ci.source.import_graph import ImportGraph
from rlm_ci.source.outline import outline
from rlm_ci.source.test_files import is_trial, subject_of
from rlm_ci.wiki.facts.dependencies import declared

if TYPE_CHECKING:
    from collections.abc import Mapping

Files = dict[str, str]


def graph(files: Mapping[str, str]) -> ImportGraph:
    outlines = [outline(path, text.encode()) for path, text in sorted(files.items())]
    return ImportGraph.of(outlines, sorted(files))


def targets(files: Mapping[str, str], path: str) -> list[str]:
    return [edge.target for edge in graph(files).internal.get(path, ())]


def outside(files: Mapping[str, str], path: str) -> dict[str, bool]:
    return {use.package: use.is_standard for use in graph(files).external.get(path, ())}


PYTHON: Files = {
    "src/shop/__init__.py": "from .cart import Cart\n",
    "src/shop/cart.py": "from . import prices as p, missing\nfrom .. import nothing\nimport json\n",
    "src/shop/prices.py": "import shop.cart\nfrom shop import Cart, prices\nimport requests.auth\n",
    "src/shop/json.py": "",
    "src/shop/space/deep.py": "from ..cart import Cart\nfrom ...shop import cart\n",
    "tests/__init__.py": "",
    "tests/stage.py": "",
    "tests/test_cart.py": "from shop.cart import *\nimport stage\nfrom shop.space import deep\n",
    "scripts/run.py": "import tool, os.path\nfrom shop.space.deep import x\n",
    "scripts/tool.py": "",
    "scripts/json.py": "",
    "other/tool.py": "",
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/shop/__init__.py", ["src/shop/cart.py"]),
        # json is the library's: the one beside it is called shop.json
        ("src/shop/cart.py", ["src/shop/__init__.py", "src/shop/prices.py"]),
        ("src/shop/prices.py", ["src/shop/__init__.py", "src/shop/cart.py"]),
        ("src/shop/space/deep.py", ["src/shop/cart.py"]),
        (
            "tests/test_cart.py",
            ["src/shop/cart.py", "src/shop/space/deep.py", "tests/stage.py"],
        ),
        ("scripts/run.py", ["scripts/tool.py", "src/shop/space/deep.py"]),
    ],
)
def test_python_finds_packages_folders_and_scripts(path: str, expected: list[str]) -> None:
    assert targets(PYTHON, path) == expected


def test_what_comes_from_outside_is_named_and_what_python_brings_is_told_from_it() -> None:
    assert outside(PYTHON, "src/shop/prices.py") == {"requests": False}
    assert outside(PYTHON, "src/shop/cart.py") == {"json": True}
    assert outside(PYTHON, "scripts/run.py") == {"os": True}


def test_the_library_itself_is_a_repository_too() -> None:
    files = {"Lib/json/__init__.py": "import re\nimport json.decoder\n", "Lib/re.py": "",
             "Lib/json/decoder.py": "import sys\n"}  # fmt: skip
    assert targets(files, "Lib/json/__init__.py") == ["Lib/json/decoder.py", "Lib/re.py"]
    assert outside(files, "Lib/json/decoder.py") == {"sys": True}


def test_a_module_that_only_some_versions_have_is_the_librarys_unless_it_is_there() -> None:
    files = {"a/__init__.py": "", "a/b.py": "import distutils.core, urllib2, pipes, _typeshed\n",
             "pipes.py": ""}  # fmt: skip
    assert targets(files, "a/b.py") == ["pipes.py"]
    assert outside(files, "a/b.py") == {"distutils": True, "urllib2": True, "_typeshed": True}


NAMESPACE: Files = {
    "ns/ns.py": "from ns.a.deep import x\n", "ns/a/__init__.py": "x = 1\n", "ns/a/deep.py": "",
    "ns/b/__init__.py": "from ns.a import x\nimport ns.ns, json\n", "lib/six.py": "",
    "ns/json/__init__.py": "",
    "lib/x.py": "from six.moves import urllib\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("ns/b/__init__.py", ["ns/a/__init__.py", "ns/ns.py"]),
        ("ns/ns.py", ["ns/a/deep.py"]),
        ("lib/x.py", ["lib/six.py"]),
    ],
)
def test_a_file_that_is_called_like_its_namespace_is_not_that(
    path: str, expected: list[str]
) -> None:
    assert targets(NAMESPACE, path) == expected


SHARED: Files = {
    "ns/ns.py": "",
    "ns/a/__init__.py": "from ns.core.deep import x\nimport zope.interface.verify\n",
    "ns/b.py": "from google.cloud import storage\nimport ns.ns, zope.event, xml.etree\n",
}  # fmt: skip


def test_what_others_bring_of_a_namespace_is_a_package_by_itself() -> None:
    outlines = [outline(path, text.encode()) for path, text in sorted(SHARED.items())]
    needed = ["zope.interface", "google-cloud-storage", "xml-etree"]
    made = ImportGraph.of(outlines, sorted(SHARED), needed)
    found = {path: [one.package for one in made.external[path]] for path in made.external}
    assert found == {
        "ns/a/__init__.py": ["ns.core", "zope.interface"],
        "ns/b.py": ["google.cloud.storage", "xml", "zope"],
    }
    assert [edge.target for edge in made.internal["ns/b.py"]] == ["ns/ns.py"]


GUARD = "if __name__ == '__main__':\n    pass\n"
NEIGHBOURS: Files = {
    "pkg/__init__.py": "", "pkg/__main__.py": "import git\n", "pkg/git.py": "",
    "pkg/x.py": "import git\nfrom pkg import git as own\n", "pkg/github.py": "import github\n",
    "pkg/deep/__init__.py": "", "pkg/deep/y.py": "from git.objects import Blob\n",
    "pkg/deep/start.py": f"import step\n{GUARD}", "pkg/deep/step.py": "import git, last\n",
    "pkg/deep/last.py": "",
    # A folder above is on the path where what is named below it is really there.
    "back/__init__.py": "", "back/app/__init__.py": "", "back/app/core.py": "",
    "back/app/main.py": "from app.core import x\nfrom app import core\nimport back.app.main\n",
    "tests/__init__.py": "", "tests/stage.py": "", "tests/test_x.py": "import stage\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "inside", "packages"),
    [
        ("pkg/x.py", ["pkg/git.py"], ["git"]),
        ("pkg/__main__.py", [], ["git"]),
        ("pkg/github.py", [], ["github"]),
        ("pkg/deep/y.py", [], ["git"]),
        ("pkg/deep/start.py", ["pkg/deep/step.py"], []),
        ("pkg/deep/step.py", ["pkg/deep/last.py"], ["git"]),
        ("back/app/main.py", ["back/app/core.py"], []),
        ("tests/test_x.py", ["tests/stage.py"], []),
    ],
)
def test_in_a_package_an_absolute_import_means_no_neighbour(
    path: str, inside: list[str], packages: list[str]
) -> None:
    assert targets(NEIGHBOURS, path) == inside
    assert sorted(outside(NEIGHBOURS, path)) == packages


LANGUAGES: list[tuple[Files, str, list[str], dict[str, bool]]] = [
    (
        {
            "web/a.ts": "import x from './b';\nimport './c.js';\nimport y from '../lib';\n"
            "import 'react-dom/client'; import fs from 'node:fs'; import '@me/core/deep';\n"
            "import './gone'; const p = require('path');\nrequire('../main');\n"
            " * require('./comment')\n" + "x" * 999 + "require('./bundled')\n",
            "main/package.json": '{"main": "dist/start"}', "main/dist/start.js": "",
            "web/b.tsx": "", "web/c.ts": "", "lib/index.js": "",
            "packages/core/package.json": '{"name": "@me/core"}',
            "packages/core/src/deep.ts": "",
        },
        "web/a.ts",
        ["lib/index.js", "main/dist/start.js", "packages/core/src/deep.ts", "web/b.tsx",
         "web/c.ts"],
        {"fs": True, "path": True, "react-dom": False},
    ),
    (
        {
            "go.mod": "module example.org/shop\n", "cart/cart.go": "package cart\n",
            "cart/more.go": "package cart\n", "cart/a_test.go": "package cart\n",
            "main.go": 'package main\nimport (\n"fmt"\n"example.org/shop/cart"\n'
            '"github.com/a/b/c/d"\n)\n',
        },
        "main.go",
        ["cart/cart.go"],
        {"fmt": True, "github.com/a/b": False},
    ),
    (
        {
            "Cargo.toml": '[workspace]\n', "core/Cargo.toml": '[package]\nname = "my-core"\n',
            "core/src/lib.rs": "pub mod parts;\nmod util;\nuse std::io;\n",
            "core/src/util.rs": "use super::parts::Gear;\nuse crate::parts::wheel::{self, Rim};\n",
            "core/src/parts/mod.rs": "pub mod wheel;\nuse serde::Serialize;\nuse wheel::Rim;",
            "core/src/parts/wheel.rs": "use super::super::util;\n",
            "app/src/main.rs": "use my_core::parts;\n",
        },
        "core/src/util.rs",
        ["core/src/parts/mod.rs", "core/src/parts/wheel.rs"],
        {},
    ),
    (
        {
            "src/main/java/org/a/Vault.java": "package org.a;\nimport org.a.b.Key;\n"
            "import static org.a.b.Key.parse;\nimport org.a.b.Key.Inner;\nimport java.util.List;\n"
            "import com.google.common.base.Joiner;\n",
            "src/main/java/org/a/b/Key.java": "package org.a.b;\n",
        },
        "src/main/java/org/a/Vault.java",
        ["src/main/java/org/a/b/Key.java"],
        {"java.util": True, "com.google.common": False},
    ),
    (
        {
            "A/Desk.cs": "using Shop.Core;\nusing System.Linq;\nusing Newtonsoft.Json.Linq;\n",
            "B/Core.cs": "namespace Shop.Core { class X {} }\n",
        },
        "A/Desk.cs",
        ["B/Core.cs"],
        {"System": True, "Newtonsoft.Json": False},
    ),
    (
        {
            "src/a.c": '#include "b.h"\n#include "list/list.h"\n#include <stdio.h>\n'
            "#include <project/c.h>\n#include <openssl/ssl.h>\n#include <sys/types.h>\n",
            "src/b.h": "", "include/list/list.h": "", "include/project/c.h": "", "other/b.h": "",
        },
        "src/a.c",
        ["include/list/list.h", "include/project/c.h", "src/b.h"],
        {"stdio.h": True, "sys/types.h": True, "openssl": False},
    ),
    (
        {
            "lib/garden.rb": "require 'garden/bed'\nrequire_relative 'garden/rose'\n"
            "require 'set'\nrequire 'rails/all'\n",
            "lib/garden/bed.rb": "", "lib/garden/rose.rb": "",
        },
        "lib/garden.rb",
        ["lib/garden/bed.rb", "lib/garden/rose.rb"],
        {"set": True, "rails": False},
    ),
    (
        {
            "src/Mail/Mailer.php": "<?php\nuse App\\Core\\{Config, Log};\nuse Psr\\Log\\X;\n"
            "require __DIR__ . '/boot.php';\nuse Countable;\n",
            "src/Core/Config.php": "", "src/Core/Log.php": "", "src/Mail/boot.php": "",
        },
        "src/Mail/Mailer.php",
        ["src/Core/Config.php", "src/Core/Log.php", "src/Mail/boot.php"],
        {"Psr\\Log": False, "Countable": True},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", LANGUAGES, ids=lambda case: case[1])
def test_other_languages_find_theirs(
    case: tuple[Files, str, list[str], dict[str, bool]],
) -> None:
    files, path, expected, packages = case
    assert targets(files, path) == expected
    assert outside(files, path) == packages


ALIASES: Files = {
    "tsconfig.base.json": '{ // all\n"compilerOptions": {"baseUrl": ".", /* "x" */ "paths": {\n'
    '"~/*": ["none/*", "packages/c/src/*"], "@app/one": ["./packages/c/src/one.ts"],},},\n}\n',
    "packages/c/src/one.ts": "", "packages/c/src/util/index.ts": "", "packages/c/src/u.js": "",
    "packages/c/package.json": '{"main": "src/u.js", "imports": {"#u": {"node": "x", "default": '
    '["./src/u.js"]}, "#in/*": "./src/*.ts"}}',
    "packages/c/src/a.ts": "import '~/one'; import '@app/one'; import '~/util'; import '#u';\n"
    "import '#in/one'; import '@app/two'; import 'packages/c/src/u'; import 'react';\n",
    "other/jsconfig.json": '{"compilerOptions": {"baseUrl": "deep"}}', "other/deep/x/y.js": "",
    "other/z.js": "import 'x/y'; import '~/gone'; import '@/gone'; import '#gone'; import 'x';\n",
    "odd/tsconfig.json": '{"compilerOptions": {"paths": [1], "baseUrl": 3}}',
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "inside", "packages"),
    [
        (
            "packages/c/src/a.ts",
            [f"packages/c/src/{name}" for name in ("one.ts", "u.js", "util/index.ts")],
            ["@app/two", "react"],
        ),
        ("other/z.js", ["other/deep/x/y.js"], ["x"]),
    ],
)
def test_other_names_that_a_configuration_gives_lead_to_files(
    path: str, inside: list[str], packages: list[str]
) -> None:
    assert targets(ALIASES, path) == inside
    assert sorted(outside(ALIASES, path)) == packages


RUST: Files = {
    "Cargo.toml": '[package]\nname = "auto"\n\n[dependencies.regex-syntax]\nversion = "1"\n\n'
    "[target.'cfg(unix)'.dev-dependencies]\nHandy = { version = \"1\" }\n",
    "src/lib.rs": "#[path = \"made.rs\"]\nmod made_here;\nmod dense;\nmod kinds { pub struct K; }\n"
    "pub use made_here::Dense;\npub use dense::Dfa;\n",
    "src/made.rs": "", "src/dense.rs": "use kinds::K;\nuse sparse::Set;\nuse inner::Inner;\n"
    "pub mod inner { pub struct Inner; }\nuse regex_syntax::hir;\nuse Handy::X;\n",
    "src/sparse.rs": "pub use dense::Rich;\npub use Rich as Default;\nuse Elsewhere::*;\n"
    "use unknown::{unknown, More};\nmacro_rules! paint {\n    () => {};\n}\n"
    "pub(crate) use paint;\n",
    "tests/all.rs": "mod shared;\nuse shared::Case;\nuse auto::dense;\n", "tests/shared.rs": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "inside", "packages"),
    [
        ("src/lib.rs", ["src/dense.rs"], []),
        ("src/dense.rs", ["src/sparse.rs"], ["Handy", "regex_syntax"]),
        ("src/sparse.rs", ["src/dense.rs"], ["unknown"]),
        ("tests/all.rs", ["src/dense.rs", "tests/shared.rs"], []),
    ],
)
def test_names_of_a_crate_of_rust_are_no_packages(
    path: str, inside: list[str], packages: list[str]
) -> None:
    assert targets(RUST, path) == inside
    assert sorted(outside(RUST, path)) == packages


def test_a_crate_of_rust_is_used_where_a_path_begins_with_it() -> None:
    files = {
        "Cargo.toml": "[dependencies]\nitoa = '1'\nryu = '1'\nsaid = '1'\ntold = '1'\nmem = '1'\n",
        "src/lib.rs": "//! ```\n//! said::x()\n//! ```\nuse std::mem;\nfn f(c: char) -> u8 {\n"
        '    let _ = ("told::x", \'"\', r#"said::"y"#);\n    mem::take(itoa::Buffer::new());\n'
        "    u8::MAX + own::x() + $told::y() /* said::z */ + a.told::<u8>()\n}\n"
        "type R = Vec<ryu::Buffer>;\n",
    }
    found = graph(files).external["src/lib.rs"]
    assert [(one.package, one.line) for one in found] == [("itoa", 7), ("ryu", 10), ("std", 4)]


def test_what_a_module_of_rust_passes_on_leads_to_where_it_is() -> None:
    files = {
        "Cargo.toml": '[package]\nname = "auto"\n',
        "src/lib.rs": "mod de;\nmod a;\npub use crate::de::{parse, Deep};\npub use a::Round;\n",
        "src/de.rs": "pub use self::deep::Deep;\n", "src/de/deep.rs": "",
        "src/a.rs": "pub use crate::Round;\n",
        "tests/all.rs": "use auto::{parse, Gone};\n", "tests/deep.rs": "use auto::Deep;\n",
        "tests/round.rs": "use auto::Round;\n",
    }  # fmt: skip
    found = {path: targets(files, path) for path in files if path.startswith("tests/")}
    assert found == {
        "tests/all.rs": ["src/de.rs", "src/lib.rs"],
        "tests/deep.rs": ["src/de.rs", "src/de/deep.rs", "src/lib.rs"],
        "tests/round.rs": ["src/a.rs", "src/lib.rs"],
    }


JAVA: Files = {
    "a/src/com/acme/a/One.java": "package com.acme.a;\n",
    "a/src/com/acme/a/Two.java": "package com.acme.a;\nclass Other {}\n",
    "src/com/acme/b/Main.java": "package com.acme.b;\nimport com.acme.a.*;\nimport java.io.*;\n"
    "import org.slf4j.*;\n",
    "src/com/acme/b/Made.java": "package com.acme.b;\nimport com.acme.a.Other;\n"
    "import com.acme.a.generated.Stub;\nimport static com.acme.a.One.*;\n",
    "src/jdk/own/Deep.java": "package jdk.own;\nimport java.own.Top;\nimport java.util.Map;\n",
    "src/java/own/Top.java": "package java.own;\nimport jdk.own.*;\n",
}


@pytest.mark.parametrize(
    ("path", "inside", "packages"),
    [
        (
            "src/com/acme/b/Main.java",
            ["a/src/com/acme/a/One.java", "a/src/com/acme/a/Two.java"],
            {"java.io": True, "org.slf4j": False},
        ),
        # What has no file of its own, and what is generated, is no package of others.
        ("src/com/acme/b/Made.java", ["a/src/com/acme/a/One.java"], {}),
        ("src/jdk/own/Deep.java", ["src/java/own/Top.java"], {"java.util": True}),
        ("src/java/own/Top.java", ["src/jdk/own/Deep.java"], {}),
    ],
)
def test_packages_of_java_that_the_repository_holds_are_its_own(
    path: str, inside: list[str], packages: dict[str, bool]
) -> None:
    assert targets(JAVA, path) == inside
    assert outside(JAVA, path) == packages


def test_a_package_of_go_belongs_to_the_module_that_is_required() -> None:
    files = {
        "go.mod": "module example.org/shop\n\nrequire (\n\tgithub.com/a/check/v10 v10.1.0\n"
        "\tgithub.com/u/go/codec v1.2.7 // indirect\n)\nrequire google.golang.org/buf v1.28.0\n"
        "exclude (\n\tgithub.com/a/check v1.0.0\n)\n",
        "main.go": 'package main\nimport (\n"github.com/a/check/v10/deep"\n'
        '"github.com/u/go/codec"\n'
        '"google.golang.org/buf/proto"\n"github.com/o/none/v2/x"\n"github.com/o/none/v2x"\n)\n',
    }
    assert sorted(outside(files, "main.go")) == [
        "github.com/a/check/v10", "github.com/o/none", "github.com/o/none/v2",
        "github.com/u/go/codec", "google.golang.org/buf",
    ]  # fmt: skip
    found = declared("go.mod", files["go.mod"].encode())
    assert [(name, place.line_start) for name, place in found] == [
        ("github.com/a/check/v10", 4), ("google.golang.org/buf", 7),
    ]  # fmt: skip


def test_what_a_manifest_of_cargo_needs_is_declared_in_each_form() -> None:
    text = (
        '[dependencies]\nserde = { version = "1" }\nserde.optional = true\n"quoted" = "1"\n'
        "[dependencies.bitflags]\nversion = \"1.2\"\n[target.'cfg(all(a))'.dependencies.win-api]\n"
        'version = "1"\n[build-dependencies]\ncc = "1"\n[dev-dependencies.trial]\nversion = "1"\n'
        "[features]\nall = []\n[target.x.dev-dependencies]\nother = '1'\n"
    )
    assert [(name, place.text) for name, place in declared("Cargo.toml", text.encode())] == [
        ("serde", 'serde = { version = "1" }'), ("quoted", '"quoted" = "1"'),
        ("bitflags", "bitflags"), ("win-api", "win-api"), ("cc", 'cc = "1"'),
    ]  # fmt: skip


def test_what_stands_in_a_comment_or_a_bundle_is_not_imported() -> None:
    found = outline("web/a.ts", LANGUAGES[0][0]["web/a.ts"].encode())
    assert not {one.module for one in found.imports} & {"./comment", "./bundled"}


def test_modules_of_rust_are_found_from_all_sides() -> None:
    files = LANGUAGES[2][0]
    assert targets(files, "core/src/lib.rs") == ["core/src/parts/mod.rs", "core/src/util.rs"]
    assert targets(files, "core/src/parts/mod.rs") == ["core/src/parts/wheel.rs"]
    assert targets(files, "core/src/parts/wheel.rs") == ["core/src/util.rs"]
    assert targets(files, "app/src/main.rs") == ["core/src/parts/mod.rs"]


def test_who_imports_a_package_of_go_imports_each_of_its_files() -> None:
    found = graph(LANGUAGES[1][0])
    assert [edge.target for edge in found.importers("cart/more.go")] == ["main.go"]


def test_a_change_touches_who_imports_it_its_tests_and_what_it_needs() -> None:
    files = {
        "shop/__init__.py": "from shop.cart import Cart\n",
        "shop/cart.py": "from shop import prices\n",
        "shop/prices.py": "",
        "shop/desk.py": "import shop.cart\n",
        "shop/other.py": "import shop\n",
        "shop/alone.py": "",
        "tests/test_cart.py": "",
        "tests/test_desk.py": "from shop import cart\n",
    }
    outlines = [outline(path, text.encode()) for path, text in files.items()]
    found = graph(files)
    touched = found.touching(["shop/cart.py"], outlines)
    assert touched == [
        "shop/__init__.py",
        "shop/desk.py",
        "tests/test_desk.py",
        "tests/test_cart.py",
        "shop/prices.py",
        "shop/other.py",
    ]
    assert found.touching(["shop/cart.py"], outlines, limit=2) == touched[:2]
    assert found.touching(list(files), outlines) == []


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("tests/test_cart.py", "cart"), ("pkg/cart_test.go", "cart"), ("a/Cart.test.tsx", "cart"),
        ("a/CartTest.java", "cart"), ("spec/cart_spec.rb", "cart"), ("a/CartTests.cs", "cart"),
        ("src/cart.spec.ts", "cart"),
    ],
)  # fmt: skip
def test_a_test_is_known_by_its_name(path: str, subject: str) -> None:
    assert subject_of(path) == subject
    assert is_trial(path)


@pytest.mark.parametrize("path", ["src/latest.py", "contest.py", "Test.java", "testing.py"])
def test_not_all_that_sounds_like_a_test_is_one(path: str) -> None:
    assert subject_of(path) is None
    assert not is_trial(path)


NAMES = st.text("ab./_", min_size=1, max_size=12).filter(lambda name: "\0" not in name)
IMPORTS = st.builds(
    lambda module, names, line, level: Import.of((module, tuple(names), line, level, ())),
    st.text("ab./:\\_*@~\0\n", max_size=12),
    st.lists(st.text("ab*._", max_size=4), max_size=3),
    st.integers(1, 9),
    st.integers(0, 4),
)


@given(
    st.lists(
        st.tuples(
            NAMES,
            st.sampled_from(["Python", "Go", "Rust", "Java", "C", "C#", "Ruby", "PHP", "TSX"]),
            st.lists(IMPORTS, max_size=4),
        ),
        max_size=8,
    )
)
def test_no_import_is_too_strange(rows: list[tuple[str, str, list[Import]]]) -> None:
    outlines = [Outline(path, name, PARSED, 9, imports=tuple(found)) for path, name, found in rows]
    paths = [one.path for one in outlines]
    made = ImportGraph.of(outlines, paths)
    for path, edges in made.internal.items():
        assert {edge.target for edge in edges} <= set(paths) - {path}
    again = ImportGraph.of(outlines, list(reversed(paths)))
    assert (again.internal, again.external) == (made.internal, made.external)
    assert set(made.touching(paths[:2], outlines)) <= set(paths[2:]) | set(paths)


@pytest.mark.full
def test_a_hundred_thousand_files_take_seconds() -> None:
    outlines = [
        Outline(
            f"p{i % 300}/q{i % 7}/m{i}.py", "Python", PARSED, 9,
            imports=(
                *(
                    Import.of((f"p{(i - j) % 300}.q{(i - j) % 7}.m{i - j}", ("x", "y"), j, 0, ()))
                    for j in range(1, 6)
                ),
                Import.of(("", ("utils",), 7, 1, ())),
                Import.of(("utils", (), 8, 0, ())),
            ),
        )
        for i in range(100_000)
    ]  # fmt: skip
    paths = [f"p{i}/utils.py" for i in range(300)]
    made = ImportGraph.of(outlines, [*paths, *(one.path for one in outlines)])
    assert len(made.external) + len(made.internal) >= 100_000
