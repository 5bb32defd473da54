"""What lies in the example repository: a small web shop, and a change that is far too large.

Only texts; ``build_demo_repository.py`` makes commits of them.
"""

from __future__ import annotations

import json

REPOSITORY = "acme/shop"
ARCHIVE_BRANCH = "doc-archives"
TASK = "0142-ship-to-europe"
MARKER = "<!-- docs-archive:stub -->"

# -- the shop as it is ------------------------------------------------------------------------

README = """\
# shop

The web shop of Acme: a catalogue, a cart, a checkout. `python -m shop` serves it on port 8000.
"""

CATALOG = """\
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Product:
    sku: str
    title: str
    price: Decimal
    grams: int


PRODUCTS = {
    product.sku: product
    for product in (
        Product("ANV-10", "Anvil, 10 kg", Decimal("89.00"), 10_000),
        Product("ROP-25", "Rope, 25 m", Decimal("24.50"), 1_800),
        Product("MAG-01", "Giant magnet", Decimal("149.00"), 6_200),
        Product("SKT-02", "Rocket skates, pair", Decimal("399.00"), 4_100),
    )
}
"""

CART = """\
from collections import Counter
from decimal import Decimal

from shop.catalog import PRODUCTS


class Cart:
    def __init__(self) -> None:
        self.lines: Counter[str] = Counter()

    def add(self, sku: str, count: int = 1) -> None:
        if sku not in PRODUCTS:
            raise KeyError(sku)
        self.lines[sku] += count

    def net(self) -> Decimal:
        return sum((PRODUCTS[sku].price * count for sku, count in self.lines.items()), Decimal())

    def grams(self) -> int:
        return sum(PRODUCTS[sku].grams * count for sku, count in self.lines.items())
"""

CHECKOUT = """\
from decimal import Decimal

from shop.cart import Cart

VAT = Decimal("0.19")
SHIPPING = Decimal("4.90")


def total(cart: Cart) -> Decimal:
    return ((cart.net() + SHIPPING) * (1 + VAT)).quantize(Decimal("0.01"))
"""

TEST_CHECKOUT = """\
from decimal import Decimal

from shop.cart import Cart
from shop.checkout import total


def test_total_of_a_rope() -> None:
    cart = Cart()
    cart.add("ROP-25")
    assert total(cart) == Decimal("34.99")
"""

MIGRATION_ORDERS = """\
CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    placed_at TEXT NOT NULL,
    total TEXT NOT NULL
);
"""

RULES = """\
# What a change to the shop may do. A pull request is judged by main's copy of this file.

[diff_budget]
max_files = 25
max_lines = 1200

# A migration is applied once, by hand, at night: never two in one change.
[[diff_budget.paths]]
glob = "migrations/**"
max_files = 1
"""

ATTRIBUTES = "shop/static/vendor/** linguist-vendored\n"

POLICY = json.dumps(
    {
        "version": 1,
        "archive_branch": ARCHIVE_BRANCH,
        "repo_url": f"https://github.com/{REPOSITORY}",
        "retain_days": 14,
        "stray_retain_days": 90,
        "max_lines": 300,
        "archived_cadence_days": 365,
        "doc_patterns": ["docs/PRD-*", "docs/TECH_SPEC-*", "docs/ACTION_PLAN-*"],
        "exclude_paths": [],
        "allowlist_task_keys": [],
        "allowlist_paths": [],
    },
    indent=2,
)

TASKS = json.dumps(
    {
        "items": [
            {"id": "0138", "slug": "gift-cards", "title": "Gift cards", "status": "succeeded"},
            {"id": "0142", "slug": "ship-to-europe", "title": "Ship to all of Europe",
             "status": "in_progress"},
        ]
    },
    indent=2,
)  # fmt: skip


def plan(title: str, aim: str, open_item: str = "") -> str:
    """A planning document with its checklist."""
    items = ["- [x] Agree on the aim", "- [x] Build it behind a switch", "- [x] Measure for a week"]
    items += [f"- [ ] {open_item}"] if open_item else []
    return f"# {title}\n\n{aim}\n\n## Steps\n" + "\n".join(items) + "\n"


#: Plans that the archive branch has, because it was forked from main after they were written.
PLANS = {
    "docs/PRD-wishlist.md": plan("Wish list", "A customer keeps products for later."),
    "docs/PRD-returns.md": plan(
        "Returns", "A customer sends back what does not fit.", "Refund what was paid by gift card"
    ),
    "docs/PRD-loyalty.md": plan("Loyalty", "The tenth order ships free."),
    "docs/PRD-newsletter.md": plan("Newsletter", "One letter a month, and not one more."),
    "docs/PRD-search.md": plan("Search", "Find an anvil by typing 'anv'."),
    "docs/TECH_SPEC-search.md": plan("Search, technically", "A trigram index in SQLite."),
    "docs/ACTION_PLAN-stock.md": plan("Stock", "Count every night, order every Monday."),
}
#: Written after the fork: the archive branch has never seen it.
LATE_PLAN = {
    "docs/PRD-gift-cards.md": plan("Gift cards", "Money on a card, valid for three years.")
}

SHOP = {
    ".gitignore": ".runs/\n__pycache__/\n",
    ".gitattributes": ATTRIBUTES,
    "README.md": README,
    "rlm-ci.toml": RULES,
    "docs/implementation-docs-archive-policy.json": POLICY + "\n",
    "tasks/index.json": TASKS + "\n",
    "shop/__init__.py": "",
    "shop/catalog.py": CATALOG,
    "shop/cart.py": CART,
    "shop/checkout.py": CHECKOUT,
    "shop/static/vendor/htmx.js": "// htmx 1.9.10\n",
    "migrations/0001_orders.sql": MIGRATION_ORDERS,
    "tests/test_checkout.py": TEST_CHECKOUT,
    "uv.lock": "version = 1\n",
    **PLANS,
}


def stub(
    path: str,
    title: str,
    *,
    repository: str = REPOSITORY,
    archive_path: str = "",
    archived: str = "Archived on 2026-01-12. ",
) -> str:
    """What stays of an archived document at ``path``: a pointer to its full text."""
    stated = archive_path or path
    return (
        f"# {title}\n\n{MARKER}\n"
        f"> {archived}Full content: https://github.com/{repository}/blob/{ARCHIVE_BRANCH}/{stated}\n\n"
        f"- Archive branch: {ARCHIVE_BRANCH}\n- Archive path: {stated}\n"
    )


# -- the change -------------------------------------------------------------------------------

#: Country to its standard and its lowest rate of VAT in per cent.
RATES = {
    "at": ("20", "10"), "be": ("21", "6"), "bg": ("20", "9"), "cy": ("19", "5"),
    "cz": ("21", "12"), "de": ("19", "7"), "dk": ("25", "25"), "ee": ("24", "9"),
    "es": ("21", "4"), "fi": ("25.5", "10"), "fr": ("20", "5.5"), "gr": ("24", "6"),
    "hr": ("25", "5"), "hu": ("27", "5"), "ie": ("23", "9"), "it": ("22", "5"),
    "lt": ("21", "5"), "lu": ("17", "8"), "lv": ("21", "5"), "mt": ("18", "5"),
    "nl": ("21", "9"), "pl": ("23", "5"), "pt": ("23", "6"), "ro": ("21", "11"),
    "se": ("25", "6"), "si": ("22", "5"), "sk": ("23", "5"),
}  # fmt: skip

VAT_MODULE = '''\
"""Value-added tax of the country that a parcel goes to."""

import tomllib
from decimal import Decimal
from functools import cache
from pathlib import Path

RATES = Path(__file__).with_name("rates")


class UnknownCountry(LookupError):
    """We do not ship there."""


@cache
def standard_rate(country: str) -> Decimal:
    """The rate as a fraction, such as 0.19. Raises UnknownCountry."""
    try:
        text = (RATES / f"{country}.toml").read_text()
    except FileNotFoundError:
        raise UnknownCountry(country) from None
    return Decimal(tomllib.loads(text)["standard"]) / 100


def gross(net: Decimal, country: str) -> Decimal:
    """The price with tax, to the cent."""
    return (net * (1 + standard_rate(country))).quantize(Decimal("0.01"))
'''

QUOTE_MODULE = '''\
"""What it costs to send a parcel."""

import csv
from decimal import Decimal
from functools import cache
from pathlib import Path

ZONES = Path(__file__).with_name("zones.csv")
HEAVY = 5_000


@cache
def _prices() -> dict[tuple[str, str], Decimal]:
    with ZONES.open(newline="") as file:
        rows = csv.DictReader(file)
        return {(row["country"], row["prefix"]): Decimal(row["price"]) for row in rows}


def quote(country: str, postcode: str, grams: int) -> Decimal:
    """Raises KeyError when nobody delivers there."""
    price = _prices()[country, postcode[:2]]
    return price * 2 if grams > HEAVY else price
'''

NEW_CHECKOUT = """\
from decimal import Decimal

from shop.cart import Cart
from shop.shipping.quote import quote
from shop.tax.vat import gross


def total(cart: Cart, country: str = "de", postcode: str = "10115") -> Decimal:
    return gross(cart.net() + quote(country, postcode, cart.grams()), country)
"""

TEST_VAT = """\
from decimal import Decimal

import pytest

from shop.tax.vat import UnknownCountry, gross


def test_gross_in_finland() -> None:
    assert gross(Decimal("100.00"), "fi") == Decimal("125.50")


def test_nobody_ships_to_the_moon() -> None:
    with pytest.raises(UnknownCountry):
        gross(Decimal("1.00"), "moon")
"""


def _zones() -> str:
    rows = ["country,prefix,zone,price"]
    for number, country in enumerate(RATES):
        for prefix in range(10, 50):
            zone = 1 + (number * 7 + prefix) % 5
            rows.append(f"{country},{prefix},{zone},{3 + zone}.{'49' if prefix % 2 else '90'}")
    return "\n".join(rows) + "\n"


TAXES = {
    "shop/tax/__init__.py": "",
    "shop/tax/vat.py": VAT_MODULE,
    "tests/test_vat.py": TEST_VAT,
} | {
    f"shop/tax/rates/{country}.toml": f'standard = "{high}"\nreduced = "{low}"\n'
    for country, (high, low) in RATES.items()
}

SHIPPING = {
    "shop/shipping/__init__.py": "",
    "shop/shipping/quote.py": QUOTE_MODULE,
    "shop/shipping/zones.csv": _zones(),
    "shop/checkout.py": NEW_CHECKOUT,
    "migrations/0002_country.sql": "ALTER TABLE orders ADD COLUMN country TEXT DEFAULT 'de';\n",
    "migrations/0003_postcode.sql": "ALTER TABLE orders ADD COLUMN postcode TEXT;\n",
    # Neither counts: a lock file, and what main's own .gitattributes call vendored.
    "uv.lock": "version = 1\n" + "".join(
        f'\n[[package]]\nname = "carrier-{country}"\nversion = "1.0.0"\n' for country in RATES
    ),
    "shop/static/vendor/htmx.js": "// htmx 2.0.4\n" + "var htmx = htmx || {};\n" * 400,
}  # fmt: skip

#: The change relaxes the rules that judge it, and marks everything as generated.
RELAXED = {
    "rlm-ci.toml": RULES.replace("= 25", "= 5000").replace("= 1200", "= 500000"),
    ".gitattributes": ATTRIBUTES + "* linguist-generated\n",
}

#: Each of these stubs is wrong in its own way; only the wish list's is right.
STUBS = {
    "docs/PRD-wishlist.md": stub("docs/PRD-wishlist.md", "Wish list"),
    "docs/PRD-gift-cards.md": stub("docs/PRD-gift-cards.md", "Gift cards"),
    "docs/PRD-returns.md": stub("docs/PRD-returns.md", "Returns"),
    "docs/PRD-newsletter.md": stub("docs/PRD-newsletter.md", "Newsletter"),
    "docs/PRD-loyalty.md": stub("docs/PRD-loyalty.md", "Loyalty", repository="acme-labs/shop"),
    "docs/TECH_SPEC-search.md": stub(
        "docs/TECH_SPEC-search.md", "Search, technically", archived=""
    ),
    "docs/ACTION_PLAN-stock.md": stub(
        "docs/ACTION_PLAN-stock.md", "Stock", archive_path="docs/PRD-search.md"
    ),
}

TITLE = "Ship to all of Europe"
BODY = f"""\
Taxes and shipping for the 27 countries of the Union.

Task: {TASK}
"""
LABELS = ("enhancement", "diff-budget-override")

#: What rlm-ci must find in this change.
EXPECTED_RULES = (
    "delegation-guard/no-subagent-manifest",
    "description/unsaid",
    "diff-budget/files",
    "diff-budget/lines",
    "diff-budget/override-incomplete",
    "diff-budget/path-budget",
    "doc-archive/dangling",
    "doc-archive/malformed",
    "doc-archive/open-items",
    "doc-archive/path-mismatch",
    "doc-archive/payload-is-stub",
    "doc-archive/wrong-target",
    "policy/edited",
)
