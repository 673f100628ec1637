"""The documented table of toolkits has what their checkpoints and their refusals show."""

from dataclasses import replace

import pytest

from regard.weights.toolkits import eole, fairseq, joeynmt, marian, opennmt, sockeye
from tests.parity.settings_page import PAGE, documented
from tests.parity.settings_table import ABSENT, EQUAL
from tests.weights.toolkits import read_configs, test_read_settings
from tests.weights.toolkits.refusals import REFUSED
from tests.weights.toolkits.settings_rows import ROWS, TITLE, TOOLKITS, cell, compared

pytest.importorskip("yaml")
ACTIVATIONS = {
    "marian": {*marian.ACTIVATIONS.values()},
    "joeynmt": {*joeynmt.ACTIVATIONS.values()},
    "eole": {*eole.ACTIVATIONS.values()},
    "opennmt": {*opennmt.ACTIVATIONS.values()},
    "fairseq": {*fairseq.ACTIVATIONS.values()},
    "sockeye": {*sockeye.ACTIVATIONS.values(), *sockeye.GATED.values()},
}


@pytest.fixture(scope="module")
def configs():
    return compared()


def test_the_page_has_what_is_found(configs):
    columns, rows = documented(PAGE.read_text("utf-8"), TITLE)
    assert columns == [*TOOLKITS.values()]
    found = {row.label: [cell(row, toolkit, configs) for toolkit in TOOLKITS] for row in ROWS}
    assert found == rows, "python -m tests.parity.write_settings_tables writes what is found"
    assert list(found) == list(rows)
    assert all({*cells} != {ABSENT} for cells in found.values())


def test_a_refused_setting_is_one_of_the_tested_refusals_and_of_no_checkpoint(configs):
    for row in ROWS:
        for toolkit, name in row.refused.items():
            assert name in {refusal.name for refusal in REFUSED[toolkit]}, row.label
            assert row.has is None or not any(map(row.has, configs[toolkit].values())), row.label
        for toolkit, name in row.checkpoints.items():
            assert name in configs[toolkit]


@pytest.mark.parametrize("toolkit", TOOLKITS)
def test_what_a_reader_reads_is_compared_with_the_toolkit(toolkit, configs):
    """A property that no checkpoint has is one that the reader never gives, or it could be read wrongly."""
    default = getattr(read_configs, toolkit.upper())
    changes = [each[-1] for each in getattr(test_read_settings, f"OF_{toolkit.upper()}")]
    changes += [{"activation": activation} for activation in ACTIVATIONS[toolkit]]
    for config in (default, *(replace(default, **each) for each in changes)):
        for row in ROWS:
            if row.has is not None and row.has(config):
                assert cell(row, toolkit, configs) == EQUAL, row.label
