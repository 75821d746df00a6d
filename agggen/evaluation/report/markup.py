"""HTML and SVG that cannot be broken out of: what is not markup is text, and text is escaped.

element("p", "1 < 2", class_="note")    # <p class="note">1 &lt; 2</p>
element("p", element("b", "x"), " & y") # <p><b>x</b> &amp; y</p>
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

_VOID = {"meta", "hr", "br", "rect", "line", "path", "circle"}
# Controls, halves of surrogate pairs and non-characters, which no HTML page may hold.
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


class Html(str):
    """Markup that is ready to be put into a page. Only this module makes it from text."""

    __slots__ = ()


def text(value: str) -> Html:
    """`value` as it is to be read, whatever it holds; a character that no page may hold becomes U+FFFD."""
    return value if isinstance(value, Html) else Html(escape(_NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", value)))


def join(parts: Iterable[str]) -> Html:
    """Markup and texts after each other."""
    return Html("".join(text(part) for part in parts))


def element(name: str, /, *content: str, **attributes: str | int | float | None) -> Html:
    """``<name ...>content</name>``; an attribute that is None is left out.

    Attributes are named as in Python: ``class_``, ``aria_label``, ``stroke_width``; ``viewBox`` keeps its case.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{given}/>")
    return Html(f"<{name}{given}>{join(content)}</{name}>")
