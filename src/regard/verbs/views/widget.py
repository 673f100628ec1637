"""The notebook widget of a look: the page as an anywidget, for Jupyter, VS Code and marimo."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from regard.errors import MissingExtra, RegardError
from regard.page.assets import stylesheet, widget_script
from regard.verbs.views.files import json_value, npy_bytes
from regard.verbs.views.inspected_run import AnswerToken
from regard.verbs.views.recorded_pass import Resource
from regard.verbs.views.request import LookRequest

Send = Callable[[dict[str, Any], list[bytes]], None]


@runtime_checkable
class LookLike(Protocol):
    """What a widget needs of a `Look`: its resources, and looks for other requests."""

    def get(self, path: str) -> Resource: ...

    def ask(self, request: LookRequest) -> "LookLike": ...

    def stream(self, request: LookRequest) -> Iterator[AnswerToken]: ...


class WidgetSession:
    """Answers the messages of a page in a notebook; see `fromWidget` in page/static/resources.js."""

    def __init__(
        self, look: LookLike, send: Send, on_summary: Callable[[Any], None] = lambda summary: None
    ) -> None:
        """`on_summary` is called with the summary of each new look."""
        self.look, self._send, self._on_summary = look, send, on_summary

    def handle(self, message: Mapping[str, Any]) -> None:
        """Answer one message; errors are sent as answers too."""
        number = message.get("id")
        try:
            match message:
                case {"do": "get", "path": str(path)}:
                    self._send_resource(number, self.look.get(path))
                case {"do": "ask", "request": dict(request)}:
                    self.look = self.look.ask(LookRequest.from_json(request))
                    self._send_resource(number, self.look.get("summary"))
                    self._on_summary(json_value(self.look.get("summary")))
                case {"do": "stream", "request": dict(request)}:
                    for token in self.look.stream(LookRequest.from_json(request)):
                        self._send({"id": number, "token": token.to_dict()}, [])
                    self._send({"id": number, "done": True}, [])
                case _:
                    self._send({"id": number, "error": "unknown message"}, [])
        except RegardError as error:
            self._send({"id": number, "error": error.message, "hint": error.hint}, [])
        except Exception as error:  # noqa: BLE001 (the page waits for an answer)
            self._send({"id": number, "error": f"the model failed: {type(error).__name__}: {error}"}, [])

    def _send_resource(self, number: Any, resource: Resource) -> None:
        if isinstance(resource, np.ndarray):
            self._send({"id": number}, [npy_bytes(resource)])
        else:
            self._send({"id": number, "value": json_value(resource)}, [])


def make_widget(look: LookLike) -> Any:
    """The page for `look` as a widget that can send further requests to the model.

    Raises:
        MissingExtra: anywidget is not installed.
    """
    try:
        import anywidget  # pyright: ignore[reportMissingImports]
        import traitlets  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtra("anywidget", "notebook", "the page in a notebook") from None

    class Widget(anywidget.AnyWidget):
        _esm = widget_script()
        _css = stylesheet()
        summary = traitlets.Dict().tag(sync=True)
        live = traitlets.Bool(True).tag(sync=True)

    widget = Widget(summary=json_value(look.get("summary")))
    # the widget keeps the newest summary, so that a page that is opened again shows the newest look
    session = WidgetSession(look, widget.send, lambda summary: setattr(widget, "summary", summary))
    widget.on_msg(lambda _, message, buffers: session.handle(message))
    return widget
