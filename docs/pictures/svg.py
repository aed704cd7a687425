"""Drawing: the few elements of SVG that the pictures need. Lengths are in pixels, from the top left."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

SANS = "-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


class Drawing:
    """A picture of a fixed size that elements are added to, each above the ones before it."""

    def __init__(self, width: int, height: int, *, title: str, description: str) -> None:
        self._size = (width, height)
        self._words = (title, description)
        self._elements: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, **style: object) -> None:
        """Add a rectangle with round corners; `style` holds SVG attributes such as `fill`."""
        self._add("rect", {"x": x, "y": y, "width": width, "height": height, "rx": 8, **style})

    def circle(self, x: float, y: float, radius: float, **style: object) -> None:
        """Add a disc around (x, y)."""
        self._add("circle", {"cx": x, "cy": y, "r": radius, **style})

    def line(self, *points: tuple[float, float], **style: object) -> None:
        """Add a line through the points."""
        path = " L ".join(f"{_short(x)} {_short(y)}" for x, y in points)
        self._add("path", {"d": f"M {path}", "fill": "none", "stroke-width": 1.5, **style})

    def arrow(self, start: tuple[float, float], end: tuple[float, float], *, stroke: str) -> None:
        """Add a horizontal or vertical line that ends in a point."""
        (x0, y0), (x1, y1) = start, end
        along, up = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
        foot = (x1 - 7 * along, y1 - 7 * up)
        self.line(start, foot, stroke=stroke)
        sides = [(foot[0] + 4 * sign * abs(up), foot[1] + 4 * sign * abs(along)) for sign in (1, -1)]
        points = " ".join(f"{_short(x)},{_short(y)}" for x, y in [end, *sides])
        self._add("polygon", {"points": points, "fill": stroke})

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        fill: str,
        size: float = 13,
        font: str = SANS,
        bold: bool = False,
        anchor: str = "start",
        length: float | None = None,
    ) -> None:
        """Add one line of text with its baseline at y, spaces kept; `length` is the width it is stretched to."""
        style: dict[str, object] = {"font-size": size, "font-family": font, "xml:space": "preserve", "fill": fill}
        if bold:
            style["font-weight"] = 600
        if anchor != "start":
            style["text-anchor"] = anchor
        if length is not None:
            style["textLength"] = round(length)
        self._add("text", {"x": x, "y": y, **style}, words)

    def render(self) -> str:
        """Return the whole file."""
        (width, height), (title, description) = self._size, self._words
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">\n<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>\n'
        )
        return head + "\n".join(self._elements) + "\n</svg>\n"

    def _add(self, tag: str, attributes: dict[str, object], words: str | None = None) -> None:
        written = " ".join(f"{name}={quoteattr(_short(value))}" for name, value in attributes.items())
        self._elements.append(f"<{tag} {written}/>" if words is None else f"<{tag} {written}>{escape(words)}</{tag}>")


def _short(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
