"""Records with a date, a user and a question, whose type a reader must tell and count."""

from __future__ import annotations

from collections import Counter

from rlm_ci.lab.bench.generators.seeded import Chance, ContextFile, GeneratedCase
from rlm_ci.lab.bench.generators.sentences import LABELS, TYPES, record, users_of_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1
#: What is asked; see ``KINDS``.
OPTIONS = {"kind": "count", "users": 12}
KINDS = ("count", "most", "least", "compare", "user", "month", "filter")
_MOST_USERS = 200


def make(folder: str, seed: int, tokens: int, *, kind: str, users: int) -> GeneratedCase:
    chance = Chance("aggregation", seed)
    names = users_of_records(chance, users, kind, kinds=KINDS, minimum=1, maximum=_MOST_USERS)
    counts: Counter[tuple[str, int, int]] = Counter()
    with ContextFile(folder, tokens) as file:
        for label, user, month, line in _records(chance, names):
            if not file.add(line):
                break
            counts[label, user, month] += 1
    return _question(chance, kind, names, counts)


def _records(chance: Chance, names: list[int]) -> Iterator[tuple[str, int, int, str]]:
    """Endless; some types are more frequent than others."""
    weighted = [label for label in LABELS for _ in range(2 + chance.below(6))]
    while True:
        label, user = chance.pick(weighted), chance.pick(names)
        yield label, user, *record(chance, user, label)


def _question(
    chance: Chance, kind: str, names: list[int], counts: Counter[tuple[str, int, int]]
) -> GeneratedCase:
    by_label = Counter(dict.fromkeys(LABELS, 0))
    for (type_name, _, _), count in counts.items():
        by_label[type_name] += count
    label, other = chance.shuffled(LABELS)[:2]
    user, month = chance.pick(names), 1 + chance.below(12)
    if kind in ("most", "least"):
        extreme = (max if kind == "most" else min)(by_label.values())
        right = [type_name for type_name in LABELS if by_label[type_name] == extreme]
        what = f"Which type is the {kind} frequent one? Answer with the type alone."
        return GeneratedCase(f"{TYPES} {what}", right)
    if kind == "compare":
        difference = by_label[label] - by_label[other]
        forms = ("as common as", "more common than", "less common than")
        what = f"Is the type {label} {forms[1]}, {forms[2]}, or {forms[0]} the type {other}?"
        form = f"Answer with one of: {', '.join(forms)}."
        return GeneratedCase(f"{TYPES} {what} {form}", forms[(difference > 0) - (difference < 0)])
    of_user, of_month = kind in ("user", "filter"), kind in ("month", "filter")
    limits = f" by the user {user}" if of_user else ""
    limits += f" on or after 2025-{month:02}-01" if of_month else ""
    right_count = sum(
        count
        for (type_name, who, when), count in counts.items()
        if type_name == label and (not of_user or who == user) and (not of_month or when >= month)
    )
    what = f"How many records{limits} end in a question of the type {label}?"
    return GeneratedCase(f"{TYPES} {what} Answer with the number alone.", right_count, "numeric")
