"""How OpenAI's dialect writes the choices of completions and of chats."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.verbs.generation.scored_tokens import ScoredToken, TextWithTokens, scored_tokens

LEAST = -9999.0  # OpenAI's number for a token that is impossible, since JSON has no infinity


@dataclass(frozen=True, kw_only=True)
class TextLimit:
    """Why a text, or a sentence, may end: it has `most` tokens, or one of its stop texts came (`stops`).

    `searched`: after `most` tokens an end is forced, which looks like any other.
    """

    most: int
    stops: bool
    searched: bool

    def finish_reason(self, candidate: Any) -> str:
        """ "length" if a text was cut, or one of its sentences.

        What ended by itself has the log-probability of its end.
        """
        if parts := getattr(candidate, "parts", ()):
            return "length" if any(self.finish_reason(part) == "length" for part in parts) else "stop"
        ended = len(candidate.token_log_probs) > len(candidate.tokens) or not candidate.tokens
        full = len(candidate.tokens) >= self.most
        if ended:
            return "length" if full and self.searched else "stop"
        return "length" if full or not self.stops else "stop"


class Shape:
    """How a kind of completions writes its choices."""

    prefix, kind, chunk_kind = "", "", ""

    def __init__(self, model: str, created: int, limit: TextLimit, logprobs: int | None = None) -> None:
        """`logprobs`: how many of the most probable tokens come with each; None: no log-probabilities."""
        self.model, self.created, self.limit, self.logprobs = model, created, limit, logprobs
        self.id = f"{self.prefix}-{secrets.token_hex(12)}"

    def head(self, *, chunk: bool = False) -> dict[str, Any]:
        kind = self.chunk_kind if chunk else self.kind
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def choice(self, number: int, place: int, candidate: Any) -> dict[str, Any]:
        raise NotImplementedError

    def first_deltas(self) -> list[dict[str, Any]]:
        return []

    def delta(self, part: str) -> dict[str, Any]:
        raise NotImplementedError

    def last_delta(self, reason: str) -> dict[str, Any]:
        raise NotImplementedError


class CompletionShape(Shape):
    """Choices of /v1/completions; `echoed`: the prompts that come before the texts."""

    prefix, kind, chunk_kind = "cmpl", "text_completion", "text_completion"

    def __init__(
        self,
        model: str,
        created: int,
        limit: TextLimit,
        logprobs: int | None = None,
        echoed: Sequence[str] | None = None,
    ) -> None:
        super().__init__(model, created, limit, logprobs)
        self.echoed = echoed
        self._offsets, self._streamed = TextOffsets(), ""

    def choice(self, number: int, place: int, candidate: Any) -> dict[str, Any]:
        before = self.echoed[place] if self.echoed else ""
        return {
            "index": number,
            "text": before + candidate.text,
            "finish_reason": self.limit.finish_reason(candidate),
            "logprobs": self._logprobs(scored_tokens(candidate), candidate.text, TextOffsets()),
        }

    def first_deltas(self) -> list[dict[str, Any]]:
        return [self.delta(self.echoed[0])] if self.echoed else []

    def delta(self, part: str) -> dict[str, Any]:
        self._streamed += part
        logprobs = self._logprobs(_tokens_of(part), self._streamed, self._offsets)
        return {"index": 0, "text": str(part), "finish_reason": None, "logprobs": logprobs}

    def last_delta(self, reason: str) -> dict[str, Any]:
        return {"index": 0, "text": "", "finish_reason": reason, "logprobs": None}

    def _logprobs(
        self, tokens: Sequence[ScoredToken], text: str, offsets: "TextOffsets"
    ) -> dict[str, Any] | None:
        """The log-probabilities of tokens; None if they are not asked for.

        The taken token is among the most probable ones, or after them, so that there may be one more.
        """
        if self.logprobs is None:
            return None
        names = [each.token for each in tokens]
        return {
            "tokens": names,
            "token_logprobs": [each.log_prob for each in tokens],
            "top_logprobs": [_by_text(each) for each in tokens] if self.logprobs else None,
            "text_offset": offsets.next(names, text),
        }


class ChatShape(Shape):
    """Choices of /v1/chat/completions."""

    prefix, kind, chunk_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def choice(self, number: int, place: int, candidate: Any) -> dict[str, Any]:
        return {
            "index": number,
            "message": {"role": "assistant", "content": candidate.text, "refusal": None},
            "finish_reason": self.limit.finish_reason(candidate),
            "logprobs": self._logprobs(scored_tokens(candidate)),
        }

    def first_deltas(self) -> list[dict[str, Any]]:
        delta = {"role": "assistant", "content": "", "refusal": None}
        return [{"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}]

    def delta(self, part: str) -> dict[str, Any]:
        logprobs = self._logprobs(_tokens_of(part))
        return {"index": 0, "delta": {"content": str(part)}, "finish_reason": None, "logprobs": logprobs}

    def last_delta(self, reason: str) -> dict[str, Any]:
        return {"index": 0, "delta": {}, "finish_reason": reason, "logprobs": None}

    def _logprobs(self, tokens: Sequence[ScoredToken]) -> dict[str, Any] | None:
        """The log-probabilities of tokens; None if they are not asked for."""
        if self.logprobs is None:
            return None
        content = [
            {**_named(each.token, each.log_prob), "top_logprobs": [_named(*one) for one in each.alternatives]}
            for each in tokens
        ]
        return {"content": content, "refusal": None}


class TextOffsets:
    """The places of tokens in a text that comes in parts.

    A space at the beginning of a token may be missing in the text, as that of its first token is.
    """

    def __init__(self) -> None:
        self._end = 0  # of the last token

    def next(self, tokens: Sequence[str], text: str) -> list[int]:
        """The place at which each of the next tokens begins; `text` is what is known so far."""
        offsets, end = [], self._end
        for token in tokens:
            bare = token.strip()
            places = [place for place in (text.find(token, end), text.find(bare, end)) if place >= 0]
            begin = min(places, default=end)
            offsets.append(begin)
            end = begin + len(token if text.startswith(token, begin) else bare) if places else end
        self._end = end
        return offsets


def _tokens_of(part: str) -> Sequence[ScoredToken]:
    return part.tokens if isinstance(part, TextWithTokens) else ()


def _by_text(token: ScoredToken) -> dict[str, float]:
    """The most probable tokens and the taken one; of equal texts the more probable."""
    found: dict[str, float] = {}
    for text, log_prob in (*token.alternatives, (token.token, token.log_prob)):
        found.setdefault(text, max(log_prob, LEAST))
    return found


def _named(token: str, log_prob: float) -> dict[str, Any]:
    return {
        "token": token,
        "logprob": max(log_prob, LEAST),
        "bytes": list(token.encode("utf-8", "replace")),
    }
