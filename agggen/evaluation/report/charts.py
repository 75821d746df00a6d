"""Bar charts as inline SVG: labelled axes, the value at each bar, patterns beside colours, a text alternative.

Colours come from the page's style (`agggen.evaluation.report.style`), so that a chart follows light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from agggen.evaluation.report.content import Chart, Series, shown
from agggen.evaluation.report.markup import Html, element

_WIDTH = 720
_HEIGHT = 300  # of the bars' area, where they stand
_LEFT, _TOP, _BOTTOM = 64, 40, 56
_BAR = 16  # height of a lying bar
_PATTERNS = ("", "M0,6 L6,0", "M0,3 L6,3", "M1,1 L2,1 M4,4 L5,4")
"""What is drawn over the bars of each series: nothing, slanted lines, level lines, dots."""


def draw(chart: Chart, identifier: str) -> Html:
    """The chart as an SVG element; `identifier` must be unique in the page."""
    parts = _lying(chart, identifier) if chart.horizontal else _standing(chart, identifier)
    width, height, marks = parts
    return element(
        "svg",
        element("title", chart.title, id=f"{identifier}-title"),
        element("desc", _alternative(chart), id=f"{identifier}-desc"),
        element("defs", *(_pattern(identifier, number) for number in range(1, len(chart.series)))),
        *_legend(chart, identifier),
        *marks,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_labelledby=f"{identifier}-title {identifier}-desc",
        class_="chart",
    )


def ticks(highest: float, number: int = 5) -> list[float]:
    """Round values from 0 up to at least `highest`, about `number` of them."""
    if not (math.isfinite(highest) and highest > 0):
        return [0.0, 1.0]
    rough = highest / number
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [index * step for index in range(math.ceil(highest / step - 1e-9) + 1)]


def _standing(chart: Chart, identifier: str) -> tuple[float, float, list[Html]]:
    axis = ticks(_highest(chart))
    base = _TOP + _HEIGHT
    right = _WIDTH - 12
    marks: list[Html] = []
    for tick in axis:
        y = base - _HEIGHT * tick / axis[-1]
        marks += [_line(_LEFT, y, right, y), _label(_LEFT - 8, y + 4, f"{tick:g}", "end")]
    slot = (right - _LEFT) / max(len(chart.categories), 1)
    bar = min(0.8 * slot / len(chart.series), 64.0)
    for place, category in enumerate(chart.categories):
        middle = _LEFT + slot * (place + 0.5)
        marks.append(_label(middle, base + 18, category, "middle"))
        for number, series in enumerate(chart.series):
            value = series.values[place]
            if value is None or not math.isfinite(value):
                continue
            x = middle + bar * (number - len(chart.series) / 2)
            height = _HEIGHT * max(value, 0.0) / axis[-1]
            marks += _bar(identifier, number, x + 1, base - height, bar - 2, height)
            marks.append(_label(x + bar / 2, base - height - 4, _brief(value), "middle", "value"))
    marks += [
        _label((_LEFT + right) / 2, base + 44, chart.category_label, "middle", "axis"),
        _label(16, _TOP + _HEIGHT / 2, chart.value_label, "middle", "axis", f"rotate(-90 16 {_TOP + _HEIGHT / 2:g})"),
    ]
    return _WIDTH, base + _BOTTOM, marks


def _lying(chart: Chart, identifier: str) -> tuple[float, float, list[Html]]:
    axis = ticks(_highest(chart))
    left = 12 + 7.2 * min(max(map(len, chart.categories), default=0), 36)
    right = _WIDTH - 48
    slot = _BAR * len(chart.series) + 8
    base = _TOP + slot * len(chart.categories)
    marks: list[Html] = []
    for tick in axis:
        x = left + (right - left) * tick / axis[-1]
        marks += [_line(x, _TOP, x, base), _label(x, base + 16, f"{tick:g}", "middle")]
    for place, category in enumerate(chart.categories):
        top = _TOP + slot * place + 4
        name = category if len(category) <= 36 else category[:35] + "…"
        marks.append(_label(left - 6, top + (slot - 8) / 2 + 4, name, "end"))
        for number, series in enumerate(chart.series):
            value = series.values[place]
            if value is None or not math.isfinite(value):
                continue
            width = (right - left) * max(value, 0.0) / axis[-1]
            marks += _bar(identifier, number, left, top + _BAR * number + 1, width, _BAR - 2)
            marks.append(_label(left + width + 4, top + _BAR * number + 12, _brief(value), "start", "value"))
    marks += [
        _label((left + right) / 2, base + 40, chart.value_label, "middle", "axis"),
        _label(left - 6, _TOP - 6, chart.category_label, "end", "axis"),
    ]
    return _WIDTH, base + _BOTTOM, marks


def _highest(chart: Chart) -> float:
    values = [v for series in chart.series for v in series.values if v is not None and math.isfinite(v)]
    return max(values, default=0.0)


def _brief(value: float) -> str:
    return (
        f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.1f}" if value >= 1 else f"{value:.2f}"
    )


def _bar(identifier: str, number: int, x: float, y: float, width: float, height: float) -> Iterable[Html]:
    box = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{max(width, 0):.1f}", "height": f"{max(height, 0):.1f}"}
    yield element("rect", class_=f"bar s{number % len(_PATTERNS)}", **box)
    if number:
        yield element("rect", fill=f"url(#{identifier}-p{number})", **box)


def _pattern(identifier: str, number: int) -> Html:
    lines = element("path", d=_PATTERNS[number % len(_PATTERNS)], class_="hatch")
    size: dict[str, str | int] = {"width": 6, "height": 6, "patternUnits": "userSpaceOnUse"}
    return element("pattern", lines, id=f"{identifier}-p{number}", **size)


def _legend(chart: Chart, identifier: str) -> Iterable[Html]:
    if len(chart.series) < 2:
        return
    x = float(_LEFT)
    for number, series in enumerate(chart.series):
        yield from _bar(identifier, number, x, 6, 14, 14)
        yield _label(x + 20, 18, series.name, "start")
        x += 44 + 7.2 * len(series.name)


def _line(x1: float, y1: float, x2: float, y2: float) -> Html:
    return element("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", class_="grid")


def _label(x: float, y: float, what: str, anchor: str, kind: str = "tick", transform: str | None = None) -> Html:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text_anchor": anchor, "transform": transform}
    return element("text", what, class_=kind, **place)


def _alternative(chart: Chart) -> str:
    """The chart in words, every value of it: what a screen reader says."""

    def said(series: Series) -> str:
        pairs = zip(chart.categories, series.values, strict=True)
        return f"{series.name}: " + ", ".join(f"{category} {shown(value)}" for category, value in pairs)

    what = f"Bar chart of {chart.value_label} by {chart.category_label}. "
    return what + ". ".join(map(said, chart.series)) + "."
