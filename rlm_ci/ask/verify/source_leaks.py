"""Finds text of a source where none may be, in one pass over a source of any size.

The source is cut into pieces of 48 bytes, and each is looked up among all windows of that length
in the texts: a quote of 95 bytes in a row has a whole piece. So a pass takes as long for 10,000
texts as for one. A piece of known words may be part of a longer text that is not known: the bytes
around it are compared as well.
"""

from __future__ import annotations

import json
import re
from itertools import chain
from operator import itemgetter
from struct import iter_unpack

from rlm_ci.environments.symbolic.planner.file_map import folders
from rlm_ci.environments.symbolic.planner.plan import PlanLimits
from rlm_ci.environments.symbolic.planner.progress_notes import quote
from rlm_ci.environments.symbolic.planner.prompt import protocol
from rlm_ci.resources import loader
from rlm_ci.text.printable import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.context.context import Context

    Moment = tuple[int, int]
    #: Pieces, with the bytes before and behind each place where it was found.
    Surroundings = Mapping[bytes, set[tuple[bytes, bytes]]]

#: Before the first question.
_EVER = (-1, 0)
#: The attempt after which prompts repeat the words of an iteration.
_FIRST = 1
#: Bytes of a piece; fewer are in too many texts by chance.
PIECE = 48
#: A quote of so many bytes has a whole piece.
REACH = 2 * PIECE - 1
#: So many unknown bytes in a stretch of the source are a leak.
_UNKNOWN = REACH // 4
#: Surroundings of one piece that are compared.
_MOST = 64
#: A piece with fewer different bytes is a ruler or blank space.
_DIFFERENT = 8
#: Bytes of the source per read.
_BLOCK = PIECE << 15
_TEMPLATES = tuple(f"prompts/symbolic{part}.md.j2" for part in ("", "-state", "-repair"))
_TAG = re.compile(r"\{[%{#].*?[%}#]\}", re.DOTALL)
#: Fields of the state with words of a planner, or of a sub-call's endpoint.
_WORD_FIELDS = ("query", "reason", "error", "message", "pattern", "chunks", "files", "prompt")
#: A text in double quotes, in which a prompt names files; and what surrounds their paths.
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
_PLACE = re.compile(r"(.*?)(?::[0-9]+(?:-[0-9]+)?)?(?: and more files)?", re.DOTALL)

#: The lines of ``progress_notes``, compared without white space and numbers.
_LINES = """
    Search for "": hit in chunk.|Search for "": hits in chunk.|": hits in chunks. Reason: "
    |": hit in chunk; in names of files: "|": hits in chunks; in names of files: "
    |Count count:: of "": hits in lines of chunks. Reason: "|" in chunks "|" in files "
    |": hit in line of chunk|different value:|different values, the with the most hits:
    |files, the with the most hits:|chunks, the with the most hits:
    |chunk:c, a hit at bytes -; bytes -:|chunk:c, a hit at bytes -, "
    |Map subcall::mp to extract, "|Map subcall::mp to summarize, "|Map subcall::mp to classify, "
    |Map subcall::mp to verify, "|": succeeded; of parts read; bytes of result by most_frequent
    |": failed, "|": refused, "|"; of parts read, not bytes -, -, -, -, …; bytes of result by concat
    |bytes of result by count|bytes of result by union|bytes of result by sum
    |bytes of result by model|What subcall::mp says:
    | [ of excerpts left out for room: chunk:c at -, chunk:c at -, chunk:c at -]
    |chunk:c, hit, the first at bytes -; bytes -:|chunk:c, hits, the first at bytes -; bytes -:
    |chunk:c, hit, the first at bytes -, "|chunk:c, hits, the first at bytes -, "
    |Read of chunk:c: bytes -, and there is more. Reason: "|Read of bytes:-: bytes -. Reason: "
    |Read of subcall::sc: bytes -, and there is more|: nothing is there. Reason: "
    |Sub-call to summarize, subcall::sc: succeeded, given bytes -, -, -, -, …, bytes of answer
    |Sub-call to extract, subcall::sc: failed, "|Sub-call to classify, subcall::sc: failed, "
    |Sub-call to verify, subcall::sc: failed, "|bytes of answer, cut off at the cap on its tokens
    |What subcall::sc says:|earlier actions left out for room
"""
#: A template sets white space freely, and numbers are compared by themselves.
_LOOSE = b" \t\n\r\v\f0123456789"
#: Known bytes in a row that are no chance. A piece is known if half of it is in such runs, a
#: longer stretch if nearly all of it is.
_RUN = 8
_NUMBER = re.compile(rb"[0-9]+")


class PromptFrames:
    """The parts of prompts that are neither excerpts nor the user's question.

    They may have our own words, and earlier answers of the planner, which quote excerpts. Both
    are known: they are no leak if the source has the same words, as the folder of an earlier run
    has. A moment is a question to the planner: the iteration and the attempt.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        #: The first place of a text, and its moment.
        self._places: dict[bytes, tuple[str, Moment]] = {}
        #: Texts that are known after a moment.
        self._known: list[tuple[Moment, str]] = []
        self._know((_TAG.sub("", loader.read_template(name)) for name in _TEMPLATES), _EVER)
        self._know((_LINES,), _EVER)
        self._numbers: set[bytes] = set()
        named = (piece.path for piece in context.files)
        roots = (one.path for one in folders(context.files))
        self._paths = {printable(encodable(path)) for path in chain(named, roots)}

    def know_state(
        self, limits: Mapping[str, Any], turns: Iterable[Any], models: Sequence[str] = ()
    ) -> None:
        """Add the words of a run's state that its prompts repeat."""
        fields = {name: limits[name] for name in PlanLimits._fields if name in limits}
        render = loader.load_template(_TEMPLATES[0])
        self._know((render(protocol(PlanLimits(**fields), self._context, models)),), _EVER)
        for turn in turns:
            words = (text for name, text in _texts(turn, "") if name in _WORD_FIELDS)
            self._know(words, (turn["iteration"], _FIRST))
            self._numbers.update(_numbers(turn))

    def know_answer(self, answer: bytes, moment: Moment) -> None:
        """Add an answer of the planner: its text, and the texts in its JSON."""
        text = answer.decode("utf-8", "replace")
        try:
            meant = [one for _, one in _texts(json.loads(text), "")]
        except (ValueError, RecursionError):
            meant = []
        self._know(chain((text,), meant), moment)

    def add(self, where: str, data: bytes, moment: Moment) -> None:
        """Search ``data``, the part at ``where`` of the prompt of ``moment``."""
        plain = _QUOTED.sub(self._without_name, data)
        if plain not in self._places or moment < self._places[plain][1]:
            self._places[plain] = where, moment

    def found(self) -> Iterator[str]:
        """The places with text of the source, each once. Raises DamagedError, StorageError."""
        windows = {
            data[at : at + PIECE] for data in self._places for at in range(len(data) - PIECE + 1)
        }
        common = self._in_source(windows) if windows else {}
        if not common:
            return
        # A source has little in common with the frames, and most of that is known.
        shown: dict[Moment, dict[bytes, set[tuple[bytes, bytes]]]] = {}
        for data, (_, moment) in self._places.items():
            around = shown.setdefault(moment, {})
            for at in range(len(data) - PIECE + 1):
                piece = data[at : at + PIECE]
                if piece in common and len(known := around.setdefault(piece, set())) < _MOST:
                    known.add(_around(data, at))
        leaked = {moment: self._unknown(around, moment) for moment, around in shown.items()}
        longer = {
            moment: self._unknown_around(ours, leaked[moment], common, moment)
            for moment, ours in shown.items()
        }
        for data, (where, moment) in self._places.items():
            pieces = leaked[moment]
            if any(data[at : at + PIECE] in pieces for at in range(len(data) - PIECE + 1)) or any(
                text in data for text in longer[moment]
            ):
                yield where

    def _without_name(self, quoted: re.Match[bytes]) -> bytes:
        """A text in double quotes; an empty one if it names files of the context."""
        try:
            text = json.loads(quoted[0])
        except ValueError:
            return quoted[0]
        names = map(_named, text.split(", "))
        is_known = all(name in self._paths or _is_cut(name, self._paths) for name in names)
        return b'""' if is_known else quoted[0]

    def _unknown(self, pieces: Collection[bytes], moment: Moment) -> set[bytes]:
        """The ``pieces`` that are not made of texts known at ``moment``."""
        known = self._runs_among(pieces, moment)

        def is_known(piece: bytes) -> bool:
            flat = _flat(piece)
            is_made = 0 < len(flat) <= 2 * _covered(known, flat)
            return is_made and self._has_known_numbers(piece)

        return {piece for piece in pieces if not is_known(piece)}

    def _runs_among(self, texts: Collection[bytes], moment: Moment) -> set[bytes]:
        wanted = {run for text in texts for run in _runs(_flat(text))}
        known = set[bytes]()
        for since, text in self._known if wanted else ():
            if since < moment:
                known |= wanted.intersection(_runs(_flat(text.encode("utf-8", "replace"))))
        return known

    def _has_known_numbers(self, text: bytes) -> bool:
        """Whether the numbers of a text of mostly numbers are the run's own; its edges cut some."""
        if len(_flat(text)) >= len(text) // 2:
            return True
        inner = _NUMBER.findall(text)[1:-1]
        return bool(inner) and self._numbers.issuperset(inner)

    def _unknown_around(
        self, ours: Surroundings, leaked: set[bytes], theirs: Surroundings, moment: Moment
    ) -> set[bytes]:
        """Stretches of the source around known pieces that are not known as a whole.

        They are what texts and source have in common around a piece, of REACH bytes or more.
        """
        stretches = {
            text
            for piece in ours.keys() - leaked
            for one in ours[piece]
            for other in theirs[piece]
            if len(text := _shared(piece, one, other)) >= REACH
        }
        known = self._runs_among(stretches, moment)

        def is_known(text: bytes) -> bool:
            flat = _flat(text)
            is_made = len(flat) - _covered(known, flat) < _UNKNOWN
            return is_made and self._has_known_numbers(text)

        return {text for text in stretches if not is_known(text)}

    def _in_source(self, windows: set[bytes]) -> Surroundings:
        """The windows that are pieces of the source, with the bytes around them there."""
        theirs: dict[bytes, set[tuple[bytes, bytes]]] = {}
        for at, block in self._blocks():
            if windows.isdisjoint(map(itemgetter(0), iter_unpack(f"{PIECE}s", block))):
                continue  # far faster than each piece by itself, and true of most blocks
            for number, (piece,) in enumerate(iter_unpack(f"{PIECE}s", block)):
                if piece not in windows or len(set(piece)) < _DIFFERENT:
                    continue
                around = theirs.setdefault(piece, set())
                if len(around) < _MOST:
                    first = max(0, at + number * PIECE - PIECE + 1)
                    data = self._context.raw(first, first + REACH + PIECE)
                    around.add(_around(data, at + number * PIECE - first))
        return theirs

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """The whole pieces of the source in blocks, each with its offset."""
        context = self._context
        whole = context.byte_length - context.byte_length % PIECE
        for at in range(0, whole, _BLOCK):
            yield at, context.raw(at, min(at + _BLOCK, whole))

    def _know(self, texts: Iterable[str], since: Moment) -> None:
        for text in texts:
            self._known += ((since, text), (since, quote(text, len(text))))


def _named(place: str) -> str:
    match = _PLACE.fullmatch(place)
    return match[1] if match else place


def _is_cut(name: str, paths: set[str]) -> bool:
    return name.endswith("…") and any(path.startswith(name[:-1]) for path in paths)


def _flat(text: bytes) -> bytes:
    return text.translate(None, _LOOSE)


def _runs(flat: bytes) -> Iterator[bytes]:
    return (flat[at : at + _RUN] for at in range(len(flat) - _RUN + 1))


def _covered(known: set[bytes], flat: bytes) -> int:
    """The number of bytes of ``flat`` in ``known`` runs."""
    total = reached = 0
    for at, run in enumerate(_runs(flat)):
        if run in known:
            total += at + _RUN - max(at, reached)
            reached = at + _RUN
    return total


def _around(data: bytes, at: int) -> tuple[bytes, bytes]:
    """The bytes before and behind the piece at ``at``, less than a piece of each."""
    behind = at + PIECE
    return data[max(0, at - PIECE + 1) : at], data[behind : behind + PIECE - 1]


def _shared(piece: bytes, one: tuple[bytes, bytes], other: tuple[bytes, bytes]) -> bytes:
    """``piece``, with as much before and behind it as is the same in both."""
    head = _alike(one[0][::-1], other[0][::-1])
    return one[0][len(one[0]) - head :] + piece + one[1][: _alike(one[1], other[1])]


def _alike(one: bytes, other: bytes) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _numbers(value: Any) -> Iterator[bytes]:
    """The numbers in a JSON value as text, and their parts between commas."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _numbers(inner)
    elif type(value) is int:
        yield str(value).encode()
        yield from f"{value:,}".encode().split(b",")


def _texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """The texts in a JSON value, each with the name of its field."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, name)
