"""The demo: train a small translator of dates, show its attention; run the included model."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from regard import console
from regard.data.corpus import Pair, open_corpus
from regard.errors import FolderError
from regard.inspection.alignment import align
from regard.verbs.generation.controls import beam_of
from regard.verbs.look import look
from regard.verbs.recipes import recipe_folder
from regard.verbs.shared.date_precision import date_precision
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, DecodingRuntime, Runtime
from regard.verbs.shared.settings import load_recipe
from regard.verbs.tasks.translation import TranslationRecipe
from regard.verbs.train import train
from regard.verbs.translate import Translator

SHOWN_DATES = 12
PAGE = "look.html"  # file of the run folder
BEAM = beam_of(4)  # of the search that the page shows
ALIGNED_DATES = 200  # to measure the alignment precision on, which was 0.917
SENTENCES = (
    "Where is the station?",
    "I would like a cup of coffee.",
    "She has been living in Berlin for three years.",
)


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """The run folder of the demo, and the exact match of its model on unseen dates, in percent."""

    run: Path
    exact_match: float


@python_call
def demo(*, out: str | Path | None = None, runtime: Runtime = DEFAULT_RUNTIME) -> DemoResult:
    """Train `recipes/dates.toml`, show translated dates with their alignment, and print what to try next.

    A demo that was stopped is resumed. If it is finished, only its results are shown.

    Args:
        out: the run folder; None is `runs/demo-...`.
    """
    recipe = recipe_folder() / "dates.toml"
    digest = hashlib.sha256(recipe.read_bytes()).hexdigest()[:8]  # a changed recipe is another run
    run = Path(out) if out else Path("runs") / f"demo-{digest}"
    _unseen(recipe, 1)  # raises an error now if a package is missing
    console.note(f"Training a model of dates in {run}; this takes a minute or two.")
    result = train(recipe, out=run, runtime=runtime)
    translator = Translator(run, runtime=DecodingRuntime(**vars(runtime)))
    console.say(
        "\nTwelve dates that are not in its training data. Each row is a character of the output; the"
    )
    console.say("shades show which characters of the source the model attended to.")
    _show_dates(translator, recipe)
    _show_included_model(runtime)
    _print_next_steps(run)
    _write_page(run, recipe, runtime)
    return DemoResult(run=run, exact_match=result.metrics["exact match"])


def _show_dates(translator: Translator, recipe: Path) -> None:
    pairs = _unseen(recipe, SHOWN_DATES)
    for pair, translation in zip(pairs, translator([pair.source for pair in pairs]), strict=True):
        verdict = "right" if translation.text == pair.target else f"wrong: it is {pair.target}"
        console.say(f"\n{pair.source} -> {translation.text}  ({verdict})")
        _show_alignment(translator, pair.source, translation.text)
    precision = date_precision(translator.loaded, _unseen(recipe, ALIGNED_DATES))
    if precision is not None:
        console.say(f"\nMeasured on {ALIGNED_DATES} such dates: {100 * precision:.0f} % of the digits of the")
        console.say("output are aligned to the right characters of the source.")


def _unseen(recipe: Path, count: int) -> list[Pair]:
    """The first pairs of the recipe's test data."""
    source = load_recipe(recipe)
    data = cast(TranslationRecipe, source.recipe).data
    assert data.test
    return list(open_corpus(data.test, data.lines, source.base).first(count))


def _show_alignment(translator: Translator, source: str, target: str) -> None:
    tokenizers = translator.loaded.tokenizers
    src_ids, tgt_ids = tokenizers.source.encode(source), tokenizers.target.encode(target)
    weights = align(
        translator.model,
        src_ids,
        tgt_ids,
        bos_id=tokenizers.target.bos_id,
        eos_id=tokenizers.source.eos_id,
    )
    console.alignment(tokenizers.source.tokens(src_ids), tokenizers.target.tokens(tgt_ids), weights.tolist())


def _show_included_model(runtime: Runtime) -> None:
    console.say("\nThe included model, English to German:")
    try:
        translator = Translator(runtime=DecodingRuntime(**vars(runtime)))
    except FolderError as error:
        console.warn(f"{error.message}; {error.hint}")
        return
    for translation in translator(SENTENCES):
        console.say(f"  {translation.source} -> {translation.text}")


def _write_page(run: Path, recipe: Path, runtime: Runtime) -> None:
    """Write the page of `regard look` for the first date, as one HTML file."""
    [pair] = _unseen(recipe, 1)
    page = look(pair.source, run, beam=BEAM, runtime=runtime).to_html(run / PAGE)
    console.say(f"\nAttention, alignment and search for {pair.source!r}, to open in a browser, offline:")
    console.say(f"  {page}")


def _print_next_steps(run: Path) -> None:
    console.say("\nWhat to try next:")
    for command, about in (
        (f'regard translate --model {run} "le 27 juillet 1830"', "the model that you just trained"),
        (f"regard curves {run}", "how its training went"),
        ('regard look "Where is the station?"', "the same page for the included model, interactive"),
        ('regard translate "What do you see?"', "the included model"),
        ("regard new SOURCE TARGET", "a recipe for text files of your own"),
        ("regard recipes", "other things to train"),
    ):
        console.say(f"  {command:<58} {about}")
