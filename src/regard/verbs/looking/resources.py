"""All that there is to see of a run, by the names of its resources; nothing is computed here."""

from regard.verbs.looking.alignments import alignments
from regard.verbs.looking.anatomy import anatomy
from regard.verbs.looking.attentions import attentions
from regard.verbs.looking.changes import changes
from regard.verbs.looking.predictions import predictions
from regard.verbs.looking.searches import searches
from regard.verbs.looking.watched import Maker, Watched

JSON = {  # resources that are no arrays
    *("summary", "heads", "steps", "logit_tokens", "lens", "beam"),
    *("ablation", "attribution", "positions", "neighbours", "architecture"),
}
THEMES = attentions, alignments, predictions, searches, changes, anatomy


def resources_of(watched: Watched) -> dict[str, Maker]:
    return {path: maker for theme in THEMES for path, maker in theme(watched).items()}
