"""The page of a run in a browser: what it shows, by keys too, of hostile runs and of huge ones."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import TYPE_CHECKING

import pytest

from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report.proof import Proof
from rlm_ci.viewer import page
from rlm_ci.viewer.steps import DONE, FAILED, ViewedRun, ViewedStep
from testing import browser
from testing.viewed_page import data_of

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hunter2-hunter2-hunter2"
EVIL = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<!--<script> \u202egnp.exe \x1b[31m ##[error]x\n::error::y"
)
#: Drives pages in frames as a user would, and leaves what it saw as JSON.
DRIVER = """<!doctype html><body><script>
const frame = (name) => new Promise((done) => {
  const made = document.createElement('iframe');
  made.style.cssText = 'width:1200px;height:800px'; made.src = name;
  made.onload = () => done(made.contentWindow); document.body.append(made);
});
const seen = {};
const press = (page, key, where) =>
  (where || page.document.activeElement || page.document.body).dispatchEvent(
    new page.KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
const all = (page, what) => [...page.document.querySelectorAll(what)];
const words = (page, what) => all(page, what).map((one) => one.textContent);
const type = (page, text) => {
  const input = page.document.querySelector('input');
  input.focus(); input.value = text; input.dispatchEvent(new page.Event('input', {bubbles: true}));
};
addEventListener('load', async () => {
  const evil = await frame('evil.html');
  const tree = evil.document.querySelector('[role=tree]');
  seen.titles = words(evil, '.row .what');
  seen.owned = [evil.document.title, all(evil, 'img').length, all(evil, 'script').length];
  seen.roles = all(evil, '[role=treeitem]').map((one) => one.getAttribute('aria-level'));
  press(evil, 'ArrowDown', tree); press(evil, 'ArrowDown', tree);
  seen.path = words(evil, '.crumbs button');
  seen.detail = evil.document.querySelector('.detail').textContent;
  press(evil, 'ArrowLeft', tree); press(evil, 'ArrowLeft', tree);
  seen.closed = all(evil, '.row').length;
  press(evil, 'ArrowRight', tree);
  press(evil, 'Enter', tree);
  seen.reads = evil.document.activeElement.className;
  const before = evil.document.documentElement.dataset.theme;
  press(evil, 't', tree);
  seen.themes = [before, evil.document.documentElement.dataset.theme].sort();
  press(evil, '?', tree);
  seen.help = evil.document.querySelector('dialog').open;
  evil.document.querySelector('dialog').close();
  seen.tabs = {};
  for (const key of '23456') {
    press(evil, key, tree);
    const shown = all(evil, '[role=tabpanel]').filter((one) => !one.hidden);
    seen.tabs[key] = shown.map((one) => one.textContent).join('|');
  }
  press(evil, '/', evil.document.body);
  seen.searching = evil.document.activeElement.type;
  const big = await frame('big.html');
  seen.ready = Number(big.document.documentElement.dataset.ready) > 0;
  seen.drawn = all(big, '.row').length;
  type(big, 'needle 9876 ');
  seen.found = [words(big, '.count')[0], words(big, '.row .what').at(-1)];
  press(big, 'Escape');
  press(big, 'e', big.document.body);
  press(big, 'End', big.document.querySelector('[role=tree]'));
  seen.last = words(big, '.row[aria-selected=true] .what');
  seen.high = parseFloat(big.document.querySelector('.space').style.height) / 28;
  const told = document.createElement('pre');
  told.textContent = JSON.stringify(seen);
  document.body.replaceChildren(told);
});
</script>"""


def hostile() -> ViewedRun:
    root = ViewedStep("run", EVIL, DONE)
    root.took(0.0, 10.0)
    phase = root.add(ViewedStep("iteration", "Iteration 1", FAILED))
    phase.took(1.0, 9.0)
    call = phase.add(ViewedStep("call", EVIL, DONE))
    call.model, call.calls, call.order, call.cost = EVIL, 1, 1, 0.25
    call.prompt_tokens, call.completion_tokens = 1000, 20
    call.tell(EVIL, EVIL)
    call.show("Prompt", f"{EVIL}\nthe password is {SECRET}\n\tindented")
    call.new_findings = [{"rule": "review/x", "evidence": [{"path": "a.py", "line_start": 3}]}]
    finding = {
        "rule": "review/x", "severity": "high", "message": EVIL, "confidence": 0.5,
        "evidence": [{"path": "a.py", "line_start": 3, "line_end": 3, "quote": EVIL}],
        "proof": {**dict.fromkeys(Proof._fields, EVIL), "level": "proven"},
    }  # fmt: skip
    return ViewedRun(
        "run-1", "review", EVIL, "failed", True, EVIL, 1.7e9, root,
        facts=((EVIL, EVIL),), budgets={"budget_usd": 1.0}, findings=(finding,),
        documents=({"path": EVIL, "text": EVIL},), diffs=((EVIL, f"+{EVIL}"),),
        events=((0.5, EVIL),), problems=(EVIL,),
    )  # fmt: skip


def huge(steps: int, text: str = "") -> ViewedRun:
    root = ViewedStep("run", "big", DONE)
    made = [root]
    for number in range(1, steps):
        step = made[(number - 1) // 20].add(ViewedStep("node", f"file {number}", DONE))
        step.show("Prompt", f"needle {number} {text}")
        made.append(step)
    return ViewedRun("run-2", "review", "big", "succeeded", True, "", 0.0, root)


@pytest.mark.full
def test_a_hostile_run_and_a_huge_one_in_a_browser(tmp_path: Path) -> None:
    redact = Redactor({"MY_PASSWORD": SECRET}).text
    evil = page.render(hostile(), redact)
    assert SECRET not in evil
    assert "##[" not in evil
    assert not re.search(r"^\s*::", evil, re.MULTILINE)
    assert "\x1b" not in evil
    assert "\u202e" not in evil
    (tmp_path / "evil.html").write_text(evil, encoding="utf-8")
    (tmp_path / "big.html").write_text(page.render(huge(10_000), redact), encoding="utf-8")
    (tmp_path / "driver.html").write_text(DRIVER, encoding="utf-8")
    with browser.served(tmp_path) as (url, asked):
        said = browser.chromium(f"{url}/driver.html", tmp_path, "--dump-dom")
    found = re.search(r"<pre>(.*)</pre>", said, re.DOTALL)
    assert found, said[-2000:]
    seen = json.loads(unescape(found[1]))
    assert {"/evil.html", "/big.html"} <= set(asked) <= {
        "/driver.html", "/evil.html", "/big.html", "/favicon.ico"
    }  # fmt: skip
    assert seen["owned"][0] != "owned"
    assert seen["owned"][1:] == [0, 2]
    assert seen["titles"][1] == "Iteration 1"
    assert seen["titles"][0].startswith("</script><script>")
    assert seen["roles"] == ["1", "2", "3"]
    assert seen["path"][1] == "Iteration 1"
    assert "the password is [redacted]" in seen["detail"]
    assert "\\u202egnp.exe \\x1b[31m" in seen["detail"]
    assert seen["closed"] == 2
    assert seen["reads"] == "detail"
    assert seen["themes"] == ["dark", "light"]
    assert seen["help"] is True
    tabs = seen["tabs"]
    assert "$0.25" in tabs["3"]
    assert "limit $1.00" in tabs["3"]
    assert "+1 −0" in tabs["4"]
    assert "found by Iteration 1 ›" in tabs["5"]
    assert "confidence 0.5" in tabs["5"]
    assert "budget_usd" in tabs["6"]
    assert seen["searching"] == "search"
    assert seen["ready"] is True
    assert 20 < seen["drawn"] < 100  # only what can be seen is in the page
    assert seen["found"] == ["1 of 10,000", "file 9876"]
    assert seen["last"] == ["file 8420"]
    assert seen["high"] == 10_000


@pytest.mark.full
def test_what_a_page_leaves_out_it_says() -> None:
    shown = data_of(page.render(huge(20_500, "x" * 1_200), str))
    assert len(shown["steps"]) == 20_000
    told = "; ".join(shown["left_out"])
    assert "500 of 20,500 steps" in told
    assert "at most 1,000 characters of each are shown" in told
    texts = [one[1] for step in shown["steps"] for one in step[-1]]
    assert "characters left out" in texts[0]
    assert sum(map(len, texts)) < 24_000_000
    hidden = [step for step in shown["steps"] if ["not shown", "20 steps below"] in step[-2]]
    assert hidden


def test_what_is_argued_is_chosen_by_confidence_and_a_line_comes_before_architecture() -> None:
    findings: tuple[dict[str, object], ...] = tuple(
        {"rule": f"review/{name}", "severity": "medium", "message": name, "domain": domain,
         "confidence": sure, "suppression": None, "evidence": [], "proof": {"level": "argued"}}
        for name, domain, sure in (
            ("layers", "architecture", 0.95), ("unsure", "quality", None),
            ("sure", "quality", 0.9), ("surer", "security", 0.93),
        )
    )  # fmt: skip
    run = huge(1).replace(findings=findings)
    shown = [one["rule"] for one in data_of(page.render(run, str))["findings"]]
    assert shown == ["review/surer", "review/sure", "review/unsure"]
