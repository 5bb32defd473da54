"""Resolves the imports of Ruby and PHP."""

from __future__ import annotations

from rlm_ci.source.imports import NOWHERE, ResolvedImport
from rlm_ci.source.imports.file_lookup import folder_of, resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.source import Import
    from rlm_ci.source.imports.file_lookup import FileLookup

_RUBY_WRITTEN = (
    "English abbrev base64 benchmark bigdecimal bundler cgi coverage csv date delegate digest drb "
    "erb etc expect fcntl fiddle fileutils find forwardable getoptlong io ipaddr irb json logger "
    "matrix minitest monitor mutex_m net nkf objspace observer open-uri open3 openssl optparse "
    "ostruct pathname pp prettyprint prime pstore psych pty racc rake rbconfig rdoc readline "
    "reline resolv ripper ruby rubygems securerandom set shellwords singleton socket stringio "
    "strscan syslog tempfile thread time timeout tmpdir tracer tsort un uri weakref webrick yaml "
    "zlib"
)
_RUBY = frozenset(_RUBY_WRITTEN.split())


def ruby(places: FileLookup, path: str, imported: Import) -> ResolvedImport:
    """Resolve a ``require``: a path is a file; a name is looked for below ``lib``."""
    name = imported.module.removesuffix(".rb")
    if imported.level or name.startswith("."):
        target = resolved(folder_of(path), name)
        file = None if target is None else places.first((f"{target}.rb",))
        return ResolvedImport((file,)) if file else NOWHERE
    top = name.partition("/")[0]
    if top not in _RUBY:
        file = places.ending(f"lib/{name}.rb", path)
        file = file or ("/" in name and places.ending(f"{name}.rb", path)) or None
        if file:
            return ResolvedImport((file,))
    return ResolvedImport(package=top, is_standard=top in _RUBY)


def php(places: FileLookup, path: str, imported: Import) -> ResolvedImport:
    """Find a class by its name, in folders whose paths end like its namespace."""
    if imported.level:
        target = resolved(folder_of(path), imported.module)
        if target is not None and target in places.files:
            return ResolvedImport((target,))
        file = places.ending(imported.module.lstrip("./"), path)
        return ResolvedImport((file,)) if file else NOWHERE
    names = [name for name in imported.module.split("\\") if name]
    if len(names) < 2:
        return ResolvedImport(package=imported.module.strip("\\"), is_standard=True)
    for first in range(len(names) - 1):
        file = places.ending(f"{'/'.join(names[first:])}.php", path)
        if file:
            return ResolvedImport((file,))
    alone = places.paths_named(f"{names[-1]}.php")
    if len(names) == 2 and len(alone) == 1:  # one folder has the whole namespace
        return ResolvedImport((alone[0],))
    return ResolvedImport(package="\\".join(names[:2]))
