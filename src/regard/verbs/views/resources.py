"""All that there is to see of a run, by the names of its resources; nothing is computed here."""

from regard.verbs.views.ablation_resources import ablation_resources
from regard.verbs.views.alignment_resources import alignment_resources
from regard.verbs.views.attention_resources import attention_resources
from regard.verbs.views.model_resources import model_resources
from regard.verbs.views.prediction_resources import prediction_resources
from regard.verbs.views.recorded_pass import RecordedPass, ResourceFunction
from regard.verbs.views.search_resources import search_resources

JSON = {  # resources that are no arrays
    *("summary", "heads", "steps", "logit_tokens", "lens", "beam"),
    *("ablation", "attribution", "positions", "neighbours", "architecture"),
}
THEMES = (
    attention_resources,
    alignment_resources,
    prediction_resources,
    search_resources,
    ablation_resources,
    model_resources,
)


def resources_of(watched: RecordedPass) -> dict[str, ResourceFunction]:
    return {path: maker for theme in THEMES for path, maker in theme(watched).items()}
