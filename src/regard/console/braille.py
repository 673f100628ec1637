"""A grid of braille dots for plots in a terminal."""

import itertools
from collections.abc import Iterator, Sequence

MARKS = ("", "o", "x", "+")  # distinguish series without colour


class Canvas:
    """A canvas of braille characters, 2 x 4 dots each, and marks; each cell has the number of its series."""

    DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.dots: dict[tuple[int, int], int] = {}  # (row, column) -> bits of the eight dots
        self.marks_by_cell: dict[tuple[int, int], str] = {}
        self.series: dict[tuple[int, int], int] = {}

    def line(self, points: Sequence[tuple[float, float]], series: int) -> None:
        """Draw a line through points (x, y) between 0 and 1, with the origin at the bottom left."""
        pixels = [self._pixel(x, y, 2, 4) for x, y in points]
        for (row, column), (next_row, next_column) in zip(pixels, [*pixels[1:], pixels[-1]], strict=True):
            steps = max(abs(next_row - row), abs(next_column - column), 1)
            for step in range(steps):
                y = row + round((next_row - row) * step / steps)
                x = column + round((next_column - column) * step / steps)
                cell = y // 4, x // 2
                self.dots[cell] = self.dots.get(cell, 0) | self.DOTS[y % 4][x % 2]
                self.series[cell] = series

    def marks(self, points: Sequence[tuple[float, float]], series: int) -> None:
        """Mark the cells of points (x, y) with the sign of the series."""
        for x, y in points:
            cell = self._pixel(x, y, 1, 1)
            self.marks_by_cell[cell], self.series[cell] = MARKS[series % 4] or "*", series

    def _pixel(self, x: float, y: float, across: int, down: int) -> tuple[int, int]:
        """Row and column from the top left, on a grid with `across` x `down` pixels in each cell."""
        return round((1 - y) * (self.height * down - 1)), round(x * (self.width * across - 1))

    def rows(self, *, ascii_only: bool) -> Iterator[list[tuple[str, int | None]]]:
        """The rows from the top, each as runs of (text, series); the series of empty cells is None."""
        for row in range(self.height):
            cells = [self._cell((row, column), ascii_only) for column in range(self.width)]
            while cells and cells[-1] == (" ", None):
                cells.pop()
            runs = itertools.groupby(cells, key=lambda cell: cell[1])
            yield [("".join(drawn for drawn, _ in run), series) for series, run in runs]

    def _cell(self, cell: tuple[int, int], ascii_only: bool) -> tuple[str, int | None]:
        """The character of a cell and its series."""
        dots, mark = self.dots.get(cell), self.marks_by_cell.get(cell)
        if dots is None and mark is None:
            return " ", None
        return mark or ("*" if ascii_only else chr(0x2800 + (dots or 0))), self.series[cell]
