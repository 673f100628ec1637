"""Writes the documented tables of families and settings from what is found.

    python -m tests.parity.write_settings_tables

A new row needs its `Setting` and this program; a new table also its two comments on the page.
"""

import tempfile
from pathlib import Path

from tests.parity.cases import Case
from tests.parity.pairs import Pair, pair_of
from tests.parity.settings_page import PAGE, columns_of, filled
from tests.parity.settings_table import ABSENT, EQUAL, REFUSED, cell
from tests.parity.settings_tables import TABLES
from tests.weights.toolkits import settings_rows as toolkits


def main() -> None:
    text = PAGE.read_text("utf-8")
    made: dict[str, Pair] = {}
    with tempfile.TemporaryDirectory() as folder:

        def make(case: Case) -> Pair:
            if str(case) not in made:
                made[str(case)] = pair_of(case, Path(folder) / str(len(made)))
            return made[str(case)]

        for table in TABLES:
            cells = {
                setting.label: [cell(setting, family, table.cases, make) for family in table.families]
                for setting in table.settings
            }
            for label, row in cells.items():
                if not {*row} <= {EQUAL, REFUSED, ABSENT}:
                    raise ValueError(f"{label}: {row}")
            text = filled(text, table.title, columns_of(table), cells)
    configs = toolkits.compared()
    cells = {
        row.label: [toolkits.cell(row, name, configs) for name in toolkits.TOOLKITS] for row in toolkits.ROWS
    }
    text = filled(text, toolkits.TITLE, [*toolkits.TOOLKITS.values()], cells)
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
