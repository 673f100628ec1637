"""Looks that no model made: numbers of the right shapes, for developing and testing the page by itself."""

import io
import json
import math
from typing import Any

import numpy as np

SOURCE = ["the", " station", " is", " near", " the", " river", ".", "</s>"]
WRITTEN = ["der", " Bahn", "hof", " liegt", " am", " Fluss", ".", "</s>"]
VOCABULARY = [
    *dict.fromkeys([*SOURCE, *WRITTEN]),
    " die",
    " das",
    " ein",
    " See",
    " Ufer",
    " ist",
    " nahe",
    "!",
    " Zug",
]
WIDTH, HEADS, LAYERS, D_HEAD, D_MODEL, KEPT = 32, 4, 3, 8, 32, 20


class Fixture:
    """One Look: `summary`, JSON `documents` and `arrays` by path."""

    def __init__(self, kind: str, tokens: dict[str, list[str]] | None = None, *, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.kind = kind
        self.documents: dict[str, Any] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self.tokens = tokens or sequences_of(kind)
        self.summary = self._summary()
        self._answer()
        self._model()
        self.summary["resources"] = sorted(["summary", *self.documents, *self.arrays])

    def bytes(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Documents and arrays as they travel."""
        documents = {path: json.dumps(value).encode() for path, value in self.documents.items()}
        return documents, {path: npy(array) for path, array in self.arrays.items()}

    def _summary(self) -> dict[str, Any]:
        last = self.tokens.get("written", [])
        return {
            "format": 1,
            "model": {
                "name": f"fixture, {self.kind}",
                "kind": self.kind,
                "parameters": 60_123_456,
                "d_model": D_MODEL,
            },
            "sequences": {
                name: {
                    "tokens": tokens,
                    "ids": [identifier(token) for token in tokens],
                    "special": [token.startswith("<") and token.endswith(">") for token in tokens],
                }
                for name, tokens in self.tokens.items()
            },
            "text": "".join(self.tokens.get("source", self.tokens.get("text", last))[:-1]),
            "answer": None,
            "attentions": [],
            "alignment": None,
            "logits": None,
            "changes": {"heads": {}, "layers": [], "tokens": []},
            "resources": [],
        }

    def _model(self) -> None:
        parts = {
            "encoder_decoder": [
                ("encoder", "source", "source"),
                ("decoder", "read", "read"),
                ("cross", "read", "source"),
            ],
            "decoder_only": [("decoder", "read", "read")],
            "encoder_only": [("encoder", "text", "text")],
        }[self.kind]
        for part, rows, columns in parts:
            for layer in range(LAYERS):
                self._attention(part, layer, rows, columns)
        self._heads()
        self._about_the_model()

    def _attention(self, part: str, layer: int, rows: str, columns: str) -> None:
        name = f"{part}.{layer}"
        height, width = len(self.tokens[rows]), len(self.tokens[columns])
        self.summary["attentions"].append(
            {"name": name, "part": part, "layer": layer, "num_heads": HEADS, "rows": rows, "columns": columns}
        )
        query = self.random.normal(size=(HEADS, height, D_HEAD)).astype(np.float32)
        key = self.random.normal(size=(HEADS, width, D_HEAD)).astype(np.float32)
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(D_HEAD)
        offsets = np.arange(height)[:, None] * (width - 1) / max(1, height - 1) - np.arange(width)[None]
        bias = -np.abs(offsets[None] + np.arange(HEADS)[:, None, None] - 1) * (layer + 1) / 2
        mask = np.tril(np.ones((1, height, width))) if part == "decoder" else np.ones((1, height, width))
        weights = softmax(np.where(mask > 0, scores + bias, -np.inf))
        self.arrays |= {
            f"attention/{name}": weights.astype(np.float16),
            f"query/{name}": query,
            f"key/{name}": key,
            f"value/{name}": self.random.normal(size=(HEADS, width, D_HEAD)).astype(np.float32),
            f"mask/{name}": mask.astype(np.uint8),
            f"bias/{name}": bias.astype(np.float32),
        }

    def _heads(self) -> None:
        kinds = ("previous", "next", "same", "duplicate", "induction", "first", "end", "aligning", "copying")
        self.documents["heads"] = [
            {key: attention[key] for key in ("name", "part", "layer")}
            | {
                "head": head,
                "entropy": float(self.random.uniform(0, 2)),
                "distance": float(self.random.uniform(0, 4)),
            }
            | {
                kind: float(self.random.uniform())
                if attention["part"] != "cross" or kind in ("end", "aligning", "copying")
                else None
                for kind in kinds
            }
            for attention in self.summary["attentions"]
            for head in range(HEADS)
        ]

    def _answer(self) -> None:
        if self.kind == "encoder_only":
            self.summary["answer"] = {
                "labels": [
                    {"label": "positive", "probability": 0.91},
                    {"label": "negative", "probability": 0.07},
                    {"label": "mixed", "probability": 0.02},
                ]
            }
            self._rollout({"encoder": "text"})
            self._attribution("text", 1)
            self._ablation(-0.09, "text")
            return
        written = self.tokens["written"]
        steps = [self._step(token) for token in written]
        self.documents["steps"] = steps
        total = sum(step["log_prob"] for step in steps)
        self.summary["answer"] = {
            "text": "".join(written[:-1]),
            "log_prob": total,
            "score": total / len(steps),
            "forced": 0,
        }
        self._logits(written, steps)
        self._lens(written)
        self._beam(written)
        columns = "source" if self.kind == "encoder_decoder" else "read"
        self._attribution(columns, len(written))
        self._ablation(total, columns)
        if self.kind == "encoder_decoder":
            self._rollout({"encoder": "source", "decoder": "read"})
            self._alignment()
        else:
            self._rollout({"decoder": "read"})

    def _step(self, token: str) -> dict[str, Any]:
        words = [token, *[word for word in VOCABULARY if word != token]]
        logits = np.sort(self.random.normal(size=len(words)) * 1.5)[::-1]
        logits[0] += self.random.uniform(0, 4)
        log_probs = np.log(softmax(logits))
        candidates = [
            {"id": identifier(word), "token": word, "log_prob": float(value)}
            for word, value in zip(words[:20], log_probs, strict=False)
        ]
        entropy = float(-(np.exp(log_probs) * log_probs).sum())
        own = {"id": identifier(token), "token": token, "log_prob": float(log_probs[0])}
        return own | {"entropy": entropy, "rank": 1, "candidates": candidates}

    def _logits(self, written: list[str], steps: list[dict[str, Any]]) -> None:
        kept = min(KEPT, len(VOCABULARY))
        self.summary["logits"] = {"vocab_size": len(VOCABULARY), "kept": kept}
        rows = [step["candidates"][:kept] for step in steps]
        self.arrays["logits"] = np.array([[one["log_prob"] + 5 for one in row] for row in rows], np.float32)
        self.arrays["logit_ids"] = np.array([[one["id"] for one in row] for row in rows], np.int32)
        self.documents["logit_tokens"] = {str(identifier(word)): word for word in VOCABULARY}

    def _lens(self, written: list[str]) -> None:
        layers = ["embedding", *[str(layer + 1) for layer in range(LAYERS)]]

        def cell(token: str, layer: int) -> list[dict[str, Any]]:
            words = self.random.permutation([word for word in VOCABULARY if word != token])[:5].tolist()
            words.insert(max(0, 5 - 2 * layer), token)
            values = np.log(softmax(np.sort(self.random.normal(size=5) * (layer + 1))[::-1]))
            return [{"id": identifier(word), "token": word, "log_prob": float(value)}
                    for word, value in zip(words[:5], values, strict=True)]  # fmt: skip

        cells = [[cell(token, layer) for token in written] for layer in range(len(layers))]
        ranks = [
            [int(self.random.integers(1, 2 + 30 // (layer + 1))) for _ in written]
            for layer in range(len(layers))
        ]
        entropy = [
            [float(self.random.uniform(0, 3 - layer / 2)) for _ in written] for layer in range(len(layers))
        ]
        self.documents["lens"] = {
            "layers": layers,
            "positions": "written",
            "cells": cells,
            "rank": ranks,
            "entropy": entropy,
        }

    def _beam(self, written: list[str]) -> None:
        nodes: list[dict[str, Any]] = []
        live = [None]
        for step, token in enumerate(written):
            grown = []
            for place, parent in enumerate(live[:2]):
                for other in range(2):
                    word = (
                        token
                        if place == 0 and other == 0
                        else VOCABULARY[(step * 5 + place * 3 + other) % len(VOCABULARY)]
                    )
                    log_prob = -float(self.random.uniform(0, 1 + other + place))
                    total = (nodes[parent]["total"] if parent is not None else 0.0) + log_prob
                    own = {"id": len(nodes), "parent": parent, "step": step, "token": word}
                    own |= {"token_id": identifier(word), "log_prob": log_prob, "total": total}
                    state = "live" if other == 0 else "dropped"
                    nodes.append(own | {"score": total / (step + 1), "state": state})
                    grown.append(len(nodes) - 1)
            live = [node for node in grown if nodes[node]["state"] == "live"]
        for number, node in enumerate(live):
            nodes[node]["state"] = "ended" if number else "best"
        self.documents["beam"] = {"beam_size": 2, "nodes": nodes}

    def _alignment(self) -> None:
        height, width = len(self.tokens["written"]), len(self.tokens["source"])
        near = -np.abs(np.arange(height)[:, None] - np.arange(width)[None]) * 1.5
        weights = softmax(near + self.random.normal(size=(height, width)) / 2)
        pairs = [[int(weights[row].argmax()), row] for row in range(height - 1)]
        self.arrays["alignment"] = weights.astype(np.float32)
        self.summary["alignment"] = {
            "name": f"cross.{LAYERS - 1}", "layer": LAYERS - 1, "heads": None, "pairs": pairs,
            "why": "the layer before the last, as nothing better is known",
            "pharaoh": " ".join(f"{i}-{j}" for i, j in pairs),
        }  # fmt: skip

    def _rollout(self, parts: dict[str, str]) -> None:
        for part, sequence in parts.items():
            length = len(self.tokens[sequence])
            scores = self.random.normal(size=(length, length)) * 2
            if part == "decoder":
                scores = np.where(np.tril(np.ones((length, length))) > 0, scores, -np.inf)
            self.arrays[f"rollout/{part}"] = softmax(scores).astype(np.float32)

    def _attribution(self, columns: str, rows: int) -> None:
        methods = ["gradient", "integrated"]
        note = "The gradient of each token's log-probability, times the embedding."
        self.documents["attribution"] = {
            "columns": columns,
            "rows": [*range(rows)] if rows > 1 else None,
            "methods": methods,
            "most_missing": {"share": 0.1, "nats": 0.1},
            "note": note,
        }
        for method in methods:
            values = self.random.normal(size=(rows, len(self.tokens[columns]))) / 3
            self.arrays[f"attribution/{method}"] = values.astype(np.float32)
        self.arrays["attribution/missing"] = np.full(rows, 0.02, np.float32)

    def _ablation(self, baseline: float, columns: str) -> None:
        blocks = [f"{part}.{layer}" for part in ("encoder", "decoder") for layer in range(LAYERS)]
        parts = {
            "encoder_decoder": ("encoder", "decoder", "cross"),
            "decoder_only": ("decoder",),
            "encoder_only": ("encoder",),
        }

        def change() -> float:
            return float(-self.random.gamma(0.5, 1.0) + 0.2)

        self.documents["ablation"] = {
            "baseline": baseline,
            "heads": [{"name": f"{part}.{layer}", "head": head, "change": change()}
                      for part in parts[self.kind] for layer in range(LAYERS) for head in range(HEADS)],
            "layers": [{"name": name, "change": 3 * change()} for name in blocks
                       if name.split(".")[0] in parts[self.kind]],
            "tokens": [{"position": i, "change": 2 * change()} for i in range(len(self.tokens[columns]))],
        }  # fmt: skip

    def _about_the_model(self) -> None:
        positions = np.arange(WIDTH)[:, None]
        angles = positions / 10_000 ** (2 * (np.arange(D_MODEL) // 2) / D_MODEL)
        table = np.where(np.arange(D_MODEL) % 2 == 0, np.sin(angles), np.cos(angles)).astype(np.float32)
        self.documents["positions"] = {
            "scheme": "sinusoidal",
            "length": WIDTH,
            "d": D_MODEL,
            "note": "Fixed waves, as in the paper.",
        }
        self.arrays["positions/table"] = table
        self.arrays["positions/similarity"] = (table @ table.T / (D_MODEL / 2)).astype(np.float32)
        self.documents["neighbours"] = {
            name: [self._near() for _ in tokens] for name, tokens in self.tokens.items() if name != "written"
        }
        self.documents["architecture"] = architecture(self.tokens)

    def _near(self) -> list[dict[str, Any]]:
        words = self.random.permutation(VOCABULARY)[:8].tolist()
        return [
            {"id": identifier(word), "token": word, "cosine": 0.9 - 0.1 * i} for i, word in enumerate(words)
        ]


def sequences_of(kind: str) -> dict[str, list[str]]:
    """The tokens of each sequence of a model of this kind."""
    if kind == "encoder_decoder":
        return {"source": SOURCE, "read": ["<s>", *WRITTEN[:-1]], "written": WRITTEN}
    if kind == "decoder_only":
        return {"read": ["<s>", *SOURCE[:-1]], "written": SOURCE}
    return {"text": ["<cls>", *SOURCE[:-1], "<sep>"]}


def architecture(tokens: dict[str, list[str]]) -> dict[str, Any]:
    """A small tree of modules."""
    names = (
        ("encoder", "decoder") if "source" in tokens else ("decoder",) if "read" in tokens else ("encoder",)
    )
    stacks = [module(name, "Stack", 0, *[block(f"blocks.{i}") for i in range(LAYERS)]) for name in names]
    tree = module("model", "Transformer", 0, module("embedding", "Embedding", 8_192_000), *stacks)
    totals = {"parameters": tree["parameters"], "flops": tree["flops"]}
    return {"tree": tree, "totals": totals | {"cache_bytes": 49_152, "activation_bytes": 1_234_567}}


def block(name: str) -> dict[str, Any]:
    parts = (
        ("attention", "SelfAttention", 1_050_624),
        ("norm", "LayerNorm", 1024),
        ("feedforward", "FeedForward", 2_099_712),
    )
    return module(name, "Block", 0, *[module(*part) for part in parts])


def module(name: str, kind: str, parameters: int, *children: dict[str, Any]) -> dict[str, Any]:
    parameters = parameters or sum(child["parameters"] for child in children)
    own = {"name": name, "type": kind, "parameters": parameters, "flops": 12 * parameters}
    return own | {"output": [1, 8, D_MODEL], "children": list(children)}


def identifier(token: str) -> int:
    """A token's id; one that is not in the vocabulary shares the last."""
    return VOCABULARY.index(token) if token in VOCABULARY else len(VOCABULARY)


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def npy(array: np.ndarray) -> bytes:
    """The array as an .npy file."""
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(array), allow_pickle=False)
    return stream.getvalue()


KINDS = ("encoder_decoder", "decoder_only", "encoder_only")
