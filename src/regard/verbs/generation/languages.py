"""The languages of a model that translates between many: mBART, M2M-100, NLLB.

Their texts begin with the token of their language. So a tokeniser in one language has this token as its
prefix, and the decoder is forced to begin with that of its language.
"""

import dataclasses

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.errors import ConfigError, did_you_mean
from regard.weights.model_folder import LoadedModel


def in_languages(loaded: LoadedModel, source: str | None, target: str | None) -> LoadedModel:
    """The model for texts of the language `source` and outputs of `target`; None leaves its own.

    Raises:
        ConfigError: the model has no such language.
    """
    pair = loaded.tokenizer_pair
    given = {"source_lang": source, "target_lang": target}
    if all(code is None for code in given.values()):
        return loaded
    if pair is None or not pair.source.languages:
        name, code = next((name, code) for name, code in given.items() if code is not None)
        raise ConfigError(
            f"{name} = {code!r}, but {loaded.path} has no language tokens", "leave it out, or see --prefix"
        )
    chosen = TokenizerPair(
        _in_language(pair.source, "source_lang", source), _in_language(pair.target, "target_lang", target)
    )
    generation = dict(loaded.generation)
    if chosen.target.prefix:
        generation["forced_bos_id"] = chosen.target.prefix[0]
    return dataclasses.replace(loaded, tokenizer_pair=chosen, generation=generation)


def _in_language(tokenizer: Tokenizer, name: str, code: str | None) -> Tokenizer:
    return tokenizer if code is None else tokenizer.with_prefix((_language_id(tokenizer, name, code),))


def _language_id(tokenizer: Tokenizer, name: str, code: str) -> int:
    """The id of a language; the part of its code before _ is enough if no other begins with it."""
    known = tokenizer.languages
    fitting = [each for each in known if each == code or each.startswith(f"{code}_")]
    if code in known or len(fitting) == 1:
        return known[code if code in known else fitting[0]]
    hint = f"one of {', '.join(fitting)}" if fitting else did_you_mean(code, known)
    raise ConfigError(f"{name} = {code!r} is not a language of this model", hint)
