"""The demo: a translator of dates trained from nothing, shown at work; and the model in the box."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from regard import console
from regard.data.corpus import Pair, open_corpus
from regard.errors import FolderError
from regard.inspection.alignment import align
from regard.verbs.arguments import checked
from regard.verbs.controls import beam_of
from regard.verbs.date_precision import date_precision
from regard.verbs.keyword_fields import keyword_fields
from regard.verbs.look import look
from regard.verbs.recipes import recipe_folder
from regard.verbs.runtime import RUNTIME, DecodingRuntime, Runtime
from regard.verbs.settings import load_recipe
from regard.verbs.tasks.translation import TranslationRecipe
from regard.verbs.train import train
from regard.verbs.translate import Translator

SHOWN = 12
PAGE = "look.html"  # in the run folder
BEAM = beam_of(4)  # of the search that the page shows
MEASURED = 200  # dates whose alignment is held against the true one: 0.917 of the links were right
SENTENCES = (
    "Where is the station?",
    "I would like a cup of coffee.",
    "She has been living in Berlin for three years.",
)


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """The run that the demo left, and how many of the unseen dates its model reads rightly, in percent."""

    run: Path
    exact_match: float


@checked
@keyword_fields
def demo(*, out: str | Path | None = None, runtime: Runtime = RUNTIME) -> DemoResult:
    """Train `recipes/dates.toml` into `out` (`runs/demo-...` without); show dates and what to try next.

    A demo that was stopped goes on; one that was finished is shown again.

    Args:
        out: the run folder.
    """
    recipe = recipe_folder() / "dates.toml"
    digest = hashlib.sha256(recipe.read_bytes()).hexdigest()[:8]  # a newer regard's demo is another run
    run = Path(out) if out else Path("runs") / f"demo-{digest}"
    _unseen(recipe, 1)  # asks for what it needs before anything is announced
    console.note(f"Training a model of dates from nothing, in {run}: a minute or two.")
    result = train(recipe, out=run, runtime=runtime)
    translator = Translator(run, runtime=DecodingRuntime(**vars(runtime)))
    console.say("\nA dozen dates that it never saw. Each row is a character that it wrote; the shades show")
    console.say("which characters of the source it looked at while it wrote it.")
    _show_dates(translator, recipe)
    _show_box(runtime)
    _say_what_next(run)
    _write_page(run, recipe, runtime)
    return DemoResult(run=run, exact_match=result.metrics["exact match"])


def _show_dates(translator: Translator, recipe: Path) -> None:
    pairs = _unseen(recipe, SHOWN)
    for pair, found in zip(pairs, translator([pair.source for pair in pairs]), strict=True):
        verdict = "right" if found.text == pair.target else f"wrong: it is {pair.target}"
        console.say(f"\n{pair.source} -> {found.text}  ({verdict})")
        _show_alignment(translator, pair.source, found.text)
    precision = date_precision(translator, _unseen(recipe, MEASURED))
    if precision is not None:
        console.say(
            f"\nMeasured on {MEASURED} dates that it never saw: as it writes a digit it looks most at a"
        )
        console.say(f"character that tells it, {100 * precision:.0f} % of the time.")


def _unseen(recipe: Path, count: int) -> list[Pair]:
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


def _show_box(runtime: Runtime) -> None:
    console.say("\nThe model in the box, English to German:")
    try:
        translator = Translator(runtime=DecodingRuntime(**vars(runtime)))
    except FolderError as error:
        console.warn(f"{error.message}; {error.hint}")
        return
    for found in translator(SENTENCES):
        console.say(f"  {found.source} -> {found.text}")


def _write_page(run: Path, recipe: Path, runtime: Runtime) -> None:
    """The page that shows what the model does with the first of the dates, as one file."""
    [pair] = _unseen(recipe, 1)
    page = look(pair.source, run, beam=BEAM, runtime=runtime).to_html(run / PAGE)
    console.say(f"\nAll that the model does with {pair.source!r}; it opens in a browser, offline:")
    console.say(f"  {page}")


def _say_what_next(run: Path) -> None:
    console.say("\nWhat to try next:")
    for command, what in (
        (f'regard translate --model {run} "le 14 juillet 1789"', "the model that you just trained"),
        (f"regard curves {run}", "how its training went"),
        ('regard look "Where is the station?"', "the same page of the model in the box, alive"),
        ('regard translate "What do you see?"', "the model in the box"),
        ("regard new SOURCE TARGET", "a recipe for text files of your own"),
        ("regard recipes", "other things to train"),
    ):
        console.say(f"  {command:<58} {what}")
