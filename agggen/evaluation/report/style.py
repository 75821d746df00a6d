"""The style of the page: light, dark and print, with the same names for colours everywhere.

Pairs of text and background keep a contrast of at least 4.5 to 1 (WCAG 2.2, 1.4.3), bars one of at least 3 to 1
against the page (1.4.11); `tests/unit/evaluation/test_report_page.py` computes them from these values.
"""

from __future__ import annotations

FACTS = 6
"""Colours for facts; a text with more facts starts over, and the numbers tell them apart."""

LIGHT = {
    "page": "#ffffff",
    "panel": "#f5f6f8",
    "ink": "#1b1d21",
    "faint": "#565b64",
    "rule": "#767c87",
    "link": "#0b4fb3",
    "alarm-ink": "#8c1010",
    "alarm": "#fdecea",
    "s0": "#2b5fa8",
    "s1": "#b45309",
    "s2": "#2e7d32",
    "s3": "#7b3fa0",
    "f0": "#ffe39a",
    "f1": "#bfe4ff",
    "f2": "#cdf2c9",
    "f3": "#f8cfe6",
    "f4": "#e2d6ff",
    "f5": "#ffd6bd",
}
DARK = {
    "page": "#14161a",
    "panel": "#1e2127",
    "ink": "#eceef2",
    "faint": "#b0b6c1",
    "rule": "#868d99",
    "link": "#8fbcff",
    "alarm-ink": "#ffb4ab",
    "alarm": "#3b1414",
    "s0": "#7aaef5",
    "s1": "#f0a04b",
    "s2": "#7cc97f",
    "s3": "#cf9bf0",
    "f0": "#5a4300",
    "f1": "#0c4568",
    "f2": "#1e4f1c",
    "f3": "#5f1f49",
    "f4": "#40307c",
    "f5": "#6a3312",
}

_RULES = """
* { box-sizing: border-box; }
html { font: 16px/1.5 system-ui, sans-serif; background: var(--page); color: var(--ink); }
body { max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--rule); padding-bottom: .2rem; }
a { color: var(--link); }
a:focus-visible, summary:focus-visible, .scroll:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: .5rem; background: var(--page); padding: .5rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; list-style: none; padding: 0; }
.note { color: var(--faint); max-width: 48rem; }
.partial { background: var(--alarm); color: var(--alarm-ink); border: 2px solid var(--alarm-ink); padding: .6rem 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0; }
caption { text-align: left; font-weight: 600; padding: .4rem 0; }
th, td { padding: .25rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.signature { font-family: ui-monospace, monospace; font-size: .75rem; overflow-wrap: anywhere; min-width: 16rem; }
tr.ours > * { background: var(--panel); font-weight: 700; }
code, .plan { font-family: ui-monospace, monospace; font-size: .85rem; overflow-wrap: anywhere; }
.sample { border: 1px solid var(--rule); border-radius: .4rem; padding: .2rem 1rem .6rem; margin: 1rem 0; }
.sample h3 { margin: .6rem 0; font-size: 1rem; overflow-wrap: anywhere; }
.written { font-size: 1.05rem; line-height: 2; overflow-wrap: anywhere; }
mark { color: var(--ink); padding: .1rem .2rem; border-bottom: 2px solid var(--ink); border-radius: .2rem; }
mark b, .key b { font-size: .75rem; border: 1px solid var(--ink); border-radius: .6rem; padding: 0 .35rem; }
mark b { margin-right: .3rem; }
.wrong { color: var(--alarm-ink); font-weight: 600; }
summary { cursor: pointer; }
figure { margin: 1rem 0; }
.chart { width: 100%; max-width: 45rem; height: auto; display: block; }
.chart text { fill: var(--ink); font: 12px system-ui, sans-serif; }
.chart text.axis { font-weight: 600; }
.chart text.value { font-size: 10px; }
.chart .grid { stroke: var(--rule); stroke-width: .5; }
.chart .hatch { stroke: var(--page); stroke-width: 1.5; fill: none; }
@media print {
  nav, .skip { display: none; }
  body { max-width: none; padding: 0; }
  .sample, tr, .chart { break-inside: avoid; }
  .scroll { overflow: visible; }
  details::details-content { content-visibility: visible; height: auto; }
  mark, tr.ours > *, .bar { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def style() -> str:
    """The content of the page's style element."""
    numbered = [f"mark.f{number}, .key.f{number} b {{ background: var(--f{number}); }}" for number in range(FACTS)]
    lines = ("solid", "dashed", "dotted", "double")
    numbered += [f"mark.f{number} {{ border-bottom-style: {lines[number % 4]}; }}" for number in range(FACTS)]
    numbered += [f".bar.s{number} {{ fill: var(--s{number}); }}" for number in range(4)]
    return "\n".join(
        [
            f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}",
            f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}",
            "@media print { :root { color-scheme: light; } }",
            _RULES.strip(),
            *numbered,
            "",
        ]
    )


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())
