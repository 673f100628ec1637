"""The resource of the search for an answer: its beam as a tree."""

from functools import partial

from regard.decoding.search import BeamSearch
from regard.inspection.beam_tree import search_tree
from regard.verbs.views.inspected_run import SearchRecord
from regard.verbs.views.recorded_pass import RecordedPass, Resource, ResourceFunction


def search_resources(recorded: RecordedPass) -> dict[str, ResourceFunction]:
    """`beam`, if the answer came from beam search: the search is run again and recorded."""
    search_record = recorded.run.search_record
    if search_record is None or type(search_record.search) is not BeamSearch:
        return {}
    return {"beam": partial(_beam, recorded, search_record)}


def _beam(recorded: RecordedPass, search_record: SearchRecord) -> Resource:
    tree = search_tree(search_record.search, search_record.decode)
    tokens = recorded.run.tokens([node.token_id for node in tree.nodes])
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
