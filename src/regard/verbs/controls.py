"""The controls of decoding as verbs take them; declared in `decoding/controls.py`."""

from regard.decoding.controls import CONTROLS, Control, Controls

__all__ = ["CONTROLS", "UNSET", "Control", "Controls"]

UNSET = Controls()  # everything as the model's folder says
