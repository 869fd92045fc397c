"""What a run found: rows of one table, as text and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Aim:
    """What a figure should reach, in words, and whether it did."""

    text: str
    met: bool


@dataclass(frozen=True)
class Row:
    """One figure. ``ceiling`` is what ``beside`` reached at the same work, ``ratio`` is ours by it.

    ``runs`` and ``ceiling_runs`` are the single measurements behind the two medians. A row without ``ours`` was
    skipped, and its ``note`` says why. ``detail`` is only in the JSON.
    """

    what: str
    unit: str
    ours: float | None
    ceiling: float | None = None
    beside: str = ""
    aim: Aim | None = None
    note: str = ""
    runs: Sequence[float] = field(default_factory=tuple)
    ceiling_runs: Sequence[float] = field(default_factory=tuple)
    detail: dict[str, object] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        if self.ours is None or not self.ceiling:
            return None
        return self.ours / self.ceiling

    def as_json(self, workload: str) -> dict[str, object]:
        return {"workload": workload, **asdict(self), "ratio": self.ratio}


def skipped(what: str, why: str) -> Row:
    """A row that says why it is empty."""
    return Row(what, "", None, note=why)


def at_least(ours: float | None, bound: float, text: str) -> Aim:
    """``ours`` should reach ``bound``."""
    return Aim(f">= {text}", ours is not None and ours >= bound)


def below(ours: float | None, bound: float, text: str) -> Aim:
    """``ours`` should stay below ``bound``."""
    return Aim(f"< {text}", ours is not None and ours < bound)


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


HEAD = ("what", "unit", "ours", "ceiling", "ratio", "aim", "met")


def table(sections: Sequence[tuple[str, Sequence[Row]]]) -> str:
    """All rows as one table, under a line for each workload."""
    cells = [(title, [_cells(row) for row in rows]) for title, rows in sections]
    every = [HEAD, *(line for _, lines in cells for line in lines)]
    widths = [max(len(line[column]) for line in every) for column in range(len(HEAD))]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    lines = [_line(HEAD, widths), rule]
    for (title, _), (_, body) in zip(sections, cells, strict=True):
        lines.append(title.upper())
        lines += [_line(line, widths) for line in body]
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    if row.ours is None:
        return (f"  {row.what}: skipped, {row.note}", "", "", "", "", "", "")
    what = f"  {row.what}" + (f" ({row.note})" if row.note else "")
    ceiling = "" if row.ceiling is None else f"{number(row.ceiling)} {row.beside}".rstrip()
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    aim, met = ("", "") if row.aim is None else (row.aim.text, "yes" if row.aim.met else "NO")
    return (what, row.unit, number(row.ours), ceiling, ratio, aim, met)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    numeric = {2, 4}
    padded = (
        cell.rjust(width) if at in numeric else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def number(value: float) -> str:
    """Three significant digits, two for very small ones; with separators in large ones."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 else f"{value:.2g}"
