"""The page "Facts": all that can be listed of a repository, as its template sees it."""

from __future__ import annotations

from rlm_ci.recursion.corpus.eligibility import EXCLUDED, OWN
from rlm_ci.text.neutralise import code, prose
from rlm_ci.text.printable import count
from rlm_ci.wiki.facts.dependencies import is_listed
from rlm_ci.wiki.facts.note import INVARIANTS, RISKS
from rlm_ci.wiki.facts.readme import listed
from rlm_ci.wiki.front_page.configuration import environment, error_list, exit_codes, settings
from rlm_ci.wiki.front_page.overview import drawn_parts, purpose_of_files
from rlm_ci.wiki.front_page.project_commands import command_table, folder_commands
from rlm_ci.wiki.pages.layout import ALL, api_size, architecture
from rlm_ci.wiki.pages.module_page import (
    documenting,
    entry_row,
    first_rows,
    starts,
    summary,
    unparsed,
)
from rlm_ci.wiki.pages.paths import folder_of, is_aside, is_beside, is_test, title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.layout import Module, PageLayout
    from rlm_ci.wiki.pages.module_page import PageSources

FACTS = "facts.md"
#: Commits from which on a file is a hot spot.
_OFTEN = 2
#: Modules from which on their list is folded, and folders from which on those above are listed.
_LONG = 24
#: Rows of a list on the first page.
_ENTRIES, _HOT, _OMITTED, _PAGES = 40, 12, 40, 12


def inventory(world: PageSources) -> dict[str, Any]:
    files, layout = world.files, world.layout
    owner, shown = drawn_parts(layout.modules)
    drawn = architecture(layout, world.around, owner, shown)
    begins = [
        (facts, entry)
        for facts, entry in starts(_begins_of(files, layout))
        if entry.kind != "task"
        or "/" in facts.path
        or not facts.commands  # else among the commands
    ]
    commands, others, left = command_table(world)
    folders, folders_more = folder_commands(world)
    return {
        "head": f"{count(len(files), 'file')} with {count(_lines(files.values()), 'line')}",
        "commands": commands,
        "other_commands": others,
        "commands_left": left and count(left, "other command"),
        "folders": folders,
        "folders_more": folders_more and count(folders_more, "other folder"),
        **environment(world),
        **settings(world),
        **error_list(world),
        **exit_codes(world),
        "diagram": drawn.diagram,
        "boxes_left": drawn.boxes_left and count(drawn.boxes_left, "other part"),
        "arrows_left": drawn.arrows_left and count(drawn.arrows_left, "arrow"),
        "is_long": len(layout.modules) > _LONG,
        "modules": [_module(module, world) for module in layout.modules],
        **first_rows("entries", begins, _ENTRIES, lambda start: entry_row(start, world)),
        "packages": _packages(world),
        "declared": _declared(world),
        "is_part": world.outside is not None,
        "languages": _languages(files),
        "hot": _hot(world),
        "invariants": _where(world, INVARIANTS),
        "risks": _where(world, RISKS),
        "untested": _untested(world),
        "tests": _folders(layout.tests, world),
        "beside": _folders(layout.beside, world),
        "omitted": _omitted(world.omitted),
        "unparsed": unparsed(world.program),
    }


def _module(module: Module, world: PageSources) -> dict[str, str]:
    size = sum(api_size(file, module.folder, world.layout.exported_names) for file in module.files)
    return {
        "title": prose(title_of(module.key), cell=True),
        "page": f"modules/{module.name}.md",
        "doc": purpose_of_files(module.files, module.folder, world),
        "files": f"{len(module.files):,}",
        "lines": f"{_lines(module.files):,}",
        "names": f"{size:,}",
        "used_by": "" if module.is_shared else f"{len(world.around.into.get(module.key, ())):,}",
    }


def _begins_of(files: Mapping[str, FileFacts], layout: PageLayout) -> list[FileFacts]:
    """The files by which a user starts something, what is most the program's own first."""
    order = ("package", "script", "action", "command", "route", "main", "task")
    aside = {facts.path for inner in layout.beside.values() for facts in inner}

    def key(facts: FileFacts) -> tuple[int, str]:
        ranks = [order.index(e.kind) for e in facts.outline.entries if e.kind in order]
        return min(ranks, default=len(order)), facts.path

    return sorted((file for file in files.values() if _begins(file, layout, aside)), key=key)


def _begins(facts: FileFacts, layout: PageLayout, aside: Collection[str]) -> bool:
    if facts.path in layout.generated:
        return False
    if facts.path in layout.owner or not (facts.path in aside or is_beside(facts.path)):
        return not is_test(facts.path) and not is_aside(facts.path)
    installs = any(entry.kind == "script" for entry in facts.outline.entries)
    return facts.path.startswith(".github/") or ("/" not in facts.path and installs)


# ── packages ──


def _packages(world: PageSources) -> list[dict[str, str]]:
    files = world.files
    every = (name for path in files if _speaks(path) for name, _ in files[path].declared)
    around = world.outside.needed() if world.outside else ()
    declared = {_key(name) for name in (*every, *around)}
    return [
        {
            "name": code(package.package, cell=True),
            "count": f"{package.count:,}",
            "declared": "yes" if _key(package.package) in declared else "",
            "link": world.register.link(*package.first_import, cell=True),
        }
        for package in world.around.packages.get(ALL, ())
        if not package.is_standard
    ]


def _speaks(path: str) -> bool:
    """Whether a manifest is the program's: that of an example or a test needs what that needs."""
    return (
        "/" not in path
        or is_listed(path)
        or not (is_beside(path) or is_aside(path) or is_test(path))
    )


def _declared(world: PageSources) -> list[dict[str, str]]:
    """What manifests name and no import shows: tools, plugins, what is loaded by its name."""
    if world.outside is not None:  # whose imports are not looked at
        return []
    used = {_key(package.package) for package in world.around.packages.get(ALL, ())}
    files = world.files
    rows: dict[str, dict[str, str]] = {}
    for path in sorted(files, key=lambda path: (path.count("/"), path)):
        if path.count("/") > 1 or not _speaks(path):
            continue
        for name, statement in files[path].declared:
            if _key(name) not in used and name.lower() != files[path].project.lower():
                link = world.register.link(path, statement.line_start, statement.line_end)
                rows.setdefault(_key(name), {"text": code(statement.text), "link": link})
    return [rows[key] for key in sorted(rows)][:60]


#: Packages whose modules have another name.
_MODULES = {
    "attrs": "attr", "beautifulsoup4": "bs4", "gitpython": "git", "grpcio": "grpc",
    "mysqlclient": "mysqldb", "opencv_python": "cv2", "opencv_python_headless": "cv2",
    "pillow": "pil", "protobuf": "google", "psycopg2_binary": "psycopg2",
    "pycryptodome": "crypto", "pycryptodomex": "cryptodome", "pygithub": "github",
    "pyjwt": "jwt", "pyopenssl": "openssl", "pyserial": "serial", "pysocks": "socks",
    "pyyaml": "yaml", "pyzmq": "zmq", "scikit_image": "skimage", "scikit_learn": "sklearn",
}  # fmt: skip


def _key(name: str) -> str:
    """What the name of a package and that of its module have in common."""
    key = name.lower().replace("-", "_").replace(".", "_")
    return _MODULES.get(key, key).removeprefix("python_").removesuffix("_py")


# ── figures ──


def _languages(files: Mapping[str, FileFacts]) -> list[dict[str, str]]:
    groups: dict[str, list[FileFacts]] = {}
    for file in files.values():
        groups.setdefault(file.outline.language, []).append(file)
    rows = [(name, len(inner), _lines(inner)) for name, inner in groups.items()]
    return [
        {"name": prose(name, cell=True), "files": f"{number:,}", "lines": f"{lines:,}"}
        for name, number, lines in sorted(rows, key=lambda row: (-row[2], row[0]))
    ]


def _lines(files: Iterable[FileFacts]) -> int:
    return sum(file.outline.lines for file in files)


def _hot(world: PageSources) -> list[dict[str, str]]:
    chronicle = world.chronicle
    if chronicle is None:
        return []
    rows = []
    for path, commits, last, changed in chronicle.hot:
        facts = world.files.get(path)
        if path not in world.layout.owner or facts is None or not facts.outline.lines:
            continue
        if commits < _OFTEN:  # the import of a whole tree says nothing
            continue
        owners = ", ".join(
            f"{prose(name, cell=True)} ({share:.0%})" for name, share in chronicle.owners(path)[:3]
        )
        rows.append({
            "file": world.register.link(path, 1, facts.outline.lines, cell=True),
            "page": f"modules/{world.names[world.layout.owner[path].key]}.md",
            "commits": f"{commits:,}",
            "changed": f"{changed:,}",
            "last": prose(str(last)[:10], cell=True),
            "owners": owners,
        })  # fmt: skip
        if len(rows) == _HOT:
            break
    return rows


def _where(world: PageSources, headings: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = []
    for kind, heading in headings.items():
        counts = {
            module.key: number
            for module in world.layout.modules
            if (number := sum(note.kind == kind for file in module.files for note in file.notes))
        }
        if counts:
            keys = sorted(counts, key=lambda key: (-counts[key], key))
            pages = [
                f"[{prose(title_of(key), cell=True)}](modules/{world.names[key]}.md) "
                f"({counts[key]:,})"
                for key in keys
            ]
            rows.append({
                "heading": heading,
                "count": f"{sum(counts.values()):,}",
                "pages": listed(pages, _PAGES),
            })  # fmt: skip
    return rows


def _untested(world: PageSources) -> list[dict[str, str]]:
    large = {path: world.files[path].outline.lines for path in world.untested}
    paths = sorted(large, key=lambda path: (-large[path], path))
    return [
        {"lines": count(large[path], "line"), "link": world.register.link(path, 1, large[path])}
        for path in paths[:_ENTRIES]
    ]


def _folders(groups: Mapping[str, Sequence[FileFacts]], world: PageSources) -> list[dict[str, str]]:
    if len(groups) > _LONG:
        merged: dict[str, list[FileFacts]] = {}
        for folder, files in groups.items():
            merged.setdefault(folder.partition("/")[0], []).extend(files)
        groups = merged
    return [
        {
            "doc": _folder_doc(folder, files, world),
            "folder": code(f"{folder}/" if folder else title_of(""), cell=True),
            "files": f"{len(files):,}",
            "lines": f"{_lines(files):,}",
        }
        for folder, files in groups.items()
    ]


def _folder_doc(folder: str, files: Sequence[FileFacts], world: PageSources) -> str:
    """What the README of a folder says, else the documentation of its door or only file."""
    described = world.introduction(folder)
    facts = None if described or is_test(files[0].path) else documenting(files, folder)
    return summary(facts, world) if facts is not None else described


def _omitted(pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """What was not looked at, by the word of its reason; what we wrote ourselves is no news."""
    groups: dict[str, list[str]] = {}
    wikis = {folder_of(path) for path, _ in pairs if path.rpartition("/")[2] == "wiki.json"}
    for path, reason in pairs:
        word, folder = reason.partition(":")[0], folder_of(path)
        is_page = folder in wikis or (
            folder.rpartition("/")[2] == "modules" and folder_of(folder) in wikis
        )
        if word != OWN and not (word == EXCLUDED and is_page):
            groups.setdefault(word, []).append(path)
    rows = []
    for word in sorted(groups):
        names = [code(path) for path in groups[word][:_OMITTED]]
        rows.append({
            "word": prose(word.replace("_", " ")),
            "count": f"{len(groups[word]):,}",
            "names": ", ".join(names),
            "more": max(0, len(groups[word]) - _OMITTED),
        })  # fmt: skip
    return rows
