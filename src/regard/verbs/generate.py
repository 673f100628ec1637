"""Generate: prompts in, continuations or answers out; each depends on its prompt and the seed alone."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard import console
from regard.decoding.continuation import (
    ContinuationSettings,
    Prompt,
    continue_all,
    prompt_of,
    stream,
)
from regard.decoding.decoding_loop import DecodingLoop
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.running_batch import RunningContinuations
from regard.decoding.running_search import records_alternatives
from regard.errors import ConfigError
from regard.models.decoder_only import DecoderOnly
from regard.verbs.generation.continuations import Continuation, PromptContinuations
from regard.verbs.generation.controls import UNSET, Controls
from regard.verbs.generation.decoding_defaults import decoding_defaults
from regard.verbs.generation.draft_model import drafter_of
from regard.verbs.generation.prompts import Asked, prompts_of, refuse_non_prompts, single
from regard.verbs.generation.running_answers import RunningAnswers, TextReader, width_of
from regard.verbs.generation.scored_tokens import named, naming
from regard.verbs.generation.search_results import samples_for, selected_texts
from regard.verbs.generation.text_parts import CharacterStream, UpToStop, before_stop, in_characters
from regard.verbs.generation.unwritable_bans import UnwritableBans
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.lines import stream_lines
from regard.verbs.shared.model_loading import model_that
from regard.verbs.shared.precision import compute_in
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_DECODING_RUNTIME, DecodingRuntime, Precision
from regard.verbs.shared.suggested_recipes import needs_model
from regard.verbs.shared.text_options import ChatOptions
from regard.verbs.shared.text_verb import TextVerb
from regard.verbs.shared.texts import OneOrSeveral

NO_CHAT = ChatOptions()


class Generator(TextVerb[Asked, PromptContinuations]):
    """A model, loaded once, that continues texts, or answers messages by its chat template.

    A prompt is a text. With `chat` it is a message of the user, or a conversation: a list of messages such as
    {"role": "user", "content": "Hello"}. A continuation depends on its prompt and the seed alone, not on the
    batch. Controls that are not given are the model's own, from its generation.json. A draft model stays
    float32.

    Args:
        model: a model or run folder, or what `regard.load` returns.
        num: texts for each prompt.

    Raises:
        FolderError: the model does not continue texts, or has no chat template. ConfigError: a control cannot
            work, or contradicts another. RecipeError: there is no int8 on this device.
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
        options: ChatOptions = NO_CHAT,
        runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
    ) -> None:
        """Load the model; controls that are not given have the model's defaults."""
        self.loaded = open_model(model, runtime)
        device = self.loaded.model.device
        self.model = model_that("continues texts", DecoderOnly, self.loaded)
        self.precision: Precision = compute_in(runtime.precision, self.model, device)
        self.tokenizer = self.loaded.tokenizers.source
        defaults = decoding_defaults(ContinuationSettings, self.loaded)
        self.settings = defaults.changed(controls)
        self.num = num
        self._most = context_limit(self.model, self.settings.max_context)
        self.prompts = prompts_of(self.loaded, options, begin=self.settings.begin)
        begin = () if self.prompts.begin_id is None else (self.prompts.begin_id,)
        self._strategy = self.settings.strategy(
            num=samples_for(self.settings, num),
            pad_id=self.tokenizer.pad_id,
            unk_id=self.tokenizer.unk_id,
            bos_id=self.tokenizer.bos_id,
            eos_id=self.tokenizer.eos_id,
            tokenizer=self.tokenizer,
            drafter=drafter_of(self.settings, self.loaded, device, begin),
        )
        self._bans = UnwritableBans(controls.ban, self.tokenizer)

    def checked(self, texts: Iterable[Asked]) -> Iterator[Asked]:
        return self.prompts.texts(texts)

    def answers(self, texts: Sequence[Asked], first: int) -> Iterator[PromptContinuations]:
        """The continuations of each prompt. Of a prompt longer than the context only the end is read."""
        self._bans.warn()
        read = [*map(self.prompts.text, texts)]
        prompts = [
            self._prompt(ids, number)
            for number, ids in enumerate(self.prompts.encode(read), start=first - 1)
            if self._begins(ids)
        ]
        found = self._continuations(prompts)
        for number, text in enumerate(read, start=first):
            continuations = found.get(number - 1, ())
            yield self._answer(number, text, continuations)

    def _answer(self, number: int, text: str, continuations: tuple[Continuation, ...]) -> PromptContinuations:
        return PromptContinuations(
            line=number,
            prompt=text,
            continuations=continuations,
            precision=self.precision,
            chat=self.prompts.chat,
        )

    def one(self, prompt: Asked) -> PromptContinuations:
        """The continuations of one prompt, or the answers to one conversation.

        Raises:
            DataError: the prompt is empty, and the model has no begin token.
        """
        text = self.prompts.text(prompt)
        self._prompt_of(text, 0)
        [generated] = self.answers([text], 1)
        return generated

    def _continuations(self, prompts: Sequence[Prompt]) -> dict[int, tuple[Continuation, ...]]:
        """The continuations of each prompt, by its number from 0."""
        self._warn(prompts)
        found = continue_all(
            self._strategy,
            self.model,
            prompts,
            max_new_tokens=self.settings.max_new_tokens,
            max_context=self.settings.max_context,
        )
        return {
            prompt.number: self._selected(prompt, hypotheses)
            for prompt, hypotheses in zip(prompts, found, strict=True)
        }

    def _selected(self, prompt: Prompt, found: Sequence[Hypothesis]) -> tuple[Continuation, ...]:
        texts = ["".join(in_characters(self.tokenizer, prompt.ids, each.ids)) for each in found]
        return tuple(
            Continuation(
                text=text,
                score=found[place].score if score is None else score,
                log_prob=found[place].log_prob,
                tokens=tuple(self.tokenizer.tokens(found[place].ids)),
                token_log_probs=tuple(found[place].token_log_probs),
                alternatives=named(self.tokenizer, found[place].alternatives[: len(found[place].ids)]),
            )
            for place, text, score in selected_texts(self.settings, texts, self.num)
        )

    def most_tokens(self, prompt_len: int) -> int:
        """How many tokens all hypotheses of a prompt of this length can have together."""
        return width_of(self._strategy) * (prompt_len + self.settings.max_new_tokens)

    @property
    def records_alternatives(self) -> bool:
        """True if continuations can have the most probable tokens at each step."""
        return records_alternatives(self._strategy)

    def running(self, *, alternatives: int | None = None) -> RunningAnswers[str, PromptContinuations]:
        """Texts of many requests, continued together; each has the continuations that it has alone.

        A conversation comes as the text that `prompts` makes of it. Continuations have so many `alternatives`
        of each token, and parts of a text their tokens; None: neither.

        Raises:
            ConfigError: the search records no alternatives.
        """
        batch = RunningContinuations(
            self._strategy,
            self.model,
            max_context=self.settings.max_context,
            alternatives=alternatives or 0,
        )

        def queue(text: str, place: int) -> int:
            prompt = self._prompt_of(text, place)
            [ticket] = batch.add([prompt], max_new_tokens=self.settings.max_new_tokens)
            return ticket

        def answer(text: str, found: Sequence[Hypothesis]) -> PromptContinuations:
            return self._answer(1, text, self._selected(self._prompt_of(text, 0), found))

        def reader(text: str) -> TextReader[PromptContinuations]:
            self._streamed_strategy()
            return TextReader(
                CharacterStream(self.tokenizer, self._prompt_of(text, 0).ids),
                UpToStop(self.settings.stop),
                lambda answer: answer.continuations[0],
                None if alternatives is None else naming(self.tokenizer),
            )

        return RunningAnswers(batch, queue, answer, reader)

    def stream(self, prompt: Asked, *, line: int = 1) -> Iterator[str]:
        """The continuation of one prompt, or the answer to one conversation, as it is generated.

        It comes in whole characters. Errors name its `line`.

        Raises:
            ConfigError: there are several continuations, or a beam, whose text is known at the end only.
            DataError: the prompt is empty, as for `one`.
        """
        strategy = self._streamed_strategy()
        start = self._prompt_of(self.prompts.text(prompt), line - 1)
        self._warn([start])
        ids = stream(
            strategy,
            self.model,
            start,
            max_new_tokens=self.settings.max_new_tokens,
            max_context=self.settings.max_context,
        )
        return before_stop(in_characters(self.tokenizer, start.ids, ids), self.settings.stop)

    def _streamed_strategy(self) -> DecodingLoop:
        """The strategy, if its text is known as it is generated."""
        strategy = self._strategy
        if self.num > 1:
            raise ConfigError(
                f"only a single text can be streamed, not --num {self.num}",
                "leave out --num, or --stream",
            )
        if not isinstance(strategy, DecodingLoop) or strategy.n_best > 1:
            raise ConfigError(
                "only a single text can be streamed; a beam search and --mbr finish it only at the end",
                "leave out --beam-size, --search and --mbr, or --stream",
            )
        return strategy

    def begins(self, prompt: str) -> bool:
        """True if the prompt has tokens, or the model has a begin token."""
        return self._begins(self.prompts.encode([prompt])[0])

    def _begins(self, ids: Sequence[int]) -> bool:
        return self.prompts.begin_id is not None or bool(ids)

    def _prompt_of(self, text: str, number: int) -> Prompt:
        return self._prompt(self.prompts.encode([text])[0], number)

    def _prompt(self, ids: Sequence[int], number: int) -> Prompt:
        return prompt_of(ids, begin_id=self.prompts.begin_id, number=number)

    def _warn(self, prompts: Sequence[Prompt]) -> None:
        """Warn of unknown tokens, and of prompts that are longer than the context."""
        for prompt in prompts:
            if self._most is not None and (length := len(prompt.context)) > self._most:
                console.warn(
                    f"prompt {prompt.number + 1} has {length} tokens, but the model reads at most the last"
                    f" {self._most}: its beginning is left out"
                )
            if unknown := 0 if self.prompts.chat else prompt.ids.count(self.tokenizer.unk_id):
                tokens = "a token" if unknown == 1 else f"{unknown} tokens"
                console.warn(f"prompt {prompt.number + 1} has {tokens} unknown to the model")


def context_limit(model: DecoderOnly, max_context: int | None) -> int | None:
    """How many tokens the model reads as it generates; None: all. Warns if it was trained on fewer.

    Raises:
        ConfigError: the model has fewer learned positions.
    """
    trained, learned = model.trained_length, model.max_length
    if max_context is None:
        return trained
    if learned is not None and max_context > learned:
        raise ConfigError(
            f"max_context = {max_context}, but the model has only {learned} positions",
            f"max_context = {trained} is what it was trained on",
        )
    most = max_context or learned
    if trained is not None and (most is None or most > trained):
        console.warn(
            f"max_context = {max_context} is more than the {trained} tokens that the model was trained on;"
            " the text may get worse beyond them"
        )
    return most


@needs_model
@python_call
def generate(
    prompt: Any,
    *,
    model: AnyModel,
    controls: Controls = UNSET,
    num: int = 1,
    options: ChatOptions = NO_CHAT,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
) -> OneOrSeveral:
    """The prompt and its continuation, or those of each prompt of several; with `chat` the answer alone.

    For many calls, or to stream the text, keep a `Generator`. Of several prompts an empty one stays empty if
    the model has no begin token.

    Args:
        prompt: one text to continue, or several. With `chat` a message of the user, or a conversation (a list
            of messages such as {"role": "user", "content": "Hello"}), or several.
        model: a model or run folder, or what `regard.load` returns.
        num: texts for each prompt.

    Returns:
        str for a str, list[str] for several; with `num` above 1 list[str] and list[list[str]].
    """
    refuse_non_prompts(prompt)
    generator = Generator(model, controls=controls, num=num, options=options, runtime=runtime)
    if (one := single(prompt)) is not None:
        texts = generator.one(one).texts
        return texts[0] if num == 1 else texts
    found = [each.texts for each in generator(prompt)]
    return [texts[0] for texts in found] if num == 1 else found


@needs_model
@python_call
def generate_file(
    input: str | Path,
    *,
    model: AnyModel,
    controls: Controls = UNSET,
    num: int = 1,
    options: ChatOptions = NO_CHAT,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
) -> list[str] | list[list[str]]:
    """The answers of `generate` to the lines of a file, plain or gzipped.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a prompt.
        model: a model or run folder, or what `regard.load` returns.
        num: texts for each prompt.
    """
    generator = Generator(model, controls=controls, num=num, options=options, runtime=runtime)
    found = [each.texts for each in generator(stream_lines(input))]
    return [texts[0] for texts in found] if num == 1 else found
