"""The refusal of a setting that another engine does not have, with the nearest that it has."""

from typing import Any

from regard.errors import UserError


class NotExpressible(UserError):
    """A setting that an engine does not have: `setting` and `value`; the hint names the nearest."""

    def __init__(self, engine: str, setting: str, value: Any, nearest: str) -> None:
        super().__init__(f"{engine} cannot compute {setting} = {value!r}", nearest)
        self.setting, self.value = setting, value
