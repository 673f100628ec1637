from regard.weights.average import MovingAverage as MovingAverage
from regard.weights.average import average_tensors as average_tensors
from regard.weights.checkpoint import RunFolder as RunFolder
from regard.weights.families.family import Family as Family
from regard.weights.model_folder import LoadedModel as LoadedModel
from regard.weights.model_folder import load_model as load_model
from regard.weights.pretrained import load_pretrained as load_pretrained
from regard.weights.pretrained import register_family as register_family
