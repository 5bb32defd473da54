"""Recorded answers to the prompts of ``bench review``: whose they are, and what they are for.

Its first line is the head; ``models/recorded`` reads the others. Answers are to the letter of the
prompts, so they fit one seed, one version of each library and one version of the prompts.
"""

from __future__ import annotations

import importlib.metadata
import os
import time

from rlm_ci import __version__
from rlm_ci.errors import ConfigError, DamagedError, UnavailableError
from rlm_ci.lab.planted_bugs.projects import PROJECTS
from rlm_ci.models import recorded
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

#: The recording that rlm-ci brings, and the word that names it.
SHIPPED: Final = "shipped"
_SHIPPED: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "answers.jsonl")
#: The answers about one change, in its folder.
ANSWERS: Final = "answers.jsonl"
#: Settings that change what a review asks.
_ASKED: Final = ("RLM_CI_REVIEW_", "RLM_CI_RECURSION_")
_LINE: Final = 300


class Recording(Value):
    """A recording of ``model`` and the changes that it is about.

    ``by`` says whose answers these are, ``projects`` has the version of each library,
    ``settings`` are variables of the environment.
    """

    path: str
    model: str
    by: str
    at: str
    seed: int
    bugs: int
    honest: int
    projects: Mapping[str, str]
    settings: Mapping[str, str]

    @classmethod
    def load(cls, path: str) -> Recording:
        """The head of a recording. Raises ConfigError, DamagedError."""
        path = _SHIPPED if path == SHIPPED else os.path.abspath(path)
        head = next(iter(recorded.rows(path)), {})
        try:
            record = head["bench-review"]
            model, by, at = (printable(str(record[name]))[:_LINE] for name in ("model", "by", "at"))
            seed, bugs, honest = (int(record[name]) for name in ("seed", "bugs", "honest"))
            projects, settings = (
                {str(name): str(text) for name, text in record[key].items()}
                for key in ("projects", "settings")
            )
            return cls(path, model, by, at, seed, bugs, honest, projects, settings)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DamagedError(
                "the recording does not say what it is about",
                where=path,
                hint="make one with rlm-ci bench review --record FILE",
            ) from None

    def require_projects(self) -> None:
        """Raise UnavailableError if a library has another version here."""
        other = [name for name, project in self.projects.items() if _version(name) != project]
        if other:
            versions = " ".join(f"{name}=={self.projects[name]}" for name in other)
            raise UnavailableError(
                f"the recorded answers are about other versions of {', '.join(other)}",
                where=self.path,
                hint=f"install these: pip install {printable(versions)}",
            )

    def require(self, options: Mapping[str, int]) -> None:
        """Raise ConfigError if other changes are asked for, by ``seed``, ``bugs`` or ``honest``."""
        for name, number in options.items():
            recorded_number = getattr(self, name)
            if number != recorded_number:
                raise ConfigError(
                    f"the recorded answers are about --{name} {recorded_number}, not {number}",
                    where=self.path,
                    hint="leave the option out, or name a model that answers",
                )

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment of reviews that are answered by this recording."""
        other = (*_ASKED, "RLM_CI_MODEL")
        others = {name: text for name, text in environ.items() if not name.startswith(other)}
        settings = {name: text for name, text in self.settings.items() if name.startswith(_ASKED)}
        return {**others, **settings, "OPENAI_BASE_URL": f"{recorded.SCHEME}{self.path}"}

    def notice(self) -> str:
        """What people must know before they read the figures."""
        return (
            f"Recorded answers of {self.by}, of {self.at}. "
            "No model was asked now, and the figures are not those of a model of yours."
        )


def write(
    path: str, folder: str, model: str, options: Mapping[str, int], environ: Mapping[str, str]
) -> None:
    """Join the answers below ``folder``, one folder a change, to a recording.

    Raises StorageError, DamagedError.
    """
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    used = [
        project.name for project in PROJECTS if any(f"-{project.name}-" in name for name in names)
    ]
    head = {
        "model": model,
        "by": model,
        "at": time.strftime("%Y-%m-%d", time.gmtime()),
        "version": __version__,
        **options,
        "projects": {name: _version(name) for name in used},
        "settings": {name: text for name, text in environ.items() if name.startswith(_ASKED)},
    }
    answers: dict[str, Any] = {}
    for name in names:
        part = os.path.join(folder, name, ANSWERS)
        for row in recorded.rows(part) if os.path.lexists(part) else ():
            answers.setdefault(str(row.get("prompt")), row)
    rows = ({"bench-review": head}, *answers.values())
    files.write(path, b"".join(map(recorded.line, rows)))


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
