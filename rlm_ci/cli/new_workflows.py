"""The workflows that ``rlm-ci init`` writes, from ``templates/init/``."""

from __future__ import annotations

import re

from rlm_ci import __version__
from rlm_ci.models.copilot import PACKAGE, TRIED
from rlm_ci.models.providers import OPENAI, PROVIDERS
from rlm_ci.resources import loader
from rlm_ci.system.installation import URL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: The variables of an address that is each customer's own.
_OF_AZURE = ("OPENAI_BASE_URL", "OPENAI_API_VERSION")
#: What the workflow of the wiki gets where no model is chosen.
_OF_WIKI = """\
          RLM_CI_MODEL: ${{ vars.RLM_CI_MODEL }}
          OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}
"""
#: A fork's token may not ask Copilot; its pull request is judged without a model.
_OWN_HEAD = "github.event.pull_request.head.repo.full_name == github.repository"
_MAY_ASK = "      copilot-requests: write # ask GitHub's models with this job's token\n"
_INSTALL = f"""\
      - name: Install Copilot CLI
        # zizmor: ignore[adhoc-packages] one version, without dependencies but its own binary
        run: npm install --global --ignore-scripts --no-audit --no-fund {PACKAGE}@{TRIED}
"""
_SANDBOX = """\
      - name: Let bubblewrap make its namespaces, for the repository's own analyzers
        run: |
          sudo apt-get update
          sudo apt-get install -y --no-install-recommends bubblewrap apparmor-profiles
          sudo cp /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/
          sudo apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict
"""


def workflows(
    commit: str,
    *,
    fork_safe: bool,
    slash_commands: bool,
    wiki: bool = False,
    analyzers: bool = False,
    provider: str = "",
    model: str = "",
) -> dict[str, str]:
    """The workflows by their file names, with the action pinned to ``commit`` of rlm-ci.

    With the key of ``provider``, if ``model`` is asked there. That of the wiki installs the same
    commit, and asks the model that a variable of the repository names, if none is given.
    """
    templates = {"rlm-ci.yml": "check.yml" if fork_safe else "workflow.yml"}
    if fork_safe:
        templates["rlm-ci-publish.yml"] = "publish.yml"
    if slash_commands:
        templates["rlm-ci-comment.yml"] = "commands.yml"
    values = _placeholders(provider, model)
    values["@PIN@"] = f"{URL.removeprefix('https://github.com/')}@{commit} # rlm-ci {__version__}"
    texts = {}
    for name, template in templates.items():
        text = loader.read_template(f"init/{template}")
        if template == "commands.yml":
            text = text.replace("@MODEL@", "" if provider == OPENAI else _of_commands(values))
        elif analyzers and name == "rlm-ci.yml":
            text = text.replace("@INSTALL@", f"{_SANDBOX}@INSTALL@")
        for mark, value in values.items():
            text = text.replace(mark, value)
        texts[name] = text
    if wiki:
        texts["rlm-ci-wiki.yml"] = _of_wiki(commit, values, model)
    return texts


def _of_wiki(commit: str, values: Mapping[str, str], model: str) -> str:
    text = loader.read_template("init/wiki.yml")
    asks = "no model, unless the variable\n# RLM_CI_MODEL of the repository names one, such as "
    asks += "groq:NAME; its key is the secret OPENAI_API_KEY"
    variables = values["@MODEL@"] if model else _OF_WIKI
    variables = variables.replace(f"{_OWN_HEAD} && github.token || ''", "github.token")
    marks = {
        **values,
        "@EXTRAS@": "wiki,github,copilot" if values["@INSTALL@"] else "wiki,github,models",
        "@ASKS@": "the model of rlm-ci.toml" if model else asks,
        "@VARIABLES@": variables,
        "@MINUTES@": values["@MINUTES@"] if model else "20",
        "@URL@": URL,
        "@COMMIT@": commit,
    }
    for mark, value in marks.items():
        text = text.replace(mark, value)
    return text


def _placeholders(provider: str, model: str) -> dict[str, str]:
    """What the templates say of the model, by their marks."""
    reads = "and no permission but to read"
    more = {"@MAY_ASK@": "", "@INSTALL@": ""}
    if not provider:
        return {"@MODEL@": "", "@KEY@": f"no secret {reads}", "@MINUTES@": "10", **more}
    row = PROVIDERS[provider]
    if row.local:
        pairs, key = [("RLM_CI_MODEL", model)], f"no secret {reads}"
    elif row.by_program:
        pairs = [(row.keys[0], f"${{{{ {_OWN_HEAD} && github.token || '' }}}}")]
        key = "no secret, and the permissions to read and to ask Copilot"
        more = {"@MAY_ASK@": _MAY_ASK, "@INSTALL@": _INSTALL}
    else:
        pairs = [(row.keys[0], f"${{{{ secrets.{row.keys[0]} }}}}")]
        key = f"one key (a fork's has none) {reads}"
    if not row.base_url and not row.by_program:
        pairs += [(name, f"${{{{ vars.{name} }}}}") for name in _OF_AZURE]
    lines = "".join(f"          {name}: {value}\n" for name, value in pairs)
    return {"@MODEL@": lines, "@KEY@": key, "@MINUTES@": "60", **more}


def _of_commands(values: Mapping[str, str]) -> str:
    """The variables of a model, with its key for reviews and questions alone."""
    begins = "startsWith(github.event.comment.body, '/rlm-ci {}')"
    asks = f"({begins.format('review')} || {begins.format('ask')})"
    lines = values["@MODEL@"].replace(_OWN_HEAD, asks)
    return re.sub(r"\{\{ (secrets\.\w+) \}\}", rf"{{{{ {asks} && \1 || '' }}}}", lines)
