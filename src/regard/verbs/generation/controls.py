"""The decoding controls as verbs take them; declared in `decoding/control_fields.py`."""

from regard.decoding.control import Control
from regard.decoding.control_fields import BeamSize, beam_of
from regard.decoding.controls import CONTROLS_BY_NAME, Controls

__all__ = ["CONTROLS_BY_NAME", "MODEL_BEAM", "UNSET", "BeamSize", "Control", "Controls", "beam_of"]

UNSET = Controls()  # everything as in the model's folder
MODEL_BEAM = BeamSize()  # the beam of the model's folder
