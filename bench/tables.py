"""Tables in Markdown, and Markdown of this kind in HTML."""

import re
from html import escape


def markdown(columns, rows):
    """A table; the first column is text, the others are figures and stand right."""
    def cell(value):
        return str(value).replace("|", "\\|").replace("\n", " ")
    lines = ["| " + " | ".join(map(cell, columns)) + " |",
             "| --- |" + " ---: |" * (len(columns) - 1)]
    lines += ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def count(value):
    """A whole number with separators, or a dash."""
    return "–" if value is None else f"{value:,.0f}"


def micro(seconds):
    """Microseconds."""
    return "–" if seconds is None else f"{seconds * 1e6:,.0f}" if seconds >= 1e-4 else f"{seconds * 1e6:.1f}"


def milli(seconds):
    """Milliseconds."""
    if seconds is None:
        return "–"
    value = seconds * 1e3
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def times(value):
    """A ratio."""
    return "–" if value is None else f"{value:.2f} ×"


def mebibytes(size):
    """Memory."""
    return "–" if size is None else f"{size / 2**20:.1f}"


def inline(text):
    """Code, emphasis and links of a line of Markdown."""
    text = escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", r'<a href="\2">\1</a>', text)


def html(text, pictures):
    """Headings, paragraphs, tables and pictures; a picture is put in as the SVG it is."""
    out, block = [], []

    def close():
        if not block:
            return
        if block[0].startswith("|"):
            out.append(html_table(block))
        else:
            out.append(f"<p>{inline(' '.join(block))}</p>")
        block.clear()
    for row in text.splitlines():
        heading = re.match(r"(#{1,6}) (.+)", row)
        image = re.match(r"!\[[^\]]*\]\(([^)]+)\)$", row)
        if heading:
            close()
            out.append(f"<h{len(heading.group(1))}>{inline(heading.group(2))}</h{len(heading.group(1))}>")
        elif image:
            close()
            out.append(f"<figure>{pictures[image.group(1).rsplit('/', 1)[-1]]}</figure>")
        elif not row.strip():
            close()
        else:
            if block and block[0].startswith("|") != row.startswith("|"):
                close()
            block.append(row)
    close()
    return "\n".join(out)


def cells(row):
    """The cells of a line of a table."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip())[1:-1]]


def html_table(rows):
    """A Markdown table in HTML."""
    head = "".join(f"<th>{inline(cell)}</th>" for cell in cells(rows[0]))
    body = "\n".join("<tr>" + "".join(f"<td>{inline(cell)}</td>" for cell in cells(row)) + "</tr>" for row in rows[2:])
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff; }}
table {{ border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }}
th, td {{ padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }}
th:first-child, td:first-child {{ text-align: left; }}
figure {{ margin: 1.5rem 0; }}
svg {{ max-width: 100%; height: auto; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(title, text, pictures):
    """A page that needs no other file."""
    return PAGE.format(title=escape(title), body=html(text, pictures))
