"""A decoding rule of one's own: a lipogram, a text without a certain letter.

    python examples/decoding_rule.py

`rules=["no_a"]` in a call, `rules = ["no_a"]` in `[decoding]` of a recipe, and `--rule no_a` name it.
"""

import torch
from jaxtyping import Float
from torch import Tensor

import regard
from regard.decoding import ForbiddingRule, GeneratedTokens, SpecialTokenIds, Words, register_rule


@register_rule("no_a")
class NoLetterA(ForbiddingRule):
    """Forbids each token whose text has an a."""

    def __init__(self, tokenizer: Words, special: SpecialTokenIds) -> None:
        texts = [tokenizer.decode([token]) for token in range(tokenizer.vocab_size)]
        self.forbidden = [token for token, text in enumerate(texts) if "a" in text.lower()]

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        log_probs[:, self.forbidden] = -torch.inf


if __name__ == "__main__":
    sentence = "I lost my umbrella on the train yesterday."
    print(regard.translate(sentence))
    print(regard.translate(sentence, rules=["no_a"]))
