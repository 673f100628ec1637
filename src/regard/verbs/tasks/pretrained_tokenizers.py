"""The tokenisers in a run's folder: those of the pretrained model, extended if the recipe says so."""

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.data.files import locate, read_lines
from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_extension import ExtensionSettings, extend_tokenizer
from regard.errors import DataError
from regard.verbs.tasks.task import BEGINS, TAKEN_FROM, Say
from regard.verbs.training_run.data_checks import SAMPLED_TEXTS, refuse_unknown
from regard.weights.folder import verify_folder, write_folder

EXTENDED = "extended"  # key of their manifest: True when they were extended
EXAMPLES = 8  # new tokens that are printed


def pretrained_tokenizers(
    folder: Path, texts: Sequence[Iterable[str]], extension: ExtensionSettings | None, base: Path, say: Say
) -> TokenizerPair:
    """Reads the tokenisers of a run, and extends them if that was not done before.

    `texts` are the training texts: of both sides, or of the only one.

    Raises:
        DataError: the tokenisers were copied from a pretrained model and do not know these texts, or the
            texts have no token to learn.
        RecipeError: they cannot be extended.
    """
    manifest = verify_folder(folder)
    tokenizers = TokenizerPair.load(folder)
    if TAKEN_FROM not in manifest:
        return tokenizers
    rest = [iter(side) for side in texts]
    first = [list(itertools.islice(side, SAMPLED_TEXTS)) for side in rest]
    if extension is not None and EXTENDED not in manifest:
        whole = [itertools.chain(*side) for side in zip(first, rest, strict=True)]
        tokenizers = _extended(tokenizers, whole, extension, base, say)
        extra = {name: manifest[name] for name in (TAKEN_FROM, BEGINS) if name in manifest}
        write_folder(folder, tokenizers.files(), manifest_extra={**extra, EXTENDED: True})
    for side, tokenizer in zip(first, (tokenizers.source, tokenizers.target), strict=False):
        refuse_unknown(side, tokenizer, manifest[TAKEN_FROM])
    return tokenizers


def _extended(
    old: TokenizerPair, texts: Sequence[Iterable[str]], extension: ExtensionSettings, base: Path, say: Say
) -> TokenizerPair:
    def extend(tokenizer: Tokenizer, own: Iterable[str]) -> Tokenizer:
        kept = itertools.chain.from_iterable(read_lines(locate(name, base)) for name in extension.keep)
        return extend_tokenizer(tokenizer, extension, own, kept)

    if old.joint:
        new = TokenizerPair(*[extend(old.source, itertools.chain(*texts))] * 2)
        changed = {"tokeniser": (old.source, new.source)}
    else:
        new = TokenizerPair(extend(old.source, texts[0]), extend(old.target, texts[1]))
        changed = {
            "source tokeniser": (old.source, new.source),
            "target tokeniser": (old.target, new.target),
        }
    learned = [len(_new(*pair)) - len(extension.tokens) for pair in changed.values()]
    if extension.size and not any(learned):
        raise DataError(
            "tokenizer.extension.size: there is no token to learn: the tokeniser lacks no letter of the"
            " training text",
            "leave size out; or name files of old text by keep: new tokens may then be of known letters",
        )
    for name, pair in changed.items():
        say(f"{name}: {_description(*pair)}")
    return new


def _new(before: Tokenizer, after: Tokenizer) -> list[str]:
    """The new tokens."""
    return after.tokens(range(before.vocab_size, after.vocab_size))


def _description(before: Tokenizer, after: Tokenizer) -> str:
    new = _new(before, after)
    shown = ", ".join(repr(piece) for piece in new[:EXAMPLES])
    more = ", ..." if len(new) > EXAMPLES else ""
    return f"{len(new):,} new tokens ({shown}{more}), {after.vocab_size:,} in all"
