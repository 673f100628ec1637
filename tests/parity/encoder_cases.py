"""Random encoders that are compared with transformers in all that they compute."""

from tests.parity.cases import cases

SMALL = {
    "vocab_size": 43, "hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2,
    "intermediate_size": 17, "max_position_embeddings": 14,
}  # fmt: skip
ONE_LAYER = {"num_hidden_layers": 1, "hidden_size": 10, "num_attention_heads": 5}
THREE = {"id2label": {0: "bad", 1: "so", 2: "good"}, "label2id": {"bad": 0, "so": 1, "good": 2}}
FIVE = {"num_hidden_layers": 5, "vocab_size": 29, "type_vocab_size": 1}
BERT = cases(
    "bert",
    {
        "": {},
        "masked words": {"model": "BertForMaskedLM", **ONE_LAYER, "hidden_act": "gelu_new"},
        "pretraining": {"model": "BertForPreTraining"},
        "classes": {"model": "BertForSequenceClassification", **FIVE, **THREE},
        "a number": {"model": "BertForSequenceClassification", "num_labels": 1},
        "words": {"model": "BertForTokenClassification", **THREE, "hidden_act": "relu"},
        "answers": {"model": "BertForQuestionAnswering", "type_vocab_size": 3},
    },
    SMALL,
)
ROBERTA = cases(
    "roberta",
    {
        "": {"max_position_embeddings": 16},
        "masked words": {"model": "RobertaForMaskedLM", **ONE_LAYER, "type_vocab_size": 1},
        "classes": {"model": "RobertaForSequenceClassification", **FIVE, **THREE},
        "words": {"model": "RobertaForTokenClassification", **THREE},
    },
    SMALL,
)
DISTILBERT = cases(
    "distilbert",
    {
        "": {},
        "masked words": {"model": "DistilBertForMaskedLM", "n_layers": 1},
        "classes": {
            "model": "DistilBertForSequenceClassification", **THREE, "n_layers": 4, "dim": 15, "n_heads": 3,
        },
        "answers": {"model": "DistilBertForQuestionAnswering"},
    },
    {
        "vocab_size": 37, "dim": 14, "n_heads": 7, "n_layers": 2, "hidden_dim": 19,
        "max_position_embeddings": 13,
    },
)  # fmt: skip
XLM_ROBERTA = cases(
    "xlm-roberta",
    {
        "": {"max_position_embeddings": 16},
        "masked words": {
            "model": "XLMRobertaForMaskedLM", **ONE_LAYER, "type_vocab_size": 1, "hidden_act": "relu",
        },
        "classes": {"model": "XLMRobertaForSequenceClassification", **FIVE, **THREE},
        "a number": {"model": "XLMRobertaForSequenceClassification", "num_labels": 1},
        "words": {"model": "XLMRobertaForTokenClassification", **THREE},
        "answers": {"model": "XLMRobertaForQuestionAnswering"},
    },
    SMALL,
)  # fmt: skip
ELECTRA = cases(
    "electra",
    {
        "": {},
        "replaced tokens": {"model": "ElectraForPreTraining", "hidden_act": "relu"},
        "replaced tokens, one width": {
            "model": "ElectraForPreTraining", **ONE_LAYER, "embedding_size": 10, "layer_norm_eps": 1e-3,
        },
        "masked words": {"model": "ElectraForMaskedLM", "hidden_act": "relu"},
        "classes": {"model": "ElectraForSequenceClassification", **FIVE, **THREE, "embedding_size": 13},
        "a number": {"model": "ElectraForSequenceClassification", "num_labels": 1},
        "words": {"model": "ElectraForTokenClassification", **THREE},
        "answers": {"model": "ElectraForQuestionAnswering"},
    },
    {**SMALL, "embedding_size": 7},
)  # fmt: skip
MODERN = {
    **SMALL, "num_hidden_layers": 4, "local_attention": 4, "max_position_embeddings": 30, "pad_token_id": 0,
    "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
BIASES = {"norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True}
MODERNBERT = cases(
    "modernbert",
    {
        "": {},
        "masked words": {"model": "ModernBertForMaskedLM", "local_attention": 3},
        "masked words, biases": {
            "model": "ModernBertForMaskedLM", **BIASES, "classifier_activation": "relu",
            "hidden_activation": "silu", "norm_eps": 1e-3,
        },
        "classes": {
            "model": "ModernBertForSequenceClassification", **THREE, "classifier_pooling": "mean",
            "num_hidden_layers": 5,
        },
        "a number, all windows": {
            "model": "ModernBertForSequenceClassification", "num_labels": 1, "norm_bias": True,
            "layer_types": ["sliding_attention"] * 4,
        },
        "words, no windows": {
            "model": "ModernBertForTokenClassification", **THREE, "classifier_bias": True,
            "layer_types": ["full_attention"] * 4,
        },
        "answers": {
            "model": "ModernBertForQuestionAnswering", "global_attn_every_n_layers": 2, "mlp_bias": True,
        },
    },
    MODERN,
)  # fmt: skip
CASES = [*BERT, *ROBERTA, *DISTILBERT, *XLM_ROBERTA, *ELECTRA, *MODERNBERT]
