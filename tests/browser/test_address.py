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


def hold_back(page):
    """Steps back to the Look of the start, and holds its answer back; gives what lets it through."""
    waiting = []

    def hold(route):
        waiting.append(route) if route.request.method == "GET" else route.fallback()

    page.route("**/api/look", hold)
    with page.expect_request("**/api/look"):
        page.go_back()

    def let_through():
        with page.expect_response(lambda response: response.request.method == "GET"):
            waiting[0].continue_()

    return let_through


def test_what_is_typed_while_an_earlier_look_is_on_its_way_stays(visit, addresses):
    """Back to a Look takes as long as the model does; the box can be written in meanwhile."""
    seen = visit(addresses["encoder_decoder"])
    first = seen.page.inner_text(".answer")
    seen.page.fill("textarea", "The dog sleeps.")
    seen.page.click("button:has-text('Look')")
    seen.settled()
    let_through = hold_back(seen.page)
    seen.page.fill("textarea", "A cat")
    let_through()
    seen.page.wait_for_selector(f".answer:has-text('{first.split()[0]}')")
    assert seen.page.inner_text(".answer") == first
    assert seen.page.input_value("textarea") == "A cat"
    seen.page.click("button:has-text('Theme')")
    seen.page.wait_for_selector(".regard[data-theme]", state="attached")
    assert seen.page.input_value("textarea") == "A cat"
    seen.assert_quiet()


def test_a_question_voids_the_step_back_that_is_not_answered_yet(visit, addresses):
    seen = visit(addresses["encoder_decoder"])
    seen.page.fill("textarea", "The dog sleeps.")
    seen.page.click("button:has-text('Look')")
    seen.settled()
    let_through = hold_back(seen.page)
    seen.page.fill("textarea", "The cat sleeps.")
    with seen.page.expect_request("**/api/stream"):
        seen.page.click("button:has-text('Look')")
    let_through()
    seen.settled()
    assert seen.page.input_value("textarea") == "The cat sleeps."
    assert "Katze" in seen.page.inner_text(".answer")
    seen.assert_quiet()
