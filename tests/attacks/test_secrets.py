"""A validator that prints tokens and its environment: no file of the run and no line keeps one."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from testing.attacker import git
from testing.tokens import TOKENS, secret_parts

if TYPE_CHECKING:
    from testing.attacker import Attacker

pytestmark = pytest.mark.full

#: Shares nothing with the tokens.
ANY = "Uv3Wx6Yz1Ab8Cd0Ef5Gh7Ij2Kl4Mn9Op" * 3
LOGIN = base64.b64encode(f"ada:{ANY[60:80]}".encode()).decode()
SECRETS = {
    "DB_PASS": "correct-" + ANY[2:14],
    "MYSQL_PWD": ANY[3:20],
    "PASS": ANY[5:24],
    "AUTH": ANY[7:28],
    "SENTRY_DSN": f"https://{ANY[9:29]}@sentry.example.com/7",
    "SLACK_WEBHOOK_URL": f"https://chat.example.com/in/{ANY[11:31]}",
    "DOCKER_AUTH_CONFIG": json.dumps({"auths": {"registry.example.com": {"auth": LOGIN}}}),
    "NPM_CONFIG__AUTH": LOGIN,
    "COOKIE": f"session={ANY[13:33]}",
    "TOKEN2": ANY[15:35],
    "PASSWORD1": ANY[17:37],
    "DATABASE_URL": f"postgres://ada:{ANY[19:39]}@db/shop",
}
PRINTS = """
import os, sys
print(open("tokens.txt").read())
for name in {names!r}:
    print(name, os.environ.get(name, "not given"))
    print("alone:", {alone!r}.get(name, ""), file=sys.stderr)
sys.exit(1)
"""


@pytest.mark.parametrize("sandbox", ["auto", "none"])
def test_no_secret_that_a_validator_prints_is_kept(attacker: Attacker, sandbox: str) -> None:
    alone = {"DATABASE_URL": ANY[19:39], "DOCKER_AUTH_CONFIG": ANY[60:80]}
    repo = attacker.folder / "repo"
    repo.mkdir()
    (repo / "tokens.txt").write_text("\n".join(f"{name}: {one}" for name, one in TOKENS.items()))
    (repo / "prints.py").write_text(PRINTS.format(names=list(SECRETS), alone=alone))
    (repo / ".gitignore").write_text(".runs/\n")
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Base")
    attacker.own()
    ended = attacker.rlm_ci(
        "rlm", "end it", "--validator", "python3 prints.py", "--agent", "echo $DB_PASS; touch made",
        "--max-iterations", "2", "--sandbox", sandbox, env=SECRETS, cwd=repo,
    )  # fmt: skip
    assert ended.returncode in (1, 3), ended.stderr
    runs = repo / ".runs"
    kept = [path for path in runs.rglob("*") if path.is_file() and "objects" not in path.parts]
    logs = [path for path in kept if path.name.startswith("validator-")]
    assert any("Stripe: [redacted]" in log.read_text() for log in logs), ended.stderr
    texts = {path.name: path.read_text("utf-8", "replace") for path in kept}
    texts |= {"stdout": ended.stdout, "stderr": ended.stderr}
    secrets = [*SECRETS.values(), *alone.values(), LOGIN]
    secrets += [part for token in TOKENS.values() for part in secret_parts(token)]
    leaks = {(name, one) for name, text in texts.items() for one in secrets if one in text}
    assert not leaks
