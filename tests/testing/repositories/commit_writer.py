"""Commits of plain work trees, written as git writes them but without a process.

Two processes of git are most of what a small test costs, and nearly all tests begin with a commit.
What is plain here is known to the letter: files, scripts and links, no attribute, filter, ignored
file or setting that changes what is taken, one parent at most. Whatever else a repository has is
git's own affair: :func:`commit` answers None then and has written nothing. ``test_histories.py``
holds both ways against each other.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zlib
from hashlib import sha1
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What may lie in a ``.git`` of a repository that nothing unusual has happened to.
_USUAL = {
    b"HEAD", b"config", b"objects", b"refs", b"index", b"logs", b"COMMIT_EDITMSG", b"branches",
    b"description", b"ORIG_HEAD", b"FETCH_HEAD",
}  # fmt: skip
#: Files by these names decide what git takes, or how, or are none that it takes.
_DECIDING = re.compile(rb"(?i)\.git(?:attributes|ignore|modules|[ .:\\].*)?|git~.*")
#: Sections of the configuration that have no say in a commit.
_SILENT = (b"[remote ", b"[branch ")
#: More than that is for git, which is quicker with it.
_FILES, _BYTES = 200, 1 << 20
_ENTRY, _STATUS = struct.Struct(">10I20sH"), struct.Struct(">10I")
_LONGEST = 0xFFF


class _File(NamedTuple):
    mode: int
    oid: bytes
    status: os.stat_result


def commit(top: bytes, message: bytes, env: Mapping[str, str], blank: bytes) -> str | None:
    """``git add -A`` and ``git commit``: the commit's id, or None where git must do it.

    ``env`` is what git would get, with names and dates; ``blank`` the configuration that
    ``git init`` writes.
    """
    git = os.path.join(top, b".git")
    branch = _plain(git, blank)
    if branch is None or not _is_text(message) or _has_habits(env["HOME"]):
        return None
    contents = _contents(top)
    if contents is None or not _index_is_plain(os.path.join(git, b"index")):
        return None
    files = {}
    for path, (mode, content, status) in contents.items():
        files[path] = _File(mode, _put(git, b"blob", content), status)
    tree = _put_tree(git, files)
    place = os.path.join(git, branch)
    old = _read(place).strip()
    author = f"{env['GIT_AUTHOR_NAME']} <{env['GIT_AUTHOR_EMAIL']}> {env['GIT_AUTHOR_DATE']}"
    name = f"{env['GIT_COMMITTER_NAME']} <{env['GIT_COMMITTER_EMAIL']}>"
    committer = f"{name} {env['GIT_COMMITTER_DATE']}"
    parent = b"parent %s\n" % old if old else b""
    made = _put(
        git,
        b"commit",
        b"tree %s\n%sauthor %s\ncommitter %s\n\n%s"
        % (tree.hex().encode(), parent, author.encode(), committer.encode(), message),
    ).hex()
    _write_index(os.path.join(git, b"index"), files)
    _write(os.path.join(git, b"COMMIT_EDITMSG"), message)
    told = (b"commit: " if old else b"commit (initial): ") + message.partition(b"\n")[0]
    line = b"%s %s %s\t%s\n" % (
        old or b"0" * 40, made.encode(), committer.encode(),
        re.sub(rb"[ \t\r]+", b" ", told).rstrip(b" "),
    )  # fmt: skip
    for log in (b"HEAD", branch):
        _append(os.path.join(git, b"logs", log), line)
    _write(place, made.encode() + b"\n")
    return made


def _plain(git: bytes, blank: bytes) -> bytes | None:
    """The branch that HEAD is on, where nothing of the repository decides about a commit."""
    try:
        if not set(os.listdir(git)) <= _USUAL or not _read(os.path.join(git, b"HEAD")):
            return None
    except OSError:  # no folder: a linked work tree
        return None
    head = _read(os.path.join(git, b"HEAD")).rstrip(b"\n")
    config = _read(os.path.join(git, b"config"))
    added = config.removeprefix(blank)
    if not head.startswith(b"ref: refs/heads/") or not config.startswith(blank):
        return None
    sections = [line for line in added.splitlines() if not line.startswith(b"\t")]
    return head[5:] if all(line.startswith(_SILENT) for line in sections) else None


def _is_text(message: bytes) -> bool:
    """Whether git takes a message as it is: it rewrites what is no UTF-8, or no character."""
    try:
        text = message.decode()
    except UnicodeDecodeError:
        return False
    return "\0" not in text and not re.search("[\ufdd0-\ufdef]", text) and not any(
        ord(one) & 0xFFFE == 0xFFFE for one in text
    )  # fmt: skip


def _has_habits(home: str) -> bool:
    """Whether a user has files of his own that decide what git takes."""
    folder = os.path.join(home, ".config", "git")
    return any(os.path.exists(os.path.join(folder, name)) for name in ("ignore", "attributes"))


def _contents(top: bytes) -> dict[bytes, tuple[int, bytes, os.stat_result]] | None:
    """All that git would take, by path; None where that is not plain, or much."""
    found: dict[bytes, tuple[int, bytes, os.stat_result]] = {}
    size = 0
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(os.path.join(top, folder)) as entries:
            for entry in entries:
                path = folder + entry.name
                if _DECIDING.fullmatch(entry.name):
                    if path == b".git":
                        continue
                    return None
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(path + b"/")
                    continue
                size += status.st_size
                if size > _BYTES or len(found) >= _FILES or len(path) >= _LONGEST:
                    return None
                if stat.S_ISLNK(status.st_mode):
                    found[path] = (0o120000, os.readlink(entry.path), status)
                elif stat.S_ISREG(status.st_mode) and os.access(entry.path, os.R_OK):
                    found[path] = (_mode(status), _read(entry.path), status)
                else:
                    return None
    return found


def _index_is_plain(index: bytes) -> bool:
    """Whether there is none, or all of it is in version 2, merged, and neither hidden nor a link
    to another repository's commit.
    """
    data = _read(index)
    if not data:
        return True
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version != 2:
        return False
    at = 12
    for _ in range(count):
        fields = _ENTRY.unpack_from(data, at)
        # Assumed to be unchanged, in more than one version, or with a name that is too long.
        if fields[6] == 0o160000 or fields[11] & 0xF000 or fields[11] == _LONGEST:
            return False
        at += (_ENTRY.size + fields[11] + 8) // 8 * 8
    rest = data[at:-20]
    return not rest or (rest[:4] == b"TREE" and len(rest) == 8 + int.from_bytes(rest[4:8], "big"))


def _put(git: bytes, kind: bytes, content: bytes) -> bytes:
    """Store an object, as git does, unless it is there. Its id."""
    data = b"%s %d\0%s" % (kind, len(content), content)
    oid = sha1(data)
    name = oid.hexdigest().encode()
    folder = os.path.join(git, b"objects", name[:2])
    place = os.path.join(folder, name[2:])
    if not os.path.exists(place):
        os.makedirs(folder, exist_ok=True)
        _write(place, zlib.compress(data, 1))
        os.chmod(place, 0o444)
    return oid.digest()


def _put_tree(git: bytes, files: Mapping[bytes, _File]) -> bytes:
    """Store the trees of all folders. The id of the uppermost."""
    below: dict[bytes, dict[bytes, _File]] = {}
    rows: list[tuple[bytes, bytes]] = []
    for path, file in files.items():
        folder, _, rest = path.partition(b"/")
        if rest:
            below.setdefault(folder, {})[rest] = file
        else:
            rows.append((path, b"%o %s\0%s" % (file.mode, path, file.oid)))
    for folder, inner in below.items():
        rows.append((folder + b"/", b"40000 %s\0%s" % (folder, _put_tree(git, inner))))
    return _put(git, b"tree", b"".join(row for _, row in sorted(rows)))


def refresh(top: bytes) -> bool:
    """``git update-index --refresh`` where the work tree is what the index says, file by file.

    Answers False, and has written nothing, where git must look.
    """
    index = os.path.join(top, b".git", b"index")
    data = bytearray(_read(index))
    if not data or not _index_is_plain(index):
        return False
    at = 12
    for _ in range(struct.unpack_from(">I", data, 8)[0]):
        fields = _ENTRY.unpack_from(data, at)
        size = fields[11]
        name = at + _ENTRY.size
        path = os.path.join(top, bytes(data[name : name + size]))
        try:
            status = os.lstat(path)
            is_link = stat.S_ISLNK(status.st_mode)
            content = os.readlink(path) if is_link else _read(path)
        except OSError:
            return False
        oid = sha1(b"blob %d\0%s" % (len(content), content)).digest()
        if oid != fields[10] or fields[6] != (0o120000 if is_link else _mode(status)):
            return False
        data[at : at + _ENTRY.size - 22] = _STATUS.pack(*_known(status, fields[6]))
        at += (_ENTRY.size + size + 8) // 8 * 8
    _write(index, bytes(data[:-20]) + sha1(data[:-20]).digest())
    return True


def _mode(status: os.stat_result) -> int:
    return 0o100755 if status.st_mode & 0o100 else 0o100644


def _known(status: os.stat_result, mode: int) -> list[int]:
    """What an index keeps of a file, to see whether it was changed."""
    times = (*divmod(status.st_ctime_ns, 10**9), *divmod(status.st_mtime_ns, 10**9))
    known = (status.st_dev, status.st_ino, mode, status.st_uid, status.st_gid, status.st_size)
    return [one & 0xFFFFFFFF for one in (*times, *known)]


def _write_index(index: bytes, files: Mapping[bytes, _File]) -> None:
    data = [struct.pack(">4sII", b"DIRC", 2, len(files))]
    for path in sorted(files):
        mode, oid, status = files[path]
        entry = _ENTRY.pack(*_known(status, mode), oid, len(path)) + path
        data.append(entry + b"\0" * (8 - len(entry) % 8))
    whole = b"".join(data)
    _write(index, whole + sha1(whole).digest())


def _read(path: bytes) -> bytes:
    """What a file holds; nothing where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _write(path: bytes, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def _append(path: bytes, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as file:
        file.write(content)
