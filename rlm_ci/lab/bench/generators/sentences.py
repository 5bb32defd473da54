"""Sentences without a meaning to look for, and questions whose type a reader can tell."""

from __future__ import annotations

from rlm_ci.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.lab.bench.generators.seeded import Chance

_PEOPLE = (
    "baker", "carpenter", "clerk", "doctor", "driver", "farmer", "gardener", "guard", "lawyer",
    "librarian", "mason", "miller", "nurse", "painter", "pilot", "sailor", "singer", "tailor",
    "teacher", "weaver",
)  # fmt: skip
_DEEDS = (
    "admired", "borrowed", "carried", "cleaned", "counted", "described", "drew", "examined",
    "found", "kept", "measured", "moved", "ordered", "packed", "repaired", "sold", "sorted",
    "stored", "washed", "watched",
)  # fmt: skip
_QUALITIES = (
    "amber", "broad", "brittle", "calm", "curved", "dusty", "faded", "gentle", "heavy", "hollow",
    "narrow", "pale", "quiet", "rusty", "silver", "smooth", "solid", "steep", "sturdy", "wooden",
)  # fmt: skip
_THINGS = (
    "anchor", "barrel", "basket", "bench", "bottle", "bridge", "bucket", "candle", "chair",
    "clock", "cradle", "curtain", "ladder", "lantern", "mirror", "pillow", "ribbon", "saddle",
    "table", "wagon",
)  # fmt: skip
_PLACES = (
    "at the harbour", "before dawn", "behind the mill", "beside the canal", "by the gate",
    "in the attic", "in the courtyard", "near the chapel", "on the hill", "under the arcade",
)  # fmt: skip
_TOWNS = (
    "Altona", "Brenwick", "Cardale", "Dunmore", "Eskham", "Farley", "Glenrow", "Harwick",
    "Ilmoor", "Kelbury",
)  # fmt: skip
_SHORT = ("AFC", "BTL", "CRM", "DQX", "EPN", "FKS", "GVA", "HLT", "JRW", "KZB")


def filler(chance: Chance) -> str:
    """A sentence that answers nothing."""
    who, deed = chance.pick(_PEOPLE), chance.pick(_DEEDS)
    what = f"{chance.pick(_QUALITIES)} {chance.pick(_THINGS)}"
    return f"The {who} {deed} the {what} {chance.pick(_PLACES)}."


def name(number: int) -> str:
    """A name of two words, another one for each number below 400."""
    return f"{_QUALITIES[number % 20]} {_THINGS[number // 20 % 20]}"


#: Types of questions, by what they ask for, after the coarse classes of TREC. No type is named in
#: its questions: a reader, or a model, has to tell it.
QUESTIONS = {
    "abbreviation": ("What does {short} stand for?", "What is the full form of {short}?"),
    "description": (
        "Why does a {quality} {thing} creak?",
        "How does one repair a {quality} {thing}?",
        "What is the purpose of a {thing} {place}?",
    ),
    "entity": (
        "What colour is the {thing} of the {person}?",
        "Which animal is carved on the {quality} {thing}?",
        "What wood is the {thing} of {town} made of?",
    ),
    "human": (
        "Who {deed} the {quality} {thing}?",
        "Which {person} of {town} {deed} the {thing}?",
        "Who is the oldest {person} of {town}?",
    ),
    "location": (
        "Where is the {quality} {thing} of {town}?",
        "In which town did the {person} live?",
        "Where does the road from {town} lead?",
    ),
    "number": (
        "How many {thing}s does {town} have?",
        "In what year was the {thing} of {town} built?",
        "How much does a {quality} {thing} weigh?",
    ),
}  # fmt: skip
LABELS = tuple(QUESTIONS)
#: What a task says of records.
TYPES = f"Each record ends in a question of one of these types: {', '.join(LABELS)}."


def users_of_records(
    chance: Chance, number: int, kind: str, *, kinds: Sequence[str], minimum: int, maximum: int
) -> list[int]:
    """The users who ask. Raises ConfigError for a kind that is not known, or another number."""
    if kind not in kinds or not minimum <= number <= maximum:
        raise ConfigError(
            f"kind must be one of {', '.join(kinds)}, and users from {minimum} to {maximum}",
            where="context",
            hint="fix that value",
        )
    return [10_000 + number * 37 for number in chance.shuffled(range(2000))[:number]]


def record(chance: Chance, user: int, label: str) -> tuple[int, str]:
    """A line with a question of a user on some day of 2025, and its month."""
    month, day = 1 + chance.below(12), 1 + chance.below(28)
    text = question(chance, label)
    return month, f"Date: 2025-{month:02}-{day:02} || User: {user} || {text}\n"


def question(chance: Chance, label: str) -> str:
    """A question of the type ``label``."""
    return chance.pick(QUESTIONS[label]).format(
        short=chance.pick(_SHORT),
        quality=chance.pick(_QUALITIES),
        thing=chance.pick(_THINGS),
        place=chance.pick(_PLACES),
        person=chance.pick(_PEOPLE),
        deed=chance.pick(_DEEDS),
        town=chance.pick(_TOWNS),
    )
