"""Calls and raises, by the syntax of each language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.source.uses.call_sites import file_calls

CASES = {
    "a.py": """\
def run(self, ctx: "Context | None", name: Optional[Box], *rest):
    self.load(name)
    ctx.invoke(read(name))
    with Pool() as pool:
        pool.map(rest)
    ", ".join(rest)
    make()().call()
    Box().fill()
    def inner(ctx: str):
        ctx.strip()
    if not name:
        raise errors.Empty(name)
    raise
""",
    "a.go": """\
package a
func (s *S) Run() {
    s.load()
    log.Print(x())
    panic(1)
}
""",
    "a.ts": """\
export class A {
  go(): void {
    this.b<string>();
    new Box(1);
    a().then(c);
    throw new TypeError('x');
  }
}
""",
    "a.rs": """\
fn main() {
    let x = Conf::<u8>::load();
    crate::io::send(x);
    panic!("no");
}
""",
    "A.java": """\
class A {
  void go() {
    b();
    this.c.d();
    new E();
    throw new F(1);
  }
}
""",
    "a.rb": """\
def go
  load(1)
  Box.fill(2)
  raise Empty, 'x'
end
""",
    "a.php": """\
<?php
function go() {
  load();
  $this->b();
  Box::fill();
  throw new Gone(1);
}
""",
}
CALLS = {
    "a.py": "2 self.load, 3 .read, 3 Context.invoke, 4 .Pool, 5 Pool.map, 7 .make, 7 ?.call, "
    "8 .Box, 8 Box.fill, 10 str.strip",
    "a.go": "3 S.load, 4 .x, 4 log.Print",
    "a.ts": "3 this.b, 4 .Box, 5 .a, 5 ?.then",
    "a.rs": "2 Conf.load, 3 crate.io.send",
    "A.java": "3 .b, 4 this.c.d, 5 .E",
    "a.rb": "2 .load, 3 Box.fill",
    "a.php": "3 .load, 4 this.b, 5 Box.fill",
}
RAISES = {
    "a.py": "12 errors.Empty", "a.go": "5 panic", "a.ts": "6 TypeError", "a.rs": "4 panic",
    "A.java": "6 F", "a.rb": "4 Empty", "a.php": "6 Gone",
}  # fmt: skip


@pytest.mark.parametrize("path", CASES)
def test_calls_and_raises_have_their_lines_and_what_stands_before_the_dot(path: str) -> None:
    found = file_calls(path, CASES[path].encode())
    told = sorted(found.calls, key=tuple)
    assert ", ".join(f"{one.line} {one.base}.{one.name}" for one in told) == CALLS[path]
    assert ", ".join(f"{one.line} {one.name}" for one in found.raises) == RAISES[path]


@given(st.binary(max_size=300), st.sampled_from([*CASES, "a.md"]))
def test_no_content_is_too_much(content: bytes, path: str) -> None:
    last = content.count(b"\n") + 1
    found = file_calls(path, content)
    lines = [*(one.line for one in found.calls), *(one.line for one in found.raises)]
    assert all(1 <= line <= last for line in lines)
