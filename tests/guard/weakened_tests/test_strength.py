"""How much an assertion asks for."""

from __future__ import annotations

import pytest

from rlm_ci.guard.weakened_tests.strength import (
    EXACT,
    NOTHING,
    PART,
    PRESENCE,
    WORDED,
    conditions,
    is_check,
    is_same,
    strength,
    without_parted,
)

CLAIMS = {
    NOTHING: [
        "assert True", "assert x == 3 or True", "self.assertTrue(True)", "expect(true).toBe(true)",
        "assert!(true)", "assert.Equal(t,got,got)", "t.is(got,got)", "assert_eq!(a, a, 'x')",
        "if false t.Fatal(\"x\")", "assert a == a",
    ],
    PRESENCE: [
        "assert result", "assert x is not None", "assert not found", "expect(x).toBeDefined()",
        "pytest.raises(Exception)", "assertNotNull(cart)", "if err!=nil t.Fatal(err)",
        "assert!(found)", "assert items == []",
        "expect(x).not.toBeUndefined()", "assert.notEqual(x,undefined)",
        "expect(spy).not.to.have.been.called", "expect(spy).to.not.be.called",
        "expect(spy.called).to.be.false", "expect(spy).toHaveBeenCalled()",
    ],
    PART: ["assert a == pytest.approx(15, abs=40)", "assert a == approx(15, rel=0.5)",
           "self.assertAlmostEqual(a, 15, delta=2)", "pytest.raises((KeyError, TypeError))",
           "assert 'x' in said", "expect(x).toContain(1)", "assert a > 3", "assert!(a != b)",
           "expect(x).toBeGreaterThan(0)", "expect(x).toBeLessThan(9)",
           "assertThat(list).doesNotContain(2)"],
    EXACT: [
        "assert a == approx(15)", "assert a == approx(15.5, abs=0.01)",
        "self.assertAlmostEqual(a, 15, delta=0.1)", "pytest.raises(Exception, match='no')",
        "assert a == 3", "expect(x).toEqual([1])", "assert_eq!(a,3)", "assertEquals(3, a)",
        "pytest.raises(ValueError)", "if got!=want t.Errorf(\"x\")", "#[should_panic]",
        "mock.assert_called_once_with(3)", "build.assert_called_with('.', None)",
        "assert add(1, 1) == 2", "assert f() == ('a', 'a')",
        "assert!(ptr::eq(a, b))", "expect(spy).to.have.been.calledWith(3)",
        "t.deepEqual(f(),[\"a\",\"a\",\"a\"])", "t.is(f(a,a),3)",
    ],
    WORDED: ["pytest.raises(ValueError, match='no')"],
}  # fmt: skip


@pytest.mark.parametrize("level", CLAIMS)
def test_claims_have_their_place_on_the_scale(level: int) -> None:
    assert {claim: strength(claim) for claim in CLAIMS[level]} == dict.fromkeys(
        CLAIMS[level], level
    )


@pytest.mark.parametrize(
    ("claim", "number"),
    [
        ("assert a == 1 and b", 2),
        ("assert said == 'this and that'", 1),
        ("t.true(n>=2&&n<30)", 2),
        ("t.true(n<2||n>30)", 1),
        ('if a!=1||b!=2 t.Error("x")', 2),
        ('if a!=1&&b!=2 t.Error("x")', 1),
    ],
)
def test_what_a_claim_asks_for_is_counted(claim: str, number: int) -> None:
    assert len(conditions(claim)) == number


@pytest.mark.parametrize(
    ("claim", "other", "same"),
    [
        ("assert.Equal(0,len(hook.Entries))", "assert.Empty(hook.Entries)", True),
        ("require.Equal(t,0,len(f(a)))", "require.Empty(t,f(a))", True),
        ("assert.Equal(t,2,len(got))", "assert.Len(t,got,2)", True),
        ("assert.Equal(t,2,len(got))", "assert.Len(t,got,3)", False),
        ("assert.Equal(t,true,ok)", "assert.True(t,ok)", True),
        ("assert.Equal(t,true,ok)", "assert.False(t,ok)", False),
        ("assert.Equal(t,nil,err)", "assert.Nil(t,err)", True),
        ('assert.True(t,f(1,2),"no, %s",x)', 'assert.True(t,f(1,2),"never")', True),
        ('assert.Equal(t,a,f(b,1),"no")', "assert.Equal(t,a,f(b,1))", True),
        ('if!assert.Equal(t,a,b,"no %s",n)', 'if!assert.Equal(t,a,b,"no")', True),
        ('assert.Equal(t,"a",b)', 'assert.Equal(t,"c",b)', False),
        ('assert.EqualError(t,err,"a")', 'assert.EqualError(t,err,"b")', False),
        ("if bytes.Compare(a,b)!=0 t.Fatal()", "if!bytes.Equal(a,b)t.Fatal()", False),
        ("assert.Empty(t,a)", "assert.Empty(t,a)", False),  # no other form
    ],
)
def test_a_claim_of_go_has_other_forms(claim: str, other: str, *, same: bool) -> None:
    assert is_same(claim, [other]) is same


def test_a_text_of_a_test_is_no_pattern() -> None:
    text = "func TestA(t *testing.T) {\n\tassertEqual(t, 1)\n}\n"
    assert is_check("assertEqual", "a_test.go", text)
    assert not is_check('"must (**', "a_test.go", text)


def test_a_text_may_be_said_in_parts() -> None:
    text = '"limit 255 reached at column 257'
    gone = [text, "255", "257"]
    assert without_parted(gone, ['"limit ', '" reached at column ', "9"]) == []
    for more in (['"limit ', "9"], ['" reached at column ', "9"], ['"ab', '"limit ', '"x reached']):
        assert without_parted(gone, more) == gone
