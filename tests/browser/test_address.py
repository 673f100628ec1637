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
    page_visit = visit(addresses["encoder_decoder"])
    for view, state in STATES.items():
        page_visit.view(view, **state)
        page_visit.page.wait_for_timeout(50)
        before = seen_in(page_visit.page)
        page_visit.page.reload()
        page_visit.page.wait_for_selector(f"main:not([aria-busy]) > .body.of-{view}")
        assert seen_in(page_visit.page) == before, view
    page_visit.assert_quiet()


def test_the_request_is_in_the_address_and_back_restores_it(visit, addresses):
    page_visit = visit(addresses["encoder_decoder"])
    first = page_visit.page.inner_text(".answer")
    page_visit.page.fill("textarea", "The dog sleeps.")
    page_visit.page.click("button:has-text('Look')")
    page_visit.settled()
    second = page_visit.page.inner_text(".answer")
    assert second != first
    link = page_visit.page.url
    other = visit(link)
    assert other.page.inner_text(".answer") == second
    assert other.page.input_value("textarea") == "The dog sleeps."
    page_visit.page.click("nav.views a[href*='view=heads']")
    page_visit.page.wait_for_selector("main:not([aria-busy]) > .body.of-heads")
    page_visit.page.go_back()
    page_visit.page.wait_for_selector("main:not([aria-busy]) > .body.of-answer .answer")
    assert page_visit.page.inner_text(".answer") == second
    page_visit.page.go_back()
    page_visit.page.wait_for_selector(f".answer:has-text('{first.split()[0]}')")  # the model is asked again
    assert page_visit.page.inner_text(".answer") == first
    page_visit.assert_quiet()
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
    page_visit = visit(addresses["encoder_decoder"])
    first = page_visit.page.inner_text(".answer")
    page_visit.page.fill("textarea", "The dog sleeps.")
    page_visit.page.click("button:has-text('Look')")
    page_visit.settled()
    let_through = hold_back(page_visit.page)
    page_visit.page.fill("textarea", "A cat")
    let_through()
    page_visit.page.wait_for_selector(f".answer:has-text('{first.split()[0]}')")
    assert page_visit.page.inner_text(".answer") == first
    assert page_visit.page.input_value("textarea") == "A cat"
    page_visit.page.click("button:has-text('Theme')")
    page_visit.page.wait_for_selector(".regard[data-theme]", state="attached")
    assert page_visit.page.input_value("textarea") == "A cat"
    page_visit.assert_quiet()


def test_a_question_voids_the_step_back_that_is_not_answered_yet(visit, addresses):
    page_visit = visit(addresses["encoder_decoder"])
    page_visit.page.fill("textarea", "The dog sleeps.")
    page_visit.page.click("button:has-text('Look')")
    page_visit.settled()
    let_through = hold_back(page_visit.page)
    page_visit.page.fill("textarea", "The cat sleeps.")
    with page_visit.page.expect_request("**/api/stream"):
        page_visit.page.click("button:has-text('Look')")
    let_through()
    page_visit.settled()
    assert page_visit.page.input_value("textarea") == "The cat sleeps."
    assert "Katze" in page_visit.page.inner_text(".answer")
    page_visit.assert_quiet()
