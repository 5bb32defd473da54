"""What a compiler keeps is kept for a run, and the last verdict uses nothing of an agent's."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from testing.fix_stage import Stage

#: A compiler with a cache, where all of them have it, by the content of what is compiled.
COMPILE = """\
import hashlib, os, shutil, sys
cache = os.path.expanduser("~/.cache/compiled")
os.makedirs(cache, exist_ok=True)
for name in ("library.txt", "calc.py"):
    with open(name, "rb") as file:
        source = file.read()
    kept = os.path.join(cache, hashlib.sha256(source).hexdigest())
    print(name, "from the cache" if os.path.exists(kept) else "compiled")
    if not os.path.exists(kept):
        with open(kept, "wb") as file:
            file.write(b"works" if b"a + b" in source or name != "calc.py" else b"broken")
    with open(kept) as file:
        if file.read() != "works":
            sys.exit(f"{name} does not work")
"""
#: Says in the compiler's cache, and nowhere else, that work works which does not.
POISON = """\
import hashlib, os
text = b"# not mended\\n" + open("calc.py", "rb").read()
place = os.path.expanduser("~/.cache/compiled")
os.makedirs(place, exist_ok=True)
with open(os.path.join(place, hashlib.sha256(text).hexdigest()), "w") as file:
    file.write("works")
"""
#: What it speaks of.
UNMENDED = """\
with open("calc.py") as file:
    text = file.read()
with open("calc.py", "w") as file:
    file.write("# not mended\\n" + text)
"""
#: An agent whose code does it when the validator runs, and who leaves no trace of that.
PATIENT = f"""\
import os
with open("used.py", "r+") as file:
    is_first = not file.read()
    file.seek(0)
    file.truncate()
    file.write({POISON!r} if is_first else "")
if not is_first:
    exec({UNMENDED!r})
"""


def started(stage: Stage, script: str = COMPILE) -> tuple[str, ...]:
    stage.repo.write("compile.py", script).write("library.txt", "large").commit()
    return ("--validator", "python compile.py", "--sandbox")


@pytest.mark.full
@pytest.mark.parametrize("box", ["auto", "none"])
def test_what_was_compiled_once_is_used_again(stage: Stage, box: str) -> None:
    words = started(stage)
    agent = "sed -i 's/a - b/a + b/' calc.py"
    ended, run = stage.fixed(*words, box, "--agent", agent)
    assert (ended.code, run.final) == (0, "passed"), ended
    assert "library.txt compiled" in run.text("rlm/validator-0.log")
    for name in ("1", "1-final"):
        assert "library.txt from the cache" in run.text(f"rlm/validator-{name}.log")
    # What was compiled of the agent's own work is compiled again for the last verdict.
    assert "calc.py compiled" in run.text("rlm/validator-1-final.log")
    assert not (run.folder / "rlm" / "caches").exists()


@pytest.mark.full
@pytest.mark.parametrize(
    ("agent", "box"), [(POISON + UNMENDED, "auto"), (POISON + UNMENDED, "none"), (PATIENT, "auto")]
)
def test_what_an_agent_or_its_code_put_into_a_cache_decides_nothing(
    stage: Stage, agent: str, box: str
) -> None:
    stage.repo.write("agent.py", agent).write("used.py", "")
    words = started(stage, f"import used\n{COMPILE}")
    last = "2" if agent is PATIENT else "1"
    ended, run = stage.fixed(*words, box, "--agent", "python agent.py", "--max-iterations", last)
    assert "calc.py from the cache" in run.text(f"rlm/validator-{last}.log")
    assert "[exit code 0," in run.text(f"rlm/validator-{last}.log")
    assert "library.txt from the cache" in run.text(f"rlm/validator-{last}-final.log")
    assert "calc.py does not work" in run.text(f"rlm/validator-{last}-final.log")
    assert (ended.code, run.final) == (3, "max_iterations"), ended


#: Its answer hangs on a file that Go does not see it read.
GO_TEST = """\
package calc

import (
\t"fmt"
\t"os/exec"
\t"testing"
)

func TestAdd(t *testing.T) {
\tdata, _ := exec.Command("cat", "data.txt").Output()
\tif fmt.Sprintln(Add(1, 2)) != string(data) {
\t\tt.Fatal("add")
\t}
}
"""


def go_project(stage: Stage, sign: str) -> None:
    stage.repo.write("go.mod", "module example.com/calc\n\ngo 1.19\n")
    code = f"package calc\n\nfunc Add(a, b int) int {{ return a {sign} b }}\n"
    stage.repo.write("calc.go", code).write("calc_test.go", GO_TEST).write("data.txt", "3\n")
    stage.repo.commit()


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("go"), reason="there is no Go")
def test_go_compiles_its_library_once(stage: Stage) -> None:
    go_project(stage, "-")
    command = "go test -x -gcflags=all=-l ./..."  # its library, too, in every release of Go
    agent = "sed -i 's/a - b/a + b/' calc.go"
    ended, run = stage.fixed("--validator", command, "--agent", agent)
    assert (ended.code, run.final) == (0, "passed"), ended
    library = "-p fmt "
    assert library in run.text("rlm/validator-0.log")
    for name in ("1", "1-final"):
        assert library not in run.text(f"rlm/validator-{name}.log")


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("go"), reason="there is no Go")
def test_a_result_that_go_remembers_decides_nothing(stage: Stage) -> None:
    go_project(stage, "+")
    stage.repo.write("other/x.go", "package other\n").commit()
    ended, run = stage.fixed(
        "--validator", "go test ./...", "--agent", "echo 4 >data.txt", "--max-iterations", "1",
        goal="Look for more",
    )  # fmt: skip
    assert "(cached)" in run.text("rlm/validator-1.log")
    assert "(cached)" not in run.text("rlm/validator-1-final.log")
    assert (ended.code, run.final) == (3, "max_iterations"), ended
