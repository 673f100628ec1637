"""Decoding speech of any length: window by window, each from where the last whole segment ended.

Radford et al. 2023, section 3.8, without its second attempts at higher temperatures, and without the text of
the window before as a prompt: as transformers does it where nothing else is set.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.decoding.base_search import Search
from regard.decoding.batches import deterministic
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.phrases import Words
from regard.decoding.step import CacheStepper
from regard.decoding.timestamps import Segment, segments_of
from regard.decoding.transcript_settings import TranscriptSettings
from regard.models.encoder_decoder import Memory
from regard.models.speech_to_text import SpeechToText


class WindowStepper(CacheStepper):
    """Decoding steps after one window, which has no batch: rows come in any number."""

    model: SpeechToText

    def __init__(self, model: SpeechToText, memory: Memory) -> None:
        super().__init__(model)
        self.begin(model.start(memory), 1)

    @property
    def multiple(self) -> int:
        return 1

    def start(self, src_ids: Tensor, src_lengths: Tensor) -> None:
        """Raise a ValueError: a window has no source ids, and was read when the stepper was made."""
        raise ValueError("a window has no source ids")


@dataclass(kw_only=True)
class DecodedSpeech:
    """The segments of a recording; their beginnings and ends are frames of the recording."""

    segments: list[Segment] = field(default_factory=list)
    language: int | None = None  # the token of the language that the model found; None: it was not asked
    log_prob: float = 0.0  # of all tokens, the ends of windows included


class SpeechDecoder:
    """Decodes recordings one by one, with a model and its settings.

    `tokenizer` encodes the texts in the settings.
    """

    def __init__(
        self,
        model: SpeechToText,
        settings: TranscriptSettings,
        *,
        bos_id: int,
        eos_id: int,
        tokenizer: Words | None = None,
    ) -> None:
        self.model, self.settings, self.bos_id = model, settings, bos_id
        times = settings.no_timestamps_id
        self.first_time = model.config.vocab_size if times is None else times + 1
        self.searches = {
            length: settings.strategy(length, bos_id=bos_id, eos_id=eos_id, tokenizer=tokenizer)
            for length in {len(settings.prompt_with(None)), len(settings.prompt_with(0))}
        }

    def __call__(self, frames: Float[Tensor, "frames features"], heard: int | None = None) -> DecodedSpeech:
        """The text of a recording. The first `heard` frames are sound, the others silence.

        No window begins in that silence.
        """
        found, begin = DecodedSpeech(), 0
        heard = len(frames) if heard is None else min(heard, len(frames))
        prompt: tuple[int, ...] | None = None
        with torch.no_grad(), deterministic([self.model]):
            while begin < heard:
                memory = self._memory(frames[begin : begin + self.model.config.window_frames])
                if prompt is None:
                    found.language = self.language(memory) if self.settings.detects else None
                    prompt = self.settings.prompt_with(found.language)
                hypothesis = self._decoded(memory, prompt)
                ids = hypothesis.ids[len(prompt) :]
                count = min(len(frames) - begin, self.model.config.window_frames)
                segments, step = segments_of(ids, self.first_time, count)
                found.segments += [_moved(segment, begin) for segment in segments]
                found.log_prob += hypothesis.log_prob
                begin += step
        return found

    def language(self, memory: Memory) -> int:
        """The most probable token of a language after the start token."""
        ids = torch.tensor([[self.bos_id]], device=self.model.device)
        logits = self.model.extend(ids, self.model.start(memory))[0, -1]
        known = sorted((self.settings.languages or {}).values())
        return known[int(logits[torch.tensor(known, device=logits.device)].argmax())]

    def _memory(self, frames: Float[Tensor, "some features"]) -> Memory:
        """The memory of a window, filled up with zeros."""
        missing = self.model.config.window_frames - len(frames)
        return self.model.encode(F.pad(frames, (0, 0, 0, missing))[None].to(self.model.device))

    def _decoded(self, memory: Memory, prompt: tuple[int, ...]) -> Hypothesis:
        request = Request(
            src_len=0, prefix=prompt, uncounted=len(prompt), most=self.model.config.max_positions - 1
        )
        search: Search = self.searches[len(prompt)]
        return search(WindowStepper(self.model, memory), [request])[0][0]


def _moved(segment: Segment, frames: int) -> Segment:
    return Segment(ids=segment.ids, start=segment.start + frames, end=segment.end + frames)
