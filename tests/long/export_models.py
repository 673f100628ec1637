"""The models of `make export-check`: the included one, one of each recipe, five with unusual settings.

Recipes are trained for a moment on their own data, most with a smaller model than theirs. What is trained
lies in build/exports and is not trained again.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.data.catalogue import find_file
from regard.data.conllu import read_sentences
from regard.data.files import read_lines
from regard.data.synthetic import synthetic_pairs
from regard.verbs.load import load
from regard.verbs.shared.runtime import Runtime
from regard.verbs.train import train
from regard.weights.model_folder import LoadedModel

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "recipes"
FOLDER = ROOT / "build" / "exports"
UPDATES, MOMENT = 300, 2  # of a model that some target has, and of one that none has
TEST_SECTION = re.compile(r"^\[data\.test\].*?(?=^\[)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model that is exported: how it is trained, and the texts of its certificates.

    `recipe` None is the included model. `changes` are settings of `--set`.
    """

    name: str
    recipe: str | None
    changes: tuple[str, ...] = ()
    updates: int = UPDATES
    texts: Callable[[], Sequence[str]] | None = None  # None: it reads no text
    languages: str = "en-de"


def trained(subject: Subject) -> LoadedModel:
    """The model, from build/exports if it is there."""
    if subject.recipe is None:
        return load(None, runtime=Runtime(device="cpu"))
    run = FOLDER / "runs" / subject.name
    if not (run / "best" / "MANIFEST.json").exists():
        recipe = FOLDER / "recipes" / f"{subject.name}.toml"
        recipe.parent.mkdir(parents=True, exist_ok=True)
        text = (RECIPES / f"{subject.recipe}.toml").read_text("utf-8")
        recipe.write_text(TEST_SECTION.sub("", text), "utf-8")  # nobody asks for test scores
        steps = (
            f"training.{name}={subject.updates}" for name in ("max_steps", "validate_every", "save_every")
        )
        train(
            recipe, out=run, overrides=[*steps, *subject.changes], quiet=True,
            runtime=Runtime(device="cpu", threads=1),
        )  # fmt: skip
    return load(run, runtime=Runtime(device="cpu"))


def lines(spec: str, change: Callable[[str], str] = str.strip) -> Callable[[], list[str]]:
    """Gives the texts of a file, evenly spread if there are many; each only once."""

    def texts() -> list[str]:
        changed = (change(line) for line in read_lines(find_file(spec)))
        return list(dict.fromkeys(text for text in changed if text.strip()))

    return texts


def synthetic(task: str, **settings: object) -> Callable[[], list[str]]:
    """Gives sources of a synthetic task."""

    def texts() -> list[str]:
        pairs = synthetic_pairs(task, size=1500, seed=3, split="test", **settings)  # type: ignore[arg-type]
        return list(dict.fromkeys(source for source, _ in pairs))

    return texts


def sentences() -> list[str]:
    """Sentences of UD English EWT."""
    name = "ud_english_ewt:en_ewt-ud-dev.conllu.gz"
    return [" ".join(each.forms) for each in islice(read_sentences(read_lines(find_file(name)), name), 1500)]


def _after_label(line: str) -> str:
    return line.partition(" ")[2].strip()


def _command(line: str) -> str:
    return line.partition("OUT:")[0].removeprefix("IN:").strip()


def _word(line: str) -> str:
    return re.sub(r"\(\d+\)$", "", line.partition(" ")[0])


ALL_DECODED = ("validation.sentences=16",)
TRANSLATOR = (
    *ALL_DECODED, "model.d_model=64", "model.num_heads=4", "model.d_ff=128", "batches.batch_tokens=1500",
    "tokenizer.vocab_size=2000", "training.schedule.learning_rate=0.004",
)  # fmt: skip
LANGUAGE_MODEL = (
    "model.d_model=64", "model.num_heads=4", "model.d_ff=128", "model.num_layers=2", "task.block=64",
    "batches.batch_tokens=1024", "training.schedule.learning_rate=0.004",
)  # fmt: skip
SHORT_BOOK = ("data.valid.share=[0.99,1.0]", "validation.context=32")
ENCODER = ("batches.batch_tokens=1500",)
CAPTIONS_DE, CAPTIONS_EN = (lines(f"multi30k_tok:test_2016_flickr.{side}") for side in ("de", "en"))
RAW_CAPTIONS = lines("multi30k:test_2016_flickr.en")
SHAKESPEARE, WAR_AND_PEACE = lines("tiny_shakespeare:input.txt.gz"), lines("war_and_peace:2600.txt.gz")
DATES = synthetic("dates", languages=("en", "de", "fr", "es"))
REVERSE = synthetic("reverse", length=16, symbols=10)
SST5 = lines("sst:sst5.dev.txt", _after_label)
MOMENTARY = {"updates": MOMENT}


def _of(recipe: str, texts: Callable[[], Sequence[str]] | None, *changes: str, **others: object) -> Subject:
    """The subject of a recipe, which has its name."""
    return Subject(name=recipe, recipe=recipe, texts=texts, changes=changes, **others)  # type: ignore[arg-type]


SUBJECTS = (
    Subject(name="en-de (included)", recipe=None, texts=RAW_CAPTIONS),
    _of("reverse", REVERSE, *ALL_DECODED),
    _of("dates", DATES, *ALL_DECODED),
    _of("cmudict", lines("cmudict:valid.dict", _word), *TRANSLATOR[:5]),
    _of("scan-simple", lines("scan:simple.test.txt", _command), *TRANSLATOR[:5]),
    _of("scan-length", lines("scan:length.test.txt.gz", _command), *TRANSLATOR[:5]),
    _of("multi30k-en-de", CAPTIONS_EN, *TRANSLATOR),
    _of("multi30k-de-en-transformer", CAPTIONS_DE, *TRANSLATOR, languages="de-en"),
    _of("multi30k-raw-en-de", RAW_CAPTIONS, *TRANSLATOR),
    _of("tatoeba-en-de", lines("tatoeba_en_de:test.en"), *TRANSLATOR),
    *(
        _of(
            f"multi30k-de-en-{name}", CAPTIONS_DE, *ALL_DECODED, "model.d_model=32", "model.d_embedding=32",
            "batches.batch_tokens=512", "tokenizer.vocab_size=500", languages="de-en", **MOMENTARY,
        )
        for name in ("rnn", "bahdanau", "luong")
    ),
    _of("shakespeare-char-cpu", SHAKESPEARE, *LANGUAGE_MODEL),
    _of("shakespeare-char", SHAKESPEARE, *LANGUAGE_MODEL),
    _of("war-and-peace-char", WAR_AND_PEACE, *LANGUAGE_MODEL, *SHORT_BOOK),
    _of("war-and-peace-bpe", WAR_AND_PEACE, *LANGUAGE_MODEL, *SHORT_BOOK),
    _of("bert-mlm-small", WAR_AND_PEACE, "batches.batch_tokens=1500"),
    _of("sst-mlm", SST5, *ENCODER),
    _of("sst2", lines("sst:sst2.dev.txt", _after_label), *ENCODER),
    _of("sst5", SST5, *ENCODER),
    _of("trec", lines("trec:train.txt", _after_label), *ENCODER),
    _of("ud-pos", sentences, *ENCODER),
    _of("vit-mnist", None, **MOMENTARY),
    _of("gat-cora", None, **MOMENTARY),
    _of("gat-citeseer", None, **MOMENTARY),
    _of("graph-transformer-cora", None, **MOMENTARY),
    _of("conformer-digits", None, **MOMENTARY),
    Subject(
        name="heads that do not divide, grouped keys", recipe="multi30k-en-de", texts=CAPTIONS_EN,
        changes=(*TRANSLATOR, "model.d_model=50", "model.num_heads=6", "model.num_kv_heads=2",
                 "model.head_dim=14", "model.qk_norm=true"),
    ),
    Subject(
        name="T5 bias, post-norm GELU, no biases, untied", recipe="multi30k-raw-en-de", texts=RAW_CAPTIONS,
        changes=(*TRANSLATOR, 'model.positions="t5"', 'model.norm_position="post"', 'model.norm="layer"',
                 'model.activation="gelu"', "model.bias=false", 'model.tied="none"'),
    ),
    Subject(
        name="ALiBi, one key head, GEGLU, untied", recipe="shakespeare-char-cpu", texts=SHAKESPEARE,
        changes=(*LANGUAGE_MODEL, 'model.positions="alibi"', "model.num_kv_heads=1",
                 'model.activation="geglu"', "model.tied=false"),
    ),
    Subject(
        name="sliding windows in turn, soft caps", recipe="shakespeare-char-cpu", texts=SHAKESPEARE,
        changes=(*LANGUAGE_MODEL, "model.window=16", "model.attention_softcap=20.0",
                 'model.layer_types=["sliding_attention","full_attention"]', "model.logit_softcap=15.0"),
    ),
    Subject(
        name="GPT-2: learned positions, tanh GELU", recipe="shakespeare-char-cpu", texts=SHAKESPEARE,
        changes=(*LANGUAGE_MODEL, 'model.positions="learned"', 'model.norm="layer"',
                 'model.activation="gelu_tanh"', "model.max_positions=256"),
    ),
)  # fmt: skip
