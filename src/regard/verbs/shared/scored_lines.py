"""The scores of lines, pairs or texts, and how they are written: in columns or as JSON."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.decoding.scoring import ForcedScore, perplexity_of

DECIMAL_PLACES = 6


@dataclass(frozen=True, kw_only=True)
class LineScores:
    """The score of each line, in order; log-probabilities are in nats.

    They include the end of a translation; of a language model, the end of a text only if it is predicted.
    """

    model: Path
    scores: list[ForcedScore]

    @property
    def tokens(self) -> int:
        return sum(score.num_tokens for score in self.scores)

    @property
    def perplexity(self) -> float | None:
        """The perplexity of a token, over all lines: e^-(mean log-probability); None without tokens."""
        return perplexity_of(sum(score.log_prob for score in self.scores), self.tokens)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The lines of `regard score --json`."""
        return [
            {
                "line": line,
                "log_prob": score.log_prob,
                "perplexity": score.perplexity,
                "token_log_probs": score.token_log_probs,
            }
            for line, score in enumerate(self.scores, start=1)
        ]


@dataclass(frozen=True, kw_only=True)
class ScoredLine:
    """The score of a line: of a pair, or of a text."""

    line: int
    score: ForcedScore

    def to_dict(self) -> dict[str, Any]:
        """As a line of JSON, rounded to digits that do not depend on the batch."""
        tokens = [round(each, DECIMAL_PLACES) for each in self.score.token_log_probs]
        return {
            "line": self.line,
            "log_prob": round(self.score.log_prob, DECIMAL_PLACES),
            "perplexity": self.rounded_perplexity,
            "token_log_probs": tokens,
        }

    @property
    def rounded_perplexity(self) -> float | None:
        """The perplexity of a token in six digits; None if no token was predicted."""
        found = self.score.perplexity
        return None if found is None else float(f"{found:.6g}")


class ScoreTotals:
    """How many lines and tokens were scored, and their log-probability."""

    def __init__(self) -> None:
        self.lines, self.tokens, self.log_prob = 0, 0, 0.0

    def added(self, lines: Iterable[ScoredLine]) -> Iterator[ScoredLine]:
        """The lines, each of which is counted."""
        for each in lines:
            self.lines += 1
            self.tokens += each.score.num_tokens
            self.log_prob += each.score.log_prob
            yield each

    @property
    def perplexity(self) -> float | None:
        """The perplexity of a token, over all lines; None without tokens."""
        return perplexity_of(self.log_prob, self.tokens)


def output_lines(scored: ScoredLine, *, as_json: bool = False) -> str:
    """LOG-PROBABILITY, NUMBER OF TOKENS and PERPLEXITY, separated by tabs; or a line of JSON."""
    if as_json:
        return json.dumps(scored.to_dict()) + "\n"
    return columns_of_score(scored.score)


def columns_of_score(score: ForcedScore) -> str:
    """A line of columns: LOG-PROBABILITY, NUMBER OF TOKENS, PERPLEXITY, which is empty without tokens."""
    perplexity = "" if score.perplexity is None else f"{score.perplexity:.6g}"
    return f"{score.log_prob:.4f}\t{score.num_tokens}\t{perplexity}\n"
