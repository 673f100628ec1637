"""All resources of a run by path; nothing is computed here."""

from regard.verbs.views.ablation_resources import ablation_resources
from regard.verbs.views.alignment_resources import alignment_resources
from regard.verbs.views.attention_resources import attention_resources
from regard.verbs.views.model_resources import model_resources
from regard.verbs.views.prediction_resources import prediction_resources
from regard.verbs.views.recorded_pass import RecordedPass, ResourceFunction
from regard.verbs.views.search_resources import search_resources

JSON_RESOURCES = {  # resources that are not arrays
    *("summary", "heads", "steps", "logit_tokens", "lens", "beam"),
    *("ablation", "attribution", "positions", "neighbours", "architecture"),
}
RESOURCE_GROUPS = (
    attention_resources,
    alignment_resources,
    prediction_resources,
    search_resources,
    ablation_resources,
    model_resources,
)


def resources_of(recorded: RecordedPass) -> dict[str, ResourceFunction]:
    """The functions that compute the resources of a run, by path."""
    return {path: maker for group in RESOURCE_GROUPS for path, maker in group(recorded).items()}
