"""Serve: a loaded model that answers the texts of many requests, each as if it were alone.

A text is split into pieces, each of which is computed without the others: the sentences of a translation, a
prompt. A server may so compute pieces of several requests together, where their settings are equal.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from regard.data.chat_template import Message
from regard.data.masked_text import in_context, split_at_masks
from regard.data.sound import sound_of
from regard.data.tokenizer import Tokenizer
from regard.decoding.batches import deterministic
from regard.decoding.scoring import ForcedScore
from regard.errors import ConfigError, DataError, FolderError
from regard.fast.decoding_step import fast_step
from regard.inspection.alignment import attentions_to_source, source_attentions
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_only import EncoderOnly, Head
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.models.speech_to_text import SpeechToText
from regard.verbs.classify import Classifier, ClassPrediction
from regard.verbs.embed import EmbeddedLine, Embedder
from regard.verbs.fill import FilledLine, Filler
from regard.verbs.generate import Generator
from regard.verbs.generation.continuations import PromptContinuations
from regard.verbs.generation.glossary import RequiredText
from regard.verbs.generation.glossary_decoding import requiring
from regard.verbs.generation.prompts import ChatPrompts, Rendered
from regard.verbs.generation.running_answers import RunningAnswers
from regard.verbs.generation.transcripts import RecordingTranscript
from regard.verbs.generation.translations import Translation
from regard.verbs.score import pair_scores, source_ids, tags_of
from regard.verbs.shared.answerer import (
    Answer,
    Answerer,
    AnswerSettings,
    BatchAnswerer,
    DecodingAnswerer,
    Recording,
    Task,
)
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.model_loading import use_of
from regard.verbs.shared.precision import compute_in
from regard.verbs.shared.runtime import DEFAULT_DECODING_RUNTIME, DecodingRuntime, Precision
from regard.verbs.shared.text_options import (
    ChatOptions,
    ClassificationOptions,
    FillingOptions,
    PrefixOptions,
    TranslationOptions,
)
from regard.verbs.tag import TaggedSentence, Tagger
from regard.verbs.transcribe import Transcriber
from regard.verbs.translate import Translator
from regard.weights.model_folder import LoadedModel

KEPT = 64  # answerers with other settings than the model's own
SURELY_SHORT = 128  # characters: such a text is not checked for its number of tokens
CHARACTERS_OF_A_TOKEN = 3  # about
SAMPLES_OF_A_CHARACTER = 800  # of a recording, about: 20 characters a second
MAX_CHARACTERS = 100_000  # of a prompt or a text that is not split
REQUEST_PREFIX = "the prefix of the request as"
OF_HEADS: Mapping[Head, tuple[Task, ...]] = {  # of an encoder; others embed texts
    "classification": ("embed", "classify"),
    "regression": ("embed", "classify"),
    "tokens": ("tag",),
    "masked_language_model": ("embed", "fill"),
}


class TranslationAnswerer(DecodingAnswerer[str, Translation]):
    """Translates texts sentence by sentence."""

    def __init__(self, loaded: LoadedModel, settings: AnswerSettings, runtime: DecodingRuntime) -> None:
        super().__init__(settings)
        options = TranslationOptions(
            workers=1,
            prefix=settings.prefix,
            n_best=settings.count,
            split=settings.split,
            keep=settings.keep,
        )
        self.translator = Translator(loaded, controls=settings.controls, options=options, runtime=runtime)
        self._tags = tags_of(loaded, options, REQUEST_PREFIX)
        if settings.alignments:
            source_attentions(self.translator.model)  # refuses a model without any

    def running(self) -> RunningAnswers[str, Translation]:
        asked = self.settings
        return self.translator.running(alignments=asked.alignments, alternatives=asked.alternatives or 0)

    @property
    def records_alternatives(self) -> bool:
        return self.translator.records_alternatives

    def count_unknown(self, piece: str) -> int:
        return self.translator.count_unknown(piece)

    def most_tokens(self, piece: str) -> int:
        return self.translator.most_tokens(len(piece) // CHARACTERS_OF_A_TOKEN + 1)

    @property
    def keeps_in_documents(self) -> bool:
        """True if placeholders of a document can be kept."""
        return self.translator.keeps_in_documents

    @property
    def longest_answer(self) -> int:
        return self.translator.settings.max_new_tokens or self.translator.settings.max_length

    def requiring(self, texts: Sequence[RequiredText]) -> AnswerSettings:
        """These settings for one piece whose translation must have these texts; none: these settings."""
        if not texts:
            return self.settings
        controls = requiring(self.translator.settings, self.settings.controls, texts)
        return replace(self.settings, controls=controls, split="off")

    def pieces(self, texts: Sequence[str]) -> list[list[str]]:
        pieces = self.translator.pieces(texts)
        for each in pieces:
            self._tags.warn(each, "a text")
        long = [piece for each in pieces for piece in each if len(piece) > SURELY_SHORT]
        for piece, is_long in zip(long, self.translator.too_long(long), strict=True):
            if is_long:
                raise DataError(
                    f"a sentence of {len(piece):,} characters is longer than the model can read",
                    "write it as several sentences",
                )
        return pieces

    def joined(self, text: str, pieces: Sequence[str], answers: Sequence[Translation]) -> Translation:
        return self.translator.joined(text, pieces, answers)


class GenerationAnswerer(DecodingAnswerer[str, PromptContinuations]):
    """Continues prompts."""

    def __init__(self, loaded: LoadedModel, settings: AnswerSettings, runtime: DecodingRuntime) -> None:
        super().__init__(settings)
        if settings.prefix is not None:
            raise ConfigError("prefix is for a model that translates", "put it before the prompt")
        options = ChatOptions(chat=settings.chat)
        self.generator = Generator(
            loaded, controls=settings.controls, num=settings.count, options=options, runtime=runtime
        )

    def running(self) -> RunningAnswers[str, PromptContinuations]:
        return self.generator.running(alternatives=self.settings.alternatives)

    @property
    def records_alternatives(self) -> bool:
        return self.generator.records_alternatives

    def count_unknown(self, piece: str) -> int:
        return self.generator.prompts.encode([piece])[0].count(self.generator.tokenizer.unk_id)

    def most_tokens(self, piece: str) -> int:
        return self.generator.most_tokens(len(piece) // CHARACTERS_OF_A_TOKEN + 1)

    @property
    def longest_answer(self) -> int:
        return self.generator.settings.max_new_tokens

    def pieces(self, texts: Sequence[str]) -> list[list[str]]:
        for text in texts:
            _refuse_long(text)
            if not text and not self.generator.begins(text):
                raise DataError(
                    "the prompt is empty, and this model knows no beginning of a text", "write a prompt"
                )
        return super().pieces(texts)

    def size(self, piece: str) -> int:
        return len(piece) + self.generator.settings.max_new_tokens


class WholeTextAnswerer(BatchAnswerer[str, Answer]):
    """An answerer of texts that are not split."""

    def pieces(self, texts: Sequence[str]) -> list[list[str]]:
        for text in texts:
            _refuse_long(text)
        return super().pieces(texts)


class EmbeddingAnswerer(WholeTextAnswerer[EmbeddedLine]):
    """Gives each text a vector."""

    def __init__(self, loaded: LoadedModel, settings: AnswerSettings, runtime: DecodingRuntime) -> None:
        super().__init__(settings)
        self.embedder = Embedder(loaded, runtime=runtime)
        self.embedder.unknown_tokens.switch_off()

    def count_unknown(self, piece: str) -> int:
        return _count_unknown(self.embedder.tokenizer, piece)

    def answers(self, pieces: Sequence[str], first: int) -> list[EmbeddedLine]:
        return list(self.embedder.answers(pieces, 1))


class ClassAnswerer(WholeTextAnswerer[ClassPrediction]):
    """Gives each text its most probable classes."""

    def __init__(self, loaded: LoadedModel, settings: AnswerSettings, runtime: DecodingRuntime) -> None:
        super().__init__(settings)
        options = ClassificationOptions(top=settings.count)
        self.classifier = Classifier(loaded, options=options, runtime=runtime)
        self.classifier.unknown_tokens.switch_off()

    def count_unknown(self, piece: str) -> int:
        return _count_unknown(self.classifier.tokenizer, piece)

    def answers(self, pieces: Sequence[str], first: int) -> list[ClassPrediction]:
        return list(self.classifier.answers(pieces, 1))


class TagAnswerer(WholeTextAnswerer[TaggedSentence]):
    """Gives each word of a text its label."""

    def __init__(self, loaded: LoadedModel, settings: AnswerSettings, runtime: DecodingRuntime) -> None:
        super().__init__(settings)
        self.tagger = Tagger(loaded, runtime=runtime)
        self.tagger.unknown_tokens.switch_off()

    def count_unknown(self, piece: str) -> int:
        return _count_unknown(self.tagger.tokenizer, piece)

    def answers(self, pieces: Sequence[str], first: int) -> list[TaggedSentence]:
        sentences = [piece.split() if self.settings.words else piece for piece in pieces]
        return list(self.tagger.answers(sentences, 1))


class FillAnswerer(WholeTextAnswerer[FilledLine]):
    """Gives each masked token of a text the most probable tokens in its place."""

    def __init__(self, loaded: LoadedModel, settings: AnswerSettings, runtime: DecodingRuntime) -> None:
        super().__init__(settings)
        self.filler = Filler(loaded, options=FillingOptions(top=settings.count), runtime=runtime)

    def pieces(self, texts: Sequence[str]) -> list[list[str]]:
        pieces = super().pieces(texts)
        for number, text in enumerate(texts, start=1):
            self.filler.encoded(text, number)  # refuses one without a mask here, and not its whole batch
        return pieces

    def count_unknown(self, piece: str) -> int:
        tokenizer = self.filler.tokenizer
        parts = in_context(tokenizer, split_at_masks(tokenizer, piece.strip()))
        return sum(part.count(tokenizer.unk_id) for part in parts)

    def answers(self, pieces: Sequence[str], first: int) -> list[FilledLine]:
        return list(self.filler.answers(pieces, 1))


class ScoreAnswerer(BatchAnswerer[tuple[str, str], ForcedScore]):
    """Scores a given translation of each text."""

    alone = True

    def __init__(self, loaded: LoadedModel, settings: AnswerSettings, runtime: DecodingRuntime) -> None:
        super().__init__(settings)
        self.loaded, self.options = loaded, PrefixOptions(prefix=settings.prefix)
        source_ids([""], loaded, settings.prefix)  # refuses a prefix that is not a language of the model
        self._tags = tags_of(loaded, self.options, REQUEST_PREFIX)

    def count_unknown(self, piece: tuple[str, str]) -> int:
        """Those of both texts."""
        tokenizers = self.loaded.tokenizers
        return _count_unknown(tokenizers.source, piece[0]) + _count_unknown(tokenizers.target, piece[1])

    def answers(self, pieces: Sequence[tuple[str, str]], first: int) -> list[ForcedScore]:
        for source, _ in pieces:
            self._tags.warn([source], "a text")
        return pair_scores(self.loaded, pieces, self.options)


class RecordingAnswerer(BatchAnswerer[Recording, RecordingTranscript]):
    """Transcribes recordings at the model's rate, each of them whole."""

    alone = True

    def __init__(self, loaded: LoadedModel, settings: AnswerSettings, runtime: DecodingRuntime) -> None:
        super().__init__(settings)
        speech = settings.speech
        if speech.task == "transcribe" and loaded.generation.get("tasks") is None:
            speech = replace(speech, task=None)  # a model of one language has no tasks, and transcribes
        self.transcriber = Transcriber(loaded, options=speech, runtime=runtime)

    def pieces(self, texts: Sequence[Recording]) -> list[list[Recording]]:
        rate = sampling_rate(self.transcriber.loaded)
        if any(recording.rate != rate for recording in texts):
            raise DataError(
                "the model was replaced by one of another sampling rate", "send the recording again"
            )
        return super().pieces(texts)

    def answers(self, pieces: Sequence[Recording], first: int) -> list[RecordingTranscript]:
        return self.transcriber([recording.samples for recording in pieces])

    def size(self, piece: Recording) -> int:
        return len(piece.samples) // SAMPLES_OF_A_CHARACTER + 1


class ServedModel:
    """A model, loaded once, with an answerer for each of the settings that are asked for.

    Args:
        model: a model or run folder, what `regard.load` returns, or None for the included model.

    Raises:
        FolderError: its kind has no task for texts or recordings. ConfigError: it has no such precision.
    """

    ANSWERERS: ClassVar[dict[Task, Callable[[LoadedModel, AnswerSettings, DecodingRuntime], Any]]] = {
        "translate": TranslationAnswerer,
        "generate": GenerationAnswerer,
        "embed": EmbeddingAnswerer,
        "classify": ClassAnswerer,
        "tag": TagAnswerer,
        "fill": FillAnswerer,
        "score": ScoreAnswerer,
        "transcribe": RecordingAnswerer,
    }

    def __init__(
        self, model: AnyModel | None = None, runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME
    ) -> None:
        self.loaded = open_model(model, runtime)
        if runtime.precision == "bfloat16" and isinstance(self.loaded.model, SpeechToText):
            raise ConfigError("precision bfloat16 is for models of texts", "leave it out for one of speech")
        self.precision: Precision = compute_in(runtime.precision, self.loaded.model, self.loaded.model.device)
        self.loaded.model.eval()
        self.runtime = replace(runtime, precision="float32")  # the model has its precision already
        self.tasks = tasks_of(self.loaded)
        self._chat = ChatPrompts(self.loaded, None) if self.loaded.chat_template is not None else None
        self._answerers: OrderedDict[AnswerSettings, Answerer[Any, Any]] = OrderedDict()
        self.lock = threading.Lock()  # of the answerers

    def prepare(self) -> None:
        """Build the fast form now: the first answer is quicker, and forks of this process share it."""
        with deterministic([self.loaded.model]):
            fast_step(self.loaded.model)

    def recording(self, content: bytes, name: str, most_seconds: float) -> Recording:
        """The sound of a file at the model's rate; `name` is used in messages.

        Raises:
            FolderError: the model does not transcribe. DataError: the file is damaged, of another format, or
                longer than `most_seconds`. MissingExtra: its format needs a library that is not installed.
        """
        self._refuse_other("transcribe")
        rate = sampling_rate(self.loaded)
        return Recording(sound_of(content, name, rate, most_seconds), rate)

    @property
    def bytes(self) -> int:
        """The memory of the weights."""
        return sum(each.numel() * each.element_size() for each in self.loaded.model.parameters())

    @property
    def aligns(self) -> bool:
        """True if its translations can have alignments."""
        model = self.loaded.model
        return isinstance(model, SequenceToSequence) and bool(attentions_to_source(model))

    def answerer(self, settings: AnswerSettings) -> Answerer[Any, Any]:
        """The answerer with these settings: equal ones for equal settings.

        Raises:
            FolderError: the model has another task. ConfigError: a control cannot work.
        """
        self._refuse_other(settings.task)
        with self.lock:
            found = self._answerers.get(settings)
            if found is None:
                found = self.ANSWERERS[settings.task](self.loaded, settings, self.runtime)
                self._answerers[settings] = found
                while len(self._answerers) > KEPT:
                    self._answerers.popitem(last=False)
            self._answerers.move_to_end(settings)
            return found

    def _refuse_other(self, task: Task) -> None:
        if task not in self.tasks:
            raise FolderError(f"this model does not {task}", f"it can {' and '.join(self.tasks)}")

    @property
    def has_chat(self) -> bool:
        """True if the model has a chat template."""
        return self._chat is not None

    def rendered(self, messages: Sequence[Message]) -> Rendered:
        """A conversation as the model reads it.

        Raises:
            FolderError: the model has no chat template, or it fails. DataError: see `ChatPrompts.text`.
        """
        if self._chat is None:
            raise FolderError("this model has no chat template", "send a prompt instead of messages")
        return self._chat.text(messages)

    def count_masks(self, text: str) -> int:
        """How many masked tokens a text has."""
        return len(split_at_masks(self.loaded.tokenizers.source, text)) - 1

    def count_tokens(self, text: str) -> int:
        """How many tokens of the source's tokeniser a text or a rendered conversation has."""
        tokenizer = self.loaded.tokenizers.source
        return len(tokenizer.encode_rendered(text) if isinstance(text, Rendered) else tokenizer.encode(text))


def sampling_rate(loaded: LoadedModel) -> int:
    """The samples a second of the sound that a speech-to-text model reads."""
    assert isinstance(loaded.model, SpeechToText)
    return loaded.model.config.sampling_rate


def tasks_of(loaded: LoadedModel) -> tuple[Task, ...]:
    """What a model can do with texts, or with recordings.

    Raises:
        FolderError: nothing; the hint names its use.
    """
    model = loaded.model
    if isinstance(model, SequenceToSequence):
        return ("translate", "score")
    if isinstance(model, DecoderOnly):
        return ("generate",)
    if isinstance(model, EncoderOnly):
        return OF_HEADS.get(model.config.head, ("embed",))
    if isinstance(model, SpeechToText):
        return ("transcribe",)
    raise FolderError(f"{loaded.path}: this model cannot be served", f"it {use_of(loaded)}")


def _count_unknown(tokenizer: Tokenizer, text: str) -> int:
    return tokenizer.encode(text.strip()).count(tokenizer.unk_id)


def _refuse_long(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise DataError(f"a text has {len(text):,} characters, more than {MAX_CHARACTERS:,}", "shorten it")
