"""Generate: a text goes on; what is said depends on the prompt and the seed alone."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard import console
from regard.data.tokenizer import Tokenizer
from regard.decoding.base_search import DecodingLoop
from regard.decoding.continuation import (
    ContinuationSettings,
    Prompt,
    continue_all,
    prompt_of,
    stream,
)
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.phrases import WINDOW, begun, up_to
from regard.errors import ConfigError
from regard.models.decoder_only import DecoderOnly
from regard.verbs.any_model import AnyModel, open_model
from regard.verbs.arguments import checked
from regard.verbs.box import model_that
from regard.verbs.computing import USUAL, Computing
from regard.verbs.controls import UNSET, Controls
from regard.verbs.decoding_defaults import decoding_defaults
from regard.verbs.draft_model import drafter_of
from regard.verbs.keyword_fields import keyword_fields
from regard.verbs.lines import chunks
from regard.verbs.lines import stream as stream_lines
from regard.verbs.precision import Precision, compute_in, with_precision
from regard.verbs.search_results import samples_for, selected_texts
from regard.verbs.suggested_recipes import needs_model
from regard.verbs.texts import several

INCOMPLETE = "\ufffd"  # what the decoder makes of bytes that are no character, or not yet
BETWEEN = "---\n"  # between several texts


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """What follows a prompt, without it; its probability, the end included, is given the prompt."""

    text: str
    score: float  # by which a beam ranks texts, minimum Bayes risk too
    log_prob: float  # nats
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]  # the end's too, where there is one


@dataclass(frozen=True, kw_only=True)
class Generated:
    """A prompt, its line (from 1) among all, and its continuations in the order of their making.

    An empty line has none where the model has never seen the beginning of a text.
    """

    line: int
    prompt: str
    continuations: tuple[Continuation, ...]
    precision: Precision = "float32"  # of scores and log-probabilities

    @property
    def texts(self) -> list[str]:
        """The prompt with each of its continuations; it alone where there is none."""
        return [self.prompt + each.text for each in self.continuations] or [self.prompt]

    def to_dict(self) -> dict[str, Any]:
        """As `regard generate --json` prints it."""
        continuations = [
            {**asdict(each), "tokens": list(each.tokens), "token_log_probs": list(each.token_log_probs)}
            for each in self.continuations
        ]
        found = {"line": self.line, "prompt": self.prompt, "continuations": continuations}
        return with_precision(found, self.precision)


class Generator:
    """A model, loaded once, that goes on with texts.

    What it says to a prompt depends on that prompt and the seed alone, not on other prompts. Controls
    (`regard.decoding.controls`) that are not given are the model's own, from its `generation.json`; `num`
    continuations are made of each prompt. With precision "int8" products are of whole numbers of 8 bits, on a
    CPU; a draft model stays float32.

    Args:
        model: a model or run folder, or what `regard.load` gives.
        num: texts for each prompt.

    Raises:
        FolderError: the model does not go on with texts. ConfigError: a control cannot work, or contradicts
            another. RecipeError: there are no products of int8 here.
    """

    @needs_model
    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel,
        *,
        controls: Controls = UNSET,
        num: int = 1,
        computing: Computing = USUAL,
    ) -> None:
        """Load the model; controls that are not given are its own."""
        self.loaded = open_model(model, computing.device, computing.threads, precision=computing.precision)
        chosen = self.loaded.model.device
        self.model = model_that("goes on with texts", DecoderOnly, self.loaded)
        self.precision: Precision = compute_in(computing.precision, self.model, chosen)
        self.tokenizer = self.loaded.tokenizers.source
        defaults = decoding_defaults(ContinuationSettings, self.loaded)
        self.settings = defaults.changed(controls)
        self.num = num
        self._most = seen_at_most(self.model, self.settings.max_context)
        self._begin_id = self.tokenizer.bos_id if self.settings.begin else None
        begin = () if self._begin_id is None else (self._begin_id,)
        self._strategy = self.settings.strategy(
            num=samples_for(self.settings, num),
            pad_id=self.tokenizer.pad_id,
            unk_id=self.tokenizer.unk_id,
            bos_id=self.tokenizer.bos_id,
            eos_id=self.tokenizer.eos_id,
            tokenizer=self.tokenizer,
            drafter=drafter_of(self.settings, self.loaded, chosen, begin),
        )

    def __call__(self, prompts: Iterable[str]) -> Iterator[Generated]:
        """How each prompt goes on, in order; `prompts` may be without end.

        Of a prompt that is longer than the model sees, only the end is read, which is said.

        Raises:
            DataError: a prompt is no string, or `prompts` is one. Those before it are given out first.
        """
        return self.in_chunks(chunks(several(prompts)))

    def in_chunks(self, chunks: Iterable[Sequence[str]]) -> Iterator[Generated]:
        """The same for prompts that come several at a time: all of a chunk are decoded together."""
        first = 0
        for texts in chunks:
            yield from self._generate(texts, first)
            first += len(texts)

    def one(self, prompt: str) -> Generated:
        """How one prompt goes on.

        Raises:
            DataError: it is empty where the model has never seen the beginning of a text.
        """
        self._prompt(self.tokenizer.encode(prompt), 0)
        [generated] = self._generate([prompt], 0)
        return generated

    def _generate(self, texts: Sequence[str], first: int) -> Iterator[Generated]:
        prompts = [
            self._prompt(ids, number)
            for number, ids in enumerate(self.tokenizer.encode_batch(texts), start=first)
            if self._begins(ids)
        ]
        found = self._continuations(prompts)
        for number, text in enumerate(texts, start=first):
            yield Generated(
                line=number + 1,
                prompt=text,
                continuations=found.get(number, ()),
                precision=self.precision,
            )

    def _continuations(self, prompts: Sequence[Prompt]) -> dict[int, tuple[Continuation, ...]]:
        """Of each prompt, by its number."""
        self._warn(prompts)
        found = continue_all(
            self._strategy,
            self.model,
            prompts,
            max_new_tokens=self.settings.max_new_tokens,
            max_context=self.settings.max_context,
        )
        return {
            prompt.number: self._told(prompt, hypotheses)
            for prompt, hypotheses in zip(prompts, found, strict=True)
        }

    def _told(self, prompt: Prompt, found: Sequence[Hypothesis]) -> tuple[Continuation, ...]:
        texts = ["".join(in_characters(self.tokenizer, prompt.ids, each.ids)) for each in found]
        return tuple(
            Continuation(
                text=text,
                score=found[place].score if score is None else score,
                log_prob=found[place].log_prob,
                tokens=tuple(self.tokenizer.tokens(found[place].ids)),
                token_log_probs=tuple(found[place].token_log_probs),
            )
            for place, text, score in selected_texts(self.settings, texts, self.num)
        )

    def stream(self, prompt: str, *, line: int = 1) -> Iterator[str]:
        """The continuation of one prompt as it comes, in whole characters; errors name it by its `line`.

        Raises:
            ConfigError: there are several continuations, or a beam, which knows its text at the end only.
            DataError: the prompt cannot be gone on with, as for `one`.
        """
        strategy = self._strategy
        if not isinstance(strategy, DecodingLoop) or strategy.n_best > 1:
            raise ConfigError(
                "one text is shown as it comes, and a beam, as minimum Bayes risk, knows it at the end only",
                "leave out --num, --beam-size and --mbr, or --stream",
            )
        start = self._prompt(self.tokenizer.encode(prompt), line - 1)
        self._warn([start])
        ids = stream(
            strategy,
            self.model,
            start,
            max_new_tokens=self.settings.max_new_tokens,
            max_context=self.settings.max_context,
        )
        return before_stop(in_characters(self.tokenizer, start.ids, ids), self.settings.stop)

    def begins(self, prompt: str) -> bool:
        """Whether there is something to go on with: a text, or a beginning that the model has seen."""
        return self._begins(self.tokenizer.encode(prompt))

    def _begins(self, ids: Sequence[int]) -> bool:
        return self._begin_id is not None or bool(ids)

    def _prompt(self, ids: Sequence[int], number: int) -> Prompt:
        return prompt_of(ids, begin_id=self._begin_id, number=number)

    def _warn(self, prompts: Sequence[Prompt]) -> None:
        """Of tokens that the model has never seen, and of those that it does not see now."""
        for prompt in prompts:
            if self._most is not None and (length := len(prompt.context)) > self._most:
                console.warn(
                    f"prompt {prompt.number + 1} has {length} tokens, but the model sees at most the last"
                    f" {self._most}: its beginning is not read"
                )
            if unknown := prompt.ids.count(self.tokenizer.unk_id):
                tokens = "a token" if unknown == 1 else f"{unknown} tokens"
                console.warn(f"prompt {prompt.number + 1} has {tokens} that the model has never seen")


def seen_at_most(model: DecoderOnly, max_context: int | None) -> int | None:
    """How many tokens the model sees while it generates; None: all. More than it was trained on is said.

    Raises:
        ConfigError: it has not learned as many positions.
    """
    trained, learned = model.trained_length, model.max_length
    if max_context is None:
        return trained
    if learned is not None and max_context > learned:
        raise ConfigError(
            f"max_context = {max_context}, but the model has learned only {learned} positions",
            f"max_context = {trained} is what it was trained on",
        )
    most = max_context or learned
    if trained is not None and (most is None or most > trained):
        console.warn(
            f"max_context = {max_context} goes beyond the {trained} tokens that the model was trained on;"
            " the text may get worse from there on"
        )
    return most


def in_characters(tokenizer: Tokenizer, before: Sequence[int], ids: Iterable[int]) -> Iterator[str]:
    """The text of tokens that come one by one after others, in whole characters.

    A character of several tokens comes with the last of them; one that never becomes whole is left out.
    """
    context, waiting = list(before[-WINDOW:]), []
    said = tokenizer.decode(context)
    for token in ids:
        waiting.append(token)
        text = tokenizer.decode(context + waiting)
        if text.endswith(INCOMPLETE):
            continue
        if len(text) > len(said):
            yield text[len(said) :]
        context, waiting = (context + waiting)[-WINDOW:], []
        said = tokenizer.decode(context)


def before_stop(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """Pieces of a text as they come, up to the first stop; what may be its beginning waits."""
    waiting = ""
    for piece in pieces:
        waiting += piece
        text = up_to(waiting, stops)
        if text != waiting:
            if text:
                yield text
            return
        ready = len(waiting) - begun(waiting, stops)
        if ready:
            yield waiting[:ready]
        waiting = waiting[ready:]
    if waiting:
        yield waiting


@needs_model
@checked
@keyword_fields
def generate(
    prompt: str | Iterable[str],
    *,
    model: AnyModel,
    controls: Controls = UNSET,
    num: int = 1,
    computing: Computing = USUAL,
) -> Any:
    """A text that begins with the prompt, or one for each prompt of several.

    With `num` above 1 there is a list of that many in the place of each. For many calls, or to see the text
    as it comes, keep a `Generator`, whose settings these are. Of several prompts an empty one stays empty
    where the model has never seen the beginning of a text.

    Args:
        prompt: one text to go on with, or several.
        model: a model or run folder, or what `regard.load` gives.
        num: texts for each prompt.

    Returns:
        str for a str, list[str] for several; with `num` above 1 list[str] and list[list[str]].
    """
    generator = Generator(model, controls=controls, num=num, computing=computing)
    found = [generator.one(prompt)] if isinstance(prompt, str) else generator(prompt)
    texts = [each.texts if num > 1 else each.texts[0] for each in found]
    return texts[0] if isinstance(prompt, str) else texts


@needs_model
@checked
@keyword_fields
def generate_file(
    input: str | Path,
    *,
    model: AnyModel,
    controls: Controls = UNSET,
    num: int = 1,
    computing: Computing = USUAL,
) -> list[Any]:
    """What `generate` gives of each line of a file, plain or gzipped.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a prompt.
        model: a model or run folder, or what `regard.load` gives.
        num: texts for each prompt.
    """
    lines = stream_lines(input)
    return generate(lines, model=model, controls=controls, num=num, computing=computing)


def printed(generated: Generated, *, as_json: bool = False) -> str:
    """The texts, verbatim, each ended by a line feed, a line of `---` between two; or a line of JSON."""
    if as_json:
        return json.dumps(generated.to_dict(), ensure_ascii=False) + "\n"
    return BETWEEN.join(f"{text}\n" for text in generated.texts)
