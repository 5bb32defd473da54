"""The identity of the settings that judge a change."""

from __future__ import annotations

from rlm_ci.config.options import PUBLISH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.settings import Settings


def fingerprint(settings: Settings) -> str:
    """The identity of the settings that judge: 16 hex digits. Secrets are no part of it."""
    import json
    from hashlib import sha256

    posting = {row.key for row in PUBLISH}
    judging = {
        row.key: value
        for row, value, _ in settings.items()
        if row.file and not row.secret and row.key not in posting
    }
    text = json.dumps(judging, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:16]
