"""Timestamps in transcripts: the rules for their tokens, and segments that end at them.

In Whisper (Radford et al. 2023, section 2.3) each token from `first_id` on is a time in the window: the
first is its beginning, and each is a step later. A segment begins with one and ends with one, so that two
stand between segments.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.decoding.rules import ForbiddingRule, GeneratedTokens

FRAMES_OF_STEP = 2  # from one timestamp to the next


@dataclass(frozen=True, kw_only=True)
class BannedFirstTokens(ForbiddingRule):
    """Forbids these tokens directly after the prompt."""

    ids: tuple[int, ...]

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        first = (generated.prefix_lengths == generated.length).to(log_probs.device)
        for token in self.ids:
            log_probs[:, token].masked_fill_(first, -torch.inf)


@dataclass(frozen=True, kw_only=True)
class TimestampRule(ForbiddingRule):
    """Makes timestamps come in pairs, never go back, and open the text.

    If all timestamps together are more probable than any other token, only they are allowed. `latest_first`:
    the greatest number of steps of the first one. As `WhisperTimeStampLogitsProcessor` of transformers; all
    rows have the same prompt.
    """

    first_id: int  # the token of 0.00 s, one after <|notimestamps|>
    eos_id: int
    latest_first: int | None = None

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        ids = generated.ids[:, int(generated.prefix_lengths[0]) :]
        if generated.length < int(generated.prefix_lengths[0]):
            return
        log_probs[:, self.first_id - 1] = -torch.inf
        self._pair(log_probs, ids)
        if not ids.size(1):
            log_probs[:, : self.first_id] = -torch.inf
            if self.latest_first is not None:
                log_probs[:, self.first_id + self.latest_first + 1 :] = -torch.inf
        normalised = log_probs.float().log_softmax(dim=1)
        times, texts = normalised[:, self.first_id :], normalised[:, : self.first_id]
        more_probable = times.logsumexp(dim=1) > texts.amax(dim=1)
        log_probs[:, : self.first_id].masked_fill_(more_probable[:, None], -torch.inf)

    def _pair(self, log_probs: Float[Tensor, "rows vocab"], ids: Int64[Tensor, "rows length"]) -> None:
        """Forbid what cannot follow the last two tokens, and times before the last one."""
        is_time = ids >= self.first_id
        last = is_time[:, -1] if ids.size(1) else torch.zeros(len(ids), dtype=torch.bool)
        before = is_time[:, -2] if ids.size(1) > 1 else torch.ones(len(ids), dtype=torch.bool)
        _forbid(log_probs[:, self.first_id :], last & before)
        _forbid(log_probs[:, : self.eos_id], last & ~before)
        if ids.size(1):
            # times have the greatest ids, and never go back: the greatest id is that of the last time
            earliest = ids.amax(dim=1) + (~(last & ~before)).long()
            times = torch.arange(self.first_id, log_probs.size(1))
            _forbid(log_probs[:, self.first_id :], times < earliest[:, None])


def _forbid(log_probs: Float[Tensor, "rows some"], where: Tensor) -> None:
    """Minus infinity in these rows, or at these places."""
    where = where[:, None] if where.dim() == 1 else where
    log_probs.masked_fill_(where.to(log_probs.device), -torch.inf)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of a window's text, with its beginning and end in frames of the window."""

    ids: tuple[int, ...]  # with the timestamps
    start: int
    end: int


def segments_of(ids: Sequence[int], first_id: int, frames: int) -> tuple[list[Segment], int]:
    """The segments of a window of `frames` frames, and after how many frames the next window begins.

    Two timestamps together end a segment. If the last segment has ended, or if there are none, the window is
    done. Otherwise its text was cut off, and the next window begins where the last whole segment ended. As
    transformers does it, and OpenAI's code.
    """
    is_time = [number >= first_id for number in ids]
    ends = [place + 1 for place in range(len(ids) - 1) if is_time[place] and is_time[place + 1]]
    if not ends:
        return [Segment(ids=tuple(ids), start=0, end=_end_of(ids, first_id, frames))], frames
    closed = is_time[-2:] == [False, True]
    if closed:
        ends.append(len(ids))
    else:  # the second timestamp of the pair, too, so that it is clear that the segment ended
        ends[-1] += 1
    found, begin = [], 0
    for end in ends:
        part = tuple(ids[begin:end])
        last = part[-1] if closed or end != ends[-1] else part[-2]
        found.append(Segment(ids=part, start=_frame(part[0], first_id), end=_frame(last, first_id)))
        begin = end
    next_window = frames if closed else _frame(ids[begin - 2], first_id)
    return found, next_window or frames  # at least something is read


def _end_of(ids: Sequence[int], first_id: int, frames: int) -> int:
    """Where a text without pairs of timestamps ends: at its last timestamp, else at the window's end."""
    times = [number for number in ids if number >= first_id]
    if times and times[-1] != first_id:
        return _frame(times[-1], first_id)
    return frames // FRAMES_OF_STEP * FRAMES_OF_STEP


def _frame(token: int, first_id: int) -> int:
    return max(0, token - first_id) * FRAMES_OF_STEP
