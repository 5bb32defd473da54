"""The environment ``pure_rlm`` in episodes: the context is a variable of a REPL."""

from __future__ import annotations

import io
import os

from rlm_ci.context.builder.build import build
from rlm_ci.environments.repl.episode import ReplEpisodes
from rlm_ci.environments.repl.host.model_functions import ReplTask
from rlm_ci.environments.repl.host.options import ReplOptions, ReplServices
from rlm_ci.lab import chat
from rlm_ci.lab.episodes.node import EpisodeSetup
from rlm_ci.text.encodings import BYTES
from rlm_ci.text.printable import encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rlm_ci.context.context import Context
    from rlm_ci.environments.turn_loop import Environment
    from rlm_ci.lab.episodes.episode import EpisodeOptions
    from rlm_ci.lab.episodes.node import EpisodeNode

#: The folder of its files in a run, and the beginning of its places in the record.
FOLDER = "rlm/repl"


class ReplSetups:
    """Makes the REPL of an episode; the root's is over ``context``, a child's over its own."""

    def __init__(
        self, options: EpisodeOptions, services: ReplServices, context: Context | None
    ) -> None:
        self._options = options
        self._services = services
        self._context = context
        self._episodes = ReplEpisodes(
            ReplOptions(
                model=options.model,
                sub_model=options.sub_model or options.model,
                max_tokens=options.max_completion_tokens,
                concurrency=options.parallelism,
                block_seconds=options.exec_timeout,
                max_turns=options.max_steps,
                sandbox=options.sandbox,
                context_tokens=options.context_tokens,
            ),
            services,
        )

    def of(self, node: EpisodeNode) -> EpisodeSetup:
        """The REPL of ``node``. Raises StorageError."""
        task, services = node.task, self._services
        folder = FOLDER if node.parent is None else f"{FOLDER}/{node.position.replace('/', '-')}"
        if isinstance(task, ReplTask) and task.files is not None:
            folder, services = task.folder, services.replace(files=task.files)
        built = None
        context = self._context if node.parent is None else None
        if context is None:
            text = io.BytesIO(encodable(task.context or task.task).encode())
            place = os.path.join(services.scratch, *folder.split("/"))
            built = context = build(text, place, encoding=BYTES)
        environment = self._episodes.environment(context, node.delegation, folder, services)
        opening = self._episodes.opening(task.task, context, node.delegation).messages()
        prompts = [(str(message["role"]), str(message["content"])) for message in opening]
        session = self._options.session if node.parent is None else None
        if session and (dialogue := chat.told_so_far(session)):
            prompts.insert(1, ("user", dialogue))

        def close(*, completed: bool) -> None:
            if completed:  # else the run may be given more, and needs its variables
                environment.forget()
            environment.close()
            if built is not None:
                built.close()

        return EpisodeSetup(
            environment, environment.answers, tuple(prompts), _no_scratch, None, close,
            environment.partial,
        )  # fmt: skip


def _no_scratch(_place: str) -> AbstractContextManager[Environment]:
    raise RuntimeError("a REPL tries no branches")
