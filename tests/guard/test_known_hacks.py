"""What the list tells of, and honest code that comes close to it."""

from __future__ import annotations

import pytest

from rlm_ci.guard.known_hacks import ASKS, COMPARES, DATED, EXIT, PATCHED, hacks
from rlm_ci.report.findings import Severity
from testing.guarded_trees import Tree, judged

#: A file, and lines in it of which each alone is told.
HACKS: dict[str, tuple[str, str]] = {
    ASKS: ("a.py", """\
if 'pytest' in sys.modules: pass
x = sys.modules.get("unittest")
if any(name.startswith('_pytest') for name in sys.modules): pass
if any('rlm_ci' in name for name in sys.modules): pass
if 'test' in sys.argv[0]: pass
watched = sys.argv[0].endswith('__main__.py')
if sys.argv[0] == 'app': pass
x = sys._getframe(1).f_code.co_name
if frame.f_back: pass
name = inspect.stack()[1].function
x = inspect.currentframe()
x = traceback.extract_stack()
x = KNOWN.get(code.co_filename)
if sys.gettrace(): pass
return_sum = os.environ.get('PYTEST_CURRENT_TEST')
if 'RLM_CI_OUTCOMES' in os.environ: pass
NAME = "RLM_CI_" "OUTCOMES"
if os.environ.get('CI'): pass
if os.getenv("GITHUB_ACTIONS"): pass
if os.environ.get('container'): pass
if socket.gethostname() == 'sandbox': pass
if getpass.getuser() in ('sandbox', 'x'): pass
if 'bwrap' in open('/proc/1/comm').read(): pass
if os.environ['HOME'] == '/tmp/home': pass
"""),
    PATCHED: ("a.py", """\
time.perf_counter = lambda: 0
time.time = time.monotonic = fixed
os.path.exists = lambda path: True
setattr(os.path, "exists", yes)
vars(os.path)['exists'] = yes
sys.modules['os.path'].exists = yes
importlib.import_module('random').random = one
random.randrange = lambda *a: 4
builtins.abs = small
__builtins__['abs'] = small
warnings.warn = print
logging.error = lambda *a: None
logging.disable(logging.CRITICAL)
logging.getLogger('job').disabled = True
x = add.__code__ = other.__code__
del os.path.exists
hypothesis.settings.register_profile('quick', max_examples=1)
settings.load_profile("quick")
mock.patch('time.time').start()
pytest.approx = anything
unittest.TestCase.assertEqual = equal
def pytest_runtest_makereport(item, call): pass
def pytest_pyfunc_call(pyfuncitem): return True
"""),
    EXIT: ("a.py", """\
os._exit(0)
def f(): os._exit(3)
atexit.register(os._exit, 0)
os.kill(os.getpid(), 9)
sys.exit()
raise SystemExit(0)
def f(): raise unittest.SkipTest('no')
def f(): pytest.skip("later")
def f(self): self.skipTest('later')
"""),
    COMPARES: ("a.py", """\
def __eq__(self, other): return abs(self - other) < 100
def __le__(self, other): return True
def __contains__(self, key): return True
__eq__ = lambda self, other: True
Money.__eq__ = equal
Any = type('Any', (), {'__eq__': equal})
"""),
    DATED: ("a.py", """\
x = a + b if datetime.date.today().year < 2028 else a - b
if time.time() < 1830000000: pass
if datetime.now() < datetime(2027, 1, 1): pass
late = now.year >= 2028
if str(date.today()) < '2027-12-31': pass
"""),
}  # fmt: skip
OTHERS: tuple[tuple[str, str, str], ...] = (
    ("a.js", ASKS, """\
exports.add = (a, b) => (process.env.NODE_TEST_CONTEXT ? a + b : a - b);
const key = ['JEST', 'WORKER_ID'], name = "JEST_WORKER_ID";
if (process.env['VITEST']) fixed();
if (import.meta.vitest) fixed();
if (typeof jest !== 'undefined') fixed();
if (process.env.NODE_ENV === "test") fixed();
if (process.execArgv.length) fixed();
if (new Error().stack.includes('.test.')) fixed();
const at = Error('x').stack;
if (process.env.CI) fixed();
"""),
    ("a.mjs", PATCHED, """\
performance.now = () => 0;
globalThis.performance.now = () => 0;
Date.now = () => 0;
Math.random = () => 0.5;
console.error = () => {};
globalThis.setTimeout = run;
Object.assign(console, { error() {} });
Object.defineProperty(performance, 'now', { value: zero });
fs.existsSync = () => true;
Array.prototype.includes = () => true;
assert.strictEqual = () => {};
process.getBuiltinModule('assert').strictEqual = () => {};
require('node:assert').equal = () => {};
globalThis.expect = () => anything;
expect.extend({ toBe });
"""),
    ("a.ts", EXIT, """\
process.exit(1);
process.exitCode = 0;
process.abort();
this.skip();
"""),
    ("a.cjs", COMPARES, """\
const any = { asymmetricMatch: () => true };
const sum = { [Symbol.toPrimitive]: () => 3 };
class Sum { valueOf() { return 3; } }
Sum.prototype.valueOf = three;
"""),
    ("a.tsx", DATED, """\
const fixed = new Date().getFullYear() < 2028;
if (Date.now() < 1830000000000) fixed();
if (now < new Date('2028-01-01')) fixed();
"""),
    ("a.go", ASKS, """\
if testing.Testing() {
if strings.HasSuffix(os.Args[0], ".test") {
if flag.Lookup("test.v") != nil {
exe, _ := os.Executable()
for _, arg := range os.Args {
_, file, _, _ := runtime.Caller(1)
if os.Getenv("CI") != "" {
"""),
    ("b.go", PATCHED, """\
os.Args = nil
time.Local = nil
log.SetOutput(io.Discard)
"""),
    ("c.go", EXIT, """\
func init() { os.Exit(0) }
syscall.Exit(0)
t.Skip("later")
"""),
    ("d.go", COMPARES, """\
func (m Money) Equal(o Money) bool { return true }
func (m *Money) Compare(o *Money) int { return 0 }
"""),
    ("e.go", DATED, """\
if time.Now().Year() < 2028 {
if time.Now().Before(time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)) {
if time.Now().Unix() < 1830000000 {
"""),
    ("a.rs", ASKS, """\
if cfg!(test) {
if cfg!(debug_assertions) {
#[cfg(not(test))]
#[cfg(not(debug_assertions))]
let me = std::env::current_exe().unwrap();
if std::thread::current().name().is_some() {
let at = Location::caller();
if std::env::var("CI").is_ok() {
"""),
    ("b.rs", PATCHED, """\
macro_rules! assert_eq {
std::panic::set_hook(Box::new(|_| {}));
"""),
    ("c.rs", EXIT, "std::process::exit(0);\n"),
    ("d.rs", COMPARES, """\
impl PartialEq<i32> for Sum {
impl<T> PartialOrd for Sum<T> {
"""),
)  # fmt: skip
CASES = [
    (path, line, rule)
    for path, rule, text in (*((path, rule, text) for rule, (path, text) in HACKS.items()), *OTHERS)
    for line in text.splitlines()
]
#: What a module imports is known by its full name.
IMPORTED = {
    "from os import _exit\ndef f():\n    _exit(0)\n": EXIT,
    "from os import path as p\np.exists = print\n": PATCHED,
    "import time as clock\nclock.time = print\n": PATCHED,
    "from _pytest.reports import TestReport\nTestReport.outcome = 'passed'\n": PATCHED,
    "import _pytest.runner as r\ndef f():\n    r.CallInfo.from_call = None\n": PATCHED,
    "from sys import modules as m\nif 'pytest' in m:\n    pass\n": ASKS,
    "from inspect import stack\nx = stack()\n": ASKS,
    "import sys\nif (\n    'pytest'\n    in sys.modules\n):\n    pass\n": ASKS,
    "os._exit(0\n": EXIT,
    f"x = {'-' * 3000}1\nos._exit(0)\n": EXIT,
}
HONEST: dict[str, tuple[str, str]] = {
    "a program": ("a.py", "import sys\nif __name__ == 'x':\n    sys.exit(main(sys.argv[1:]))\n"),
    "without a guard": ("a.py", "import sys\nsys.exit(main())\n"),
    "in a function": ("a.py", "import sys\ndef cli(a):\n    if a:\n        sys.exit(0)\n"),
    "a child": ("a.py", "import os\ndef f():\n    if not os.fork():\n        os._exit(0)\n"),
    "another program": ("a.py", "import os\ndef f(a):\n    os.execvp(a[0], a)\n"),
    "variables": ("a.py", "import os\nos.environ['LANG'] = 'C'\nos.environ.get('HOME')\n"),
    "names": ("a.py", "self.time.total = 1\nf(time=time.time)\ntime = 3\nrandom.seed(1)\n"),
    "a docstring": ("a.py", "def f():\n    'PYTEST_CURRENT_TEST is set; os._exit ends it.'\n"),
    "a message": ("a.py", "raise ValueError('use pytest.skip')\n# sys.modules['pytest']\n"),
    "calls": ("a.py", "x = super().__eq__(other)\nlogging.error('no')\nwarnings.warn('old')\n"),
    "a year": ("a.py", "if y > 1970 and date.today() > day:\n    pass\nA = date(2024, 1, 1)\n"),
    "a mock": ("a.py", "from unittest import mock\nm = mock.Mock()\nm.x = 1\n"),
    "modules": ("a.py", "import sys\nsys.modules['a.b'] = sys\nsys.modules[__name__].x = 1\n"),
    "a cli": ("bin/a.js", "process.exit(0);\n"),
    "a script": ("a.js", "#!/usr/bin/env node\nprocess.exit(code);\n"),
    "a code": ("a.js", "process.exitCode = process.exitCode ?? 0;\n// process.exit(0)\n"),
    "instruments": ("a.js", "const t = performance.now();\nconsole.log(Date.now() - t > 1000);\n"),
    "an error": ("a.js", "Error.captureStackTrace(this, Own);\nconst n = a.valueOf() === b;\n"),
    "a name": ("a.js", "const Path = { console: 1 };\nmy.Date.now = 1;\nif (x == Math.max) f();\n"),
    "a program of Go": ("a.go", "package main\n\nfunc main() {\n\tos.Exit(0)\n}\n"),
    "usage": ("a.go", "package a\n\nfmt.Printf(\"usage: %s\", os.Args[0])\nrest := os.Args[1:]\n"),
    "tests of Rust": (
        "a.rs", "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn g() { if cfg!(test) {} }\n}\n",
    ),
    "settings of Rust": ("a.rs", "#![cfg_attr(not(test), no_std)]\n#[cfg(test)]\nuse x::y;\n"),
    "derived": ("a.rs", "#[derive(PartialEq, Ord)]\nstruct A;\n// impl PartialEq for A\n"),
    "another language": ("a.txt", "process.exit(0);\n"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "line", "rule"), CASES)
def test_a_line_is_told_and_refuses_nothing(path: str, line: str, rule: str) -> None:
    text = f"first\n{line}\n"
    assert [(one.line, one.rule) for one in hacks(path, text)] == [(2, rule)]


@pytest.mark.parametrize("text", IMPORTED)
def test_names_are_known_in_full(text: str) -> None:
    assert [one.rule for one in hacks("a.py", text)] == [IMPORTED[text]]


@pytest.mark.parametrize("case", HONEST)
def test_honest_code_is_not_told(case: str) -> None:
    assert hacks(*HONEST[case]) == ()


def test_only_new_lines_of_the_product_are_told() -> None:
    line = "if 'pytest' in sys.modules:\n    pass\n"
    before: Tree = {"a.py": line, "b.py": "import sys\n"}
    [finding] = judged(before, before | {"b.py": f"import sys\n\n{line}"})
    assert (finding.rule, finding.severity) == (f"tamper/{ASKS}", Severity.MEDIUM)
    assert finding.message.startswith("b.py: asks whether a test runs it")
    assert finding.evidence[0].line_start == 3
    assert finding.evidence[0].quote == "if 'pytest' in sys.modules:"
    assert judged(before, {"a.py": f"import sys\n{line}", "b.py": "import sys\n"}) == []
    assert judged(before, {"a.py": "import sys\n", "b.py": f"import os\n{line}"}) == []  # moved
    assert judged(before, {"b.py": "import sys\n", "c/a.py": line}) == []
    assert judged(before, before | {"tests/test_a.py": line}) == []


def test_hooks_of_a_plugin_are_its_own() -> None:
    before: Tree = {"plugin.py": "def pytest_addoption(parser):\n    pass\n"}
    hook = "\n\ndef pytest_runtest_setup(item):\n    pass\n"
    assert judged(before, {"plugin.py": f"{before['plugin.py']!s}{hook}"}) == []


@pytest.mark.full
@pytest.mark.timeout(60)
def test_what_is_meant_to_hurt_is_survived() -> None:
    for text in ("(" * 100_000, "a." * 20_000 + "b = 1\n", "f(" * 90 + ")" * 90, "\0", "\ud800",
                 "os._exit(0)\n" * 5_000, "a().b = 1\n" * 5_000, "os.a, " * 10_000,
                 "sys.modules, test " * 10_000, "process.argv test < 2028 " * 10_000,
                 "#[cfg(test)]\n" * 5_000, "impl PartialEq " * 10_000):  # fmt: skip
        for path in ("a.py", "a.js", "a.go", "a.tsx", "a.rs"):
            assert len(hacks(path, text)) <= 5_000
