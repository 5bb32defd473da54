"""All pairs of users of whom something holds: the answer grows with the square of the users."""

from __future__ import annotations

from itertools import combinations

from rlm_ci.lab.bench.generators.seeded import Chance, ContextFile, GeneratedCase
from rlm_ci.lab.bench.generators.sentences import LABELS, TYPES, record, users_of_records

VERSION = 1
#: What holds of a pair; see ``KINDS``. Users are few enough for a model to list the pairs.
OPTIONS = {"kind": "both", "users": 14}
KINDS = ("both", "either", "one-each")
_MOST_USERS = 60
_FORM = "List each pair once, one a line, as (user, user). Write none if there is no pair."


def make(folder: str, seed: int, tokens: int, *, kind: str, users: int) -> GeneratedCase:
    chance = Chance("pairs", seed)
    names = users_of_records(chance, users, kind, kinds=KINDS, minimum=2, maximum=_MOST_USERS)
    # Each asks some types only, so that what is asked for is rare at any length.
    asks = {user: chance.shuffled(LABELS)[:3] for user in names}
    seen: dict[int, set[str]] = {user: set() for user in names}
    with ContextFile(folder, tokens) as file:
        while True:
            user = chance.pick(names)
            label = chance.pick(asks[user])
            if not file.add(record(chance, user, label)[1]):
                break
            seen[user].add(label)
    first, other = chance.shuffled(LABELS)[:2]
    if kind == "one-each":
        condition = (
            f"one user asked at least one question of the type {first} and the other user at least "
            f"one of the type {other}"
        )
        firsts = {user for user in names if first in seen[user]}
        seconds = {user for user in names if other in seen[user]}
    else:
        types = {first} if kind == "both" else {first, other}
        condition = (
            f"both users asked at least one question of the type {' or '.join(sorted(types))}"
        )
        firsts = seconds = {user for user in names if types & seen[user]}
    right = [
        [str(left), str(right)]
        for left, right in combinations(sorted(names), 2)
        if (left in firsts and right in seconds) or (right in firsts and left in seconds)
    ]
    return GeneratedCase(
        f"{TYPES} List all pairs of different users where {condition}. {_FORM}", right, "f1"
    )
