"""The work tree: does it have the documents as HEAD has them? The stubs, put in their place."""

from __future__ import annotations

import os
import stat

from rlm_ci.archive.documents import LIMIT
from rlm_ci.errors import ConfigError
from rlm_ci.system import files
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.git.repository import Repository


class DocumentTree:
    """The files on the disk; nothing is read or written by way of a link."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def read(self, path: str) -> bytes:
        """The content of a regular file behind no link. Raises files.UnreadableError."""
        return files.read_inside(self._repository.root, path, LIMIT)

    def is_blob(self, data: bytes, oid: str) -> bool:
        """Whether ``data`` is the blob ``oid``; line ends may differ, as git checks them out."""
        forms = (data, data.replace(b"\r\n", b"\n"))
        return any(self._repository.blob_id(form) == oid for form in forms)

    def replace(self, path: str, oid: str, data: bytes) -> None:
        """Put ``data`` in place of a file that is still the blob ``oid``.

        Raises ConfigError for a file that was changed meanwhile, StorageError.
        """
        try:
            current = self.read(path)
        except files.UnreadableError:
            current = b""
        if current == data:  # another archiver was here
            return
        if not self.is_blob(current, oid):
            raise ConfigError(
                "the document was changed while it was archived, and is left as it is",
                where=printable(path),
                hint="commit the change, then run it again",
            )
        full_path = os.path.join(self._repository.root, path)
        files.require_inside(self._repository.root, full_path)
        try:
            mode = stat.S_IMODE(os.lstat(full_path).st_mode) & 0o777
        except OSError as error:
            raise files.storage_error(error, full_path) from None
        files.write(full_path, data, mode)
