"""What each language calls its tests, and what only sounds like one."""

from __future__ import annotations

import pytest

from rlm_ci.validators.test_file_names import is_file, is_folder

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
a.test.ts.snap tests/it.rs src/cart/tests.rs app/testutils.py pkg/testutil/a.go src/org/x/ATest.java
Get-Thing.Tests.ps1 testthat/test-sum.R foo-test.el Token.t.sol policy_test.rego test_player.gd
"""
SOURCE = """
src/main/java/Latest.java src/Contest.kt src/main/java/org/TestFoo.java src/main/java/AuditIT.java
src/main/scala/CipherSuite.scala src/main/kotlin/KeySpec.kt app/job_spec.py src/column-spec.ts
src/t/a.py app/features/login.ts src/features/cart/index.ts test_server.go latest/a.py
contests/a.rb attest.js protest.ts src/testing/client.py testimony.py a/testable/b.py Manifests/a.cs
greatest.cc a.txt t.py x.tsx src/tester.js latest.test
src/Tests.ps1 src/contests.ps1 token.sol latest.R protest.el
src/commands/test.ts shop/management/commands/test.py lib/test.rb
"""


def is_test(path: str) -> bool:
    return is_file(path) or any(map(is_folder, path.split("/")[:-1]))


@pytest.mark.parametrize("path", TESTS.split())
def test_a_test_is_one_by_its_name(path: str) -> None:
    assert is_test(path)


@pytest.mark.parametrize("path", SOURCE.split())
def test_a_source_is_none(path: str) -> None:
    assert not is_test(path)
