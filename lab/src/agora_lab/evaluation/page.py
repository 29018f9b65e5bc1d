"""A report as one page of HTML that fetches nothing and runs nothing."""

import base64
import hashlib
from collections.abc import Sequence
from html import escape

from agora_lab.evaluation.blocks import Block
from agora_lab.evaluation.plots import COLOURS

_STYLE = """
:root {
  --page: #f6f7f9; --card: #ffffff; --ink: #1b1f27; --soft: #565e6c; --line: #dfe3e8;
  --good: #17693a; --bad: #a3261b; --paper: #a3268a; --well: #eef1f5; color-scheme: light dark;
}
@media (prefers-color-scheme: dark) { :root {
  --page: #12151a; --card: #1b2027; --ink: #e8ebf0; --soft: #a4adbb; --line: #313843;
  --good: #7fd69c; --bad: #ff9f92; --paper: #f08bd8; --well: #242a33;
} }
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 1380px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 8px; }
h2 { font-size: 1.3rem; margin: 38px 0 8px; padding-top: 14px; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 22px 0 6px; }
p { max-width: 76ch; margin: 8px 0; }
code { background: var(--well); border-radius: 4px; padding: 0 4px; font-size: .92em; }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; margin: 10px 0; }
figure .wide { padding: 12px; }
table { border-collapse: collapse; font-size: .86rem; width: 100%; }
th, td { text-align: left; padding: 5px 10px; border-bottom: 1px solid var(--line);
  vertical-align: top; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td.short { white-space: nowrap; }
tbody tr:last-child td { border-bottom: 0; }
figure { margin: 10px 0; }
figcaption { color: var(--soft); font-size: .88rem; max-width: 90ch; }
.is-paper { color: var(--paper); } .is-good { color: var(--good); font-weight: 600; }
.is-bad { color: var(--bad); font-weight: 600; } .is-soft { color: var(--soft); }
.is-head, .is-bold { font-weight: 600; }
svg { display: block; max-width: none; }
"""


def page(title: str, blocks: Sequence[Block]) -> str:
    """Return the page. Its policy lets nothing be fetched and no script run."""
    style = _STYLE + COLOURS
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    inside = "\n".join(block.html() for block in blocks)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f"{inside}\n</main>\n</body>\n</html>\n"
    )
