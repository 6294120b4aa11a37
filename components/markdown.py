"""A table in Markdown, the same wherever one is written."""

from collections.abc import Collection, Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> str:
    """Header, rule and rows; the columns named in `right` are aligned to the right. Without a line break at its end."""
    rule = ["---:" if name in right else "---" for name in header]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (escaped[0], rule, *escaped[1:]))
