"""A stateful GitHub on loopback, held to GitHub's own descriptions.

    with GitHub() as github:
        github.repository("acme/shop", git_repo, collaborators={"ada": "write"})
        github.pull("acme/shop", 12, base="main", head="feature")
        github.token("t0ken", permissions={"pull_requests": "write"})
        ... a client at github.url ...
        assert not github.unexpected()

REST shapes are judged by the OpenAPI description (``description.py``), GraphQL documents by the
published schema (``graphql.py``); what neither can say is modelled in ``rest*.py``, ``placing.py``
and ``identity.py``. In tests use the fixture ``github`` of ``testing.loopback_github.fixture``.
"""

from __future__ import annotations

from testing.loopback_github.faults import Fault, rate_limited, secondary_limited
from testing.loopback_github.server import GitHub, Request

__all__ = ["Fault", "GitHub", "Request", "rate_limited", "secondary_limited"]
