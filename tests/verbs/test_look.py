"""A look is one run of one text, and its resources agree with each other for every kind of model."""

import errno
import io
import json
import math
import os
import re
import zipfile

import jaxtyping
import numpy as np
import pytest
import torch

import regard
from regard.errors import ConfigError, DataError, FolderError, RecipeError, RunError, UserError
from regard.inspection import Ablation
from regard.inspection.attribution import attributions, misses_much
from regard.verbs.look import Changes, Looker, LookRequest, look
from regard.verbs.views import plain_text, streaming
from regard.verbs.views.files import json_text, npy_bytes
from regard.verbs.views.page_file import page_html
from regard.verbs.views.resources import JSON_RESOURCES
from regard.verbs.views.widget import WidgetSession


@pytest.fixture(scope="module")
def translator(untrained):
    return Looker(untrained, device="cpu")


@pytest.fixture(scope="module")
def kinds(untrained, decoder_folder, encoder_folder):
    """A look of each kind of model."""
    return {
        "encoder_decoder": look("1 2 3 4", untrained, device="cpu"),
        "decoder_only": look("To be", decoder_folder(), device="cpu", max_new_tokens=5),
        "classifier": look("a good film .", encoder_folder("classification", ("bad", "good")), device="cpu"),
        "tagger": look("the cat sat", encoder_folder("tokens", ("DET", "NOUN", "VERB")), device="cpu"),
        "filler": look("the [MASK] sat", encoder_folder("masked_language_model"), device="cpu"),
        "sentences": look("the cat sat", encoder_folder("pooled"), device="cpu"),
    }


KINDS = ["encoder_decoder", "decoder_only", "classifier", "tagger", "filler", "sentences"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_resource_that_is_named_can_be_had_and_is_json_or_an_array(kinds, kind):
    result = kinds[kind]
    assert result.summary["resources"] == [path for path in result.paths() if path != "summary"]
    for path in result.paths():
        found = result.get(path)
        assert isinstance(found, np.ndarray) == (path not in JSON_RESOURCES), path
        if isinstance(found, np.ndarray):
            assert found.dtype.str in ("<f4", "<f2", "|u1", "<i4"), path
            assert np.isfinite(found.astype(np.float64)).all(), path
        else:
            json.loads(json_text(found))
        assert result.get(path) is found


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_columns_are_as_many_as_the_tokens_that_name_them(kinds, kind):
    result = kinds[kind]
    sequences = {name: len(each["tokens"]) for name, each in result.summary["sequences"].items()}
    assert result.summary["attentions"]
    for place in result.summary["attentions"]:
        weights = result.get(f"attention/{place['name']}").astype(np.float32)
        assert weights.shape == (
            place["num_heads"],
            sequences[place["rows"]],
            sequences[place["columns"]],
        )
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_arithmetic_of_queries_keys_and_masks_gives_the_weights(kinds, kind):
    result = kinds[kind]
    for place in result.summary["attentions"]:
        name = place["name"]
        query, key, mask = (result.get(f"{part}/{name}") for part in ("query", "key", "mask"))
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
        scores = np.where(mask == 1, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(weights, result.get(f"attention/{name}"), atol=1e-3)


def test_an_answer_is_what_translate_gives_and_its_steps_add_up(untrained, translator):
    result = translator.look("1 2 3 4")
    answer = result.summary["answer"]
    assert answer["text"] == regard.translate("1 2 3 4", model=untrained, device="cpu")
    steps = result.get("steps")
    assert sum(step["log_prob"] for step in steps) == pytest.approx(answer["log_prob"], abs=1e-3)
    assert [step["id"] for step in steps] == result.summary["sequences"]["written"]["ids"]
    best = [node for node in result.get("beam")["nodes"] if node["state"] == "best"]
    assert len(best) == 1
    assert best[0]["total"] == pytest.approx(answer["log_prob"], abs=1e-3)


def test_a_model_has_the_name_of_its_folder_wherever_it_is_called_from(translator, untrained, monkeypatch):
    name = translator.look("1").summary["model"]["name"]
    assert name
    monkeypatch.chdir(untrained)
    assert look("1", ".", device="cpu").summary["model"]["name"] == name


def test_ablation_speaks_of_the_answer_and_of_nothing_before_it(untrained, decoder_folder):
    """Its baseline is the log-probability that the summary tells: a prompt is not part of the answer."""
    writer = decoder_folder()
    for result in (
        look("1 2 3 4", untrained, device="cpu"),
        look("1 2 3 4", untrained, device="cpu", prefix="3 "),
        look("To be", writer, device="cpu", max_new_tokens=5),
        look("To be", writer, device="cpu", max_new_tokens=5, prefix=", or"),
        look("To be", writer, device="cpu", target=", or not"),
        look("To be", writer, device="cpu", target=""),
    ):
        answer = result.summary["answer"]
        assert result.get("ablation")["baseline"] == pytest.approx(answer["log_prob"], abs=1e-3)


def test_a_text_alone_is_read_to_its_last_token(decoder_folder):
    folder = decoder_folder()
    result = look("To be", folder, device="cpu", target="")
    read, written = (result.summary["sequences"][name] for name in ("read", "written"))
    longer = look("To be", folder, device="cpu", max_new_tokens=3).summary["sequences"]["read"]
    assert read["ids"] == longer["ids"][: len(read["ids"])]
    assert "".join(read["tokens"]).endswith("To be")
    assert result.get("attention/blocks.0.self_attention").shape[1:] == (len(read["ids"]),) * 2
    step = result.get("steps")[-1]
    assert (step["rank"], step["token"]) == (1, written["tokens"][-1])
    assert result.get("attribution/gradient").shape == (1, len(read["ids"]))
    assert any(each["change"] for each in result.get("ablation")["heads"])
    assert look("T", folder, device="cpu", target="").summary["answer"]["log_prob"] < 0


def test_values_of_other_types_are_taken_or_refused_with_a_hint(untrained, translator):
    result = translator.look("1 2 3", changes=Changes(heads={"encoder.blocks.0.self_attention": (1,)}))
    assert result.summary["changes"]["heads"] == {"encoder.blocks.0.self_attention": [1]}
    assert result.heads_linking(3, 1) == result.heads_linking("</s>", 1)
    for wrong, error, hint in (
        (lambda: Changes(tokens=(-1,)), DataError, "counted from 0"),
        (lambda: translator.look("1", changes=Ablation(tokens=[0])), UserError, r"changes=Changes\("),
        (lambda: translator.look("1", changes={"tokens": [0]}), UserError, r"changes=Changes\("),
        (lambda: look("1", translator.loaded.model), UserError, "not its `.model`"),
    ):
        with pytest.raises(error) as caught:
            wrong()
        assert re.search(hint, caught.value.hint)
        assert "\n" not in caught.value.message
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with pytest.raises(DataError, match="no resource 0"):
            result.get(0)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    with pytest.raises(FolderError) as caught:
        regard.embed("1", model=untrained, device="cpu")
    assert "record_model" in caught.value.hint


def test_parts_to_switch_off_are_kept_as_plain_numbers_and_names(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would refuse some first
    plain = Changes(heads={"a": (0, 1)}, layers=("b",), tokens=(3, 4))
    given = Changes(heads={"a": (i for i in range(2))}, layers=np.array(["b"]), tokens=np.array([3, 4]))
    assert given == plain
    assert given
    assert json.loads(json.dumps(given.to_dict())) == plain.to_dict()
    for wrong, error, message in (
        ({"heads": [0]}, ConfigError, "does not name their attention"),
        ({"heads": {"a": 0}}, DataError, "a: heads = 0 is not a sequence"),
        ({"heads": {"a": [-1]}}, DataError, "a has no heads"),
        ({"layers": "blocks.0"}, ConfigError, "layers = 'blocks.0' is not a sequence"),
        ({"layers": 3}, ConfigError, "layers = 3 is not a sequence"),
        ({"tokens": 3}, DataError, "tokens = 3 is not a sequence"),
        ({"tokens": [0.5]}, DataError, "is not a sequence of whole"),
    ):
        with pytest.raises(error, match=message):
            Changes(**wrong)


def test_what_an_encoder_was_not_asked_is_no_part_of_its_answer(kinds):
    """The places of words that are tagged, of tokens that are hidden; the class of a text."""
    for kind in ("tagger", "filler", "classifier"):
        answer = kinds[kind].summary["answer"]
        reported = answer.get("tags") or answer["labels"][:1]
        expected = sum(math.log(each["probability"]) for each in reported)
        assert kinds[kind].get("ablation")["baseline"] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("kind", ["encoder_decoder", "decoder_only", "classifier", "tagger", "filler"])
def test_attributions_have_a_row_for_each_token_of_the_answer(kinds, kind):
    result = kinds[kind]
    summary, facts = result.summary, result.get("attribution")
    answer = summary["answer"]
    match kind:
        case "encoder_decoder" | "decoder_only":
            expected = [*range(answer.get("start", 0), len(summary["sequences"]["written"]["ids"]))]
        case "classifier":
            expected = None
        case _:
            expected = [tag["position"] for tag in answer["tags"]]
    assert facts["rows"] == expected
    rows = 1 if expected is None else len(expected)
    for method in facts["methods"]:
        columns = len(summary["sequences"][facts["columns"]]["ids"])
        assert result.get(f"attribution/{method}").shape == (rows, columns)
    found = attributions(result.run.forced, method="integrated")
    most = facts["most_missing"]
    for nats in (0.0, 0.05, 0.15, 0.3, -3.0):  # the page says the same as `misses_much`
        for gain in (0.0, 2.0, -4.0):
            is_much = abs(nats) > max(most["nats"], most["share"] * abs(gain))
            assert is_much == misses_much(torch.tensor([nats]), torch.tensor([gain])).item()
    assert result.get("attribution/missing") == pytest.approx(found.missing.numpy(), abs=1e-5)
    assert result.get("attribution/integrated") == pytest.approx(found.values.numpy(), abs=1e-5)


def test_a_forced_answer_is_forced_whole_and_a_prefix_at_its_beginning(translator):
    whole = translator.look("1 2 3", target="3 2 1").summary
    assert whole["answer"]["text"] == "3 2 1"
    assert whole["answer"]["forced"] == len(whole["sequences"]["written"]["ids"]) == 4
    begun = translator.look("1 2 3", prefix="3 ").summary
    ids = begun["sequences"]["written"]["ids"]
    assert begun["answer"]["text"].startswith("3")
    assert begun["answer"]["forced"] == 1
    again = translator.look("1 2 3", prefix_ids=tuple(ids[:1])).summary
    assert again["answer"] == begun["answer"]


def test_forced_tokens_of_a_continuation_count_from_the_start_of_the_text(decoder_folder):
    looker = Looker(decoder_folder("bytes"), device="cpu")
    result = looker.look("To be", max_new_tokens=4).summary
    written = result["sequences"]["written"]["ids"]
    assert result["answer"]["forced"] == result["answer"]["start"] == 5
    forced = looker.look("To be", target=", or not").summary
    assert forced["answer"]["text"] == ", or not"
    assert forced["answer"]["forced"] == len(forced["sequences"]["written"]["ids"])
    again = looker.look("To be", prefix_ids=tuple(written), max_new_tokens=1).summary
    assert again["sequences"]["written"]["ids"][: len(written)] == written
    other = looker.look("To be", prefix_ids=(*written[:2], written[0]), max_new_tokens=1).summary
    assert other["sequences"]["written"]["ids"][:3] == [*written[:2], written[0]]


def test_pieces_of_bytes_are_shown_as_text(decoder_folder):
    tokens = Looker(decoder_folder("bytes"), device="cpu").look("a Ä", max_new_tokens=1).summary
    assert tokens["sequences"]["read"]["tokens"][1:5] == ["a", " ", "<0xC3>", "<0x84>"]
    tokens = Looker(decoder_folder("bytebpe"), device="cpu").look("To be", max_new_tokens=1).summary
    assert "".join(tokens["sequences"]["read"]["tokens"][1:]).strip().startswith("To be")


def test_a_stream_is_the_greedy_answer(translator):
    greedy = translator.look("1 2 3 4", beam_size=1).summary["sequences"]["written"]
    kinds_of_lines = list(translator.stream(LookRequest(text="1 2 3 4")))
    assert [each.id for each in kinds_of_lines] == [
        number for number, mark in zip(greedy["ids"], greedy["special"], strict=True) if not mark
    ]


def test_before_a_costly_beam_search_no_greedy_answer_is_streamed(translator, decoder_folder, monkeypatch):
    continues = Looker(decoder_folder(), device="cpu")
    monkeypatch.setattr(streaming, "MAX_STREAM_OPERATIONS", 0.0)
    for looker, text in ((translator, "1 2"), (continues, "To be")):
        assert not [*looker.stream(LookRequest(text=text, beam_size=3))]
        assert [*looker.stream(LookRequest(text=text, beam_size=1))]


def test_what_is_switched_off_changes_the_run_and_only_this_run(translator):
    name = "decoder.blocks.0.cross_attention"
    before = translator.look("1 2 3 4", target="1 2")
    off = translator.look("1 2 3 4", target="1 2", changes=Changes(heads={name: [0, 1]}))
    assert off.summary["changes"]["heads"] == {name: [0, 1]}
    logits = off.get("logits")
    after = translator.look("1 2 3 4", target="1 2")
    np.testing.assert_array_equal(before.get("logits"), after.get("logits"))
    assert np.abs(before.get("logits") - logits).max() > 1e-3
    gone = {(each["name"], each["head"]): each["change"] for each in before.get("ablation")["heads"]}
    assert set(gone) >= {(name, 0), (name, 1)}
    with pytest.raises(ConfigError, match="no attention"):
        translator.look("1", changes=Changes(heads={"nowhere": [0]}))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"text": ""}, "empty"),
        ({"text": "1 " * 600}, "more than 512"),
        ({"text": "1" * 30_000}, "characters"),
        ({"text": "1", "target": "1", "prefix": "1"}, "both target and prefix"),
        ({"text": "1", "beam_size": 99}, "beam_size = 99"),
        ({"text": "1", "prefix_ids": (10_000,)}, "outside the vocabulary"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(translator, asked, message):
    with pytest.raises(DataError, match=message):
        translator(LookRequest(**asked))


def test_a_request_is_read_strictly():
    assert LookRequest.from_json({"text": "a", "target": None, "beam_size": 3}) == LookRequest(
        text="a", beam_size=3
    )
    assert LookRequest.from_json({"text": "a", "changes": {"layers": ["x"]}}).changes == Changes(
        layers=("x",)
    )
    for wrong in ({}, {"text": 3}, {"text": "a", "beams": 3}, {"text": "a", "changes": {"head": []}}):
        with pytest.raises(RecipeError):
            LookRequest.from_json(wrong)
    with pytest.raises(DataError):
        LookRequest.from_json({"text": "a", "changes": {"heads": {"x": "0"}}})


def test_an_encoder_takes_no_answer_and_a_model_of_no_text_no_look(encoder_folder, tmp_path):
    looker = Looker(encoder_folder("pooled"), device="cpu")
    with pytest.raises(DataError, match="generates text"):
        looker.look("a film", target="x")
    with pytest.raises(FolderError):
        Looker(tmp_path)


def test_files_hold_what_the_look_hands_out(kinds, tmp_path):
    result = kinds["encoder_decoder"]
    held = json.loads(result.to_json())
    assert held["summary"]["text"] == "1 2 3 4"
    np.testing.assert_allclose(held["alignment"], result.get("alignment"), atol=1e-5)
    path = result.to_npz(tmp_path / "look.npz")
    with np.load(path, allow_pickle=False) as arrays:
        for name in ("alignment", "attention/decoder.blocks.0.cross_attention"):
            np.testing.assert_array_equal(arrays[name], result.get(name))
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("look.json"))["steps"] == json.loads(json_text(result.get("steps")))
    assert path.read_bytes() == result.to_npz(tmp_path / "again.npz").read_bytes()
    np.testing.assert_array_equal(np.load(io.BytesIO(npy_bytes(result.get("logits")))), result.get("logits"))


def test_a_file_that_could_not_be_written_whole_leaves_the_old_one(kinds, tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    for name, write in (("a.html", kinds["classifier"].to_html), ("a.npz", kinds["classifier"].to_npz)):
        (tmp_path / name).write_bytes(b"old")
        with pytest.raises(RunError, match="No space left"):
            write(tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"old"
    assert {each.name for each in tmp_path.iterdir()} == {"a.html", "a.npz"}, "nothing lies beside them"


def test_weights_from_the_tokens_of_a_word_are_averaged_and_on_them_summed(decoder_folder):
    result = look("To be, or", decoder_folder(), device="cpu", max_new_tokens=2)
    tokens = result.summary["sequences"]["read"]["tokens"]
    place = result.summary["attentions"][0]
    to, be = tokens.index("T"), tokens.index("b")
    weights = np.asarray(result.get(f"attention/{place['name']}"), dtype=float)
    expected = weights[:, be : be + 2, to : to + 2].sum(axis=2).mean(axis=1)
    found = result.heads_linking("To", "be")
    assert [each.head for each in found] == np.argsort(-expected).tolist()
    assert [each.weight for each in found] == pytest.approx(sorted(expected, reverse=True), abs=2e-3)
    assert result.heads_linking(str(to), str(be))[0].weight <= 1, "positions count from 0"
    with pytest.raises(DataError, match="'zebra'"):
        result.heads_linking("To", "zebra")


def test_a_word_that_is_not_in_the_answer_is_named_so(kinds):
    with pytest.raises(DataError, match="the answer has no token 'zebra'"):
        kinds["encoder_decoder"].heads_linking("0", "zebra")


def test_slow_resources_are_listed_and_left_out_of_files(kinds, monkeypatch):
    result = kinds["encoder_decoder"]
    assert result.slow_paths() == []
    monkeypatch.setattr("regard.verbs.views.look.SLOW_OPERATIONS", 1.0)
    by_method = [f"attribution/{each}" for each in ("gradient", "integrated", "missing")]
    assert result.slow_paths() == ["ablation", *by_method]
    held = json.loads(result.to_json())
    assert "ablation" not in held
    assert "steps" in held
    assert json.loads(result.to_json(["ablation"]))["ablation"]


def test_plain_lines_can_be_grepped(kinds):
    lines = [line.split("\t") for line in kinds["encoder_decoder"].to_text().splitlines()]
    kinds_of_lines = {line[0] for line in lines}
    assert kinds_of_lines >= {"model", "text", "answer", "token", "pharaoh", "head"}
    assert [line[1] for line in lines if line[0] == "text"] == ["1 2 3 4"]
    tags = [line.split("\t") for line in kinds["tagger"].to_text().splitlines() if line.startswith("tag\t")]
    assert [tag[1] for tag in tags] == ["the", "cat", "sat"]


def test_a_head_is_called_by_what_it_does_with_most_of_its_weight():
    """Heads that align attend to the first and last token too; small shares of everything have no name."""
    head_pattern, shares = plain_text.head_pattern, dict.fromkeys(plain_text.PATTERNS)
    assert head_pattern({**shares, "aligning": 0.6, "first": 0.2, "end": 0.19}) == ("aligns", 0.6)
    assert head_pattern({**shares, "aligning": 0.3, "first": 0.8}) == ("attends to the first token", 0.8)
    assert head_pattern({**shares, "aligning": 1.0, "first": 1.0}) == ("aligns", 1.0)
    assert head_pattern({**shares, "first": 0.26, "end": 0.24}) == ("no single pattern", 0.26)
    assert head_pattern({**shares, "entropy": 0.9}) == ("no single pattern", 0.0)


def test_the_heads_that_align_are_called_so():
    """The included model: of its last layer, whose weights are the alignment that is shown."""
    lines = look("Where is the station?", device="cpu").to_text().splitlines()
    heads = [line.split("\t") for line in lines if line.startswith("head\tdecoder.blocks.1.cross_attention")]
    assert [head[3] for head in heads] == ["aligns"] * 4


def test_one_html_file_holds_the_look_and_no_text_gets_out_of_its_place(untrained, tmp_path):
    hostile = "1 2 </script><img src=x onerror=alert(1)>\u202e"
    result = look(hostile, untrained, device="cpu")
    page = result.to_html(tmp_path / "look.html").read_text("utf-8")
    assert "Content-Security-Policy" in page
    assert "onerror=alert" not in page.replace("\\u003cimg src=x onerror=alert", "").replace(
        "&lt;img src=x onerror=alert", ""
    )
    assert page.count("</script>") == page.count("<script")


def test_of_a_look_that_is_too_much_the_page_names_what_it_holds(kinds):
    result = kinds["encoder_decoder"]
    page = page_html(result.summary, result.get, result.paths(), max_bytes=4000)
    held = json.loads(page.split('id="regard-look">')[1].split("</script>")[0])
    assert set(held["json"]["summary"]["resources"]) == ({*held["json"]} - {"summary"}) | {*held["arrays"]}
    assert not any(path.startswith("value/") for path in held["arrays"])
    assert "alignment" in held["arrays"]


def test_a_loaded_model_can_be_looked_into_in_a_notebook(untrained, monkeypatch):
    model = regard.load(untrained, device="cpu")
    result = model.look("1 2", beam_size=1)
    assert result.summary["text"] == "1 2"
    reported: list[tuple[dict, list[bytes]]] = []
    page = WidgetSession(result, lambda message, buffers: reported.append((message, buffers)))
    page.handle({"id": 1, "do": "get", "path": "alignment"})
    page.handle({"id": 2, "do": "ask", "request": {"text": "3"}})
    page.handle({"id": 3, "do": "stream", "request": {"text": "3"}})
    page.handle({"id": 4, "do": "get", "path": "nothing"})
    page.handle({"id": 5, "do": "dance"})
    np.testing.assert_array_equal(np.load(io.BytesIO(reported[0][1][0])), result.get("alignment"))
    assert reported[1][0]["value"]["text"] == "3"
    assert {"id": 3, "done": True} in [message for message, _ in reported]
    assert [message["id"] for message, _ in reported if "error" in message] == [4, 5]
    monkeypatch.setattr(result, "get", lambda path: 1 / 0)
    newer: list[dict] = []
    other = WidgetSession(result, lambda message, buffers: reported.append((message, buffers)), newer.append)
    other.handle({"id": 6, "do": "get", "path": "steps"})
    assert "ZeroDivisionError" in reported[-1][0]["error"], "the waiting request gets the error"
    other.handle({"id": 7, "do": "ask", "request": {"text": "3"}})
    assert [summary["text"] for summary in newer] == ["3"]
    monkeypatch.undo()
    assert "<iframe" in result._repr_html_()
