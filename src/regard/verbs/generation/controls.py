"""The decoding controls as verbs take them; declared in `decoding/controls.py`."""

from regard.decoding.control import Control
from regard.decoding.controls import CONTROLS_BY_NAME, BeamSize, Controls, beam_of

__all__ = ["CONTROLS_BY_NAME", "MODEL_BEAM", "UNSET", "BeamSize", "Control", "Controls", "beam_of"]

UNSET = Controls()  # everything as in the model's folder
MODEL_BEAM = BeamSize()  # the beam of the model's folder
