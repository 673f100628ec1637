"""What is seen is in the address: a link, or the same page loaded again, shows it again."""

STATES = {
    "matrix": {"part": "encoder", "layer": 1, "head": 2, "row": 1, "column": 3},
    "heads": {"part": "cross", "layer": 0, "shown": "1,2"},
    "arithmetic": {"part": "decoder", "layer": 1, "head": 1, "row": 2, "column": 1},
    "grid": {"theme": "dark"},
    "answer": {"row": 2},
}


def seen_in(page):
    """The view's text, and what is chosen in its drop-downs."""
    chosen = page.eval_on_selector_all("main select", "(lists) => lists.map((one) => one.value)")
    return page.inner_text("main"), chosen, page.get_attribute("#regard", "data-theme")


def test_the_same_page_loaded_again_shows_the_same(visit, addresses):
    seen = visit(addresses["encoder_decoder"])
    for view, state in STATES.items():
        seen.view(view, **state)
        seen.page.wait_for_timeout(50)
        before = seen_in(seen.page)
        seen.page.reload()
        seen.page.wait_for_selector(f"main:not([aria-busy]) > .body.of-{view}")
        assert seen_in(seen.page) == before, view
    seen.assert_quiet()


def test_what_was_asked_is_in_the_address_and_back_leads_back(visit, addresses):
    seen = visit(addresses["encoder_decoder"])
    first = seen.page.inner_text(".answer")
    seen.page.fill("textarea", "The dog sleeps.")
    seen.page.click("button:has-text('Look')")
    seen.settled()
    second = seen.page.inner_text(".answer")
    assert second != first
    link = seen.page.url
    other = visit(link)
    assert other.page.inner_text(".answer") == second
    assert other.page.input_value("textarea") == "The dog sleeps."
    seen.page.click("nav.views a[href*='view=heads']")
    seen.page.wait_for_selector("main:not([aria-busy]) > .body.of-heads")
    seen.page.go_back()
    seen.page.wait_for_selector("main:not([aria-busy]) > .body.of-answer .answer")
    assert seen.page.inner_text(".answer") == second
    seen.page.go_back()
    seen.page.wait_for_selector(f".answer:has-text('{first.split()[0]}')")  # the model is asked again
    assert seen.page.inner_text(".answer") == first
    seen.assert_quiet()
    other.assert_quiet()
