"""Pretrained encoders have the outputs of transformers: BERT, RoBERTa, DistilBERT, ELECTRA, each head."""

import pytest
import torch
import torch.nn.functional as F

from regard.inspection.record import record_attention

SMALL = {
    "vocab_size": 43,
    "hidden_size": 12,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 17,
    "max_position_embeddings": 14,
}
ONE_LAYER = {**SMALL, "num_hidden_layers": 1, "hidden_size": 10, "num_attention_heads": 5}
THREE = {"id2label": {0: "bad", 1: "so", 2: "good"}, "label2id": {"bad": 0, "so": 1, "good": 2}}
DISTIL = {
    "vocab_size": 37,
    "dim": 14,
    "n_heads": 7,
    "n_layers": 2,
    "hidden_dim": 19,
    "max_position_embeddings": 13,
}
FIVE = {**SMALL, "num_hidden_layers": 5, "vocab_size": 29, "type_vocab_size": 1}
CASES = {
    "bert": ("BertModel", "BertConfig", SMALL),
    "bert, masked words": ("BertForMaskedLM", "BertConfig", {**ONE_LAYER, "hidden_act": "gelu_new"}),
    "bert, pretraining": ("BertForPreTraining", "BertConfig", SMALL),
    "bert, classes": ("BertForSequenceClassification", "BertConfig", {**FIVE, **THREE}),
    "bert, a number": ("BertForSequenceClassification", "BertConfig", {**SMALL, "num_labels": 1}),
    "bert, words": ("BertForTokenClassification", "BertConfig", {**SMALL, **THREE, "hidden_act": "relu"}),
    "bert, answers": ("BertForQuestionAnswering", "BertConfig", {**SMALL, "type_vocab_size": 3}),
    "roberta": ("RobertaModel", "RobertaConfig", {**SMALL, "max_position_embeddings": 16}),
    "roberta, masked words": ("RobertaForMaskedLM", "RobertaConfig", {**ONE_LAYER, "type_vocab_size": 1}),
    "roberta, classes": ("RobertaForSequenceClassification", "RobertaConfig", {**FIVE, **THREE}),
    "roberta, words": ("RobertaForTokenClassification", "RobertaConfig", {**SMALL, **THREE}),
    "distilbert": ("DistilBertModel", "DistilBertConfig", DISTIL),
    "distilbert, masked words": ("DistilBertForMaskedLM", "DistilBertConfig", {**DISTIL, "n_layers": 1}),
    "distilbert, classes": (
        "DistilBertForSequenceClassification",
        "DistilBertConfig",
        {**DISTIL, **THREE, "n_layers": 4, "dim": 15, "n_heads": 3},
    ),
    "distilbert, answers": ("DistilBertForQuestionAnswering", "DistilBertConfig", DISTIL),
}
NARROW = {**SMALL, "embedding_size": 7}
CASES |= {
    "xlm-roberta": ("XLMRobertaModel", "XLMRobertaConfig", {**SMALL, "max_position_embeddings": 16}),
    "xlm-roberta, masked words": (
        "XLMRobertaForMaskedLM",
        "XLMRobertaConfig",
        {**ONE_LAYER, "type_vocab_size": 1, "hidden_act": "relu"},
    ),
    "xlm-roberta, classes": ("XLMRobertaForSequenceClassification", "XLMRobertaConfig", {**FIVE, **THREE}),
    "xlm-roberta, a number": (
        "XLMRobertaForSequenceClassification",
        "XLMRobertaConfig",
        {**SMALL, "num_labels": 1},
    ),
    "xlm-roberta, words": ("XLMRobertaForTokenClassification", "XLMRobertaConfig", {**SMALL, **THREE}),
    "xlm-roberta, answers": ("XLMRobertaForQuestionAnswering", "XLMRobertaConfig", SMALL),
    "electra": ("ElectraModel", "ElectraConfig", NARROW),
    "electra, replaced tokens": ("ElectraForPreTraining", "ElectraConfig", {**NARROW, "hidden_act": "relu"}),
    "electra, replaced tokens, one width": (
        "ElectraForPreTraining",
        "ElectraConfig",
        {**ONE_LAYER, "embedding_size": 10, "layer_norm_eps": 1e-3},
    ),
    "electra, masked words": ("ElectraForMaskedLM", "ElectraConfig", {**NARROW, "hidden_act": "relu"}),
    "electra, classes": (
        "ElectraForSequenceClassification",
        "ElectraConfig",
        {**FIVE, **THREE, "embedding_size": 13},
    ),
    "electra, a number": ("ElectraForSequenceClassification", "ElectraConfig", {**NARROW, "num_labels": 1}),
    "electra, words": ("ElectraForTokenClassification", "ElectraConfig", {**NARROW, **THREE}),
    "electra, answers": ("ElectraForQuestionAnswering", "ElectraConfig", NARROW),
}
MODERN = {
    **SMALL, "num_hidden_layers": 4, "local_attention": 4, "max_position_embeddings": 30, "pad_token_id": 0,
    "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
BIASES = {"norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True}
CASES |= {
    "modernbert": ("ModernBertModel", "ModernBertConfig", MODERN),
    "modernbert, masked words": (
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        {**MODERN, "local_attention": 3},
    ),
    "modernbert, masked words, biases": (
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        {**MODERN, **BIASES, "classifier_activation": "relu", "hidden_activation": "silu", "norm_eps": 1e-3},
    ),
    "modernbert, classes": (
        "ModernBertForSequenceClassification",
        "ModernBertConfig",
        {**MODERN, **THREE, "classifier_pooling": "mean", "num_hidden_layers": 5},
    ),
    "modernbert, a number, all windows": (
        "ModernBertForSequenceClassification",
        "ModernBertConfig",
        {**MODERN, "num_labels": 1, "layer_types": ["sliding_attention"] * 4, "norm_bias": True},
    ),
    "modernbert, words, no windows": (
        "ModernBertForTokenClassification",
        "ModernBertConfig",
        {**MODERN, **THREE, "layer_types": ["full_attention"] * 4, "classifier_bias": True},
    ),
    "modernbert, answers": (
        "ModernBertForQuestionAnswering",
        "ModernBertConfig",
        {**MODERN, "global_attn_every_n_layers": 2, "mlp_bias": True},
    ),
}
LENGTHS = torch.tensor([9, 4, 2])
REAL = torch.arange(9) < LENGTHS[:, None]


@pytest.fixture(params=CASES, scope="module")
def pair(request, make):
    return make(request.param, *CASES[request.param])


@pytest.fixture
def ids(pair):
    """Rows of other lengths, padded with the mark that their model knows."""
    generator = torch.Generator().manual_seed(2)
    return torch.randint(4, pair.config.vocab_size, (3, 9), generator=generator).where(
        REAL, pair.config.pad_id
    )


@pytest.fixture
def types(pair):
    """The second half of a text is of the second type, where there are types."""
    if pair.config.num_token_types < 2:
        return None
    return (torch.arange(9) >= 2).long().expand(3, 9)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def called(pair, ids, types, **more):
    """What theirs says."""
    typed = {} if pair.pretrained.family == "distilbert" or types is None else {"token_type_ids": types}
    return pair.theirs(ids, attention_mask=REAL.long(), **typed, **more)


def answers(pair, ours, theirs):
    """What both say at places that are not padding, in one form."""
    match pair.config.head:
        case "none":
            return ours[REAL], theirs.last_hidden_state[REAL]
        case "pooled":
            return ours, theirs.pooler_output
        case "spans":
            there = torch.stack([theirs.start_logits, theirs.end_logits], dim=1)
            return ours.transpose(1, 2)[REAL], there.transpose(1, 2)[REAL]
        case "regression":
            return ours, theirs.logits[:, 0]
        case "classification":
            return ours, theirs.logits
    there = theirs.prediction_logits if "prediction_logits" in theirs else theirs.logits
    return ours[REAL], there[REAL]


@torch.no_grad()
def test_answers_states_and_attentions_are_theirs(pair, ids, types, listen):
    encoder = pair.ours.encoder
    last = (
        [] if isinstance(encoder.norm, torch.nn.Identity) else [encoder.norm]
    )  # instead of the last block's
    modules = [encoder.input, *encoder.blocks[: len(encoder.blocks) - len(last)], *last]
    with listen(modules) as states, record_attention(pair.ours) as recording:
        ours = pair.ours(ids, LENGTHS, types)
    theirs = called(pair, ids, types, output_hidden_states=True, output_attentions=True)
    close(*answers(pair, ours, theirs))
    for here, there in zip(states, theirs.hidden_states, strict=True):
        close(here[REAL], there[REAL])
    assert len(theirs.attentions) == pair.config.num_layers
    for number, there in enumerate(theirs.attentions):
        here = recording.last_weights(f"encoder.blocks.{number}.self_attention")
        for row, length in enumerate(LENGTHS):
            close(here[row, :, :length], there[row, :, :length])


def test_loss_and_gradients_are_theirs(pair, ids, types, gradients_by_file_name):
    ours, theirs = answers(pair, pair.ours(ids, LENGTHS, types), called(pair, ids, types))
    weights = torch.randn(theirs.shape, generator=torch.Generator().manual_seed(9))
    for model, answer in ((pair.ours, ours), (pair.theirs, theirs)):
        model.zero_grad()
        (answer * weights).sum().backward()
    here, there = gradients_by_file_name(pair)
    assert len(there) >= (6 if pair.pretrained.family == "modernbert" else 16) * pair.config.num_layers
    for name, gradient in there.items():
        torch.testing.assert_close(
            here[name], gradient, rtol=1e-4, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


@torch.no_grad()
def test_the_way_back_is_equal(pair, ids, types, given_back):
    theirs = given_back(pair)(
        ids, attention_mask=REAL.long(), **({} if types is None else {"token_type_ids": types})
    )
    close(*answers(pair, pair.ours(ids, LENGTHS, types), theirs))


@torch.no_grad()
def test_folders_there_and_back_say_the_same(pair, ids, types, through_folders):
    loaded, theirs = through_folders(pair)
    expected = pair.ours(ids, LENGTHS, types)
    torch.testing.assert_close(loaded.model(ids, LENGTHS, types), expected, rtol=0, atol=0)
    typed = {} if types is None else {"token_type_ids": types}
    close(*answers(pair, expected, theirs(ids, attention_mask=REAL.long(), **typed)))


def test_labels_are_theirs(pair):
    names = tuple(pair.theirs.config.id2label.values())
    assert pair.pretrained.loaded.labels == (names if pair.config.num_labels else ())


@torch.no_grad()
def test_positions_run_out(pair):
    ids = torch.full((1, pair.config.max_positions + 1), 5)
    if pair.config.positions == "rotary":
        assert pair.ours.max_length is None
        return
    with pytest.raises(ValueError, match="max_positions"):
        pair.ours(ids, torch.tensor([ids.size(1)]))


@torch.no_grad()
def test_the_loss_of_masked_words_is_that_of_transformers(make):
    pair = make("bert, masked words", *CASES["bert, masked words"])
    ids = torch.randint(4, pair.config.vocab_size, (3, 9), generator=torch.Generator().manual_seed(2))
    labels = ids.where(torch.rand(3, 9, generator=torch.Generator().manual_seed(1)) < 0.4, -100)
    theirs = pair.theirs(ids, attention_mask=REAL.long(), labels=labels)
    logits = pair.ours(ids, LENGTHS)
    close(F.cross_entropy(logits.flatten(0, 1), labels.flatten()), theirs.loss)


def test_what_is_left_out_is_named(make):
    pair = make("bert, pretraining", *CASES["bert, pretraining"])
    assert pair.pretrained.unused == (
        "bert.pooler.dense.bias",
        "bert.pooler.dense.weight",
        "cls.seq_relationship.bias",
        "cls.seq_relationship.weight",
    )
