"""A page that holds its model looks at other texts as `regard look` does: in node and in a browser."""

import copy
import json
import re

import numpy as np
import pytest

from regard.cli import run
from regard.errors import UserError
from regard.exports.look_page import looks_in_node, save_look_folder
from regard.verbs.look import Looker, LookRequest
from regard.verbs.views.files import json_text
from regard.verbs.views.live_architecture import architecture_by_length
from regard.verbs.views.live_page import live_tables, look_difference
from tests.browser.visit import Visit, file_address
from tests.exports.engine_models import small_model

pytestmark = pytest.mark.usefixtures("engine")
REQUESTS = [
    {"text": "ba de mi gi fa"},
    {"text": " mi  ba ", "beam_size": 1},
    {"text": "MI FA DE", "beam_size": 3},
    {"text": "fa", "prefix": "ba de"},
    {"text": "fa mi", "target": "ba de mi"},
    {"text": "fa mi", "prefix_ids": [5, 6, 7], "beam_size": 4},
    {"text": "ba " * 70},
]
SHORT = {"num_encoder_layers": 1}  # the model that is tried for every change; the others have two
TWO = {"max_positions": 90, "joint": False, "tied": "target"}
SETTINGS = {
    "rotary, grouped keys": ("llama", SHORT),
    "sinusoidal, post-norm": ("vaswani", {}),
    "t5 bias": ("llama", {"positions": "t5", "scaled_output": True, "tied": "all"}),
    "learned, two vocabularies": ("vaswani", {"positions": "learned", **TWO}),
    "alibi": ("vaswani", {"positions": "alibi", "norm_position": "sandwich", "attention_scale": 0.4}),
}
GENERATION = {
    "rotary, grouped keys": {"length_penalty": "power", "alpha": 1.0, "lower_capitals": True},
    "t5 bias": {"heuristic_stopping": True, "beam_size": 3, "max_length_offset": 4},
    "alibi": {"early_stopping": True, "prefixes": {"": "mi gi "}},
}
CONTINUATIONS = [
    {"text": "ba de mi"},
    {"text": "mi ba ", "beam_size": 3},
    {"text": "fa", "prefix": " ba de"},
    {"text": "fa mi", "target": " ba de mi"},
    {"text": "fa mi", "target": ""},
    {"text": "fa mi", "prefix_ids": [5, 6, 7], "beam_size": 4},
    {"text": "fa mi", "prefix_ids": [2, 9]},
    {"text": "ba", "max_new_tokens": 3, "beam_size": 2},
    {"text": ""},
]
REFUSED = [{"text": "  "}, {"text": "ba " * 513}, {"text": "ba", "prefix_ids": [999]}]
CHANGED = {"text": "ba", "changes": {"heads": {"a": [0]}}}
PLAIN = {"text": "ba de"}
EXACT = 3e-5  # of numbers in JSON, which have five decimals
CLOSE = 1e-4  # of arrays


FIRST = next(iter(SETTINGS))  # each takes some seconds: the others are tried at night


@pytest.fixture(
    scope="module",
    params=[pytest.param(each, marks=[] if each == FIRST else pytest.mark.nightly) for each in SETTINGS],
)
def pair(request, tmp_path_factory):
    """A looker with a small model, and the folder of its page."""
    base, settings = SETTINGS[request.param]
    loaded = small_model("encoder_decoder", base, **settings)
    loaded.generation.update(GENERATION.get(request.param, {}))
    looker, folder = Looker(loaded, device="cpu"), tmp_path_factory.mktemp("page")
    table, files = live_tables(loaded, looker.look("ba").summary)
    save_look_folder(loaded, folder, table, files, None)
    return looker, folder


@pytest.fixture(scope="module")
def answered(pair):
    """The looker, and all that the page's JavaScript answers, in one process: its engine takes seconds."""
    looker, folder = pair
    asked = [*REFUSED, CHANGED, *REQUESTS, PLAIN]
    found = looks_in_node(folder, asked)
    assert len(found) == len(asked)
    count = len(REFUSED)
    return looker, {
        "refused": found[:count],
        "changed": found[count],
        "looks": found[count + 1 : -1],
        "plain": found[-1],
    }


def request_of(given):
    return LookRequest(
        **{key: tuple(each) if isinstance(each, list) else each for key, each in given.items()}
    )


def assert_alike(theirs, ours, where):
    """Equal JSON, but for the last digits of numbers."""
    if isinstance(ours, dict):
        assert theirs.keys() == ours.keys(), where
        for key, each in ours.items():
            assert_alike(theirs[key], each, f"{where}.{key}")
    elif isinstance(ours, list):
        assert len(theirs) == len(ours), where
        for place, each in enumerate(ours):
            assert_alike(theirs[place], each, f"{where}[{place}]")
    elif isinstance(ours, float):
        tolerance = 2e-4 if where.endswith("cosine") else EXACT * max(1, abs(ours))
        assert theirs == pytest.approx(ours, abs=tolerance), where
    else:
        assert theirs == ours, where


def assert_same_look(found, look):
    """The summary, all JSON and all arrays of a look are those of the page's JavaScript."""
    assert "error" not in found, found
    own = json.loads(json_text(look.summary))
    for name in own.keys() - {"resources", "slow"}:
        assert_alike(found["summary"][name], own[name], name)
    missing = {path.split("/")[0] for path in {*own["resources"]} - {*found["summary"]["resources"]}}
    assert missing == {*found["summary"]["elsewhere"]}
    short = len(own["sequences"]["read"]["ids"]) == 1 or getattr(look.run.loaded.config, "window", None)
    assert missing == {"ablation", "attribution", *(["architecture"] if short else [])}
    for path, value in found["json"].items():
        assert_alike(value, json.loads(json_text(look.get(path))), path)
    for path, array in found["arrays"].items():
        name = path.removeprefix("attention/")
        ours = look._recorded.weights(name).numpy() if name != path else look.get(path)  # not in float16
        theirs = np.array(array["values"], ours.dtype).reshape(array["shape"])
        np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=CLOSE, err_msg=path)


def test_each_look_is_that_of_regard(answered):
    looker, answers = answered
    for request, found in zip(REQUESTS, answers["looks"], strict=True):
        assert_same_look(found, looker(request_of(request)))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("base", "settings", "generation"),
    [
        ("llama", {"parallel_residual": "one_norm", "logit_softcap": 4.0}, {}),
        ("vaswani", {"positions": "alibi", "window": 5}, {"begin": False, "max_new_tokens": 6}),
        ("vaswani", {"positions": "learned", "attention_softcap": 2.0}, {"end_ids": [7], "may_end": True}),
    ],
)
def test_each_continuation_is_that_of_regard(tmp_path, base, settings, generation):
    loaded = small_model("decoder_only", base, **settings)
    loaded.generation.update(generation)
    looker = Looker(loaded, device="cpu")
    table, files = live_tables(loaded, looker.look("ba").summary)
    save_look_folder(loaded, tmp_path, table, files, None)
    requests = CONTINUATIONS if generation.get("begin", True) else CONTINUATIONS[:-1]
    for request, found in zip(requests, looks_in_node(tmp_path, requests), strict=True):
        assert_same_look(found, looker(request_of(request)))


def test_what_a_look_refuses_the_page_refuses(answered):
    looker, answers = answered
    for request, found in zip(REFUSED, answers["refused"], strict=True):
        with pytest.raises(UserError) as refused:
            looker(request_of(request))
        assert found == {"error": f"{refused.value.message}; {refused.value.hint}"}
    assert (
        answers["changed"]["error"] == "switching parts off needs `regard look`, which runs the model itself"
    )


def test_another_look_is_found_before_the_page_is_written(answered):
    looker, answers = answered
    found, look = answers["plain"], looker.look("ba de")
    assert look_difference(found, look.summary, look.get) is None
    other = looker.look("de ba")
    assert look_difference(found, other.summary, look.get) == "its sequences is another"
    found = copy.deepcopy(found)
    found["arrays"]["rollout/encoder"]["values"][0] += 0.01
    assert re.fullmatch(r"rollout/encoder differs by 0\.01", look_difference(found, look.summary, look.get))


def test_an_architecture_that_is_no_polynomial_is_left_to_regard():
    from regard.inspection.passes import continuation_pass

    model = small_model("decoder_only", "llama", window=8).model
    assert architecture_by_length(lambda s, t: continuation_pass(model, [0] * (t + 1))) is None
    whole = small_model("decoder_only", "llama").model
    assert architecture_by_length(lambda s, t: continuation_pass(whole, [0] * (t + 1))) is not None


@pytest.mark.parametrize(
    ("generation", "message"),
    [
        ({"no_repeat_ngram_size": 3}, "a page with its model cannot compute rule = 'NoRepeatNGrams'"),
        ({"min_length": 3}, "a page with its model cannot compute rule = 'MinimumLength'"),
        (
            {"beam_groups": 2, "beam_size": 4, "diversity": 1.0},
            "a page with its model cannot compute search = 'DiverseBeamSearch'",
        ),
        ({"stop": ["x"]}, "a page with its model cannot compute stop = 'texts that end an answer'"),
    ],
)
def test_a_search_that_the_page_does_not_have_is_refused(generation, message):
    loaded = small_model("encoder_decoder")
    loaded.generation.update(generation)
    with pytest.raises(UserError, match=re.escape(message)):
        live_tables(loaded, Looker(loaded, device="cpu").look("ba").summary)


def test_the_command_refuses_what_it_cannot_do(capsys, tmp_path, encoder_folder):
    page = str(tmp_path / "page.html")
    model = str(encoder_folder("classification", ("bad", "good")))
    for arguments, message in [
        (["--live"], "--live is for a page in a file, and there is no --html"),
        (["--html", page, "--runtime", "x"], "--runtime is for a page that holds its model"),
        (["--html", page, "--live", "--model", model], "cannot hold a model of the kind encoder_only"),
        (["--html", page, "--live", "--runtime", str(tmp_path)], "has no ort.wasm.bundle.min.mjs"),
    ]:
        assert run(["look", "a good film", *arguments]) != 0
        assert message in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A looker with a small model, and a page of one look that holds the model."""
    looker = Looker(small_model("encoder_decoder", "llama", **SHORT), device="cpu")
    return looker, looker.look("ba de").to_html(tmp_path_factory.mktemp("live") / "page.html", live=True)


class LiveVisit(Visit):
    def ask(self, text):
        self.page.fill("textarea", text)
        self.page.click(".ask button[type=submit]")
        self.settled()

    def go(self, name):
        """A view by its link, which keeps the look."""
        self.page.click(f"nav.views a[href*='view={name}']")
        return self.page.wait_for_selector(f"main:not([aria-busy]) > .body.of-{name}")


@pytest.fixture
def opened(new_page):
    def visited(file, **settings):
        page = new_page({"width": 1200, "height": 900}, offline=True, **settings)
        return LiveVisit(page, file_address(file)).open()

    return visited


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.nightly)])
def test_all_views_answer_another_text_offline(opened, page, scheme):
    looker, file = page
    visit = opened(file, color_scheme=scheme)
    visit.go("ablation")
    assert "Switch off, one at a time" in visit.page.inner_text("main")
    assert not visit.page.query_selector(".switches")  # nothing can be switched off in a page
    visit.go("answer")
    visit.ask("mi gi fa ba")
    look = looker.look("mi gi fa ba")
    written = look.summary["sequences"]["written"]["tokens"]
    shown = [each.text_content() for each in visit.page.query_selector_all(".answer .token")]
    assert [each.replace("␣", " ") for each in shown] == written
    for name in visit.views():
        body = visit.go(name)
        if name in ("ablation", "attribution"):
            assert body.inner_text() == (
                "The model in this page cannot compute this view for a new text: that needs regard look."
            )
        else:
            assert "could not be drawn" not in body.inner_text()
            assert body.query_selector("svg, canvas, table, ol, dl"), name
    visit.go("alignment")
    visit.open_all()
    table = visit.page.eval_on_selector_all(
        "main td.number", "(all) => all.map((one) => Number(one.textContent))"
    )
    expected = look.get("alignment")
    by_row = np.array(table).reshape(-1, 1 + expected.shape[1])  # the weight of the best, then all
    assert len(by_row) == min(40, len(written))  # rows that are in the page at a time
    np.testing.assert_allclose(by_row[:, 1:], expected[:40], atol=6e-4)  # three decimals are shown
    visit.assert_quiet()


def test_an_alternative_is_forced_and_a_long_text_is_refused(opened, page):
    _, file = page
    visit = opened(file)
    visit.page.click(".answer .chip")
    other = visit.page.query_selector(".alternatives button.option")
    name = other.query_selector(".token").text_content()
    other.click()
    visit.page.wait_for_selector(".answer .chip.forced")
    assert visit.page.query_selector(".answer .chip .token").text_content() == name
    visit.page.fill("textarea", "ba " * 600)
    visit.page.click(".ask button[type=submit]")
    alert = visit.page.wait_for_selector(".ask [role=alert]")
    assert alert.inner_text() == "the text has 601 tokens, more than 512; shorten it to 512 tokens"


@pytest.mark.nightly
def test_the_included_model_answers_in_its_page(opened, tmp_path):
    looker = Looker(device="cpu")
    file = looker.look("Where is the station?").to_html(tmp_path / "page.html", live=True)
    visit = opened(file)
    for text in (
        "Two dogs run across the field.",
        "THE CHILD IS EATING",
        "Where is the nearest hospital, please?",
    ):
        visit.ask(text)
        written = looker.look(text).summary["sequences"]["written"]["tokens"]
        shown = [each.text_content() for each in visit.page.query_selector_all(".answer .token")]
        assert [each.replace("␣", " ") for each in shown] == written
    visit.assert_quiet()
