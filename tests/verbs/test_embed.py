"""Texts -> vectors: those of the reference implementation, independent of the batch."""

import json

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.errors import ConfigError, DataError, FolderError
from regard.verbs.embed import Embedder, embed, embed_file, embed_similar, output_lines

TEXTS = [
    "Paris is the capital of France.",
    "",
    "a bad film",
    "unable berlin s . . . of the film",
    "a good film",
]


@pytest.fixture(scope="module")
def minilm(sentence_encoder):
    return sentence_encoder[0]


def ids_of(text, vocabulary):
    """What BERT's tokeniser makes of a text of known words, between its marks."""
    words = text.lower().replace(".", " .").replace("unable", "un ##able").split()
    numbers = {piece: number for number, piece in enumerate(vocabulary)}
    return [2, *(numbers.get(word, 1) for word in words), 3]


@torch.no_grad()
def mean_of_states(theirs, vocabulary, text):
    states = theirs(torch.tensor([ids_of(text, vocabulary)])).last_hidden_state
    return F.normalize(states.mean(dim=1), dim=-1)[0]


def test_a_sentence_encoder_gives_the_vectors_of_its_makers(sentence_encoder):
    folder, theirs, vocabulary = sentence_encoder
    vectors = embed(TEXTS, model=folder)
    expected = torch.stack([mean_of_states(theirs, vocabulary, text) for text in TEXTS])
    torch.testing.assert_close(vectors, expected, rtol=1e-5, atol=1e-5)


def test_of_an_encoder_with_another_purpose_it_is_the_mean_of_the_states(their_encoder, encoder_folder):
    folder, theirs, vocabulary = their_encoder("BertModel")
    expected = torch.stack([mean_of_states(theirs, vocabulary, text) for text in TEXTS])
    torch.testing.assert_close(embed(TEXTS, model=folder), expected, rtol=1e-5, atol=1e-5)
    ours = embed(TEXTS, model=encoder_folder("classification", ("bad", "good")))
    torch.testing.assert_close(ours.norm(dim=1), torch.ones(len(TEXTS)))


def test_a_folder_that_says_otherwise_is_believed(their_encoder):
    files = {
        "modules.json": '[{"type": "sentence_transformers.models.Pooling"}]',
        "1_Pooling/config.json": '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}',
    }
    folder, theirs, vocabulary = their_encoder("BertModel", files=files)
    with torch.no_grad():
        states = theirs(torch.tensor([ids_of(TEXTS[0], vocabulary)])).last_hidden_state
    torch.testing.assert_close(embed(TEXTS[0], model=folder), states[0, 0], rtol=1e-5, atol=1e-5)


def test_a_text_is_a_vector_and_several_are_rows(minilm, tmp_path):
    one = embed(TEXTS[0], model=minilm)
    assert one.shape == (16,)
    rows = embed(iter(TEXTS), model=minilm)
    assert rows.shape == (len(TEXTS), 16)
    torch.testing.assert_close(rows[0], one)
    assert embed([], model=minilm).shape == (0, 16)
    (tmp_path / "texts").write_text("".join(f"{text}\n" for text in TEXTS), "utf-8")
    torch.testing.assert_close(embed_file(tmp_path / "texts", model=minilm), rows, rtol=0, atol=0)
    torch.testing.assert_close(regard.embed(TEXTS, model=minilm), rows, rtol=0, atol=0)


@pytest.mark.parametrize("batch_tokens", [1, 20])
def test_neither_batch_nor_neighbours_change_a_vector(minilm, batch_tokens):
    together = embed(TEXTS, model=minilm, batch_tokens=batch_tokens)
    for text, vector in zip(TEXTS, together, strict=True):
        torch.testing.assert_close(embed(text, model=minilm), vector, rtol=1e-5, atol=1e-6)


def test_texts_are_ranked_by_the_cosine_of_their_vectors(minilm):
    found = embed_similar(TEXTS, similar_to="A good film", model=minilm)
    assert (found[0].line, found[0].text) == (5, "a good film")
    assert found[0].similarity == pytest.approx(1, abs=1e-5)
    assert [each.similarity for each in found] == sorted((each.similarity for each in found), reverse=True)
    assert sorted(each.line for each in found) == [1, 2, 3, 4, 5]
    vectors = embed([*TEXTS, "a good film"], model=minilm)
    for each in found:
        assert each.similarity == pytest.approx(float(vectors[each.line - 1] @ vectors[-1]), abs=1e-5)


def test_of_equally_like_texts_the_earlier_comes_first(minilm):
    found = embed_similar(["bad", "good", "bad"], similar_to="bad", model=minilm)
    assert [each.line for each in found] == [1, 3, 2]


def test_a_text_that_is_too_long_is_cut_with_a_warning(minilm, capsys):
    long, short = (embed("bad " * count, model=minilm) for count in (100, 16))
    torch.testing.assert_close(long, short, rtol=0, atol=0)
    assert capsys.readouterr().err.count("line 1 is too long") == 1
    embedder = Embedder(minilm)
    embedder.similar(list(embedder(["hello"])), "word " * 400)
    assert "the query is too long" in capsys.readouterr().err


def test_what_makes_no_vectors_is_refused(decoder_folder, minilm):
    with pytest.raises(FolderError, match="not a model that embeds texts") as raised:
        embed("a", model=decoder_folder())
    assert "regard generate" in raised.value.hint
    with pytest.raises(DataError, match="text 2 is int, not a string"):
        embed(iter(["a", 1]), model=minilm)


def test_what_is_printed_is_what_was_found(minilm):
    embedder = Embedder(minilm)
    [one] = embedder(["a film"])
    numbers = [float(number) for number in output_lines(one).split("\t")]
    assert numbers == pytest.approx(one.vector.tolist(), abs=1e-6)
    assert json.loads(output_lines(one, as_json=True)) == {"line": 1, "text": "a film", "vector": numbers}
    [like] = embedder.similar([one], "a film")
    assert output_lines(like) == "1.0000\t1\ta film\n"
    assert json.loads(output_lines(like, as_json=True)).keys() == {"line", "text", "similarity"}


@torch.no_grad()
def test_a_layer_gives_the_mean_of_its_states(their_encoder):
    folder, theirs, vocabulary = their_encoder("BertModel")
    layers = theirs.config.num_hidden_layers
    for layer in range(layers + 1):
        found = embed(TEXTS, model=folder, layer=layer)
        for text, vector in zip(TEXTS, found, strict=True):
            states = theirs(torch.tensor([ids_of(text, vocabulary)]), output_hidden_states=True).hidden_states
            torch.testing.assert_close(vector, states[layer].mean(dim=1)[0], rtol=1e-5, atol=1e-5)
    for wrong in (-1, layers + 1):
        with pytest.raises(ConfigError, match=f"layer = {wrong}, but .* 1 to {layers}"):
            Embedder(folder, layer=wrong)
