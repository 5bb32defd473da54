"""The cases that a test lists, by its source."""

from __future__ import annotations

import pytest

from rlm_ci.guard.weakened_tests.listed_cases import count

GO = """\
func TestDue(t *testing.T) {
	tests := []struct {
		name string
		in   []int
	}{
		{"two", []int{20, 35}}, // 55
		{name: "none, or {", in: nil},
	}
	for _, tt := range tests {
	}
}
"""
GO_MAP = """\
var rows = map[string]row{
	"a": {1, 2},
	"b": {},
	"c": {3},
}

func TestRows(t *testing.T) {
	for name, row := range rows {
	}
}
"""
CASES = {
    "a list": (".js", "test.each([1, [2, 3], { a: 4 },])('x', () => {})", 3),
    "an empty list": (".ts", "it.each([])('x', () => {})", 0),
    "texts with brackets": (".js", "it.each(['[', \"],\", `,`])('x', () => {})", 3),
    "a name": (".js", "const rows = [1, 2]\nit.each(rows)('x', () => {})", 2),
    "a typed name": (".ts", "const rows: Row[] = [[1], [2]]\nit.for(rows)('x', () => {})", 2),
    "computed": (".js", "it.each(rows.filter(good))('x', () => {})", None),
    "a template": (".js", "it.each`\n a | b\n ${1} | ${2}\n ${3} | ${4}\n`('x', () => {})", 2),
    "none": (".js", "it('x', () => { for (const a of [1]) {} })", None),
    "rows of Go": (".go", GO, 2),
    "rows of a map": (".go", GO_MAP, 3),
    "a name for two tables": (".go", f"{GO}{GO}", 4),
    "a slice of a table": (".go", GO.replace("range tests", "range tests[:1]"), None),
    "no table of Go": (".go", "func TestA(t *testing.T) {}", None),
    "rstest": (".rs", "#[rstest]\n#[case(1)]\n#[case::two(2)]\nfn a(#[case] b: u8) {}", 2),
    "a source of Java": (".java", '@ParameterizedTest\n@ValueSource(strings = {"a", "b"})', 2),
    "a method of Java": (".java", '@ParameterizedTest\n@MethodSource("rows")', None),
}


@pytest.mark.parametrize("case", CASES)
def test_cases_are_counted(case: str) -> None:
    ending, text, number = CASES[case]
    assert count(ending, text, text) == number
