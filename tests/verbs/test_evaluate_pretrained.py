"""A language model that no recipe trained is scored on a text by its own length."""

import math

import pytest
import torch

from regard.errors import UserError
from regard.verbs.evaluate import evaluate
from regard.verbs.shared.pretrained_recipe import evaluated_recipe
from regard.weights.model_folder import load_model

TEXT = "To be, or not to be:\nthat is the question.\n"


@pytest.mark.parametrize("begin", [True, False])
def test_the_perplexity_is_that_of_its_tokens(decoder_folder, tmp_path, begin):
    folder = decoder_folder(decoding={"begin": begin}, trained_length=64)
    (tmp_path / "text.txt").write_text(TEXT)
    found = evaluate(model=folder, data=tmp_path / "text.txt")
    scores = {score.name: score for score in found.scores}
    loaded = load_model(folder)
    tokenizer = loaded.tokenizers.source
    ids = tokenizer.encode(TEXT)
    if begin:
        ids = [tokenizer.bos_id, *ids, tokenizer.eos_id]
    logits = loaded.model(torch.tensor([ids[:-1]]))[0]
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:])).item()
    assert scores["perplexity"].value == pytest.approx(math.exp(loss), rel=1e-4)
    assert "|block:64|" in scores["perplexity"].signature


def test_windows_are_no_longer_than_those_of_training(decoder_folder):
    model = load_model(decoder_folder(positions="learned", max_positions=64, trained_length=32))
    assert evaluated_recipe(model, "text.txt").recipe.task.block == 32


def test_without_a_text_there_is_nothing_to_score(decoder_folder):
    with pytest.raises(UserError, match="not trained by a recipe") as refused:
        evaluate(model=decoder_folder())
    assert "--data FILE" in refused.value.hint
