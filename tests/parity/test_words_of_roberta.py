"""`regard tag` with a RoBERTa reads each word as transformers does, with the space that stands before it."""

import pytest
import torch

from regard.verbs.convert import convert
from regard.verbs.tag import Tagger

LABELS = {"id2label": {0: "A", 1: "B", 2: "C", 3: "D", 4: "E"}}
SENTENCES = [["of", "a", "film", "of", "o"], ["a", "good", "of", "."], ["don't", "of-of"], ["Ärger"]]


@pytest.fixture(scope="module")
def roberta(their_encoder):
    marks = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "max_position_embeddings": 40}
    settings = {**LABELS, **marks, "label2id": {name: n for n, name in LABELS["id2label"].items()}}
    return their_encoder("RobertaForTokenClassification", **settings)[:2]


@torch.no_grad()
def test_labels_are_theirs(roberta, tmp_path):
    from transformers import AutoTokenizer

    folder, theirs = roberta
    tokenizer = AutoTokenizer.from_pretrained(folder, add_prefix_space=True)
    convert(folder, out=tmp_path / "ours")
    found = [list(Tagger(each, device="cpu")(SENTENCES)) for each in (folder, tmp_path / "ours")]
    for place, words in enumerate(SENTENCES):
        asked = tokenizer(words, is_split_into_words=True, return_tensors="pt")
        shares = theirs(**asked).logits[0].softmax(-1)
        firsts = [asked.word_ids().index(number) for number in range(len(words))]
        for ours in found:
            assert [each.label for each in ours[place].words] == [
                LABELS["id2label"][int(shares[first].argmax())] for first in firsts
            ]
            assert [each.probability for each in ours[place].words] == pytest.approx(
                [float(shares[first].max()) for first in firsts], abs=1e-4
            )
