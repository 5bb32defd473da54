"""What the files of a language give to others, in the forms that people write it in."""

from __future__ import annotations

import pytest

from rlm_ci.source.import_graph import ImportGraph
from rlm_ci.source.outline import outline
from rlm_ci.wiki.facts.note import other_notes


def public(path: str, source: str) -> list[str]:
    found = outline(path, source.encode())
    return [one.name for one in found.symbols if one.is_public]


COMMON = {
    "exports = module.exports = make;\nfunction make() {}\nfunction inner() {}\n": ["make"],
    "exports.Route = Route; exports.json = parser.json;\nexports['q-r'] = require('./q');\n": [
        "Route", "json", "q-r",
    ],
    "module.exports = {\n  four,\n  five: 5,\n  six() {},\n  seven: four,\n  nine: a => 1\n};\n"
    "function four() {}\nfunction own() {}\n": ["five", "six", "seven", "nine", "four"],
    "var app = exports = module.exports = {};\napp.use = function use(fn) {};\napp._in = () => 1;\n"
    "other.go = function() {};\n": ["app", "app.use"],
    "var proto = module.exports = function(options) {};\nproto.handle = function (req) {};\n": [
        "proto", "proto.handle",
    ],
    "function View() {}\nView.prototype.show = function () {};\nmodule.exports = View;\n"
    "function Own() {}\nOwn.prototype.show = function () {};\n": ["View", "View.show"],
    "module.exports.two = 2;\nfunction own() {}\n": ["two"],
    "exports.a = exports.b = void 0;\nexports.__esModule = true;\nfunction own() {}\n": [],
    "exports.get = exports.take = function (x) {};\n": ["get", "take"],
    "module.exports = require('./lib');\n": [],
}  # fmt: skip


@pytest.mark.parametrize("source", COMMON)
def test_a_script_gives_what_it_exports(source: str) -> None:
    assert public("a.js", source) == COMMON[source]


def test_what_is_exported_by_another_name_has_that_name() -> None:
    source = (
        "function hidden(a) {}\nclass Own { go() {} }\nfunction both() {}\n"
        "export { hidden as renamed, Own as Other, both, both as second };\n"
    )
    found = {one.name: one for one in outline("a.ts", source.encode()).symbols if one.is_public}
    assert list(found) == ["renamed", "Other", "Other.go", "both", "second"]
    assert found["renamed"].signature == "function hidden(a) as renamed"
    assert (found["renamed"].line_start, found["second"].line_start) == (1, 4)


def test_what_has_two_names_has_both() -> None:
    source = "export const add = 1;\nexport function go() {}\nexport { add as plus, go as run };\n"
    assert public("a.ts", source) == ["add", "go", "plus", "run"]


LOADED = """\
const a = require('u' + 'rl'), b = require('fs', 1), c = require("./own")
const text = `:import('${path}')`
import('later' /* why */)
"""


def test_only_a_whole_text_names_what_is_loaded() -> None:
    made = ImportGraph.of([outline("a.js", LOADED.encode())], ["a.js", "own.js"])
    assert [one.package for one in made.external["a.js"]] == ["fs", "later"]
    assert [one.target for one in made.internal["a.js"]] == ["own.js"]


def test_a_function_that_is_made_of_a_text_evaluates_it() -> None:
    source = b"var root = self || Function('return this')();\nnew Function(a);\nisFunction(a);\n"
    assert [(one.kind, one.line_start) for one in other_notes("JavaScript", source)] == [
        ("code", 1), ("code", 2),
    ]  # fmt: skip


def test_a_command_is_called_as_it_says() -> None:
    source = (
        "@click.group(name='list')\ndef list_(): ...\n@click.command('two')\ndef b(): ...\n"
        "@click.command(name=NAME)\ndef c_x(): ...\n@app.task(name='late')\ndef d(): ...\n"
    )
    found = outline("a.py", source.encode()).entries
    assert [(one.kind, one.name) for one in found] == [
        ("command", "list"), ("command", "two"), ("command", "c-x"), ("task", "late"),
    ]  # fmt: skip


RUBY = """\
class Klass
  def one; end
  alias two one
  alias_method :three, :one
  define_method(:four) { |a| a }
  class << self
    def meta(a); end
    private
    def hid; end
  end
  private
  alias_method :five, :one
end
"""
HEADER = """\
static inline int add(int a, int b) { return a + b; }
static int own(void) { return 1; }
static __inline__ int more(int a) { return a; }
"""


def test_a_method_of_ruby_has_each_of_its_names() -> None:
    assert public("a.rb", RUBY) == [
        "Klass", "Klass.one", "Klass.two", "Klass.three", "Klass.four", "Klass.meta",
    ]  # fmt: skip
    (meta,) = [one for one in outline("a.rb", RUBY.encode()).symbols if one.name == "Klass.meta"]
    assert meta.signature == "def self.meta(a)"


def test_what_a_header_defines_in_place_is_for_whoever_includes_it() -> None:
    assert public("a.h", HEADER) == ["add", "more"]
    assert public("a.c", HEADER) == []


@pytest.mark.parametrize(
    ("path", "source", "passed"),
    [
        ("a.ts", "export { a, b as c } from './x';\nexport * from './y';\n", ["*", "a", "c"]),
        ("a.ts", "export * as ns from './z';\nimport * as own from './y';\n", ["ns"]),
        (
            "a.rs",
            "pub use m::inner as renamed;\npub use m::{self, Two};\n",
            ["Two", "m", "renamed"],
        ),
        ("a.rs", "pub(crate) use m::One;\nuse m::own as mine;\nmod n { pub use x::Y; }\n", []),
    ],
)
def test_what_a_file_passes_on_of_others(path: str, source: str, passed: list[str]) -> None:
    assert list(outline(path, source.encode()).exported) == passed


WORDS = """\
module Acme # of us
  # Does f.
  class F
    # Runs.
    def run; end
    # Stops.
    def stop; end
  end
end
"""


def test_what_a_body_of_ruby_begins_with_has_its_words() -> None:
    found = {one.name: one.doc for one in outline("a.rb", WORDS.encode()).symbols}
    assert found == {
        "Acme": "", "Acme.F": "Does f.", "Acme.F.run": "Runs.", "Acme.F.stop": "Stops.",
    }  # fmt: skip


def test_what_tells_of_a_crate_ends_where_its_first_item_is_told_of() -> None:
    source = "//! G crate.\n/// Does g.\npub fn run() {}\npub struct S { pub a: i32, b: i32 }\n"
    found = outline("src/lib.rs", source.encode())
    assert (found.doc, found.doc_start, found.doc_end) == ("G crate.", 1, 1)
    assert [(one.name, one.doc) for one in found.symbols if one.is_public] == [
        ("run", "Does g."), ("S", ""), ("S.a", ""),
    ]  # fmt: skip
