"""Makes checkpoints of Sockeye by its own code, with the logits and the ids that it computes.

Run by a Python that has sockeye: `python make_sockeye.py OUT`.
"""

import json
import sys
from pathlib import Path

import torch
from sockeye import data_io, encoder, layers, model, transformer

TEXTS = ["the lowest house", "a new  house", "no unknown word", "lower low"]
PIECES = ["<pad>", "<unk>", "<s>", "</s>", "the", "lowest", "house", "a", "new", "low", "lower", "x"]
STACK = {
    "model_size": 8, "attention_heads": 2, "feed_forward_num_hidden": 12, "act_type": "relu", "num_layers": 2,
    "dropout_attention": 0.1, "dropout_act": 0.1, "dropout_prepost": 0.1,
    "positional_embedding_type": "fixed", "preprocess_sequence": "n", "postprocess_sequence": "dr",
    "max_seq_len_source": 20, "max_seq_len_target": 20, "depth_key_value": 8,
}  # fmt: skip
CASES = {
    "shared": ({}, {}),
    "post-norm": ({"preprocess_sequence": "", "postprocess_sequence": "drn", "act_type": "gelu"},
                  {"weight_tying_type": "trg_softmax"}),
    "gated": ({"use_glu": True, "act_type": "swish1"}, {"weight_tying_type": "none"}),
    "learned": ({"positional_embedding_type": "learned"},
                {"weight_tying_type": "src_trg", "config_length_task": layers.LengthRatioConfig(1, 1.0)}),
    "gated gelu": ({"use_glu": True, "act_type": "gelu"}, {}),
    "swish": ({"act_type": "swish1"}, {}),
}  # fmt: skip


def make(folder: Path, changes: dict, more: dict) -> None:
    folder.mkdir(parents=True)
    for side in ("src", "trg"):
        vocabulary = {piece: number for number, piece in enumerate(PIECES)}
        (folder / f"vocab.{side}.0.json").write_text(json.dumps(vocabulary), "utf-8")
    statistics = data_io.DataStatistics(
        num_sents=9, num_discarded=0, num_tokens_source=30, num_tokens_target=30, num_unks_source=0,
        num_unks_target=0, max_observed_len_source=9, max_observed_len_target=9,
        size_vocab_source=len(PIECES), size_vocab_target=len(PIECES), length_ratio_mean=1.1,
        length_ratio_std=0.3, buckets=[(10, 10)], num_sents_per_bucket=[9],
        average_len_target_per_bucket=[7.0], length_ratio_stats_per_bucket=[(1.1, 0.3)],
    )  # fmt: skip
    data = data_io.DataConfig(statistics, 20, 20, num_source_factors=1, num_target_factors=1)
    sizes = {"vocab_source_size": len(PIECES), "vocab_target_size": len(PIECES)}
    embeddings = {
        f"config_embed_{side}": encoder.EmbeddingConfig(len(PIECES), 8, 0.0) for side in ("source", "target")
    }
    stacks = {
        "config_encoder": transformer.TransformerConfig(**{**STACK, **changes}),
        "config_decoder": transformer.TransformerConfig(**{**STACK, **changes, "num_layers": 1}),
    }
    config = model.ModelConfig(config_data=data, **sizes, **embeddings, **stacks, **more)
    network = model.SockeyeModel(config)
    torch.manual_seed(5)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if not (
                name.endswith("pos_embedding.weight")
                and stacks["config_encoder"].positional_embedding_type == "fixed"
            ):
                around = 1.0 if name.endswith("layer_norm.weight") else 0.0
                parameter.copy_(around + 0.4 * torch.randn_like(parameter))
    network.save_config(str(folder))
    network.save_parameters(str(folder / "params.best"))
    network.eval()
    src, tgt = torch.tensor([[7, 5, 9, 6, 3]]), torch.tensor([[2, 6, 4, 10, 8]])
    lengths = torch.tensor([[5, 0]])
    with torch.no_grad():
        found = network(src[..., None], lengths, tgt[..., None], torch.tensor([5]))
    ids = [[vocabulary.get(token, 1) for token in text.split()] for text in TEXTS]
    expected = {"src": src[0].tolist(), "tgt": tgt[0].tolist(), "logits": found["logits"][0].tolist()}
    expected |= {"texts": TEXTS, "ids": ids, "outputs": [[6, 4, 1]], "output_texts": ["house the <unk>"]}
    (folder / "expected.json").write_text(json.dumps(expected), "utf-8")


if __name__ == "__main__":
    for name, (changes, more) in CASES.items():
        make(Path(sys.argv[1]).resolve() / name, changes, more)
