"""regard: the Transformer and its family; train it, run it, look inside it.

Each verb of the command line is a function here, with the same names and defaults:

    import regard
    regard.translate("Where is the station?")

They are loaded when they are first used, so that `import regard` is quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

from regard.errors import RegardError, UserError

if TYPE_CHECKING:
    from regard.verbs.average import average
    from regard.verbs.classify import Classifier, classify, classify_file
    from regard.verbs.classify_images import ImageClassifier, classify_images
    from regard.verbs.classify_nodes import NodeClassifier, classify_nodes
    from regard.verbs.compare import compare
    from regard.verbs.compared_runs import compare_runs
    from regard.verbs.convert import convert
    from regard.verbs.curves import curves
    from regard.verbs.data import data_check, data_get, data_list, data_show
    from regard.verbs.demo import demo
    from regard.verbs.doctor import doctor
    from regard.verbs.embed import Embedder, embed, embed_file, embed_similar
    from regard.verbs.embed_images import ImageEmbedder, embed_images
    from regard.verbs.evaluate import evaluate
    from regard.verbs.evaluate_sets import evaluate_sets
    from regard.verbs.export import export
    from regard.verbs.fill import Filler, fill, fill_file
    from regard.verbs.generate import Generator, generate, generate_file
    from regard.verbs.jobs import jobs_merge, jobs_status, jobs_verify
    from regard.verbs.learn import learn
    from regard.verbs.load import load
    from regard.verbs.look import Look, Looker, look
    from regard.verbs.new import new
    from regard.verbs.plot import (
        plot_alignment,
        plot_attention,
        plot_curves,
        plot_positions,
        plot_schedule,
    )
    from regard.verbs.recipe_keys import recipes_keys
    from regard.verbs.recipes import recipes, recipes_show
    from regard.verbs.score import score
    from regard.verbs.score_texts import TextScorer
    from regard.verbs.shards import (
        classify_shard,
        embed_shard,
        fill_shard,
        generate_shard,
        score_shard,
        summarize_shard,
        tag_shard,
        translate_shard,
    )
    from regard.verbs.summarize import Summarizer, summarize, summarize_file
    from regard.verbs.sweep import sweep
    from regard.verbs.tag import Tagger, tag, tag_file
    from regard.verbs.tokenize_corpus import tokenize_corpus
    from regard.verbs.train import train
    from regard.verbs.transcribe import Transcriber, transcribe
    from regard.verbs.translate import Translator, translate, translate_file

__version__ = "0.1.0"

__all__ = [
    "Classifier",
    "Embedder",
    "Filler",
    "Generator",
    "ImageClassifier",
    "ImageEmbedder",
    "Look",
    "Looker",
    "NodeClassifier",
    "RegardError",
    "Summarizer",
    "Tagger",
    "TextScorer",
    "Transcriber",
    "Translator",
    "UserError",
    "average",
    "classify",
    "classify_file",
    "classify_images",
    "classify_nodes",
    "classify_shard",
    "compare",
    "compare_runs",
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
    "embed_images",
    "embed_shard",
    "embed_similar",
    "evaluate",
    "evaluate_sets",
    "export",
    "fill",
    "fill_file",
    "fill_shard",
    "generate",
    "generate_file",
    "generate_shard",
    "jobs_merge",
    "jobs_status",
    "jobs_verify",
    "learn",
    "load",
    "look",
    "new",
    "plot_alignment",
    "plot_attention",
    "plot_curves",
    "plot_positions",
    "plot_schedule",
    "recipes",
    "recipes_keys",
    "recipes_show",
    "score",
    "score_shard",
    "summarize",
    "summarize_file",
    "summarize_shard",
    "sweep",
    "tag",
    "tag_file",
    "tag_shard",
    "tokenize_corpus",
    "train",
    "transcribe",
    "translate",
    "translate_file",
    "translate_shard",
]

# Names that stand in another verb's file than they say.
_ELSEWHERE = {
    "Classifier": "classify",
    "Embedder": "embed",
    "Filler": "fill",
    "Generator": "generate",
    "ImageClassifier": "classify_images",
    "ImageEmbedder": "embed_images",
    "Look": "look",
    "Looker": "look",
    "NodeClassifier": "classify_nodes",
    "Summarizer": "summarize",
    "Tagger": "tag",
    "TextScorer": "score_texts",
    "Transcriber": "transcribe",
    "Translator": "translate",
    "classify_images": "classify_images",
    "classify_nodes": "classify_nodes",
    "classify_shard": "shards",
    "compare_runs": "compared_runs",
    "embed_images": "embed_images",
    "embed_shard": "shards",
    "evaluate_sets": "evaluate_sets",
    "fill_shard": "shards",
    "recipes_keys": "recipe_keys",
    "score_shard": "shards",
    "tag_shard": "shards",
    "tokenize_corpus": "tokenize_corpus",
    "generate_shard": "shards",
    "summarize_shard": "shards",
    "translate_shard": "shards",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    module = _ELSEWHERE.get(name, name.partition("_")[0])
    value = getattr(importlib.import_module(f"regard.verbs.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
