"""Figures are filled into pages from results and code, and what nothing holds is found."""

import json

import pytest

from tools import figure_values, figures
from tools.figure_values import LookupFailed, looked_up, results_of
from tools.figures import Page, Template
from tools.measured import loose_figures

ROWS = {
    "regard": {"rate": 1234.5, "share": 0.512, "seconds": [1.0, 2.0, 4.0], "memory": None},
    "peer": {"rate": 1000, "share": 0.3, "seconds": [3.0, 2.0, 8.0]},
    "notes": "peak: 120 GFLOP/s",
}
PAGE = "At best\n1,234 lines a second, and 51 % of the peak.\n\n| a | 7 |\n"


def page(*texts, given=()):
    return Page(figures.ROOT / "a.md", [Template(text, ROWS) for text in texts], dict.fromkeys(given, "so"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("regard/rate:,.0f", "1,234"),
        ("regard/share:.0%", "51 %"),
        ("regard/rate - peer/rate:+.1f", "+234.5"),
        ("regard/rate / 1000:.1f", "1.2"),
        ("1 - peer/share:.1f", "0.7"),
        ("regard against peer:.2f", "2.00"),
        ("least regard | peer/share:.1f", "0.3"),
        ("most regard | peer/share:.1f", "0.5"),
        ("notes ~ peak: ([0-9]+)", "120"),
    ],
)
def test_values_are_looked_up_and_written_as_pages_do(field, value):
    assert looked_up(ROWS, field) == value


def test_constants_and_defaults_of_the_code_are_looked_up():
    from regard.serving import scheduler

    assert looked_up(scheduler, "MOST_ROWS:,") == f"{scheduler.MOST_ROWS:,}"
    assert looked_up(figure_values, "results_of.table") == str(None)
    assert looked_up(scheduler, "QueueLimits.requests") == str(scheduler.QueueLimits().requests)


@pytest.mark.parametrize(
    "field", ["regard/speed", "regard/rate/deep", "notes ~ no ([0-9]+)", "regard/memory:.1f"]
)
def test_a_path_that_leads_nowhere_is_named(field):
    with pytest.raises(LookupFailed, match=r"leads nowhere|is not in|was not measured"):
        looked_up(ROWS, field)


def test_a_table_is_found_by_the_beginning_of_its_title(tmp_path, monkeypatch):
    tables = [
        {"title": "alone, greedy", "rows": [{"name": "a", "ms": 1}, {"name": "a", "ms": 2}], "notes": []},
        {"title": "alone, beam 5", "rows": [], "notes": []},
    ]
    (tmp_path / "some.json").write_text(json.dumps({"tables": tables}))
    monkeypatch.setattr(figure_values, "RESULTS", tmp_path)
    monkeypatch.setattr(figure_values, "ROOT", tmp_path)
    assert looked_up(results_of("some", "alone, g"), "a, again/ms") == "2"
    with pytest.raises(LookupFailed, match="2 tables of some begin with 'alone'"):
        results_of("some", "alone")
    with pytest.raises(LookupFailed, match=r"there is no other\.json"):
        results_of("other")


def test_a_figure_that_has_changed_is_found_and_written():
    made = page("best {regard/rate:,.0f} lines", "and {regard/share:.0%} of")
    old = PAGE.replace("1,234", "9.5").replace("51 %", "7 %")
    with pytest.raises(LookupFailed, match=r"'best 1,234 lines', 0 times\n.*'and 51 % of', 0 times"):
        made.held(old)
    assert made.renewed(old) == PAGE
    assert made.renewed(PAGE) == PAGE


def test_a_figure_that_has_no_place_is_named():
    with pytest.raises(LookupFailed, match="0 places for 'worst 1,234 lines'"):
        page("worst {regard/rate:,.0f} lines").renewed(PAGE)
    with pytest.raises(LookupFailed, match="'66 %', which is given"):
        page(given=["66 %"]).held(PAGE)


def test_what_another_template_holds_is_not_compared_nor_held():
    made = page("best {*} lines a second, and {regard/share:.0%}")
    assert [PAGE[begin:end] for begin, end in made.held(PAGE)] == ["51 %"]


def loose(text, **options):
    """The numbers that nothing holds."""
    found = loose_figures(text, [], **options)
    return [each.partition(": ")[2].partition(" in ")[0] for each in found]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It takes 5 ms", ["5"]),
        ("33 to 37 ms, 0.92", ["33, 37", "0.92"]),
        ("10,000 lines", ["10,000"]),
        ("x 1.5 as long", ["1.5"]),
        ("| a | **7** | 8 apples |", ["7"]),
        ("3 % of 28.8 MB", ["3", "28.8"]),
        ("section 5.4, Python 3.11, 2.13.0, 3 + 3 layers, width 256", []),
        ("`--top-p 0.9` and $0.5$ and [a](b-1.5.md)", []),
        ("```sh\nsleep 5 s\n```\n\n    1.5 s\n", []),
        ("<!-- results of decode -->\n| a | 5 |\n<!-- end -->", []),
        ("in the 1970s", []),
    ],
)
def test_what_looks_measured_is_found(text, numbers):
    assert loose(text) == numbers


def test_a_figure_that_an_executed_output_shows_is_held():
    text = "The weight is 0.988, about 0.99, not 0.5 nor 0.98.\n\n    head 1: 0.988\n"
    assert loose(text, executed=True) == ["0.5", "0.98"]


def test_what_is_held_is_not_loose():
    made = page("best {regard/rate:,.0f} lines", "{regard/share:.0%} of the", given=["| 7 |"])
    assert loose_figures(PAGE, made.held(PAGE)) == []
    assert len(loose_figures(PAGE, page(given=["| 7 |"]).held(PAGE))) == 2


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ('[givn]\n"5 ms" = "target"\n', "unknown keys: givn"),
        ('[[from]]\nresults = "train"\ntabel = "a"\ntexts = []\n', "unknown keys: .*'tabel'"),
        ('[[from]]\ntexts = ["{a}"]\n', "no source"),
        ('[[from]]\ncode = "tools.figures"\ntexts = ["5 ms"]\n', "nothing is looked up in '5 ms'"),
        ('[[from]]\nrecipe = "datse"\ntexts = ["{a}"]\n', r"there is no recipes/datse\.toml"),
    ],
)
def test_a_mistake_in_a_file_of_figures_is_named(content, named, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    (tmp_path / "a.toml").write_text(content)
    with pytest.raises(LookupFailed, match=named):
        figures.page_of(tmp_path / "a.md")
