"""Draw docs/comment.png: the comment of the example pull request, as GitHub shows it.

The text is what `rlm-ci pr` wrote for the example of `make demo`; a GitHub-flavoured
Markdown parser and headless Chromium do the rest. Needs Chromium, a colour emoji font and the
dev environment.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cmarkgfm
from cmarkgfm.cmark import Options

TOP = Path(__file__).resolve().parent.parent
COMMENT = TOP / "build" / "demo" / "example" / "comment.md"
PICTURE = TOP / "docs" / "comment.png"
SIZE = "920,900"
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
tr:nth-child(even) { background: #f6f8fa; } li { margin: .25em 0; }
</style><div class="box"><div class="who"><b>github-actions</b> bot commented</div>
<div class="text">@TEXT@</div></div>"""


def main() -> int:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None or not COMMENT.exists():
        print("error: Chromium and build/demo are needed")
        print("hint: install chromium, then: make demo")
        return 4
    markdown = COMMENT.read_text(encoding="utf-8")
    html = cmarkgfm.github_flavored_markdown_to_html(
        markdown, Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_HARDBREAKS
    )
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "comment.html")
        page.write_text(PAGE.replace("@TEXT@", html), encoding="utf-8")
        subprocess.run(
            [
                chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
                "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
                "--disable-component-update", "--disable-sync", "--force-device-scale-factor=1.5",
                f"--user-data-dir={folder}/profile", f"--window-size={SIZE}",
                f"--screenshot={PICTURE}", page.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )  # fmt: skip
    print(f"written: {PICTURE.relative_to(TOP)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
