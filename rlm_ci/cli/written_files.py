"""The files that ``rlm-ci init`` writes, with a record of them, and their removal.

The record is in the Git directory, so that ``--remove`` takes back what was written and leaves what
people have changed since.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import sha256
from itertools import count

from rlm_ci.errors import ConfigError
from rlm_ci.git import tracked
from rlm_ci.system import files
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from rlm_ci.git.repository import Repository

#: Bytes of a file that is read.
LIMIT = 1 << 20
_RECORD = "rlm-ci-init.json"
_IGNORED = ".runs/\n"
#: The keys of a record: the hash of a file of ours, the name of the one before it, or what was
#: added to a file of somebody else's, or to a new one.
_HASH, _ASIDE, _ADDED, _IS_NEW = "sha256", "aside", "added", "new"
#: The text of a file before it was edited.
_BEFORE = "before"
#: Bytes of the record, with the texts of some files.
_RECORD_LIMIT = LIMIT << 4


class WrittenFiles:
    """Writes, adds and removes; each method returns what became of the file, as a line.

    Only ``force`` overwrites a file. With ``is_dry``, nothing is written.
    """

    def __init__(self, repository: Repository, *, force: bool = False, is_dry: bool = False):
        self._repository = repository
        self._root = repository.root
        self._git = repository.common_dir
        self.force = force
        self._is_dry = is_dry
        self._record: dict[str, dict[str, Any]] = {}
        with suppress(files.UnreadableError, ValueError):
            record = json.loads(files.read(self._record_path, _RECORD_LIMIT))
            self._record = record if isinstance(record, dict) else {}

    @property
    def _record_path(self) -> str:
        return os.path.join(self._git, _RECORD)

    def shown(self, path: str) -> str:
        """A path as messages name it."""
        inside = os.path.relpath(path, self._root)
        # The hooks of a linked work tree are outside of it.
        return printable(path if inside.startswith(os.pardir) else inside)

    def _line(self, verb: str, path: str, remark: str = "") -> str:
        does = {"written": "write", "removed": "remove"}.get(verb) if self._is_dry else None
        return f"{f'would {does}' if does else verb:<10} {self.shown(path)}{remark}"

    # ── writing ──

    def write(self, path: str, text: str, mode: int = 0o644) -> str:
        """Write a file of ours. Raises ConfigError for a folder that is a link, StorageError."""
        path = os.path.join(self._root, path)
        data = text.encode()
        if os.path.lexists(path):
            if files.read_or_none(path, LIMIT) == data:
                return self._line("unchanged", path)
            if not self.force:
                return self._line("kept", path, " (it exists; --force overwrites it)")
        folder = os.path.dirname(path)
        places = [os.path.realpath(name) for name in (self._root, folder)]
        if files.below(self._git, path) is None and files.below(*places) is None:
            raise ConfigError(
                "the folder is a link", where=self.shown(path), hint="write the file by hand"
            )
        aside = self._aside(path)
        if not self._is_dry:
            files.make_folder(folder)
            if aside:
                self._rename(path, os.path.join(folder, aside))
            files.write(path, data, mode)
            self._remember(path, {_HASH: sha256(data).hexdigest(), _ASIDE: aside})
        return self._line("written", path, f" (the previous one: {aside})" if aside else "")

    def insert(self, path: str, text: str) -> str:
        """Add lines at the top of a script, below its first line if that names its shell."""
        data = files.read(path, LIMIT)
        at = data.find(b"\n") + 1 if data.startswith(b"#!") else 0
        return self._extend(path, (data[:at], data[at:]), text, "rlm-ci")

    def edit(self, path: str, before: str, text: str, what: str) -> str:
        """Write ``text`` to a file that may exist; without ``what``, it is as ``before``."""
        path = os.path.join(self._root, path)
        data = files.read_or_none(path, LIMIT)
        if data == text.encode():
            return self._line("unchanged", path)
        if not self._is_dry:
            entry = self._edited(path)
            before = str(entry[_BEFORE]) if self._is_as_written(path, data) else before
            files.make_folder(os.path.dirname(path))
            files.write(path, text.encode(), self._mode(path))
            is_new = data is None or bool(entry.get(_IS_NEW))
            digest = sha256(text.encode()).hexdigest()
            self._remember(path, {_HASH: digest, _BEFORE: before, _IS_NEW: is_new})
        return self._line("written", path, f" ({what} added)")

    def _edited(self, path: str) -> Mapping[str, Any]:
        """The record of an edited file; empty without one."""
        record = self._record.get(os.path.relpath(path, self._git), {})
        return record if _BEFORE in record else {}

    def _is_as_written(self, path: str, data: bytes | None) -> bool:
        return sha256(data or b"").hexdigest() == self._edited(path).get(_HASH)

    @staticmethod
    def _mode(path: str) -> int:
        return os.stat(path).st_mode & 0o777 if os.path.lexists(path) else 0o644

    def ignore_runs(self) -> str:
        """Add the folder of runs to the ignored files: runs never belong in a commit."""
        path = os.path.join(self._root, ".gitignore")
        try:
            data = tracked.read(self._repository, ".gitignore", LIMIT)
        except files.UnreadableError as error:
            if not error.missing:
                return self._line("kept", path, f" ({error}; add .runs/ to it)")
            data = b""
        if b".runs/" in data.split():
            return self._line("unchanged", path)
        end = "" if not data or data.endswith(b"\n") else "\n"
        return self._extend(path, (data, b""), f"{end}{_IGNORED}", ".runs/")

    def _extend(self, path: str, parts: tuple[bytes, bytes], text: str, what: str) -> str:
        """Write ``text`` between the two parts of a file."""
        if not self._is_dry:
            is_new = not os.path.lexists(path)
            files.write(path, text.encode().join(parts), self._mode(path))
            self._remember(path, {_ADDED: text, _IS_NEW: is_new and not any(parts)})
        return self._line("written", path, f" ({what} added)")

    @staticmethod
    def _aside(path: str) -> str:
        """A new name for an existing file; "" without one."""
        if not os.path.lexists(path) or os.path.isdir(path):
            return ""
        names = (f"{path}.orig{number or ''}" for number in count())
        return os.path.basename(next(name for name in names if not os.path.lexists(name)))

    @staticmethod
    def _rename(path: str, name: str) -> None:
        try:
            os.rename(path, name)
        except OSError as error:
            raise files.storage_error(error, path) from None

    def _remember(self, path: str, facts: Mapping[str, Any] | None) -> None:
        """Record a file, or forget it."""
        key = os.path.relpath(path, self._git)
        entry = self._record.pop(key, {})
        if facts is not None:
            self._record[key] = {**facts, _ASIDE: entry.get(_ASIDE) or facts.get(_ASIDE, "")}
        text = json.dumps(self._record, indent=1, sort_keys=True)
        files.write(self._record_path, f"{text}\n".encode())

    # ── removing ──

    def remove(self, contents: Mapping[str, str]) -> Iterator[str]:
        """Remove what is recorded, and files that are as in ``contents``: of another clone."""
        facts_by_path = {
            os.path.normpath(os.path.join(self._git, key)): facts
            for key, facts in self._record.items()
        }
        for name, text in contents.items():
            path = os.path.join(self._root, name)
            if files.read_or_none(path, LIMIT) == text.encode():
                facts_by_path.setdefault(path, {_HASH: sha256(text.encode()).hexdigest()})
        for path, facts in sorted(facts_by_path.items()):
            if _BEFORE in facts:  # what was added is gone: ``take_back`` forgets the others
                self._forget(path)
            elif any(files.below(top, path) is not None for top in (self._root, self._git)):
                yield self._removed(path, facts)

    def _removed(self, path: str, facts: Mapping[str, Any]) -> str:
        data = files.read_or_none(path, LIMIT)
        if data is None:
            self._forget(path)
            return self._line("gone", path, "" if not os.path.lexists(path) else " (not a file)")
        added = str(facts.get(_ADDED) or "").encode()
        if added and added in data:
            remaining = data.replace(added, b"", 1)
            if remaining or not facts.get(_IS_NEW):
                return self._write_rest(path, remaining)
        elif sha256(data).hexdigest() != facts.get(_HASH):
            return self._line("kept", path, " (changed since init wrote it; edit it by hand)")
        return self._unlinked(path, str(facts.get(_ASIDE) or ""))

    def take_back(self, path: str, text: str, *, is_empty: bool) -> str:
        """Write a file without what was added, to the byte as before if nothing else changed.

        A file that ``is_empty`` goes, unless it was there before.
        """
        entry = self._edited(path)
        if is_empty and entry.get(_IS_NEW, True):
            return self._unlinked(path)
        if self._is_as_written(path, files.read_or_none(path, LIMIT)):
            text = str(entry[_BEFORE])
        return self._write_rest(path, text.encode())

    def _write_rest(self, path: str, content: bytes) -> str:
        if not self._is_dry:
            files.write(path, content, self._mode(path))
        self._forget(path)
        return self._line("written", path, " (what rlm-ci added is gone)")

    def _unlinked(self, path: str, aside: str = "") -> str:
        """Remove a file; the one that was there before is back."""
        former = os.path.join(os.path.dirname(path), os.path.basename(aside))
        aside = aside if aside and os.path.isfile(former) else ""
        if not self._is_dry:
            try:
                os.unlink(path)
            except OSError as error:
                raise files.storage_error(error, path) from None
            if aside:
                self._rename(former, path)
            elif files.below(self._git, path) is None:
                self._remove_empty(os.path.dirname(path))
        self._forget(path)
        return self._line("removed", path, f" ({aside} is back)" if aside else "")

    def _forget(self, path: str) -> None:
        if not self._is_dry:
            self._remember(path, None)
            if not self._record:
                with suppress(FileNotFoundError):
                    os.unlink(self._record_path)

    def _remove_empty(self, folder: str) -> None:
        while files.below(self._root, folder):
            try:
                os.rmdir(folder)
            except OSError:
                return
            folder = os.path.dirname(folder)
