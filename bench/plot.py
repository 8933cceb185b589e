"""Plots as SVG. Every series has a colour and a shape of its own, every bar and axis its words.

The colours are distinguishable with colour blindness (Okabe and Ito's palette).
"""

import math
from html import escape

# Server: colour, shape of its mark.
LOOKS = {
    "howdah": ("#d55e00", "circle"), "howdah-again": ("#f0a875", "ring"),
    "howdah-classic": ("#7a3600", "stripe"), "howdah-rules": ("#ff9d3d", "left"),
    "howdah-observed": ("#b34700", "kite"),
    "howdah-fpm": ("#e03c31", "house"), "howdah-fpm-again": ("#f2a29c", "corner"), "howdah-fpm-tcp": ("#8f1d15", "flag"),
    "nginx-unix": ("#0072b2", "square"), "nginx-unix-511": ("#003f63", "frame"),
    "nginx-tcp": ("#7fb2d0", "bar"), "nginx-kept": ("#56b4e9", "diamond"),
    "apache": ("#009e73", "up"), "lighttpd": ("#cc79a7", "down"),
    "apache-rules": ("#6fcfb0", "right"), "unit": ("#b8860b", "cross"), "frankenphp": ("#666666", "plus"),
    "swoole": ("#8c564b", "pentagon"), "varnish": ("#5e3c99", "glass"),
}
PLAIN = ("#444444", "circle")
INK, GRID = "#222222", "#dddddd"
FONT = "font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\""


def look(name):
    """Colour and shape of a series."""
    return LOOKS.get(name, PLAIN)


def text(x, y, words, size=12, anchor="start", weight="normal", colour=INK, turn=None):
    """A line of text."""
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn is not None else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" '
            f'fill="{colour}"{turned}>{escape(words)}</text>')


def line(x1, y1, x2, y2, colour=GRID, width=1.0):
    """A straight line."""
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"/>')


def polygon(points, colour):
    """A filled shape."""
    return f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="{colour}"/>'


def mark(x, y, name, size=5.0):
    """The mark of a series."""
    colour, shape = look(name)
    r = size
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" fill="{colour}"/>'
    if shape == "ring":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r - 1}" fill="white" stroke="{colour}" stroke-width="2"/>'
    if shape in ("square", "frame"):
        fill = colour if shape == "square" else "white"
        return (f'<rect x="{x - r + 1:.1f}" y="{y - r + 1:.1f}" width="{2 * r - 2}" height="{2 * r - 2}" fill="{fill}" '
                f'stroke="{colour}" stroke-width="2"/>')
    if shape == "stripe":
        return f'<rect x="{x - size / 3:.1f}" y="{y - size:.1f}" width="{size / 1.5:.1f}" height="{2 * size:.1f}" fill="{colour}"/>'
    if shape == "bar":
        return f'<rect x="{x - r:.1f}" y="{y - 2:.1f}" width="{2 * r}" height="4" fill="{colour}"/>'
    if shape == "diamond":
        return polygon([(x, y - r - 1), (x + r + 1, y), (x, y + r + 1), (x - r - 1, y)], colour)
    if shape == "kite":
        return polygon([(x, y - r - 1), (x + r - 2, y - 1), (x, y + r + 1), (x - r + 2, y - 1)], colour)
    if shape == "up":
        return polygon([(x, y - r), (x + r, y + r - 1), (x - r, y + r - 1)], colour)
    if shape == "down":
        return polygon([(x, y + r), (x + r, y - r + 1), (x - r, y - r + 1)], colour)
    if shape == "left":
        return polygon([(x - r, y), (x + r - 1, y - r), (x + r - 1, y + r)], colour)
    if shape == "right":
        return polygon([(x + r, y), (x - r + 1, y - r), (x - r + 1, y + r)], colour)
    if shape == "pentagon":
        return polygon([(x, y - r), (x + r, y - 1), (x + r / 2, y + r), (x - r / 2, y + r), (x - r, y - 1)], colour)
    if shape == "house":
        return polygon([(x - r, y + r), (x - r, y - 1), (x, y - r), (x + r, y - 1), (x + r, y + r)], colour)
    if shape == "corner":
        return polygon([(x - r, y - r), (x + r, y - r), (x - r, y + r)], colour)
    if shape == "flag":
        return polygon([(x - r, y - r), (x + r, y - r), (x + r, y), (x - r, y + r)], colour)
    if shape == "glass":
        return polygon([(x - r, y - r), (x + r, y - r), (x - r, y + r), (x + r, y + r)], colour)
    if shape == "cross":
        return line(x - r + 1, y - r + 1, x + r - 1, y + r - 1, colour, 2.5) + line(x - r + 1, y + r - 1, x + r - 1, y - r + 1, colour, 2.5)
    return line(x - r, y, x + r, y, colour, 2.5) + line(x, y - r, x, y + r, colour, 2.5)


def picture(width, height, title, parts):
    """A whole SVG document on white."""
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" role="img" aria-label="{escape(title, quote=True)}" {FONT}>')
    back = f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>'
    return "\n".join([head, back, text(16, 26, title, 16, weight="bold"), *parts, "</svg>", ""])


def short(value):
    """A number in as few characters as say enough."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:.3g} M"
    if size >= 1e4:
        return f"{value / 1e3:.0f} k"
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def ceiling(value):
    """The next round number."""
    if value <= 0:
        return 1.0
    unit = 10 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * unit >= value * 0.9999)


PANEL, NAMES, VALUES, ROW, COLUMNS = 470, 200, 62, 20, 2


def bars(title, panels, unit):
    """Panels of horizontal bars. A panel is (title, [(series, words, value, low, high)]).

    Low and high, if there, are drawn as a thin line: the smallest and largest of the rounds.
    """
    parts, y, bottom = [text(16, 44, unit, 12, colour="#555555")], 64.0, 64.0
    for at, (name, rows) in enumerate(panels):
        x = 16.0 + (at % COLUMNS) * (PANEL + 24)
        if at % COLUMNS == 0:
            y = bottom
        parts.append(text(x, y + 16, name, 13, weight="bold"))
        top = ceiling(max([high or value for _, _, value, _, high in rows] + [0]))
        room = PANEL - NAMES - VALUES
        for number, (series, words, value, low, high) in enumerate(rows):
            middle = y + 34 + number * ROW
            width = max(value / top * room, 1)
            parts.append(mark(x + 6, middle, series, 4.5))
            parts.append(text(x + 18, middle + 4, words, 11))
            parts.append(f'<rect x="{x + NAMES:.1f}" y="{middle - 7:.1f}" width="{width:.1f}" height="14" '
                         f'fill="{look(series)[0]}"/>')
            end = width
            if low is not None and high is not None and high > low:
                left, right = (x + NAMES + bound / top * room for bound in (low, high))
                parts += [line(left, middle, right, middle, INK, 1.2), line(left, middle - 3, left, middle + 3, INK, 1.2),
                          line(right, middle - 3, right, middle + 3, INK, 1.2)]
                end = max(end, right - x - NAMES)
            parts.append(text(x + NAMES + end + 6, middle + 4, short(value), 11))
        bottom = max(bottom, y + 34 + len(rows) * ROW + 14)
    return picture(16 + COLUMNS * (PANEL + 24), bottom + 8, title, parts)


def lines(title, positions, series, unit, bottom_words, logarithmic=False):
    """Curves over named positions. `series` is {name: (words, {position: value})}."""
    width, height, left, top, right = 940, 470, 84, 62, 250
    across, down = width - left - right, height - top - 64
    values = [value for _, points in series.values() for value in points.values() if value and value > 0]
    if not values:
        return picture(width, 80, title, [text(16, 56, "Nothing was measured.")])
    high = ceiling(max(values))
    low = 10 ** math.floor(math.log10(min(values))) if logarithmic else 0.0
    if logarithmic:
        high = 10 ** math.ceil(math.log10(max(values)))

    def vertical(value):
        if logarithmic:
            share = (math.log10(max(value, low)) - math.log10(low)) / max(math.log10(high) - math.log10(low), 1e-9)
        else:
            share = value / high
        return top + down * (1 - share)

    def horizontal(position):
        return left + across * positions.index(position) / max(len(positions) - 1, 1)
    ticks = ([low * 10 ** n for n in range(round(math.log10(high / low)) + 1)] if logarithmic
             else [high * n / 5 for n in range(6)])
    parts = [text(16, 46, unit, 12, colour="#555555")]
    for tick in ticks:
        parts += [line(left, vertical(tick), left + across, vertical(tick)),
                  text(left - 8, vertical(tick) + 4, short(tick), 11, "end")]
    for position in positions:
        parts += [line(horizontal(position), top, horizontal(position), top + down),
                  text(horizontal(position), top + down + 20, f"{position:,}", 11, "middle")]
    parts.append(text(left + across / 2, top + down + 46, bottom_words, 12, "middle"))
    for number, (name, (words, points)) in enumerate(series.items()):
        colour = look(name)[0]
        places = [(horizontal(p), vertical(points[p])) for p in positions if points.get(p)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [mark(x, y, name) for x, y in places]
        y = top + 10 + number * 22
        parts += [line(left + across + 16, y, left + across + 44, y, colour, 2), mark(left + across + 30, y, name),
                  text(left + across + 52, y + 4, words, 11)]
    return picture(width, height, title, parts)


def steps(low, high):
    """Powers of ten from at most the smallest to at least the largest value."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def curves(title, positions, panels, names, unit, bottom_words):
    """Panels side by side with a logarithmic axis that all share. A panel is (title, {series: {position: value}}).

    `names` are {series: words}; the last value of each curve stands beside it.
    """
    left, top, gap, across, down = 62, 84, 56, 236, 260
    width, legend = left + len(panels) * (across + gap), top + down + 70
    values = [value for _, series in panels for points in series.values() for value in points.values() if value and value > 0]
    if not values:
        return picture(width, 80, title, [text(16, 56, "Nothing was measured.")])
    ticks = steps(min(values), max(values))

    def vertical(value):
        return top + down * (1 - math.log(value / ticks[0]) / math.log(ticks[-1] / ticks[0]))
    parts = [text(16, 46, unit, 12, colour="#555555")]
    for number, (words, series) in enumerate(panels):
        start = left + number * (across + gap)

        def horizontal(position, start=start):
            return start + across * (positions.index(position) + 0.5) / len(positions)
        parts.append(text(start, top - 12, words, 13, weight="bold"))
        for tick in ticks:
            parts.append(line(start, vertical(tick), start + across, vertical(tick)))
            if number == 0:
                parts.append(text(start - 8, vertical(tick) + 4, short(tick), 11, "end"))
        for position in positions:
            parts += [line(horizontal(position), top, horizontal(position), top + down),
                      text(horizontal(position), top + down + 20, f"{position:,}", 11, "middle")]
        parts.append(text(start + across / 2, top + down + 40, bottom_words, 11, "middle"))
        ends = []
        # The first series is drawn last, above the others.
        for name, points in reversed(series.items()):
            places = [(horizontal(p), vertical(points[p]), points[p]) for p in positions if points.get(p)]
            if not places:
                continue
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{look(name)[0]}" stroke-width="2"/>')
            parts += [mark(x, y, name) for x, y, _ in places]
            ends.append(places[-1])
        edge = horizontal(positions[-1])
        # A curve that ends before the others has its value above its end, where none of them passes.
        parts += [text(x + 9, y + 4, short(value), 11) for x, y, value in ends if x < edge]
        parts += [text(x + 9, y, short(value), 11) for x, y, value in apart([end for end in ends if end[0] == edge])]
    x = float(left)
    for name, words in names.items():
        parts += [line(x, legend, x + 28, legend, look(name)[0], 2), mark(x + 14, legend, name), text(x + 36, legend + 4, words, 11)]
        x += 66 + 6.2 * len(words)
    return picture(width, legend + 24, title, parts)


def apart(labels, room=13):
    """Labels (x, y, ...) at the height of their text, from the top down, moved so far down that none covers another."""
    found, lowest = [], -math.inf
    for x, y, *rest in sorted(labels, key=lambda label: label[1]):
        lowest = max(y + 4, lowest + room)
        found.append((x, lowest, *rest))
    return found
