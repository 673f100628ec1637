"""From the fields of OpenAI's completions to regard's decoding controls."""

import re
from typing import Any

from regard.serving.dialects.openai_types import BIAS, Sampling
from regard.serving.dialects.own import listed
from regard.serving.http_error import HttpProblem, unsupported
from regard.serving.models import Engine
from regard.verbs.shared.answerer import Task

TOKEN = re.compile(r"[0-9]{1,9}")  # its id
NEUTRAL = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}  # values that do not ask for sampling


def controls_of(body: Sampling, most: int | None, engine: Engine, task: Task) -> dict[str, Any]:
    """regard's decoding controls with the meaning of a request's fields, by name.

    Raises:
        HttpProblem: a field has a value that no control has.
    """
    values: dict[str, Any] = {
        "presence_penalty": body.presence_penalty,
        "frequency_penalty": body.frequency_penalty,
        "repetition_penalty": body.repetition_penalty,
        "max_new_tokens": most,
        "seed": body.seed,
    }
    sampling = {"top_p": body.top_p, "top_k": body.top_k, "min_p": body.min_p}
    if body.top_p == 0:
        raise HttpProblem(400, "top_p = 0 leaves no token", "temperature = 0 is greedy", parameter="top_p")
    if task == "generate":
        values |= sampling | {"temperature": body.temperature}
    elif body.temperature in (None, 0, 1) and all(
        value in (None, NEUTRAL[name]) for name, value in sampling.items()
    ):
        values.pop("seed")  # a translation is searched, not sampled, unless a field asks for samples
    else:
        values |= sampling | {"temperature": body.temperature, "sample": True}
    if body.stop:
        values["stop"] = tuple(listed(body.stop))
    values |= _biased(body.logit_bias or {}, engine)
    return {name: value for name, value in values.items() if value is not None}


def _biased(biases: dict[str, float], engine: Engine) -> dict[str, Any]:
    """The controls `ban_ids` and `boost` for a `logit_bias`, which maps token ids to biases.

    `boost` takes texts, so a token that is not banned must be the only token of its text. A text without a
    space before it also stands for the form with one: with a byte-level BPE "cat" also means " cat".
    """
    tokenizer = engine.model.loaded.tokenizers.target
    boosts, bans = [], []
    for name, bias in biases.items():
        if not (TOKEN.fullmatch(name) and int(name) < tokenizer.vocab_size):
            raise HttpProblem(
                400,
                f"logit_bias: {name[:20]} is not a token",
                "name tokens by their ids",
                parameter="logit_bias",
            )
        if bias <= -BIAS:
            bans.append(str(int(name)))
            continue
        text = tokenizer.decode([int(name)])
        if not text.strip() or [int(name)] not in [tokenizer.encode(each) for each in (text, " " + text)]:
            raise unsupported(
                f"logit_bias of token {name}",
                "it is not a text of its own",
                "choose another token",
                of="logit_bias",
            )
        boosts.append(f"{text}={bias:g}")
    return {"boost": tuple(boosts) or None, "ban_ids": tuple(bans) or None}
