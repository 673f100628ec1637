"""Resources of head statistics, alignment and rollout."""

from dataclasses import asdict
from functools import partial
from typing import Any

from regard.inspection.alignment import Alignment, clearest_alignment, pharaoh
from regard.inspection.heads import head_statistics, with_grid_distances
from regard.inspection.passes import Part
from regard.inspection.rollout import attention_rollout
from regard.verbs.views.recorded_pass import RecordedPass, Resource, ResourceFunction, to_array

DECIMAL_PLACES = 5


def alignment_resources(recorded: RecordedPass) -> dict[str, ResourceFunction]:
    """`heads`, `alignment` and `rollout/PART`, each only if the model has the attention that it needs.

    A rollout needs the weights of all layers of its part.
    """
    found: dict[str, ResourceFunction] = {}
    if recorded.shown_sites:
        found["heads"] = partial(_heads, recorded)
    if has_cross_attention(recorded):
        found["alignment"] = partial(_alignment, recorded)
    parts: tuple[Part, ...] = ("encoder", "decoder")
    for part in parts:
        sites = [site for site in recorded.sites.values() if site.part == part]
        if sites and not any(site.name in recorded.no_weights for site in sites):
            found[f"rollout/{part}"] = partial(_rollout, recorded, part)
    return found


def has_cross_attention(recorded: RecordedPass) -> bool:
    """True if the model has attention with weights from target tokens to a source."""
    return any(site.part == "cross" for site in recorded.shown_sites)


def _heads(recorded: RecordedPass) -> Resource:
    """Statistics of all heads."""
    sequences = recorded.run.sequences
    special = _special_tokens(recorded)
    source = next(iter(sequences.values()))  # or the only sequence
    end_token = source.tokens[-1] if source.special[-1] else None
    links = _clearest_alignment(recorded).links() if has_cross_attention(recorded) else ()
    found = []
    for site in recorded.shown_sites:
        # the inputs of a decoder are shifted by one: cross-attention is that of the tokens that it predicts
        rows = sequences["written" if site.part == "cross" else site.rows]
        weights = recorded.weights(site.name)
        site_statistics = head_statistics(
            site,
            weights,
            rows.tokens,
            sequences[site.columns].tokens,
            special=special,
            end=end_token,
            links=links if site.part == "cross" else (),
        )
        if (image := recorded.run.image) is not None:
            site_statistics = with_grid_distances(site_statistics, weights, image.grid[1], image.before)
        found += site_statistics
    return [{name: _rounded(value) for name, value in asdict(each).items()} for each in found]


def _special_tokens(recorded: RecordedPass) -> set[str]:
    """The texts of the special tokens; ids cannot be compared, as vocabularies may differ."""
    return {
        token
        for sequence in recorded.run.sequences.values()
        for token, is_special in zip(sequence.tokens, sequence.special, strict=True)
        if is_special
    }


def _rounded(value: Any) -> Any:
    return round(value, DECIMAL_PLACES) if isinstance(value, float) else value


def _alignment(recorded: RecordedPass) -> Resource:
    """Cross-attention of the layer with the clearest alignment, the mean of its heads: [target, source].

    The end-of-sequence tokens are included.
    """
    return to_array(recorded.weights(_clearest_alignment(recorded).name).mean(dim=0))


def alignment_summary(recorded: RecordedPass) -> dict[str, Any] | None:
    """The layer that aligns target and source, why it was chosen, and its links; None without weights."""
    if not has_cross_attention(recorded):
        return None
    alignment = _clearest_alignment(recorded)
    links = sorted(alignment.links())
    return {
        "name": alignment.name,
        "layer": alignment.layer,
        "heads": None if alignment.heads is None else list(alignment.heads),
        "why": alignment.why,
        "pharaoh": pharaoh(links),  # the i-j format of word aligners
        "pairs": [list(link) for link in links],
    }


def _clearest_alignment(recorded: RecordedPass) -> Alignment:
    crosses = [site for site in recorded.shown_sites if site.part == "cross"]
    return clearest_alignment({site.name: recorded.weights(site.name) for site in crosses}, crosses)


def _rollout(recorded: RecordedPass, part: Part) -> Resource:
    sites = [site for site in recorded.sites.values() if site.part == part]
    return to_array(attention_rollout([recorded.weights(site.name) for site in sites]))
