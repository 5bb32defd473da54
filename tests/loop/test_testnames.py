"""What each language calls its tests, and what only sounds like one."""

from __future__ import annotations

import pytest
from loop.tampering import judged, rules

from rlm_ci.loop.protected import kind_of
from rlm_ci.loop.protection import Protection

TESTS = """
t/a.t xt/b.t t/lib/Helper.pm lib/deep/c.t t/t0000-basic.sh
src/FooTests.cs MyApp.Tests/Foo.cs MyApp.UnitTests/A.cs src/FooTest.kt FooTest.php FooTests.swift
AppTests/Foo.swift AppUITests/A.swift src/androidTest/A.kt src/integrationTest/java/A.java
FooSpec.scala FooSpec.groovy FooSpec.hs FooIT.java FooTestCase.java TestFoo.java FooCest.php
parser_test.cc parser_unittest.cc test_parser.cpp ParserTest.cpp a_test.c
test_foo.rb foo_test.rb foo_spec.rb foo_spec.lua a_spec.cr foo_test.dart a_test.clj a.phpt
x.bats features/login.feature web/features/steps/a.py features/environment.py
step_definitions/a.rb a.cy.ts cypress/a.cy.js foo-test.js foo_test.ts test-foo.mjs test.js
app.e2e-spec.ts a.spec.ts a.test.tsx integration_tests/a.rs unit_tests/a.c e2e-tests/a.ts
test_data/a.json a_SUITE.erl login.robot a_test.go a_tests.rs test_a.py a_test.py tests.py
a.test.ts.snap app/testutils.py pkg/testutil/a.go src/org/x/ATest.java
"""
SOURCE = """
src/main/java/Latest.java src/Contest.kt src/main/java/org/TestFoo.java src/main/java/AuditIT.java
src/main/scala/CipherSuite.scala src/main/kotlin/KeySpec.kt app/job_spec.py src/column-spec.ts
src/t/a.py app/features/login.ts src/features/cart/index.ts test_server.go latest/a.py
contests/a.rb attest.js protest.ts src/testing/client.py testimony.py a/testable/b.py Manifests/a.cs
greatest.cc a.txt t.py x.tsx src/tester.js latest.test
src/commands/test.ts shop/management/commands/test.py lib/test.rb
"""


@pytest.mark.parametrize("path", TESTS.split())
def test_a_test_is_one_by_its_name(path: str) -> None:
    assert kind_of(path) == "tests"


@pytest.mark.parametrize("path", SOURCE.split())
def test_a_source_is_none(path: str) -> None:
    assert kind_of(path) == ""


def test_a_test_that_asks_nothing_any_more_is_found() -> None:
    before = "use Test::More;\nis(Shop::total(1, 2), 3);\n"
    after = "use Test::More tests => 1;\nok(1);\n"
    for path in ("t/a.t", "a.bats", "FooTests.cs", "a.test.ts.snap", "foo.spec.lua"):
        assert rules(judged({path: before}, {path: after})) == {"protected-test"}
        assert judged({}, {path: before}) == []
        assert Protection().is_protected(path)


def test_a_script_of_tests_is_read_whatever_its_name() -> None:
    before = "test('a', () => { assert.equal(add(1, 2), 3); });\n"
    for path in ("add-test.js", "tests/add_test.ts", "a.cy.ts", "test.mjs", "lib/app.e2e-spec.ts"):
        more = before + before.replace("'a'", "'b'")
        assert judged({path: before}, {path: more}) == []
        assert rules(judged({path: before}, {path: before.replace("3)", "4)")})) == {
            "assertion-weakened"
        }
