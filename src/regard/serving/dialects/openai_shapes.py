"""How OpenAI's dialect writes the choices of completions and of chats."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TextLimit:
    """Why a text, or a sentence, may end: it has `most` tokens, or one of its stop texts came (`stops`).

    `searched`: after `most` tokens an end is forced, which looks like any other.
    """

    most: int
    stops: bool
    searched: bool = False

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

    def __init__(self, model: str, created: int, limit: TextLimit) -> None:
        self.model, self.created, self.limit = model, created, limit
        self.id = f"{self.prefix}-{secrets.token_hex(12)}"

    def head(self, *, chunk: bool = False) -> dict[str, Any]:
        kind = self.chunk_kind if chunk else self.kind
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def choice(self, number: int, place: int, candidate: Any, *, logprobs: bool) -> dict[str, Any]:
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

    def __init__(self, model: str, created: int, limit: TextLimit, echoed: Sequence[str] | None) -> None:
        super().__init__(model, created, limit)
        self.echoed = echoed

    def choice(self, number: int, place: int, candidate: Any, *, logprobs: bool) -> dict[str, Any]:
        before = self.echoed[place] if self.echoed else ""
        return {
            "index": number,
            "text": before + candidate.text,
            "finish_reason": self.limit.finish_reason(candidate),
            "logprobs": _completion_logprobs(candidate) if logprobs else None,
        }

    def first_deltas(self) -> list[dict[str, Any]]:
        return [self.delta(self.echoed[0])] if self.echoed else []

    def delta(self, part: str) -> dict[str, Any]:
        return {"index": 0, "text": part, "finish_reason": None, "logprobs": None}

    def last_delta(self, reason: str) -> dict[str, Any]:
        return {"index": 0, "text": "", "finish_reason": reason, "logprobs": None}


class ChatShape(Shape):
    """Choices of /v1/chat/completions."""

    prefix, kind, chunk_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def choice(self, number: int, place: int, candidate: Any, *, logprobs: bool) -> dict[str, Any]:
        return {
            "index": number,
            "message": {"role": "assistant", "content": candidate.text, "refusal": None},
            "finish_reason": self.limit.finish_reason(candidate),
            "logprobs": _chat_logprobs(candidate) if logprobs else None,
        }

    def first_deltas(self) -> list[dict[str, Any]]:
        delta = {"role": "assistant", "content": "", "refusal": None}
        return [{"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}]

    def delta(self, part: str) -> dict[str, Any]:
        return {"index": 0, "delta": {"content": part}, "finish_reason": None, "logprobs": None}

    def last_delta(self, reason: str) -> dict[str, Any]:
        return {"index": 0, "delta": {}, "finish_reason": reason, "logprobs": None}


def _completion_logprobs(candidate: Any) -> dict[str, Any]:
    log_probs = list(candidate.log_probs_of_tokens)
    return {
        "tokens": list(candidate.tokens),
        "token_logprobs": log_probs,
        "top_logprobs": None,
        "text_offset": text_offsets(candidate.tokens, candidate.text),
    }


def text_offsets(tokens: Sequence[str], text: str) -> list[int]:
    """The place in `text` at which each token begins.

    A space at the beginning of a token may be missing in the text, as that of its first token is.
    """
    offsets, end = [], 0
    for token in tokens:
        bare = token.strip()
        places = [place for place in (text.find(token, end), text.find(bare, end)) if place >= 0]
        begin = min(places, default=end)
        offsets.append(begin)
        end = begin + len(token if text.startswith(token, begin) else bare) if places else end
    return offsets


def _chat_logprobs(candidate: Any) -> dict[str, Any]:
    content = [
        {
            "token": token,
            "logprob": log_prob,
            "bytes": list(token.encode("utf-8", "replace")),
            "top_logprobs": [],
        }
        for token, log_prob in zip(candidate.tokens, candidate.log_probs_of_tokens, strict=True)
    ]
    return {"content": content, "refusal": None}
