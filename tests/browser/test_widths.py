"""Charts are as wide as the screen lets them; cells have a largest size; nothing is wider than the page."""

import time

import pytest

FULL = {  # charts whose marks may be as long as there is room
    "encoder_decoder": (
        "sampler",
        "heads",
        "arithmetic",
        "ablation",
        "attribution",
        "neighbours",
        "architecture",
    ),
    "vision": ("answer", "heads", "arithmetic", "ablation", "architecture"),
}
GROWING = ("beam", "matrix", "alignment", "rollout", "lens", "answer")  # as far as their cells may grow
SHARE = """() => {
    const room = document.querySelector("main > .body").getBoundingClientRect().width;
    return document.querySelector("main figure .chart").getBoundingClientRect().width / room;
}"""
CELLS = """() => [...document.querySelectorAll("main figure .cells rect")]
    .map((cell) => cell.getBoundingClientRect().width)"""
TOO_WIDE = "() => document.documentElement.scrollWidth - innerWidth"


@pytest.mark.parametrize(
    ("kind", "width"),
    [
        ("encoder_decoder", 2560),
        ("vision", 1920),
        pytest.param("encoder_decoder", 1920, marks=pytest.mark.nightly),
        pytest.param("vision", 2560, marks=pytest.mark.nightly),
    ],
)
def test_charts_are_as_wide_as_a_wide_screen_lets_them(visit, addresses, kind, width):
    page_visit = visit(addresses[kind], viewport={"width": width, "height": 9 * width // 16})
    found = {}
    for view in FULL[kind]:
        page_visit.view(view)
        found[view] = page_visit.page.evaluate(SHARE)
    assert {view: share for view, share in found.items() if not 0.9 <= share <= 1} == {}
    assert page_visit.page.evaluate(TOO_WIDE) <= 0


def test_small_matrices_and_trees_grow_with_the_screen_but_not_absurdly(visit, addresses):
    shares: dict[int, dict[str, float]] = {}
    for width in (1280, 2560):
        page_visit = visit(addresses["encoder_decoder"], viewport={"width": width, "height": 9 * width // 16})
        shares[width] = {}
        for view in GROWING:
            page_visit.view(view)
            room = page_visit.page.evaluate("() => document.querySelector('main > .body').clientWidth")
            shares[width][view] = page_visit.page.evaluate(SHARE) * room
            cells = page_visit.page.evaluate(CELLS)
            assert max(cells, default=0) <= 72, view
    assert all(shares[2560][view] >= 500 for view in GROWING), shares
    assert all(shares[1280][view] <= shares[2560][view] for view in GROWING), shares


def test_charts_are_redrawn_when_the_window_changes_its_width(visit, addresses):
    page_visit = visit(addresses["encoder_decoder"], viewport={"width": 1280, "height": 800})
    page_visit.view("ablation")
    for width in (1920, 390):
        page_visit.page.set_viewport_size({"width": width, "height": 800})
        deadline = time.monotonic() + 30
        while not 0.9 <= page_visit.page.evaluate(SHARE) <= 1 and time.monotonic() < deadline:
            page_visit.page.wait_for_timeout(100)
        assert 0.9 <= page_visit.page.evaluate(SHARE) <= 1, width
    page_visit.assert_quiet()
