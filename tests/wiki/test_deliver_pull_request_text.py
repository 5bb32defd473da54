"""The text of the pull request: pages with reasons, lost sentences, cost; all else is data."""

from __future__ import annotations

from rlm_ci.report.findings import Usage
from rlm_ci.wiki.deliver import RefreshCost, body_of
from rlm_ci.wiki.pages.citations import CitedPlace, HashedPlace
from rlm_ci.wiki.update.kept_prose import LINES_GONE
from rlm_ci.wiki.update.state import PageState, Prose, ProseSentence, QuotedLines, WikiState
from testing.markup_judges import LINKED, github_html

QUOTE = QuotedLines("shop.py", 4, 5, "one")
HOSTILE = "a|b`<img src=x>@ada.py"


def page(path: str, quote: str) -> PageState:
    return PageState(quote, quote, None, (HashedPlace(CitedPlace(path, 1, 1), quote),))


def state(path: str, quote: str, *texts: str) -> WikiState:
    said = tuple(ProseSentence(text, (QUOTE,)) for text in texts)
    return WikiState(
        pages={"index.md": page(path, quote)}, prose={"shop.py": Prose("", "m", said)}
    )  # fmt: skip


def test_pages_lost_sentences_and_cost() -> None:
    old = state("shop.py", "one", "Prices are net.", "It sells.")
    new = state("shop.py", "two", "It sells.", "It buys.")
    usage = Usage(3, 0, 2000, 60, 0.0012)
    why, _ = LINES_GONE
    text = body_of("docs/wiki", old, new, RefreshCost(usage, {"Prices are net.": why}))
    assert text.split("\n\n")[1:] == [
        "| page | why |\n|---|---|\n| `index.md` | lines that it cites changed: `shop.py` |",
        "**Sentences of a model:** 1 kept, 1 new, 1 lost.",
        "- `shop.py#L4-L5`, its lines are gone: Prices are net.",
        "**Cost of the last refresh:** 3 calls, 2,060 tokens, $0.0012.\n",
    ]


def test_a_first_wiki_without_a_model() -> None:
    text = body_of("docs/wiki", None, state("shop.py", "one"), RefreshCost())
    assert "| `index.md` | it is new |" in text
    assert "Sentences" not in text
    assert text.endswith("**Cost:** none, no model was asked.\n")


def test_names_and_sentences_are_data() -> None:
    said = "Ping @ada [here](https://evil.example) <b>now</b> | ::error::x #1"
    old, new = state(HOSTILE, "one", said), state(HOSTILE, "two")
    text = body_of("docs/wiki", old, new, RefreshCost())
    html = github_html(text)
    tags = {element.tag for element in html.root.all()}
    assert tags <= {
        "p",
        "code",
        "strong",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "ul",
        "li",
        "span",
    }
    assert not any(LINKED.search(one) for one in html.root.prose())
    many = WikiState(pages={f"modules/m{at}.md": page("a.py", str(at)) for at in range(5_000)})
    long = body_of("docs/wiki", None, many, RefreshCost())
    assert "And 4,950 other pages." in long
    assert len(long) < 60_000
