"""Hand-made checkpoints of Marian, and what Marian computes with them, written out with numpy."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

Array = np.ndarray
DEFAULTS = {
    "type": "transformer",
    "dim-vocabs": [12, 12],
    "dim-emb": 8,
    "dim-rnn": 1024,
    "enc-depth": 2,
    "dec-depth": 2,
    "layer-normalization": False,
    "right-left": False,
    "skip": False,
    "tied-embeddings": False,
    "tied-embeddings-src": False,
    "tied-embeddings-all": True,
    "transformer-heads": 2,
    "transformer-no-projection": False,
    "transformer-dim-ffn": 6,
    "transformer-ffn-depth": 2,
    "transformer-ffn-activation": "swish",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-tied-layers": [],
    "transformer-preprocess": "",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess": "dan",
    "transformer-postprocess-top": "",
    "transformer-train-position-embeddings": False,
    "ulr": False,
    "ulr-dim-emb": 0,
    "special-vocab": [],
    "input-types": [],
    "lemma-dim-emb": 0,
    "output-omit-bias": False,
    "version": "v1.12.0 65bf82f 2023-02-21 09:56:29 -0800",
}
UNTIED = {"tied-embeddings-all": False}
EXPRESSIBLE = {  # settings that regard has, by what they mean
    "OPUS-MT": {},
    "output tied alone": {**UNTIED, "tied-embeddings": True},
    "both sides tied alone": {**UNTIED, "tied-embeddings-src": True},
    "tied by two settings": {**UNTIED, "tied-embeddings-src": True, "tied-embeddings": True},
    "nothing tied": UNTIED,
    "more target pieces": {**UNTIED, "dim-vocabs": [12, 14]},
    "more source pieces": {**UNTIED, "dim-vocabs": [14, 12], "tied-embeddings": True},
    "norm of the output alone": {"transformer-postprocess": "dna", "transformer-postprocess-top": "n"},
    "norm of the embeddings": {"transformer-postprocess-emb": "dn"},
    "relu": {"transformer-ffn-activation": "relu"},
    "no output bias": {"output-omit-bias": True},
    "shallow decoder": {"dec-depth": 1, "enc-depth": 3},
    "heads of an odd width": {"dim-emb": 6, "transformer-heads": 2},
}


def yaml_text(table: Mapping) -> str:
    """A table as yaml-cpp writes it."""

    def text(value) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, list):
            return (
                "[" + ", ".join(map(str, value)) + "]"
                if not value
                else "".join(f"\n  - {each}" for each in value)
            )
        return '""' if value == "" else str(value)

    return "".join(f"{name}: {text(value)}\n" for name, value in table.items())


def arrays_of(settings: Mapping, seed: int = 7) -> dict[str, Array]:
    """Random weights of these settings, by Marian's names."""
    table = {**DEFAULTS, **settings}
    d_model, d_ff = table["dim-emb"], table["transformer-dim-ffn"]
    rows = table["dim-vocabs"]
    draw = np.random.default_rng(seed)
    found: dict[str, Array] = {}

    def random(name: str, *shape: int, around: float = 0.0) -> None:
        found[name] = (around + 0.4 * draw.standard_normal(shape)).astype(np.float32)

    everything = table["tied-embeddings-all"]
    if everything or table["tied-embeddings-src"]:
        random("Wemb", rows[0], d_model)
    else:
        random("encoder_Wemb", rows[0], d_model)
        random("decoder_Wemb", rows[1], d_model)
    if not (everything or table["tied-embeddings"]):
        random("decoder_ff_logit_out_W", d_model, rows[1])
    if not table["output-omit-bias"]:
        random("decoder_ff_logit_out_b", 1, rows[1])

    def norm(name: str, suffix: str) -> None:
        random(f"{name}_ln_scale{suffix}", 1, d_model, around=1.0)
        random(f"{name}_ln_bias{suffix}", 1, d_model)

    def norms(name: str) -> None:
        if "n" in table["transformer-preprocess"]:
            norm(name, "_pre")
        if "n" in table["transformer-postprocess"]:
            norm(name, "")

    for side, depth in (("encoder", "enc-depth"), ("decoder", "dec-depth")):
        if "n" in table["transformer-postprocess-emb"]:
            norm(f"{side}_emb", "_pre")
        if "n" in table["transformer-postprocess-top"]:
            norm(f"{side}_top", "")
        for layer in range(1, table[depth] + 1):
            for part in ("self", *(("context",) if side == "decoder" else ())):
                name = f"{side}_l{layer}_{part}"
                for letter in "qkvo":
                    random(f"{name}_W{letter}", d_model, d_model)
                    random(f"{name}_b{letter}", 1, d_model)
                norms(f"{name}_Wo")
            name = f"{side}_l{layer}_ffn"
            random(f"{name}_W1", d_model, d_ff)
            random(f"{name}_b1", 1, d_ff)
            random(f"{name}_W2", d_ff, d_model)
            random(f"{name}_b2", 1, d_model)
            norms(f"{name}_ffn")
    return found


def write_model(folder: Path, settings: Mapping | None = None, name: str = "model.npz") -> dict[str, Array]:
    """Writes model.npz; the weights, too."""
    settings = settings or {}
    arrays = arrays_of(settings)
    text = yaml_text({**DEFAULTS, **settings}).encode() + b"\0"
    config = np.frombuffer(text, np.int8)
    np.savez(folder / name, **arrays, **{"special:model.yml": config})
    return arrays


def write_words(folder: Path, rows: int = 12, name: str = "vocab.yml") -> list[str]:
    """Writes a YAML vocabulary of so many pieces, of which some are words of YAML."""
    words = [
        "</s>",
        "<unk>",
        "no",
        "12",
        "null",
        "~",
        "das",
        "haus",
        "a:b",
        "it's",
        "#",
        "-",
        "zehn",
        "x",
        "y",
    ]
    words = [*words, *(f"w{number}" for number in range(rows))][:rows]
    (folder / name).write_text("".join(f'"{word}": {n}\n' for n, word in enumerate(words)), "utf-8")
    return words


def logits_of(arrays: Mapping[str, Array], settings: Mapping, src: list[int], tgt: list[int]) -> Array:
    """[len(tgt) + 1, rows]: the logits after nothing, after tgt[0], and so on (marian-dev, transformer.h)."""
    table = {**DEFAULTS, **settings}
    heads, d_model = table["transformer-heads"], table["dim-emb"]

    def embedded(ids: list[int], side: str) -> Array:
        matrix = arrays["Wemb"] if "Wemb" in arrays else arrays[f"{side}_Wemb"]
        # the first token of the target has no embedding
        vectors = [np.zeros(d_model) if each < 0 else matrix[each] for each in ids]
        x = math.sqrt(d_model) * np.array(vectors, np.float64)
        scales = d_model / 2
        for position in range(len(ids)):
            for i in range(d_model // 2):
                angle = position * math.exp(i * -(math.log(10000) / (scales - 1)))
                x[position, i] += math.sin(angle)
                x[position, d_model // 2 + i] += math.cos(angle)
        return before(f"{side}_emb", table["transformer-postprocess-emb"], x)

    def norm(x: Array, name: str, suffix: str) -> Array:
        mean = x.mean(-1, keepdims=True)
        deviation = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-6)
        return (x - mean) / deviation * arrays[f"{name}_ln_scale{suffix}"] + arrays[f"{name}_ln_bias{suffix}"]

    def before(name: str, operations: str, x: Array) -> Array:
        for operation in operations:
            x = norm(x, name, "_pre") if operation == "n" else x
        return x

    def after(name: str, operations: str, x: Array, residual: Array) -> Array:
        for operation in operations:
            if operation == "a":
                x = x + residual
            elif operation == "n":
                x = norm(x, name, "")
        return x

    def layer(name: str, x: Array, function) -> Array:
        found = function(before(name, table["transformer-preprocess"], x))
        return after(name, table["transformer-postprocess"], found, x)

    def attend(name: str, x: Array, memory: Array | None, causal: bool) -> Array:
        def function(y: Array) -> Array:
            # keys and values of a self-attention are those of the normalised input, as in MultiHead's calls
            keys = y if memory is None else memory
            query, key, value = (
                part @ arrays[f"{name}_W{letter}"] + arrays[f"{name}_b{letter}"]
                for letter, part in (("q", y), ("k", keys), ("v", keys))
            )
            mixed = np.zeros_like(query)
            width = d_model // heads
            for head in range(heads):
                own = slice(head * width, (head + 1) * width)
                scores = query[:, own] @ key[:, own].T / math.sqrt(width)
                if causal:
                    scores = np.where(np.tri(len(scores)) == 1, scores, -1e8)
                weights = np.exp(scores - scores.max(-1, keepdims=True))
                mixed[:, own] = weights / weights.sum(-1, keepdims=True) @ value[:, own]
            return mixed @ arrays[f"{name}_Wo"] + arrays[f"{name}_bo"]

        return layer(f"{name}_Wo", x, function)

    def feed_forward(name: str, x: Array) -> Array:
        def function(y: Array) -> Array:
            inner = y @ arrays[f"{name}_W1"] + arrays[f"{name}_b1"]
            relu = table["transformer-ffn-activation"] == "relu"
            inner = np.maximum(inner, 0) if relu else inner / (1 + np.exp(-inner))
            return inner @ arrays[f"{name}_W2"] + arrays[f"{name}_b2"]

        return layer(f"{name}_ffn", x, function)

    top = table["transformer-postprocess-top"]
    memory = embedded(src, "encoder")
    for number in range(1, table["enc-depth"] + 1):
        memory = attend(f"encoder_l{number}_self", memory, None, causal=False)
        memory = feed_forward(f"encoder_l{number}_ffn", memory)
    memory = after("encoder_top", top, memory, memory)
    x = embedded([-1, *tgt], "decoder")
    for number in range(1, table["dec-depth"] + 1):
        x = attend(f"decoder_l{number}_self", x, None, causal=True)
        x = attend(f"decoder_l{number}_context", x, memory, causal=False)
        x = feed_forward(f"decoder_l{number}_ffn", x)
    x = after("decoder_top", top, x, x)
    if "decoder_ff_logit_out_W" in arrays:
        logits = x @ arrays["decoder_ff_logit_out_W"]
    else:
        logits = x @ (arrays["Wemb"] if "Wemb" in arrays else arrays["decoder_Wemb"]).T
    return logits + arrays.get("decoder_ff_logit_out_b", 0.0)
