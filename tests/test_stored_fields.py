"""The fields of records on the disk: none is renamed or removed in passing."""

from __future__ import annotations

import pytest

from docs import stored_fields

EARLIER = {"Run": ("id: Text", "note?: str"), "Place[]": ("path: str", "line?: int")}


def test_records_of_earlier_releases_can_be_read() -> None:
    """Where it fails: read the older form in ``_upgraded``, or say by hand that there is none."""
    present, _ = stored_fields.current()
    stored = stored_fields.parsed(stored_fields.FILE.read_text("utf-8"))
    for name, fields in stored.items():
        assert present.get(name) == fields, (
            f"{name} has other fields than earlier files, which it cannot read: give it an "
            f"_upgraded and run `make generate`, or edit {stored_fields.FILE.name}"
        )
    assert len(present) > 60
    assert stored.keys() == present.keys(), "run `make generate`"


def test_the_file_reads_back() -> None:
    assert stored_fields.parsed(stored_fields.written(EARLIER)) == EARLIER


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Run", ("id: Text", "note?: str", "pages?: int")),
        ("Run", ("pages?: int", "note?: str", "id: Text")),
        ("Run", ("id?: Text", "note?: str")),
        ("Place[]", ("path: str", "line?: int", "side?: str")),
        ("Page", ("title: str",)),
    ],
    ids=["a field that may be missing", "order", "one that may now be missing", "a last one",
         "a new class"],
)  # fmt: skip
def test_what_reads_earlier_files_is_taken(name: str, fields: tuple[str, ...]) -> None:
    present = {**EARLIER, name: fields}
    assert stored_fields.merged(EARLIER, present, frozenset()) == present


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Run", ("ident: Text", "note?: str")),
        ("Run", ("id: Text",)),
        ("Run", ("id: Text", "remark?: str")),
        ("Run", ("id: Text", "note: str")),
        ("Run", ("id: Count", "note?: str")),
        ("Run", ("id: Text", "note?: str", "pages: int")),
        ("Place[]", ("path: str", "side?: str", "line?: int")),
    ],
    ids=["renamed", "removed", "renamed, may be missing", "now needed", "another type", "new",
         "order of a list"],
)  # fmt: skip
def test_what_does_not_needs_an_older_reading_or_a_person(
    name: str, fields: tuple[str, ...]
) -> None:
    present = {**EARLIER, name: fields}
    assert stored_fields.merged(EARLIER, present, frozenset()) == EARLIER
    assert stored_fields.merged(EARLIER, present, frozenset([name])) == present


def test_a_class_goes_by_hand() -> None:
    present = {"Run": EARLIER["Run"]}
    assert stored_fields.merged(EARLIER, present, frozenset()) == EARLIER
