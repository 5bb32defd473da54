"""Draw the pictures of docs/: the comment of the example pull request, and its page.

Both are what `rlm-ci pr` wrote for the example of `make demo`. The comment goes through a
GitHub-flavoured Markdown parser; the page is shown on a desk and on a phone, light and dark. Needs
Chromium and the dev environment. `docs/pictures.json` keeps the hashes of what they show, so that
a test can say when they are stale.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cmarkgfm
from cmarkgfm.cmark import Options

TOP = Path(__file__).resolve().parent.parent
EXAMPLE = TOP / "build" / "demo" / "example"
COMMENT = EXAMPLE / "comment.md"
REPORT = EXAMPLE / "report.html"
#: The hashes of what the pictures show.
SHOWN = TOP / "docs" / "pictures.json"
TEMPLATES = ("comment.md.j2", "details.md.j2", "overview.md.j2", "report.html.j2", "review.md.j2")
#: Width and height in CSS pixels, and how many pixels of the picture are one of them.
COMMENT_SIZE = (920, 900, 1.5)
REPORT_SIZES = {"wide": (1280, 1100, 1), "narrow": (400, 1100, 1)}
#: What Chromium answers to `prefers-color-scheme`.
SCHEMES = {"dark": 0, "light": 1}
PAGE = """<!doctype html><meta charset="utf-8"><style>
body { margin: 0; padding: 24px; background: #f6f8fa; color: #1f2328;
  font: 14px/1.5 "Segoe UI", "Noto Sans", "DejaVu Sans", Helvetica, Arial, sans-serif; }
.box { border: 1px solid #d1d9e0; border-radius: 6px; background: #fff; overflow: hidden; }
.who { padding: 10px 16px; background: #f6f8fa; border-bottom: 1px solid #d1d9e0; color: #59636e; }
.who b { color: #1f2328; } .text { padding: 4px 16px; }
h2 { font-size: 1.5em; } h3 { font-size: 1.25em; } h4 { font-size: 1em; }
h2, h3 { padding-bottom: .3em; border-bottom: 1px solid #d1d9e0b3; }
a { color: #0969da; text-decoration: none; }
code, pre { font: 85% "DejaVu Sans Mono", "Liberation Mono", monospace; }
code { padding: .2em .4em; background: #818b981f; border-radius: 6px; font-size: 85%; }
pre { padding: 12px; background: #f6f8fa; border-radius: 6px; overflow: hidden; }
pre code { padding: 0; background: none; font-size: 100%; }
table { border-collapse: collapse; } th, td { padding: 6px 13px; border: 1px solid #d1d9e0; }
.emoji { display: inline-block; width: 1em; height: 1em; line-height: 1em; font-size: .95em;
  text-align: center; color: #fff; font-weight: bold; border-radius: 3px; vertical-align: -.1em; }
.dot { border-radius: 50%; } tr:nth-child(even) { background: #f6f8fa; } li { margin: .25em 0; }
</style><div class="box"><div class="who"><b>github-actions</b> bot commented</div>
<div class="text">@TEXT@</div></div>"""


#: GitHub draws its emoji itself, and no font here has to: the sign in white, its ground, its shape.
EMOJI = {
    "✅": ("✓", "#2da44e", ""), "❌": ("✕", "#cf222e", ""), "⚠️": ("!", "#bf8700", ""),
    "➖": ("–", "#6e7781", ""), "⛔": ("–", "#cf222e", " dot"), "🔴": ("", "#d1242f", " dot"),
    "🟠": ("", "#e36209", " dot"), "🟡": ("", "#e3b341", " dot"), "🔵": ("", "#0969da", " dot"),
    "⚪": ("", "#d0d7de", " dot"),
}  # fmt: skip


def main() -> int:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None or not COMMENT.exists():
        print("error: Chromium and build/demo are needed")
        print("hint: install chromium, then: make demo")
        return 4
    html = cmarkgfm.github_flavored_markdown_to_html(
        COMMENT.read_text(encoding="utf-8"), Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_HARDBREAKS
    )
    for emoji, (sign, ground, shape) in EMOJI.items():
        drawn = f'<span class="emoji{shape}" style="background: {ground}">{sign}</span>'
        html = html.replace(emoji, drawn)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "comment.html")
        page.write_text(PAGE.replace("@TEXT@", html), encoding="utf-8")
        draw(chromium, page, "comment", COMMENT_SIZE, "light")
    for name, size in REPORT_SIZES.items():
        for scheme in SCHEMES:
            draw(chromium, REPORT, f"report-{name}-{scheme}", size, scheme)
    hashes = {"comment": comment_hash(COMMENT.read_text(encoding="utf-8")), **template_hashes()}
    SHOWN.write_text(json.dumps(hashes, indent=2) + "\n", encoding="utf-8")
    return 0


def comment_hash(comment: str) -> str:
    """The SHA-256 of the part of the comment that its picture shows, without closed details."""
    opened = re.sub(r"<details>.*?</details>", "", comment, flags=re.DOTALL)
    return hashlib.sha256(opened.partition("diff-budget/lines")[0].encode()).hexdigest()


def template_hashes() -> dict[str, str]:
    """The SHA-256 of each template of the pictures, by its path from the top."""
    paths = [TOP / "templates" / name for name in TEMPLATES]
    return {
        path.relative_to(TOP).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def draw(chromium: str, page: Path, name: str, size: tuple[int, int, float], scheme: str) -> None:
    picture = TOP / "docs" / f"{name}.png"
    width, height, scale = size
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
                "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
                "--disable-component-update", "--disable-sync",
                f"--force-device-scale-factor={scale}", f"--user-data-dir={profile}",
                f"--window-size={width},{height}", f"--screenshot={picture}",
                f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}", page.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )  # fmt: skip
    print(f"written: {picture.relative_to(TOP)}")


if __name__ == "__main__":
    sys.exit(main())
