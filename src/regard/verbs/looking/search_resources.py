"""What there is to see of the search for an answer: its beam, as a tree."""

from functools import partial

from regard.decoding.search import BeamSearch
from regard.inspection.beam_tree import beam_tree
from regard.verbs.looking.inspected_run import SearchRecord
from regard.verbs.looking.recorded_pass import Maker, RecordedPass, Resource


def search_resources(watched: RecordedPass) -> dict[str, Maker]:
    """`beam`, where a beam was searched: the same search once more, watched."""
    searched = watched.run.searched
    if searched is None or type(searched.search) is not BeamSearch:
        return {}
    return {"beam": partial(_beam, watched, searched)}


def _beam(watched: RecordedPass, searched: SearchRecord) -> Resource:
    tree = beam_tree(searched.search, searched.decode)
    tokens = watched.run.tokens([node.token_id for node in tree.nodes])
    return {
        "beam_size": tree.size,
        "nodes": [
            {
                "id": node.id,
                "parent": node.parent,
                "step": node.step,
                "token": token,
                "token_id": node.token_id,
                "log_prob": round(node.log_prob, 5),
                "total": round(node.total, 5),
                "score": round(node.score, 5),
                "state": node.state,
            }
            for node, token in zip(tree.nodes, tokens, strict=True)
        ],
    }
