"""A look as one HTML file that holds the model, so that the page looks at other texts.

Before it is written, Node.js computes the look with the page's own JavaScript, and what differs from the look
is an error.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from regard.decoding.base_search import Search
from regard.decoding.control_fields import beam_of
from regard.decoding.hypothesis import Power, Wu
from regard.decoding.rules import BannedTokens
from regard.decoding.search import BeamSearch, GreedySearch
from regard.errors import RunError, UserError
from regard.exports.look_page import ENGINE, held_model, looks_in_node, save_look_folder
from regard.exports.refusal import NotExpressible
from regard.inspection.passes import ForcedPass, continuation_pass, translation_pass
from regard.inspection.positional import depends_on_distance, positions_of
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.page.assets import HeldModel
from regard.verbs.views.decoder_only_reader import DEFAULT_NEW_TOKENS, DecoderOnlyReader
from regard.verbs.views.encoder_decoder_reader import EncoderDecoderReader
from regard.verbs.views.files import json_text, npy_bytes
from regard.verbs.views.inspected_run import InspectedRun, special_ids
from regard.verbs.views.live_architecture import architecture_by_length
from regard.verbs.views.pieces import pieces
from regard.verbs.views.recorded_pass import Resource, to_array
from regard.verbs.views.request import MAX_TOKENS
from regard.weights.model_folder import LoadedModel

MOST_DIFFERENCE = 1e-3  # of an array, relative to its greatest value if that is above 1
ELSEWHERE = ("ablation", "attribution", "architecture")  # views that a look of the page may not have
SEARCHES = (BeamSearch, GreedySearch)


def model_of_page(
    run: InspectedRun, summary: Mapping[str, Any], get: Callable[[str], Resource], runtime: Path | None
) -> HeldModel:
    """The model of a look, for its page to hold.

    Raises:
        UserError: a page cannot hold this model, or what writes it is not here.
        RunError: the page would compute something else.
    """
    loaded = run.loaded
    if not isinstance(loaded.model, EncoderDecoder | DecoderOnly):
        raise UserError(
            f"a page cannot hold a model of the kind {loaded.config.kind}",
            "encoder-decoder and decoder-only Transformers can be held; or leave --live out",
        )
    table, files = live_tables(loaded, summary)
    with tempfile.TemporaryDirectory() as place:
        save_look_folder(loaded, Path(place), table, files, runtime)
        if not run.request.changes:
            _check(Path(place), run, summary, get)
        return held_model(Path(place))


def live_tables(loaded: LoadedModel, summary: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What the page's JavaScript reads: a table, and the contents of files by name.

    Raises:
        NotExpressible: the page has no search of this kind.
    """
    model: Any = loaded.model
    own = _translation(loaded) if isinstance(model, EncoderDecoder) else _continuation(loaded)
    sides = {"source": loaded.tokenizers.source, "target": loaded.tokenizers.target}
    positions, files = _positions(model)
    table = {
        "summary": {name: summary[name] for name in ("format", "model", "attentions", "without_weights")},
        "most_tokens": MAX_TOKENS,
        "most_positions": model.max_length,
        "splits_at_spaces": len(sides["target"].words("x x")) == 2,
        "special": {name: sorted(special_ids(each)) for name, each in sides.items()},
        "positions": positions,
        "architecture": _architecture(model),
        "elsewhere": [name for name in ELSEWHERE if name in summary["resources"]],
        **own,
    }
    texts = {name: pieces(each, range(each.vocab_size)) for name, each in sides.items()}
    return table, {"pieces.json": json_text(texts).encode("utf-8", "surrogatepass"), **files}


def _translation(loaded: LoadedModel) -> dict[str, Any]:
    """What a page needs to translate."""
    reader = EncoderDecoderReader(loaded)
    assert isinstance(reader.model, EncoderDecoder)  # other models that translate are refused before
    layers = len(reader.model.decoder.blocks)
    return {"layers": layers, "prefix": vars(reader.prefix_rule), "search": _search(reader)}


def _continuation(loaded: LoadedModel) -> dict[str, Any]:
    """What a page needs to continue a text."""
    reader = DecoderOnlyReader(loaded)
    return {
        "layers": len(reader.model.blocks),
        "begin_id": reader.begin_id,
        "new_tokens": min(DEFAULT_NEW_TOKENS, reader.settings.max_new_tokens),
        "trained_length": reader.model.trained_length,
        "search": _search(reader),
    }


def _search(reader: EncoderDecoderReader | DecoderOnlyReader) -> dict[str, Any]:
    """The settings of the model's search, and of one with a beam that a request asks for."""
    usual, beam = reader.search(beam_of(None)), reader.search(beam_of(2))
    for search in (usual, beam):
        _refuse_search(search)
    assert isinstance(beam, BeamSearch)
    limits, penalty = beam.limits, beam.length_penalty
    assert isinstance(penalty, Power | Wu)
    return {
        "size": usual.size if isinstance(usual, BeamSearch) else 1,
        "penalty": "wu" if isinstance(penalty, Wu) else "power",
        "alpha": penalty.alpha,
        "early_stopping": beam.early_stopping,
        "heuristic_stopping": beam.heuristic_stopping,
        "limits": {
            "ratio": limits.ratio,
            "offset": limits.offset,
            "least": limits.least,
            "most": limits.most,
        },
        "never": sorted({each for rule in beam.rules if isinstance(rule, BannedTokens) for each in rule.ids}),
        "eos_id": beam.eos_id,
        "ends": list(beam.ends),
        "cut": beam.cut,
    }


def _refuse_search(search: Search) -> None:
    """Raise a NotExpressible for a search, a rule or an end that the page's JavaScript does not have."""
    nearest = "change the model's generation.json, or leave --live out"
    if type(search) not in SEARCHES:
        raise NotExpressible(ENGINE, "search", type(search).__name__, nearest)
    for rule in search.rules:
        if type(rule) is not BannedTokens:
            raise NotExpressible(ENGINE, "rule", type(rule).__name__, nearest)
    if not isinstance(search.length_penalty, Power | Wu):
        raise NotExpressible(ENGINE, "length_penalty", type(search.length_penalty).__name__, nearest)
    if search.stop is not None:
        raise NotExpressible(ENGINE, "stop", "texts that end an answer", nearest)


def _positions(model: EncoderDecoder | DecoderOnly) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The position encoding for as many positions as a look has: its table, or its bias by distance."""
    found = positions_of(model, MAX_TOKENS)
    described = {"scheme": found.scheme, "d": found.d, "note": found.note}
    if found.table is not None:
        return described, {"positions.npy": npy_bytes(to_array(found.table))}
    if found.bias is not None:
        if not depends_on_distance(found.bias):
            nearest = "its bias is not one of distance alone, which such a page has: leave --live out"
            raise NotExpressible(ENGINE, "positions", found.scheme, nearest)
        before, after = found.bias[:, 1:, 0].flip(1), found.bias[:, 0]  # columns left of the row, and right
        by_distance = np.concatenate([to_array(before), to_array(after)], axis=1)
        return described, {"positions.npy": npy_bytes(by_distance)}
    return described, {}


def _architecture(model: EncoderDecoder | DecoderOnly) -> Any | None:
    """The architecture by length; None with a window, beyond which a cache does not grow."""
    if any(getattr(model.config, "windows", ())):
        return None
    return architecture_by_length(lambda s, t: _pass_of(model, s, t))


def _pass_of(model: EncoderDecoder | DecoderOnly, source: int, target: int) -> ForcedPass:
    """A pass of a target, and a source if the model has one, of these lengths, with one id everywhere."""
    if isinstance(model, DecoderOnly):
        return continuation_pass(model, [0] * (target + 1))
    return translation_pass(model, [0] * (source - 1), [0] * (target - 1), bos_id=0, eos_id=0)


def _check(
    folder: Path, run: InspectedRun, summary: Mapping[str, Any], get: Callable[[str], Resource]
) -> None:
    """Raise a RunError if the page's JavaScript computes another look."""
    [found] = looks_in_node(folder, [run.request.to_dict()])
    if difference := look_difference(found, summary, get):
        raise RunError(
            f"the page would compute another look: {difference}", "nothing was written; leave --live out"
        )


def look_difference(
    found: Mapping[str, Any], summary: Mapping[str, Any], get: Callable[[str], Resource]
) -> str | None:
    """What differs between a look of the page's JavaScript and this one; None if nothing does."""
    if "error" in found:
        return found["error"]
    for name in ("format", "model", "sequences", "text", "attentions", "without_weights", "logits"):
        if found["summary"][name] != json_of(summary[name]):
            return f"its {name} is another"
    for path, array in found["arrays"].items():
        if path in ("logit_ids",):  # candidates of almost equal scores may change places
            continue
        theirs = np.array(array["values"], np.float64).reshape(array["shape"])
        ours = np.asarray(get(path), np.float64)
        if theirs.shape != ours.shape:
            return f"{path} has the shape {theirs.shape}, not {ours.shape}"
        difference = float(np.abs(theirs - ours).max(initial=0.0))
        if not difference <= MOST_DIFFERENCE * max(1.0, float(np.abs(ours).max(initial=0.0))):
            return f"{path} differs by {difference:.2g}"
    return None


def json_of(value: Any) -> Any:
    """A value as JSON has it: tuples become lists."""
    return json.loads(json_text(value))
