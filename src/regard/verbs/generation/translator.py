"""Translates the lines of files, and texts of several sentences, in order."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import ClassVar

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.running_search import records_alternatives
from regard.decoding.settings import GenerationSettings
from regard.errors import ConfigError
from regard.inspection.alignment import source_attentions
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.verbs.generation.controls import UNSET, Controls
from regard.verbs.generation.copied_words import CopiedWords
from regard.verbs.generation.decoding_defaults import decoding_defaults
from regard.verbs.generation.draft_model import drafter_of
from regard.verbs.generation.glossary import Dictionary, RequiredText
from regard.verbs.generation.glossary_decoding import GlossaryDecoder, search_requiring
from regard.verbs.generation.keeping import KeepingTranslator, PieceTranslator, text_hiders
from regard.verbs.generation.keeping_batch import KeepingAnswers
from regard.verbs.generation.kept_texts import TextHider
from regard.verbs.generation.language_tags import LanguageTags
from regard.verbs.generation.languages import in_languages
from regard.verbs.generation.pooled_decoding import PooledDecoder
from regard.verbs.generation.prefixes import source_prefix
from regard.verbs.generation.running_answers import RunningAnswers, width_of
from regard.verbs.generation.search_results import samples_for, translation_search
from regard.verbs.generation.sources import SourceEncoder
from regard.verbs.generation.translation_builder import TranslationBuilder
from regard.verbs.generation.translations import Translation
from regard.verbs.generation.unwritable_bans import UnwritableBans
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.device import choose_workers
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.lines import chunks, numbered
from regard.verbs.shared.model_loading import model_that
from regard.verbs.shared.precision import compute_in
from regard.verbs.shared.runtime import DEFAULT_DECODING_RUNTIME, DecodingRuntime, Precision
from regard.verbs.shared.sentence_splitting import Splitter, WholeTexts
from regard.verbs.shared.shows_model import ShowsModel
from regard.verbs.shared.text_options import SplitMode, SummaryOptions, TranslationOptions
from regard.verbs.shared.texts import several

ONE_TEXT = "put it into a list: [text]; Translator.texts([text]) splits it into sentences"
MAX_CHARACTERS = 5000  # of a line; the rest is left out, with a warning
OPTIONS = TranslationOptions()
Join = Callable[[str, Sequence[str], Sequence[Translation]], Translation]


class Translator(ShowsModel):
    """A model, loaded once, that translates lines.

    A translation depends on its line alone: not on the batch, the other lines or the number of workers.

    A model is trained on lines that mostly hold one sentence. `split` decides about lines of several: "on"
    translates each sentence alone and joins the translations, "off" leaves lines as they are, and "auto"
    splits the texts of `texts`, and of other lines those longer than the model was trained on (`split_above`
    in its generation.json) or can read. Length limits and penalties then apply to each sentence.

    Args:
        model: a model or run folder, or what `regard.load` returns; the included model by default.
    """

    task: ClassVar[str] = "translation"  # the key of its prefix in generation.json, as in T5's folders
    does: ClassVar[str] = "translates"
    answer: ClassVar[type[Translation]] = Translation
    max_characters: ClassVar[int] = MAX_CHARACTERS

    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel | None = None,
        *,
        controls: Controls = UNSET,
        options: TranslationOptions = OPTIONS,
        runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
    ) -> None:
        """Load the model; controls that are not given have the model's defaults."""
        if options.engine != "regard":
            from regard.verbs.generation.engine import refuse_device

            refuse_device(runtime)
            runtime = replace(runtime, device="cpu")
        languages = options.source_lang, options.target_lang
        self._load(
            model,
            controls,
            options,
            runtime,
            options.split,
            by_regard=options.engine == "regard",
            languages=languages,
        )

    def _load(
        self,
        model: AnyModel | None,
        controls: Controls,
        options: SummaryOptions,
        runtime: DecodingRuntime,
        split: SplitMode | None,
        by_regard: bool = True,
        languages: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """Load the model; without `split` texts are not split into sentences."""
        self.loaded = in_languages(open_model(model, runtime), *languages)
        self.device = self.loaded.model.device
        self.workers = choose_workers(options.workers, self.device, runtime.threads)
        self.model = model_that(self.does, SequenceToSequence, self.loaded)
        self.precision: Precision = (
            compute_in(runtime.precision, self.model, self.device) if by_regard else runtime.precision
        )
        defaults = decoding_defaults(GenerationSettings, self.loaded)
        self.options = options
        self.settings = self._settings(defaults.with_(n_best=1).changed(controls), controls)
        tokenizers = self.loaded.tokenizers
        prefix = source_prefix(self.settings, self.task, tokenizers.source, options.prefix)
        drafter = drafter_of(self.settings, self.loaded, self.device, (tokenizers.target.bos_id,))
        self._strategy = translation_search(self.settings, tokenizers, drafter)
        if by_regard:
            self._decoder = PooledDecoder(
                self._strategy, self.model, tokenizers.target, self.workers, options, runtime
            )
        else:
            from regard.verbs.generation.engine import EngineDecoder

            self._decoder = EngineDecoder(
                self.settings, self._strategy, self.loaded, self.workers, options, runtime
            )
        most = self._decoder.positions - 1  # without the end
        self._sources = SourceEncoder(tokenizers.source, prefix, most, self.max_characters)
        are_long = partial(self._sources.are_long, above=self.settings.split_above)
        self._splitter = WholeTexts() if split is None else Splitter(split, self.settings, are_long)
        self._tags = LanguageTags(
            tokenizers.source, self.settings.tags, has_prefix=options.prefix is not None
        )
        self._tags.warn_of_prefix(prefix.text)
        self._bans = UnwritableBans(controls.ban, tokenizers.target)
        copies = None
        if isinstance(options, TranslationOptions) and options.replace_unk:
            copies = CopiedWords(self.model, tokenizers, self._sources)
        self._translations = TranslationBuilder(
            self.answer,
            self.precision,
            self.model,
            tokenizers,
            self._sources,
            self.settings,
            options.n_best,
            copies,
        )
        self._glossary = None
        if isinstance(options, TranslationOptions) and options.glossary is not None:
            if not by_regard:
                raise ConfigError("another engine takes no glossary", "take engine = 'regard'")
            self._glossary = GlossaryDecoder(
                options.glossary,
                self._decoder,
                partial(self._requiring, options, runtime),
                tokenizers.target,
                samples=bool(self.settings.samples),
            )
        keep = options.keep if isinstance(options, TranslationOptions) else ()
        self._hider, self._hider_of_documents = text_hiders(keep, self.settings, tokenizers)
        self._join: Join = self._translations.of_line if split is None else self._translations.of_text

    def _requiring(
        self, options: SummaryOptions, runtime: DecodingRuntime, texts: Sequence[RequiredText]
    ) -> PooledDecoder:
        """Decodes sentences of which each requires some texts such as these."""
        tokenizers = self.loaded.tokenizers
        strategy = search_requiring(self.settings, texts, options.n_best, tokenizers)
        return PooledDecoder(strategy, self.model, tokenizers.target, self.workers, options, runtime)

    def _settings(self, settings: GenerationSettings, controls: Controls) -> GenerationSettings:
        """The settings with `n_best` candidates; the beam is widened for them, unless its size was given."""
        n_best = self.options.n_best
        searches = settings.takes_beam_size and not settings.samples
        if searches and not controls.has_beam and controls.temperature != 0:
            settings = settings.widened(n_best)
        return settings.with_(n_best=samples_for(settings, n_best))

    def __call__(
        self, lines: Iterable[str], *, done: Callable[[int], None] | None = None
    ) -> Iterator[Translation]:
        """A translation for each line, in order; `lines` may be endless.

        `done` is called with the number of lines of each finished batch.

        Raises:
            DataError: a line is not a str, or `lines` is one.
        """
        return self.in_chunks(chunks(several(lines, ONE_TEXT)), done=done)

    def in_chunks(
        self, chunks: Iterable[Sequence[str]], *, done: Callable[[int], None] | None = None
    ) -> Iterator[Translation]:
        """The translations of lines that come in chunks; those of a chunk are decoded together."""
        return self._in_order(chunks, self._splitter.lines, self._translations.of_line, self._hider, done)

    def answers(self, lines: Sequence[str], first: int) -> Iterator[Translation]:
        """The translations of the lines of one chunk, whose first has the number `first`, from 1."""
        split, join = self._splitter.lines, self._translations.of_line
        return self._in_order([lines], split, join, self._hider, first=first)

    def texts(
        self,
        texts: Iterable[str],
        *,
        alignments: bool = False,
        numbers: Sequence[int] | None = None,
        of_document: bool = False,
    ) -> Iterator[Translation]:
        """A translation for each text, in order. A text may have several sentences and lines.

        With `alignments` the candidates have theirs. `numbers`: the line of each text in its file.
        `of_document`: placeholders are kept by default.

        Raises:
            DataError: a text is not a str, or `texts` is one.
            ConfigError: alignments are asked for, and the model has no attention to its source.
        """
        if alignments:
            source_attentions(self.model)
        found = chunks(several(texts))
        hider = self._hider_of_documents if of_document else self._hider
        split = self._splitter.texts
        return self._in_order(found, split, self._join, hider, alignments=alignments, numbers=numbers)

    def _in_order(
        self,
        chunks: Iterable[Sequence[str]],
        split_into_pieces: Callable[[Sequence[str]], list[list[str]]],
        join: Join,
        hider: TextHider | None,
        done: Callable[[int], None] | None = None,
        *,
        first: int = 1,
        alignments: bool = False,
        numbers: Sequence[int] | None = None,
    ) -> Iterator[Translation]:
        translate = self._keeping(hider)
        for start, chunk in numbered(chunks, first):
            pieces = split_into_pieces(chunk)
            self._bans.warn()
            pieces = _pieces(pieces, hider)
            end = start + len(chunk)
            own = range(start, end) if numbers is None else numbers[start - 1 : end - 1]
            for number, each in zip(own, pieces, strict=True):
                self._tags.warn(each, f"line {number}")
            of_pieces = [number for number, each in zip(own, pieces, strict=True) for _ in each]
            flat = [piece for each in pieces for piece in each]
            found = iter(translate(flat, of_pieces, first_index=start - 1, done=done, alignments=alignments))
            for text, of_text in zip(chunk, pieces, strict=True):
                yield join(text, of_text, list(islice(found, len(of_text))))

    def pieces(self, texts: Sequence[str]) -> list[list[str]]:
        """The pieces of each text that are translated alone: sentences, or lines; at least one."""
        return _pieces(self._splitter.texts(texts), self._hider)

    @property
    def of_pieces(self) -> PieceTranslator:
        """What translates pieces that are not split, and keeps what is kept in lines."""
        return self._keeping(self._hider)

    def _keeping(self, hider: TextHider | None) -> PieceTranslator:
        """What translates pieces, and keeps what `hider` hides; not an attribute, which would be a cycle."""
        if hider is None:
            return self._of_pieces
        return KeepingTranslator(hider, self._of_pieces, samples=bool(self.settings.samples))

    def _of_pieces(
        self,
        pieces: Sequence[str],
        numbers: Sequence[int],
        *,
        first_index: int = 0,
        done: Callable[[int], None] | None = None,
        alignments: bool = False,
    ) -> list[Translation]:
        """A `PieceTranslator` that keeps nothing as it is."""
        sources = self._sources.ids(pieces, numbers)
        decoded = None if done is None else _lines_done(numbers, done)
        found = (
            self._decoder.decode(sources, first_index=first_index, decoded=decoded)
            if self._glossary is None
            else self._glossary.decode(pieces, sources, numbers, first_index=first_index, decoded=decoded)
        )
        return [
            self._translations.of_piece(*each, alignments=alignments)
            for each in zip(numbers, pieces, found, strict=True)
        ]

    @property
    def glossary(self) -> Dictionary | None:
        """The glossary as it was read."""
        return None if self._glossary is None else self._glossary.dictionary

    @property
    def keeps_in_documents(self) -> bool:
        """True if placeholders of a document are kept: there is no control of a whole line."""
        return self._hider_of_documents is not None

    def most_tokens(self, src_len: int) -> int:
        """How many tokens all hypotheses of a source of this length can have together."""
        limit = min(self._strategy.limits.longest(src_len), self._decoder.positions)
        return src_len + width_of(self._strategy) * limit

    @property
    def records_alternatives(self) -> bool:
        """True if candidates can have the most probable tokens at each step."""
        return records_alternatives(self._strategy)

    def running(self, *, alignments: bool = False, alternatives: int = 0) -> RunningAnswers[str, Translation]:
        """Pieces of many texts, decoded together; each has the translation that it has alone.

        With `alignments` the candidates have theirs, and so many `alternatives` of each token.

        Raises:
            ConfigError: the model has no attention to its source, or its search records no alternatives, or
                another engine decodes, or there is a glossary.
        """
        if self._glossary is not None:
            raise ConfigError("a running batch takes no glossary", "leave glossary out")
        if alignments:
            source_attentions(self.model)
        batch = self._decoder.running(alternatives=alternatives)

        def queue(piece: str, place: int) -> int:
            [ticket] = batch.add([self._sources.ids_of(piece)], first_index=place)
            return ticket

        def answer(piece: str, found: Sequence[Hypothesis]) -> Translation:
            return self._translations.of_piece(1, piece, found, alignments=alignments)

        if self._hider is not None:
            return KeepingAnswers(self._hider, batch, queue, answer)
        return RunningAnswers(batch, queue, answer)

    def count_unknown(self, piece: str) -> int:
        """How many tokens of a piece the model does not know."""
        return self._sources.count_unknown(self._read(piece))

    def _read(self, piece: str) -> str:
        """What the model reads of a piece: stand-ins in place of what is kept."""
        return piece if self._hider is None else self._hider.hidden(piece).text

    def too_long(self, pieces: Sequence[str]) -> list[bool]:
        """True for each piece of which only the beginning would be read."""
        return self._sources.are_long([*map(self._read, pieces)])

    def joined(self, text: str, pieces: Sequence[str], sentences: Sequence[Translation]) -> Translation:
        """The translation of a text, joined from those of its pieces; white space at its ends stays."""
        return self._join(text, pieces, sentences)


def _pieces(pieces: Sequence[Sequence[str]], hider: TextHider | None) -> list[list[str]]:
    """The pieces of each text, at least one; no border is within a text that is kept."""
    found = [[*each] or [""] for each in pieces]
    return found if hider is None else [hider.unbroken(each) for each in found]


def _lines_done(numbers: Sequence[int], done: Callable[[int], None]) -> Callable[[Sequence[int]], None]:
    """Count the lines whose last sentence is decoded, from the places of decoded sentences."""
    left = Counter(numbers)

    def decoded(places: Sequence[int]) -> None:
        batch = Counter(numbers[place] for place in places)
        left.subtract(batch)
        done(sum(not left[number] for number in batch))

    return decoded
