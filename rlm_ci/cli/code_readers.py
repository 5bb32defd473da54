"""What a review without a model can read of a repository, and what would read the rest."""

from __future__ import annotations

import os
from collections import Counter
from shutil import which

from rlm_ci.report.review_advice import ANALYZERS, files_by_language
from rlm_ci.review.analyzers import ruff
from rlm_ci.review.analyzers.from_repository import TOOLS
from rlm_ci.review.analyzers.programs import search_path
from rlm_ci.source.languages import language
from rlm_ci.text.globs import matcher
from rlm_ci.values import Value
from rlm_ci.workspace.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlm_ci.git.repository import Repository

#: How what a workflow's machine lacks is installed; nothing of the repository runs at that.
_INSTALL = {
    "eslint": "npm ci --ignore-scripts",
    "clippy": "cargo fetch",
    "staticcheck": "go install honnef.co/go/tools/cmd/staticcheck@2025.1.1",
}
#: Tools that a review does not run, by the files that set them up.
_NOT_RUN = {
    "biome.json": "biome",
    "biome.jsonc": "biome",
    "tsconfig.json": "tsc",
    "go.mod": "go vet",
}


class CodeReaders(Value):
    """Numbers of files by language; of those that are read, by their analyzer.

    ``missing`` analyzers are set up by the repository, and not installed on this machine;
    ``not_run`` are tools that it sets up and a review does not know.
    """

    read: Mapping[str, Mapping[str, int]]
    unread: Mapping[str, int]
    missing: tuple[str, ...]
    not_run: tuple[str, ...]

    @classmethod
    def of(cls, repository: Repository) -> CodeReaders:
        tree = Tree.at(repository, None)
        tools = [tool for tool in TOOLS if tool.is_set_up(tree.modes, tree.read)]
        built_in = (ruff.NAME, matcher(ruff.FILES))
        readers = [built_in, *((tool.name, matcher(tool.files)) for tool in tools)]
        read: dict[str, Counter[str]] = {}
        unread = Counter[str]()
        for path in tree.modes:
            name = language(path)
            if name not in ANALYZERS:
                continue
            reader = next((reader for reader, reads in readers if reads(path)), None)
            (unread if reader is None else read.setdefault(reader, Counter()))[name] += 1
        modules = os.path.join(repository.root, "node_modules", ".bin")
        path = os.pathsep.join((modules, search_path()))
        missing = [
            tool.name for tool in tools if tool.name in read and not which(tool.starts, path=path)
        ]
        not_run = dict.fromkeys(tool for path, tool in _NOT_RUN.items() if path in tree.modes)
        return cls(read, unread, tuple(missing), tuple(not_run))

    @property
    def has_own(self) -> bool:
        """Whether the repository's own analyzers read anything."""
        return any(name != ruff.NAME for name in self.read)

    def lines(self, *, model: bool) -> Iterator[str]:
        """What reads the code, what does not, and what to do about that."""
        for name, languages in self.read.items():
            lack = ", which is not installed here," if name in self.missing else ""
            yield f"{name}{lack} reads {files_by_language(languages)}"
        if model:
            yield "the model reads every changed file"
        elif self.unread:
            configs = {tool.name: f" ({tool.configs[0]})" for tool in TOOLS}
            names = dict.fromkeys(ANALYZERS[name][0].partition(",")[0] for name in self.unread)
            tools = " or ".join(f"{name}{configs.get(name, '')}" for name in names)
            yield f"nothing reads {files_by_language(self.unread)}: set up {tools}, or name a model"
            if self.not_run:
                yield f"{' and '.join(self.not_run)}: set up here, and not run by a review"

    def steps(self) -> Iterator[str]:
        """What a workflow must install before rlm-ci runs."""
        for name in self.read:
            if name != ruff.NAME:
                how = f": {_INSTALL[name]}" if name in _INSTALL else ""
                yield f"in the workflow, add a step before rlm-ci that installs {name}{how}"
