"""Resolves the imports of JavaScript and TypeScript to files or packages."""

from __future__ import annotations

from rlm_ci.source.imports import NOWHERE, ResolvedImport
from rlm_ci.source.imports.file_lookup import ancestors, folder_of, joined, nearest, resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.source import Import
    from rlm_ci.source.imports.file_lookup import FileLookup

_SUFFIXES = (
    ".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".d.ts", ".json", ".vue",
    ".svelte",
)  # fmt: skip
#: Suffixes of compiled files with those of their sources, and of what only declares their types.
_SOURCES = {".js": (".ts", ".tsx"), ".jsx": (".tsx",), ".mjs": (".mts",), ".cjs": (".cts",)}
_TYPES = {".js": ".d.ts", ".mjs": ".d.mts", ".cjs": ".d.cts"}
_BUILT_IN_WRITTEN = (
    "assert async_hooks buffer child_process cluster console constants crypto dgram "
    "diagnostics_channel dns domain events fs http http2 https inspector module net os path "
    "perf_hooks process punycode querystring readline repl stream string_decoder sys test timers "
    "tls trace_events tty url util v8 vm wasi worker_threads zlib"
)
_BUILT_IN = frozenset(_BUILT_IN_WRITTEN.split())


class JavaScriptResolver:
    """Resolves imports as Node and bundlers do, without their configuration."""

    def __init__(
        self,
        places: FileLookup,
        packages: Mapping[str, Sequence[str]],
        mains: Mapping[str, Sequence[str]],
        aliases: Mapping[str, Sequence[Import]],
    ) -> None:
        """``packages`` are folders by package name; ``mains`` and ``aliases`` are by folder."""
        self._aliases = aliases
        self._mains = mains
        self._places = places
        self._packages = packages

    def resolve(self, path: str, imported: Import) -> ResolvedImport:
        module = imported.module.partition("?")[0]
        if module.startswith((".", "/")):
            base = "" if module.startswith("/") else folder_of(path)
            target = resolved(base, module)
            file = None if target is None else self._file(target)
            return ResolvedImport((file,)) if file else NOWHERE
        resolved_import = self._alias(path, module)
        if resolved_import is not None:
            return resolved_import
        words = module.split("/")
        name = "/".join(words[:2]) if module.startswith("@") else words[0]
        if name.startswith("node:") or (name in _BUILT_IN):
            return ResolvedImport(package=name.removeprefix("node:"), is_standard=True)
        folders = self._packages.get(name, ())
        if folders:
            folder = nearest([joined(base, "x") for base in folders], path)
            inside = self._inside(folder_of(folder or ""), module[len(name) :].lstrip("/"))
            if inside:
                return ResolvedImport((inside,))
        return ResolvedImport(package=name)

    def _alias(self, path: str, module: str) -> ResolvedImport | None:
        """The file that an alias names; NOWHERE for an alias without one, None for a package."""
        is_own = module.startswith(("#", "~/", "@/"))
        for folder in ancestors(folder_of(path)) if self._aliases else ():
            for alias in self._aliases.get(folder, ()):
                before, star, after = alias.module.partition("*")
                fits = module.startswith(before) and module.endswith(after) if star else False
                if (
                    not (fits and len(module) >= len(before) + len(after))
                    and module != alias.module
                ):
                    continue
                middle = module[len(before) : len(module) - len(after)] if star else ""
                targets = (resolved(folder, name.replace("*", middle)) for name in alias.names)
                for target in targets:
                    file = None if target is None else self._file(target)
                    if file:
                        return ResolvedImport((file,))
                is_own = is_own or bool(before)
        return NOWHERE if is_own else None

    def _inside(self, folder: str, text: str) -> str | None:
        for base in (folder, joined(folder, "src"), joined(folder, "lib")):
            file = self._file(joined(base, text)) if text else self._index(base)
            if file:
                return file
        return self._places.first((joined(folder, "package.json"),))

    def _main(self, folder: str) -> str | None:
        for module in self._mains.get(folder, ()):
            target = resolved(folder, module)
            file = None if target is None else self._places.first(_candidates(target))
            file = file or self._index_file(target or folder)
            if file:
                return file
        return None

    def _index_file(self, folder: str) -> str | None:
        return self._places.first(joined(folder, f"index{suffix}") for suffix in _SUFFIXES)

    def _file(self, target: str) -> str | None:
        return self._places.first(_candidates(target)) or self._index(target)

    def _index(self, folder: str) -> str | None:
        return self._main(folder) or self._index_file(folder)


def _candidates(target: str) -> Iterator[str]:
    stem, dot, suffix = target.rpartition(".")
    for other in _SOURCES.get(f".{suffix}", ()) if dot else ():
        yield stem + other
    yield target
    if dot and f".{suffix}" in _TYPES:
        yield stem + _TYPES[f".{suffix}"]
    for suffix in _SUFFIXES:
        yield target + suffix
