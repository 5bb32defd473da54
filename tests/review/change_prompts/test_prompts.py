"""The prompts of a change: every changed line with its numbers, and what belongs to it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from rlm_ci.change.change_set import from_range
from rlm_ci.git.repository import Repository, discover
from rlm_ci.pipelines.repository import plan
from rlm_ci.review.change.affected_files import AffectedFiles
from rlm_ci.review.change_prompts.prompts import prompts_of

if TYPE_CHECKING:
    from collections.abc import Container

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.review.change_prompts.listing import ChangePrompts
    from testing.repositories.git_repo import GitRepo

ROW = re.compile(r"(\d+)([-+|])(.*)", re.DOTALL)


def change_of(repo: GitRepo, base: str) -> ChangeSet:
    return from_range(Repository(*discover(str(repo.path)), os.environ), base, "HEAD", "--base")


def made(
    repo: GitRepo,
    base: str,
    room: int = 100_000,
    *,
    asked: Container[str] | None = None,
    exclude: tuple[str, ...] = (),
) -> ChangePrompts:
    change = change_of(repo, base)
    scope = plan.RepositoryScope(
        commit=change.head, base=change.base, merge_base=change.merge_base, exclude=exclude
    )
    gone = [path for path, kind in change.kinds.items() if kind == "D"]
    affected_files = AffectedFiles(plan.corpus(scope, change.repository, ()), gone)
    return prompts_of(change, affected_files, scope, room, asked)


def listed(found: ChangePrompts) -> dict[tuple[str, str, int], str]:
    """The lines of all prompts, by path, mark and number."""
    lines: dict[tuple[str, str, int], str] = {}
    path = ""
    for prompt in found.prompts:
        for row in prompt.text.split("\n"):
            if row.startswith("=== "):
                path = row[4:].partition(" === ")[0]
            elif match := ROW.fullmatch(row):
                lines[path, match[2], int(match[1])] = match[3]
    return lines


def require_all(repo: GitRepo, base: str, found: ChangePrompts) -> None:
    """Each line that git shows as new or removed is in a prompt, with git's number."""
    lines = listed(found)
    for path, hunks in change_of(repo, base).hunks(0)[0].items():
        for line in (line for hunk in hunks for line in hunk.lines):
            number = (line.old if line.kind == "-" else line.new) or 0
            assert lines[path, line.kind, number] == line.text.rstrip("\r"), (path, line)


SHOP = '''"""A shop."""


def total(rows, tax):
    """The sum."""
    result = 0
    for row in rows:
        result += row.price
    return result * tax


class Cart:
    """What somebody buys."""

    def __init__(self, rows):
        self.rows = rows

    def price(self):
        return total(self.rows, 1)
'''
TEXT = "".join(f"line {number}\n" for number in range(1, 81))


def test_removed_lines_stand_beside_new_ones_with_the_numbers_of_both_sides(
    repo: GitRepo,
) -> None:
    repo.write("shop.py", "import os\nimport re\n" + SHOP).write("gone.py", "a = 1\nb = 2\n")
    repo.write("cart.py", "from shop import total\n\n\ndef pay(rows):\n    return total(rows, 2)\n")
    base = repo.commit()
    changed = SHOP.replace("total(rows, tax)", "total(rows)").replace(" * tax", "")
    repo.write("shop.py", changed.replace("total(self.rows, 1)", "total(self.rows)"))
    repo.remove("gone.py").commit()
    found = made(repo, base)
    (prompt,) = found.prompts
    require_all(repo, base, found)
    assert found.missing == ()
    assert prompt.text.startswith(
        "=== shop.py === changed\n@@ -1 +1 @@\n1-import os\n2-import re\n"
    )
    assert "6-def total(rows, tax):\n4+def total(rows):\n5|" in prompt.text
    assert "=== gone.py === deleted\n1-a = 1\n2-b = 2" in prompt.text
    assert "=== cart.py === unchanged\n5|    return total(rows, 2)" in prompt.text
    assert prompt.paths == ("shop.py", "gone.py")
    assert prompt.files == ("shop.py", "cart.py")
    assert ("cart.py", 5, 5) in prompt.shown
    assert (prompt.part, prompt.label) == ("", "part 1 of 1: shop.py and 1 more file")


def test_every_kind_of_change_is_shown_or_named(repo: GitRepo) -> None:
    for name in ("moved.txt", "mode.sh", "crlf.txt", "ends.txt", "tail.txt", "latin.txt"):
        repo.write(f"old/{name}", f"{name}\n{TEXT}")
    repo.write("pic.bin", b"\0\1\2").write("off.txt", TEXT).write("dir\nname.txt", "x\n")
    base = repo.symlink("link.txt", "off.txt").commit()
    repo.remove("link.txt").write("link.txt", "a file\n")
    repo.run("mv", "old/moved.txt", "new.txt")
    repo.write("old/crlf.txt", f"changed\r\n{TEXT}").write(
        "old/ends.txt", f"ends.txt\n{TEXT}".replace("\n", "\r\n")
    )
    repo.write("old/tail.txt", f"tail.txt\n{TEXT}".removesuffix("\n") + " no end")
    repo.write("old/latin.txt", b"caf\xe9\n" + TEXT.encode()).write("empty.txt", "")
    repo.write("pic.bin", b"\0\1\3").write("off.txt", "x\n").write("dir\nname.txt", "y\n")
    repo.write("uv.lock", '[[package]]\nname = "a"\n' * 20).write("end.txt", "a\nb")
    repo.run("update-index", "--chmod=+x", "old/mode.sh")
    repo.run("add", "-A", "--", ".", ":!old/mode.sh")
    repo.run("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    repo.run("commit", "-q", "-m", "all")
    found = made(repo, base, exclude=("off.txt",))
    (prompt,) = found.prompts
    assert found.missing == ()
    rows = (row[4:] for row in prompt.text.split("\n") if row.startswith("=== "))
    assert dict(row.split(" === ") for row in rows) == {
        "dir\\nname.txt": "changed",
        "empty.txt": "new file, without a changed line",
        "end.txt": "new file",
        "link.txt": "new type",
        "new.txt": "renamed from old/moved.txt",
        "off.txt": "changed; not shown: excluded: by the configuration",
        "old/crlf.txt": "changed",
        "old/ends.txt": "changed: only the ends of lines",
        "old/latin.txt": "changed",
        "old/mode.sh": "changed, mode 100644 → 100755, without a changed line",
        "old/tail.txt": "changed",
        "pic.bin": "changed; not shown: binary: a zero byte near its beginning",
        "sub": f"new file; not shown: a submodule, {'0' * 12} → {'1' * 12}",
        "uv.lock": "new file",
    }
    lines = listed(found)
    assert (lines["link.txt", "-", 1], lines["link.txt", "+", 1]) == ("off.txt", "a file")
    assert lines["old/crlf.txt", "+", 1] == "changed"
    assert lines["old/tail.txt", "+", 81] == "line 80 no end"
    assert lines["old/latin.txt", "-", 1] == "latin.txt"
    assert "caf" in lines["old/latin.txt", "+", 1]
    assert lines["end.txt", "+", 2] == "b"
    assert lines["uv.lock", "+", 40] == 'name = "a"'
    assert "off.txt" not in prompt.paths
    prompt.text.encode()  # a name or a line of other bytes is text all the same


def test_a_line_that_no_prompt_holds_is_missing_and_the_rest_is_not(repo: GitRepo) -> None:
    repo.write("min.js", f"var a;\n{'y' * 50_000}\nvar c;\n").write("b.js", "var b;\n")
    base = repo.commit()
    repo.write("min.js", f"var a1;\n{'x' * 50_000}\nvar c1;\n").write("b.js", "var b1;\n").commit()
    found = made(repo, base, 10_000)
    assert found.missing == (
        ("min.js", "removed line 2 is too long for a prompt"),
        ("min.js", "line 2 is too long for a prompt"),
    )
    lines = listed(found)
    assert (lines["min.js", "+", 1], lines["min.js", "+", 3]) == ("var a1;", "var c1;")
    assert lines["b.js", "-", 1] == "var b;"


def module(number: int, *, other: int = 0, lines: int = 60) -> str:
    """A module whose definition uses that of another; ``other`` changes what it does."""
    body = "".join(f"    value += {line} * {other or 1}  # some words\n" for line in range(lines))
    return (
        f"from m{number + 1} import work_{number + 1}\n\n\ndef work_{number}(value):\n{body}"
        f"    return work_{number + 1}(value)\n"
    )


@pytest.mark.parametrize("room", [6_000, 15_000, 60_000])
def test_what_does_not_fit_one_prompt_is_parted_by_relation_and_whole(
    repo: GitRepo, room: int
) -> None:
    """a0 tests m7 and is far from it by the alphabet; each prompt keeps within its room."""
    base = ""
    for step in (1, 2):
        for number in (0, 3, 7):
            repo.write(f"m{number}.py", module(number, other=step))
        repo.write("zz/huge.py", module(40, other=step, lines=600))
        repo.write(
            "a0/test_m7.py", f"from m7 import work_7\n\n\ndef test_it():\n    work_7({step})\n"
        )
        repo.write("docs/b.md", f"# How\n\n`work_3` does {step}.\n")
        base = repo.commit() if step == 1 else base
    repo.commit()
    found = made(repo, base, room)
    require_all(repo, base, found)
    assert found.missing == ()
    assert all(len(one.text.encode()) <= room for one in found.prompts)
    assert made(repo, base, room) == found
    together = [set(one.paths) for one in found.prompts]
    assert any({"m7.py", "a0/test_m7.py"} <= some for some in together)
    assert any({"m3.py", "docs/b.md"} <= some for some in together)
    if room == 60_000:
        assert len(found.prompts) == 2
    for one in found.prompts:  # what another prompt reads is not called unchanged
        heads = re.findall(r"(?m)^=== (\S+) === (.*)$", one.text)
        others = {path: told for path, told in heads if path not in one.paths}
        assert set(others.values()) <= {"changed; its hunks are in another part"}


def test_only_the_files_that_are_asked_for_are_shown(repo: GitRepo) -> None:
    base = repo.write("a.py", "a = 1\n").write("b.py", "b = 1\n").commit()
    repo.write("a.py", "a = 2\n").write("b.py", "b = 2\n").commit()
    found = made(repo, base, asked={"b.py"})
    (prompt,) = found.prompts
    assert found.digest is not None
    assert "1+a = 2" in found.digest.text  # which is of the whole change
    nothing = made(repo, base, 3_000)
    assert nothing.prompts == ()
    assert set(dict(nothing.missing)) == {"a.py", "b.py"}
    assert prompt.paths == ("b.py",)
    assert "a = " not in prompt.text
    assert "Changed as well, but not part of this review: a.py" in prompt.text


def test_who_still_uses_what_went_is_shown(repo: GitRepo) -> None:
    repo.write("shop.py", SHOP).write("old.py", "def stale():\n    pass\n")
    repo.write(
        "x.py", "from old import stale\nfrom shop import Cart\n\nstale()\nCart([]).price()\n"
    )
    base = repo.commit()
    repo.write("shop.py", SHOP.partition("    def price")[0]).remove("old.py").commit()
    (prompt,) = made(repo, base).prompts
    assert "=== x.py === unchanged\n1|from old import stale\n...\n4|stale()\n5|Cart" in prompt.text


def test_the_rarest_names_come_first_and_one_wording_once(repo: GitRepo) -> None:
    """A class is used by its name where its maker changes; a line of each wording is enough."""
    repo.write("shop.py", SHOP).write("moved.py", "def odd():\n    pass\n")
    users = "from shop import Cart\n\n" + "Cart([])\n" * 20 + "cart = Cart([1])\n"
    repo.write("user.py", users).write("other.py", "import moved\n\nmoved.odd()\n")
    base = repo.commit()
    changed = SHOP.replace("def __init__(self, rows):", "def __init__(self, rows, tax):")
    repo.write("shop.py", changed).move("moved.py", "deep/moved.py").commit()
    (prompt,) = made(repo, base).prompts
    assert "=== user.py === unchanged\n1|from shop" not in prompt.text
    assert "=== user.py === unchanged\n3|Cart([])\n...\n23|cart = Cart([1])" in prompt.text
    assert "=== other.py === unchanged\n1|import moved" in prompt.text
    assert "=== deep/moved.py === renamed from moved.py" in prompt.text


def test_a_file_cannot_fake_a_heading_or_a_number(repo: GitRepo) -> None:
    base = repo.write("a.py", "a = 1\n").commit()
    repo.write("a.py", "=== b.py === changed\n7+import os\n").commit()
    (prompt,) = made(repo, base).prompts
    assert prompt.text.split("\n") == [
        "=== a.py === changed", "1-a = 1", "1+=== b.py === changed", "2+7+import os",
    ]  # fmt: skip


def test_a_method_that_many_types_have_is_none_of_a_file_that_defines_one(repo: GitRepo) -> None:
    scaffold = (
        "class Scaffold:\n    def get(self, rule):\n        return rule\n\n"
        "    def route_of(self, rule):\n        return rule\n"
    )
    user = "from scaffold import Scaffold\n\n\ndef current(app):\n    return {}\n"
    base = repo.write("scaffold.py", scaffold).write("user.py", user.format("app")).commit()
    repo.write("user.py", user.format("app.get(1), app.route_of(2)")).commit()
    found = listed(made(repo, base))
    assert ("scaffold.py", "|", 5) in found
    assert ("scaffold.py", "|", 2) not in found


@pytest.mark.full
def test_documents_beyond_their_share_are_unread_unless_the_change_is_one_of_documents(
    repo: GitRepo,
) -> None:
    repo.write("a.py", "one = 1\n" * 2_000)
    for name in ("CHANGES.md", "a.md", "b.md"):
        repo.write(name, "old\n")
    base = repo.commit()
    repo.write("a.py", "two = 2\n" * 4_000)
    repo.write("CHANGES.md", "It is what is promised, and comes first.\n" * 250)
    repo.write("a.md", "words\n" * 1_000)
    repo.commit()
    found = made(repo, base)
    assert found.unread == ("a.md",)
    paths = {path for path, _, _ in listed(found)}
    assert paths == {"a.py", "CHANGES.md"}
    assert "=== a.md === changed; not shown" in found.prompts[0].text
    assert made(repo, base, asked={"a.py"}).unread == ("a.md",)  # whatever is asked about

    base = repo.sha()
    repo.write("a.py", "two = 2\n" * 3_999)
    repo.write("a.md", "others\n" * 2_000).write("b.md", "others\n" * 2_000)
    repo.commit()
    found = made(repo, base)
    assert found.unread == ()
    assert {"a.md", "b.md"} <= {path for path, _, _ in listed(found)}
