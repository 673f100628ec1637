"""Continuations of prompts, and how they are written: as text or as JSON."""

import json
from dataclasses import dataclass
from typing import Any

from regard.verbs.generation.scored_tokens import Alternatives
from regard.verbs.shared.precision import with_precision
from regard.verbs.shared.runtime import Precision

BETWEEN = "---\n"  # between several texts


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """The continuation of a prompt, without it; its probability, the end included, is conditional on it."""

    text: str
    score: float  # that ranks the texts of a beam; with minimum Bayes risk the expected utility
    log_prob: float  # nats
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]  # the end's too, where there is one
    alternatives: tuple[Alternatives, ...] = ()  # of each token, if they were asked for

    @property
    def log_probs_of_tokens(self) -> tuple[float, ...]:
        """The log-probability of each token, without that of the end."""
        return self.token_log_probs[: len(self.tokens)]


@dataclass(frozen=True, kw_only=True)
class PromptContinuations:
    """A prompt, its line (from 1), and its continuations; best first, or samples in their order.

    An empty line has none if the model has no begin token. The prompt of a `chat` is the conversation as its
    template wrote it.
    """

    line: int
    prompt: str
    continuations: tuple[Continuation, ...]
    precision: Precision = "float32"  # of scores and log-probabilities
    chat: bool = False

    @property
    def texts(self) -> list[str]:
        """The prompt with each continuation, or alone if there is none; of a chat the answers alone."""
        if self.chat:
            return [each.text for each in self.continuations]
        return [self.prompt + each.text for each in self.continuations] or [self.prompt]

    def to_dict(self) -> dict[str, Any]:
        """The line of `regard generate --json`."""
        continuations = [
            {
                "text": each.text,
                "score": each.score,
                "log_prob": each.log_prob,
                "tokens": list(each.tokens),
                "token_log_probs": list(each.token_log_probs),
            }
            for each in self.continuations
        ]
        found = {"line": self.line, "prompt": self.prompt, "continuations": continuations}
        return with_precision(found, self.precision)


def output_lines(generated: PromptContinuations, *, as_json: bool = False) -> str:
    """The texts, each followed by a line feed, with a line of `---` between two; or a line of JSON."""
    if as_json:
        return json.dumps(generated.to_dict(), ensure_ascii=False) + "\n"
    return BETWEEN.join(f"{text}\n" for text in generated.texts)
