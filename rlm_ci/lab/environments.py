"""The environments of a runner as objects: what each is called, what it needs, an episode in it."""

from __future__ import annotations

from functools import partial

from rlm_ci.environments.names import CODING, ENVIRONMENTS, GENERIC, REPL
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlm_ci.lab.readiness import EnvironmentDoctorCheck
    from rlm_ci.lab.results import RLMRunResult


class RLMEnvironment:
    """One environment under one of its names.

    ``run_task`` takes what that of the runner takes. ``doctor_checks`` says whether it is ready.
    """

    def __init__(
        self,
        name: str,
        run_task: Callable[..., RLMRunResult],
        doctor: Callable[[str], list[EnvironmentDoctorCheck]],
    ) -> None:
        self.name = name
        self.run_task: Callable[..., RLMRunResult] = partial(run_task, environment=name)
        self.doctor_checks: Callable[[], list[EnvironmentDoctorCheck]] = partial(doctor, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class GenericRLMEnvironment(RLMEnvironment):
    """Python in a sandbox, questions to a model, children."""


class DSPyCodingRLMEnvironment(RLMEnvironment):
    """The same on a copy of the code, with tools that read, edit and test it."""


class PureRLMEnvironment(RLMEnvironment):
    """A REPL whose variable is the context."""


_CLASSES = {
    GENERIC: GenericRLMEnvironment,
    CODING: DSPyCodingRLMEnvironment,
    REPL: PureRLMEnvironment,
}


class Environments(dict[str, RLMEnvironment]):
    """All environments by their names. An unknown name is a KeyError that lists the known ones."""

    def __init__(self, *methods: Any) -> None:
        super().__init__(
            (name, _CLASSES[kind](name, *methods)) for name, kind in ENVIRONMENTS.items()
        )

    def __missing__(self, name: str) -> RLMEnvironment:
        names = ", ".join(self)
        raise KeyError(f"there is no environment {printable(str(name)[:100])!r}: known: {names}")
