"""What type checkers and editors see of `regard`. Written by tools/stub.py: change the verbs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from regard.errors import RegardError as RegardError
from regard.errors import UserError as UserError
from regard.verbs.average import average as average
from regard.verbs.classify import Classifier as Classifier
from regard.verbs.classify import classify as classify
from regard.verbs.classify import classify_file as classify_file
from regard.verbs.classify_images import ImageClassifier as ImageClassifier
from regard.verbs.classify_images import classify_images as classify_images
from regard.verbs.classify_nodes import NodeClassifier as NodeClassifier
from regard.verbs.classify_nodes import classify_nodes as classify_nodes
from regard.verbs.compare import compare as compare
from regard.verbs.convert import convert as convert
from regard.verbs.curves import curves as curves
from regard.verbs.data import data_check as data_check
from regard.verbs.data import data_get as data_get
from regard.verbs.data import data_list as data_list
from regard.verbs.data import data_show as data_show
from regard.verbs.demo import demo as demo
from regard.verbs.doctor import doctor as doctor
from regard.verbs.embed import Embedder as Embedder
from regard.verbs.embed import embed as embed
from regard.verbs.embed import embed_file as embed_file
from regard.verbs.embed import embed_similar as embed_similar
from regard.verbs.evaluate import evaluate as evaluate
from regard.verbs.fill import Filler as Filler
from regard.verbs.fill import fill as fill
from regard.verbs.fill import fill_file as fill_file
from regard.verbs.generate import Generator as _Generator
from regard.verbs.load import load as load
from regard.verbs.look import Look as Look
from regard.verbs.look import Looker as Looker
from regard.verbs.look import look as look
from regard.verbs.new import new as new
from regard.verbs.plot import plot_alignment as plot_alignment
from regard.verbs.plot import plot_attention as plot_attention
from regard.verbs.plot import plot_curves as plot_curves
from regard.verbs.plot import plot_positions as plot_positions
from regard.verbs.plot import plot_schedule as plot_schedule
from regard.verbs.recipes import recipes as recipes
from regard.verbs.recipes import recipes_show as recipes_show
from regard.verbs.score import score as score
from regard.verbs.summarize import Summarizer as _Summarizer
from regard.verbs.tag import Tagger as Tagger
from regard.verbs.tag import tag as tag
from regard.verbs.tag import tag_file as tag_file
from regard.verbs.train import train as train
from regard.verbs.transcribe import Transcriber as Transcriber
from regard.verbs.transcribe import transcribe as transcribe
from regard.verbs.translate import Translator as _Translator
from regard.weights.model_folder import LoadedModel

__version__: str
__all__ = [
    "Classifier",
    "Embedder",
    "Filler",
    "Generator",
    "ImageClassifier",
    "Look",
    "Looker",
    "NodeClassifier",
    "RegardError",
    "Summarizer",
    "Tagger",
    "Transcriber",
    "Translator",
    "UserError",
    "average",
    "classify",
    "classify_file",
    "classify_images",
    "classify_nodes",
    "compare",
    "convert",
    "curves",
    "data_check",
    "data_get",
    "data_list",
    "data_show",
    "demo",
    "doctor",
    "embed",
    "embed_file",
    "embed_similar",
    "evaluate",
    "fill",
    "fill_file",
    "generate",
    "generate_file",
    "load",
    "look",
    "new",
    "plot_alignment",
    "plot_attention",
    "plot_curves",
    "plot_positions",
    "plot_schedule",
    "recipes",
    "recipes_show",
    "score",
    "summarize",
    "summarize_file",
    "tag",
    "tag_file",
    "train",
    "transcribe",
    "translate",
    "translate_file",
]

class Generator(_Generator):
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

    def __init__(
        self,
        model: str | Path | LoadedModel,
        *,
        sample: bool | None = None,
        beam_size: int | None = None,
        length_penalty: Literal["wu", "power", "none"] | None = None,
        alpha: float | None = None,
        early_stopping: bool | None = None,
        heuristic_stopping: bool | None = None,
        beam_groups: int | None = None,
        diversity: float | None = None,
        must_contain: Sequence[str] = (),
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        typical_p: float | None = None,
        seed: int | None = None,
        repetition_penalty: float | None = None,
        presence_penalty: float | None = None,
        frequency_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
        no_repeat_source_ngram_size: int | None = None,
        ban: Sequence[str] = (),
        boost: Sequence[str] = (),
        min_new_tokens: int | None = None,
        max_new_tokens: int | None = None,
        max_context: int | None = None,
        stop: Sequence[str] = (),
        end_ids: Sequence[int] = (),
        prompt_lookup: int | None = None,
        draft_model: str | None = None,
        draft_tokens: int | None = None,
        mbr: Literal["chrf", "bleu"] | None = None,
        mbr_samples: int | None = None,
        num: int = 1,
        device: str = "auto",
        threads: int | None = None,
        precision: Literal["float32", "int8"] = "float32",
    ) -> None:
        """Load the model; controls that are not given are its own.

        Args:
            sample: Sample at random, or search. [default: the model's own]
            beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
            length_penalty: A score is the log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
            alpha: The A of the length penalty.
            early_stopping: End a beam when as many hypotheses as its size have ended.
            heuristic_stopping: End a beam when, at its present length, its best scores below the worst of
                as many that ended.
            beam_groups: Part the beam into that many groups that avoid each other's tokens.
            diversity: What a token costs a group for each earlier group's hypothesis that takes it.
            must_contain: Say this, or one of several with | between them.
            temperature: Below 1 the likely is likelier; 0 takes the likeliest.
            top_k: Draw from the K likeliest tokens; 0 from all.
            top_p: Draw from the likeliest that hold the probability P.
            min_p: Draw from those at least P times as likely as the likeliest.
            typical_p: Draw from the tokens of most typical information that hold the probability P.
            seed: Another one draws another text. [default: 0]
            repetition_penalty: Above 1: what the text or its prompt has is less likely (CTRL's).
            presence_penalty: Taken from the logit of each token that was said.
            frequency_penalty: The same as often as it was said.
            no_repeat_ngram_size: Say no N tokens in the same order twice; 0 allows it.
            no_repeat_source_ngram_size: Say no N tokens in the order in which the source has them.
            ban: Never say this.
            boost: Add X to the logits of this (below 0: take away).
            min_new_tokens: No end before that many tokens.
            max_new_tokens: Tokens at most. [default: the model's own]
            max_context: A language model sees at most the last N tokens; 0: all. [default: as many as it
                was trained on]
            stop: End before this text, which is not shown.
            end_ids: Another token (its number) that ends a text.
            prompt_lookup: Guess that many tokens from the text so far and read them at once; the answer
                stays the same.
            draft_model: Guess tokens by this smaller model and read them at once; the answer stays the
                same.
            draft_tokens: How many the smaller model guesses. [default: 4]
            mbr: Of many samples take that which is most like the others.
            mbr_samples: How many samples. [default: 32]
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
            precision: Of products: "float32"; "int8" is faster on a CPU, a little less exact, as are
                scores.
        """


def generate(
    prompt: str | Iterable[str],
    *,
    model: str | Path | LoadedModel,
    sample: bool | None = None,
    beam_size: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    num: int = 1,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "int8"] = "float32",
) -> Any:
    """A text that begins with the prompt, or one for each prompt of several.

    With `num` above 1 there is a list of that many in the place of each. For many calls, or to see the text
    as it comes, keep a `Generator`, whose settings these are. Of several prompts an empty one stays empty
    where the model has never seen the beginning of a text.

    Args:
        prompt: one text to go on with, or several.
        model: a model or run folder, or what `regard.load` gives.
        num: texts for each prompt.
        sample: Sample at random, or search. [default: the model's own]
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        length_penalty: A score is the log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        early_stopping: End a beam when as many hypotheses as its size have ended.
        heuristic_stopping: End a beam when, at its present length, its best scores below the worst of
            as many that ended.
        beam_groups: Part the beam into that many groups that avoid each other's tokens.
        diversity: What a token costs a group for each earlier group's hypothesis that takes it.
        must_contain: Say this, or one of several with | between them.
        temperature: Below 1 the likely is likelier; 0 takes the likeliest.
        top_k: Draw from the K likeliest tokens; 0 from all.
        top_p: Draw from the likeliest that hold the probability P.
        min_p: Draw from those at least P times as likely as the likeliest.
        typical_p: Draw from the tokens of most typical information that hold the probability P.
        seed: Another one draws another text. [default: 0]
        repetition_penalty: Above 1: what the text or its prompt has is less likely (CTRL's).
        presence_penalty: Taken from the logit of each token that was said.
        frequency_penalty: The same as often as it was said.
        no_repeat_ngram_size: Say no N tokens in the same order twice; 0 allows it.
        no_repeat_source_ngram_size: Say no N tokens in the order in which the source has them.
        ban: Never say this.
        boost: Add X to the logits of this (below 0: take away).
        min_new_tokens: No end before that many tokens.
        max_new_tokens: Tokens at most. [default: the model's own]
        max_context: A language model sees at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: End before this text, which is not shown.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Guess that many tokens from the text so far and read them at once; the answer
            stays the same.
        draft_model: Guess tokens by this smaller model and read them at once; the answer stays the
            same.
        draft_tokens: How many the smaller model guesses. [default: 4]
        mbr: Of many samples take that which is most like the others.
        mbr_samples: How many samples. [default: 32]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of products: "float32"; "int8" is faster on a CPU, a little less exact, as are
            scores.

    Returns:
        str for a str, list[str] for several; with `num` above 1 list[str] and list[list[str]].
    """


def generate_file(
    input: str | Path,
    *,
    model: str | Path | LoadedModel,
    sample: bool | None = None,
    beam_size: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    num: int = 1,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "int8"] = "float32",
) -> list[Any]:
    """What `generate` gives of each line of a file, plain or gzipped.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a prompt.
        model: a model or run folder, or what `regard.load` gives.
        num: texts for each prompt.
        sample: Sample at random, or search. [default: the model's own]
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        length_penalty: A score is the log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        early_stopping: End a beam when as many hypotheses as its size have ended.
        heuristic_stopping: End a beam when, at its present length, its best scores below the worst of
            as many that ended.
        beam_groups: Part the beam into that many groups that avoid each other's tokens.
        diversity: What a token costs a group for each earlier group's hypothesis that takes it.
        must_contain: Say this, or one of several with | between them.
        temperature: Below 1 the likely is likelier; 0 takes the likeliest.
        top_k: Draw from the K likeliest tokens; 0 from all.
        top_p: Draw from the likeliest that hold the probability P.
        min_p: Draw from those at least P times as likely as the likeliest.
        typical_p: Draw from the tokens of most typical information that hold the probability P.
        seed: Another one draws another text. [default: 0]
        repetition_penalty: Above 1: what the text or its prompt has is less likely (CTRL's).
        presence_penalty: Taken from the logit of each token that was said.
        frequency_penalty: The same as often as it was said.
        no_repeat_ngram_size: Say no N tokens in the same order twice; 0 allows it.
        no_repeat_source_ngram_size: Say no N tokens in the order in which the source has them.
        ban: Never say this.
        boost: Add X to the logits of this (below 0: take away).
        min_new_tokens: No end before that many tokens.
        max_new_tokens: Tokens at most. [default: the model's own]
        max_context: A language model sees at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: End before this text, which is not shown.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Guess that many tokens from the text so far and read them at once; the answer
            stays the same.
        draft_model: Guess tokens by this smaller model and read them at once; the answer stays the
            same.
        draft_tokens: How many the smaller model guesses. [default: 4]
        mbr: Of many samples take that which is most like the others.
        mbr_samples: How many samples. [default: 32]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of products: "float32"; "int8" is faster on a CPU, a little less exact, as are
            scores.
    """


class Summarizer(_Summarizer):
    """A model, loaded once, that says texts in short: a `Translator` of whole documents, each a line.

    Args:
        model: a model or run folder, or what `regard.load` gives.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        n_best: candidates of each text; a beam is as wide as that at least.
        prefix: what stands before each text; what the model's folder says of summaries without.
        split: leave it out, or "off": a document is summarized whole.
        workers: processes that share many lines; one for each core of a CPU without, one where `threads` are
            given.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel | None = None,
        *,
        sample: bool | None = None,
        beam_size: int | None = None,
        length_penalty: Literal["wu", "power", "none"] | None = None,
        alpha: float | None = None,
        early_stopping: bool | None = None,
        heuristic_stopping: bool | None = None,
        beam_groups: int | None = None,
        diversity: float | None = None,
        must_contain: Sequence[str] = (),
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        typical_p: float | None = None,
        seed: int | None = None,
        repetition_penalty: float | None = None,
        presence_penalty: float | None = None,
        frequency_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
        no_repeat_source_ngram_size: int | None = None,
        ban: Sequence[str] = (),
        boost: Sequence[str] = (),
        min_new_tokens: int | None = None,
        max_new_tokens: int | None = None,
        max_context: int | None = None,
        stop: Sequence[str] = (),
        end_ids: Sequence[int] = (),
        prompt_lookup: int | None = None,
        draft_model: str | None = None,
        draft_tokens: int | None = None,
        mbr: Literal["chrf", "bleu"] | None = None,
        mbr_samples: int | None = None,
        batch_tokens: int = 4096,
        n_best: int = 1,
        prefix: str | None = None,
        split: Literal["auto", "on", "off"] = "auto",
        workers: int | None = None,
        device: str = "auto",
        threads: int | None = None,
        precision: Literal["float32", "int8"] = "float32",
    ) -> None:
        """Load the model; controls that are not given are its own.

        Args:
            sample: Sample at random, or search. [default: the model's own]
            beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
            length_penalty: A score is the log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
            alpha: The A of the length penalty.
            early_stopping: End a beam when as many hypotheses as its size have ended.
            heuristic_stopping: End a beam when, at its present length, its best scores below the worst of
                as many that ended.
            beam_groups: Part the beam into that many groups that avoid each other's tokens.
            diversity: What a token costs a group for each earlier group's hypothesis that takes it.
            must_contain: Say this, or one of several with | between them.
            temperature: Below 1 the likely is likelier; 0 takes the likeliest.
            top_k: Draw from the K likeliest tokens; 0 from all.
            top_p: Draw from the likeliest that hold the probability P.
            min_p: Draw from those at least P times as likely as the likeliest.
            typical_p: Draw from the tokens of most typical information that hold the probability P.
            seed: Another one draws another text. [default: 0]
            repetition_penalty: Above 1: what the text or its prompt has is less likely (CTRL's).
            presence_penalty: Taken from the logit of each token that was said.
            frequency_penalty: The same as often as it was said.
            no_repeat_ngram_size: Say no N tokens in the same order twice; 0 allows it.
            no_repeat_source_ngram_size: Say no N tokens in the order in which the source has them.
            ban: Never say this.
            boost: Add X to the logits of this (below 0: take away).
            min_new_tokens: No end before that many tokens.
            max_new_tokens: Tokens at most. [default: the model's own]
            max_context: A language model sees at most the last N tokens; 0: all. [default: as many as it
                was trained on]
            stop: End before this text, which is not shown.
            end_ids: Another token (its number) that ends a text.
            prompt_lookup: Guess that many tokens from the text so far and read them at once; the answer
                stays the same.
            draft_model: Guess tokens by this smaller model and read them at once; the answer stays the
                same.
            draft_tokens: How many the smaller model guesses. [default: 4]
            mbr: Of many samples take that which is most like the others.
            mbr_samples: How many samples. [default: 32]
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
            precision: Of products: "float32"; "int8" is faster on a CPU, a little less exact, as are
                scores.
        """


def summarize(
    text: str | Iterable[str],
    *,
    model: str | Path | LoadedModel,
    sample: bool | None = None,
    beam_size: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    batch_tokens: int = 4096,
    n_best: int = 1,
    prefix: str | None = None,
    workers: int | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "int8"] = "float32",
) -> Any:
    """A text in short, or each of several.

    With `n_best` above 1 there is a list of that many, best first, in the place of each. For many calls keep
    a `Summarizer`.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` gives.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        n_best: candidates of each text; a beam is as wide as that at least.
        prefix: what stands before each text; what the model's folder says of summaries without.
        workers: processes that share many lines; one for each core of a CPU without, one where `threads` are
            given.
        sample: Sample at random, or search. [default: the model's own]
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        length_penalty: A score is the log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        early_stopping: End a beam when as many hypotheses as its size have ended.
        heuristic_stopping: End a beam when, at its present length, its best scores below the worst of
            as many that ended.
        beam_groups: Part the beam into that many groups that avoid each other's tokens.
        diversity: What a token costs a group for each earlier group's hypothesis that takes it.
        must_contain: Say this, or one of several with | between them.
        temperature: Below 1 the likely is likelier; 0 takes the likeliest.
        top_k: Draw from the K likeliest tokens; 0 from all.
        top_p: Draw from the likeliest that hold the probability P.
        min_p: Draw from those at least P times as likely as the likeliest.
        typical_p: Draw from the tokens of most typical information that hold the probability P.
        seed: Another one draws another text. [default: 0]
        repetition_penalty: Above 1: what the text or its prompt has is less likely (CTRL's).
        presence_penalty: Taken from the logit of each token that was said.
        frequency_penalty: The same as often as it was said.
        no_repeat_ngram_size: Say no N tokens in the same order twice; 0 allows it.
        no_repeat_source_ngram_size: Say no N tokens in the order in which the source has them.
        ban: Never say this.
        boost: Add X to the logits of this (below 0: take away).
        min_new_tokens: No end before that many tokens.
        max_new_tokens: Tokens at most. [default: the model's own]
        max_context: A language model sees at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: End before this text, which is not shown.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Guess that many tokens from the text so far and read them at once; the answer
            stays the same.
        draft_model: Guess tokens by this smaller model and read them at once; the answer stays the
            same.
        draft_tokens: How many the smaller model guesses. [default: 4]
        mbr: Of many samples take that which is most like the others.
        mbr_samples: How many samples. [default: 32]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of products: "float32"; "int8" is faster on a CPU, a little less exact, as are
            scores.

    Returns:
        str for a str, list[str] for several; with `n_best` above 1 list[str] and list[list[str]].
    """


def summarize_file(
    input: str | Path,
    output: str | Path,
    *,
    model: str | Path | LoadedModel,
    sample: bool | None = None,
    beam_size: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    batch_tokens: int = 4096,
    n_best: int = 1,
    prefix: str | None = None,
    as_json: bool = False,
    workers: int | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "int8"] = "float32",
) -> int:
    """Say each line of a file in short, into another, which appears when it is whole; the number of lines.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        output: the file to write.
        model: a model or run folder, or what `regard.load` gives.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        n_best: candidates of each text; a beam is as wide as that at least.
        prefix: what stands before each text; what the model's folder says of summaries without.
        as_json: write a line of JSON for each line.
        workers: processes that share many lines; one for each core of a CPU without, one where `threads` are
            given.
        sample: Sample at random, or search. [default: the model's own]
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        length_penalty: A score is the log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        early_stopping: End a beam when as many hypotheses as its size have ended.
        heuristic_stopping: End a beam when, at its present length, its best scores below the worst of
            as many that ended.
        beam_groups: Part the beam into that many groups that avoid each other's tokens.
        diversity: What a token costs a group for each earlier group's hypothesis that takes it.
        must_contain: Say this, or one of several with | between them.
        temperature: Below 1 the likely is likelier; 0 takes the likeliest.
        top_k: Draw from the K likeliest tokens; 0 from all.
        top_p: Draw from the likeliest that hold the probability P.
        min_p: Draw from those at least P times as likely as the likeliest.
        typical_p: Draw from the tokens of most typical information that hold the probability P.
        seed: Another one draws another text. [default: 0]
        repetition_penalty: Above 1: what the text or its prompt has is less likely (CTRL's).
        presence_penalty: Taken from the logit of each token that was said.
        frequency_penalty: The same as often as it was said.
        no_repeat_ngram_size: Say no N tokens in the same order twice; 0 allows it.
        no_repeat_source_ngram_size: Say no N tokens in the order in which the source has them.
        ban: Never say this.
        boost: Add X to the logits of this (below 0: take away).
        min_new_tokens: No end before that many tokens.
        max_new_tokens: Tokens at most. [default: the model's own]
        max_context: A language model sees at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: End before this text, which is not shown.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Guess that many tokens from the text so far and read them at once; the answer
            stays the same.
        draft_model: Guess tokens by this smaller model and read them at once; the answer stays the
            same.
        draft_tokens: How many the smaller model guesses. [default: 4]
        mbr: Of many samples take that which is most like the others.
        mbr_samples: How many samples. [default: 32]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of products: "float32"; "int8" is faster on a CPU, a little less exact, as are
            scores.
    """


class Translator(_Translator):
    """A model, loaded once, that translates lines.

    What it says of a line depends on that line alone: not on `batch_tokens`, nor on the line's neighbours,
    nor on `workers`, the processes that share many lines (None: one for each core of a CPU, but only one
    where `threads` are given). With precision "int8" products are of whole numbers of 8 bits, on a CPU.

    A model is trained on lines that mostly hold one sentence. `split` says what is done with several: "on"
    translates each sentence alone and puts them together as they stood, "off" leaves lines as they are, and
    "auto" splits what `texts` is given, and of other lines those longer than the model was trained on
    (`split_above` in its generation.json) or than it can read. Limits and penalties are then of a sentence.

    Args:
        model: a model or run folder, or what `regard.load` gives; the model in the box without.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        n_best: candidates of each text; a beam is as wide as that at least.
        prefix: what stands before each text; what the model's folder says without.
        split: "auto", "on" or "off", as above.
        workers: processes that share many lines; one for each core of a CPU without, one where `threads` are
            given.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel | None = None,
        *,
        sample: bool | None = None,
        beam_size: int | None = None,
        length_penalty: Literal["wu", "power", "none"] | None = None,
        alpha: float | None = None,
        early_stopping: bool | None = None,
        heuristic_stopping: bool | None = None,
        beam_groups: int | None = None,
        diversity: float | None = None,
        must_contain: Sequence[str] = (),
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        typical_p: float | None = None,
        seed: int | None = None,
        repetition_penalty: float | None = None,
        presence_penalty: float | None = None,
        frequency_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
        no_repeat_source_ngram_size: int | None = None,
        ban: Sequence[str] = (),
        boost: Sequence[str] = (),
        min_new_tokens: int | None = None,
        max_new_tokens: int | None = None,
        max_context: int | None = None,
        stop: Sequence[str] = (),
        end_ids: Sequence[int] = (),
        prompt_lookup: int | None = None,
        draft_model: str | None = None,
        draft_tokens: int | None = None,
        mbr: Literal["chrf", "bleu"] | None = None,
        mbr_samples: int | None = None,
        batch_tokens: int = 4096,
        n_best: int = 1,
        prefix: str | None = None,
        split: Literal["auto", "on", "off"] = "auto",
        workers: int | None = None,
        device: str = "auto",
        threads: int | None = None,
        precision: Literal["float32", "int8"] = "float32",
    ) -> None:
        """Load the model; controls that are not given are its own.

        Args:
            sample: Sample at random, or search. [default: the model's own]
            beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
            length_penalty: A score is the log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
            alpha: The A of the length penalty.
            early_stopping: End a beam when as many hypotheses as its size have ended.
            heuristic_stopping: End a beam when, at its present length, its best scores below the worst of
                as many that ended.
            beam_groups: Part the beam into that many groups that avoid each other's tokens.
            diversity: What a token costs a group for each earlier group's hypothesis that takes it.
            must_contain: Say this, or one of several with | between them.
            temperature: Below 1 the likely is likelier; 0 takes the likeliest.
            top_k: Draw from the K likeliest tokens; 0 from all.
            top_p: Draw from the likeliest that hold the probability P.
            min_p: Draw from those at least P times as likely as the likeliest.
            typical_p: Draw from the tokens of most typical information that hold the probability P.
            seed: Another one draws another text. [default: 0]
            repetition_penalty: Above 1: what the text or its prompt has is less likely (CTRL's).
            presence_penalty: Taken from the logit of each token that was said.
            frequency_penalty: The same as often as it was said.
            no_repeat_ngram_size: Say no N tokens in the same order twice; 0 allows it.
            no_repeat_source_ngram_size: Say no N tokens in the order in which the source has them.
            ban: Never say this.
            boost: Add X to the logits of this (below 0: take away).
            min_new_tokens: No end before that many tokens.
            max_new_tokens: Tokens at most. [default: the model's own]
            max_context: A language model sees at most the last N tokens; 0: all. [default: as many as it
                was trained on]
            stop: End before this text, which is not shown.
            end_ids: Another token (its number) that ends a text.
            prompt_lookup: Guess that many tokens from the text so far and read them at once; the answer
                stays the same.
            draft_model: Guess tokens by this smaller model and read them at once; the answer stays the
                same.
            draft_tokens: How many the smaller model guesses. [default: 4]
            mbr: Of many samples take that which is most like the others.
            mbr_samples: How many samples. [default: 32]
            device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
            threads: CPU threads. [default: PyTorch's choice]
            precision: Of products: "float32"; "int8" is faster on a CPU, a little less exact, as are
                scores.
        """


def translate(
    text: str | Iterable[str],
    *,
    model: str | Path | LoadedModel | None = None,
    sample: bool | None = None,
    beam_size: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    batch_tokens: int = 4096,
    n_best: int = 1,
    prefix: str | None = None,
    split: Literal["auto", "on", "off"] = "auto",
    workers: int | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "int8"] = "float32",
) -> Any:
    """The translation of a text, or of each text of several, by `model` or the model in the box.

    A text may have several sentences and lines: each sentence is translated alone, and they are put together
    with the spaces and line breaks that stood between them; with `split` "off" only lines are apart. With
    `n_best` above 1 there is a list of that many, best first, in the place of each translation. For many
    calls keep a `Translator`, which also tells scores.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` gives; the model in the box without.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        n_best: candidates of each text; a beam is as wide as that at least.
        prefix: what stands before each text; what the model's folder says without.
        split: "auto" and "on" translate each sentence alone, "off" each line.
        workers: processes that share many lines; one for each core of a CPU without, one where `threads` are
            given.
        sample: Sample at random, or search. [default: the model's own]
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        length_penalty: A score is the log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        early_stopping: End a beam when as many hypotheses as its size have ended.
        heuristic_stopping: End a beam when, at its present length, its best scores below the worst of
            as many that ended.
        beam_groups: Part the beam into that many groups that avoid each other's tokens.
        diversity: What a token costs a group for each earlier group's hypothesis that takes it.
        must_contain: Say this, or one of several with | between them.
        temperature: Below 1 the likely is likelier; 0 takes the likeliest.
        top_k: Draw from the K likeliest tokens; 0 from all.
        top_p: Draw from the likeliest that hold the probability P.
        min_p: Draw from those at least P times as likely as the likeliest.
        typical_p: Draw from the tokens of most typical information that hold the probability P.
        seed: Another one draws another text. [default: 0]
        repetition_penalty: Above 1: what the text or its prompt has is less likely (CTRL's).
        presence_penalty: Taken from the logit of each token that was said.
        frequency_penalty: The same as often as it was said.
        no_repeat_ngram_size: Say no N tokens in the same order twice; 0 allows it.
        no_repeat_source_ngram_size: Say no N tokens in the order in which the source has them.
        ban: Never say this.
        boost: Add X to the logits of this (below 0: take away).
        min_new_tokens: No end before that many tokens.
        max_new_tokens: Tokens at most. [default: the model's own]
        max_context: A language model sees at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: End before this text, which is not shown.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Guess that many tokens from the text so far and read them at once; the answer
            stays the same.
        draft_model: Guess tokens by this smaller model and read them at once; the answer stays the
            same.
        draft_tokens: How many the smaller model guesses. [default: 4]
        mbr: Of many samples take that which is most like the others.
        mbr_samples: How many samples. [default: 32]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of products: "float32"; "int8" is faster on a CPU, a little less exact, as are
            scores.

    Returns:
        str for a str, list[str] for several; with `n_best` above 1 list[str] and list[list[str]].
    """


def translate_file(
    input: str | Path,
    output: str | Path,
    *,
    model: str | Path | LoadedModel | None = None,
    sample: bool | None = None,
    beam_size: int | None = None,
    length_penalty: Literal["wu", "power", "none"] | None = None,
    alpha: float | None = None,
    early_stopping: bool | None = None,
    heuristic_stopping: bool | None = None,
    beam_groups: int | None = None,
    diversity: float | None = None,
    must_contain: Sequence[str] = (),
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    seed: int | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    no_repeat_source_ngram_size: int | None = None,
    ban: Sequence[str] = (),
    boost: Sequence[str] = (),
    min_new_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_context: int | None = None,
    stop: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    prompt_lookup: int | None = None,
    draft_model: str | None = None,
    draft_tokens: int | None = None,
    mbr: Literal["chrf", "bleu"] | None = None,
    mbr_samples: int | None = None,
    batch_tokens: int = 4096,
    n_best: int = 1,
    prefix: str | None = None,
    split: Literal["auto", "on", "off"] = "auto",
    as_json: bool = False,
    workers: int | None = None,
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "int8"] = "float32",
) -> int:
    """Translate a file line by line into another, which appears when it is whole; the number of lines.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        output: the file to write.
        model: a model or run folder, or what `regard.load` gives; the model in the box without.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        n_best: candidates of each text; a beam is as wide as that at least.
        prefix: what stands before each text; what the model's folder says without.
        split: "on" translates each sentence of a line alone, "off" a line as it is; "auto" splits long lines.
        as_json: write a line of JSON for each line.
        workers: processes that share many lines; one for each core of a CPU without, one where `threads` are
            given.
        sample: Sample at random, or search. [default: the model's own]
        beam_size: Search with that many hypotheses; 1 is greedy. [default: the model's own]
        length_penalty: A score is the log-probability by ((5 + length) / 6)^A, by length^A, or by 1.
        alpha: The A of the length penalty.
        early_stopping: End a beam when as many hypotheses as its size have ended.
        heuristic_stopping: End a beam when, at its present length, its best scores below the worst of
            as many that ended.
        beam_groups: Part the beam into that many groups that avoid each other's tokens.
        diversity: What a token costs a group for each earlier group's hypothesis that takes it.
        must_contain: Say this, or one of several with | between them.
        temperature: Below 1 the likely is likelier; 0 takes the likeliest.
        top_k: Draw from the K likeliest tokens; 0 from all.
        top_p: Draw from the likeliest that hold the probability P.
        min_p: Draw from those at least P times as likely as the likeliest.
        typical_p: Draw from the tokens of most typical information that hold the probability P.
        seed: Another one draws another text. [default: 0]
        repetition_penalty: Above 1: what the text or its prompt has is less likely (CTRL's).
        presence_penalty: Taken from the logit of each token that was said.
        frequency_penalty: The same as often as it was said.
        no_repeat_ngram_size: Say no N tokens in the same order twice; 0 allows it.
        no_repeat_source_ngram_size: Say no N tokens in the order in which the source has them.
        ban: Never say this.
        boost: Add X to the logits of this (below 0: take away).
        min_new_tokens: No end before that many tokens.
        max_new_tokens: Tokens at most. [default: the model's own]
        max_context: A language model sees at most the last N tokens; 0: all. [default: as many as it
            was trained on]
        stop: End before this text, which is not shown.
        end_ids: Another token (its number) that ends a text.
        prompt_lookup: Guess that many tokens from the text so far and read them at once; the answer
            stays the same.
        draft_model: Guess tokens by this smaller model and read them at once; the answer stays the
            same.
        draft_tokens: How many the smaller model guesses. [default: 4]
        mbr: Of many samples take that which is most like the others.
        mbr_samples: How many samples. [default: 32]
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads. [default: PyTorch's choice]
        precision: Of products: "float32"; "int8" is faster on a CPU, a little less exact, as are
            scores.
    """
