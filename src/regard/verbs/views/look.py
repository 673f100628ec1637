"""The class `Look`: one run of one text as named resources, each computed on first use."""

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from regard.errors import DataError, MissingExtra, UserError, did_you_mean
from regard.verbs.views.ablation_resources import operation_counts
from regard.verbs.views.files import HTML, NPZ, json_paths, json_text, writable, write_file, write_npz
from regard.verbs.views.inspected_run import AnswerToken, InspectedRun
from regard.verbs.views.linking_heads import LinkingHead, heads_linking
from regard.verbs.views.memory_size import memory_size
from regard.verbs.views.page_file import MAX_NOTEBOOK_BYTES, in_iframe, page_html
from regard.verbs.views.plain_text import text_lines
from regard.verbs.views.recorded_pass import RecordedPass, Resource, ResourceFunction
from regard.verbs.views.request import LookRequest
from regard.verbs.views.resources import resources_of
from regard.verbs.views.summary import make_summary
from regard.verbs.views.widget import make_widget

SLOW_OPERATIONS = 1e12  # some ten seconds on a laptop
MAX_REPR_CHARACTERS = 60  # of each text in a repr


@runtime_checkable
class LookFactory(Protocol):
    """Creates further looks of the same model."""

    def __call__(self, request: LookRequest) -> "Look": ...

    def stream(self, request: LookRequest) -> Iterator[AnswerToken]: ...


class Look:
    """What a model did with one text.

    A resource is a dict, a list or an array; `paths` names all, `get` computes one and keeps it. Computations
    hold `lock`, because threads share the model, and run inside `with_changes`, which switches off the parts
    that the request switches off.
    """

    def __init__(
        self,
        run: InspectedRun,
        *,
        lock: AbstractContextManager[Any],
        with_changes: Callable[[], AbstractContextManager[Any]],
        factory: "LookFactory",
    ) -> None:
        self.run = run
        self._lock, self._with_changes, self._factory = lock, with_changes, factory
        self._recorded = RecordedPass(run)
        with self._lock, self._with_changes():  # which attentions have weights, a pass may have to tell
            resources = resources_of(self._recorded)
        self._functions: dict[str, ResourceFunction] = {
            "summary": partial(_summary, self._recorded, tuple(resources)),
            **resources,
        }
        self._computed: dict[str, Resource] = {}
        self._bytes: dict[str, int] = {}  # sizes of computed resources

    def __repr__(self) -> str:
        """Text, answer, model and the main methods; computes nothing."""
        answer = "" if self.run.answer is None else f" -> {_short(self.run.answer.get('text', ''))}"
        return (
            f"<Look: {_short(self.request.text)}{answer}; {self.run.loaded.path},"
            f" {len(self._functions)} resources: .paths(), .get(path), .to_text(), .to_html(file)>"
        )

    @property
    def request(self) -> LookRequest:
        return self.run.request

    @property
    def summary(self) -> dict[str, Any]:
        """The model, the sequences, the answer, and the paths of the other resources."""
        found = self.get("summary")
        assert isinstance(found, dict)
        return found

    @property
    def bytes_held(self) -> int:
        """The memory of computed resources, of the recording and of the request."""
        return sum([*self._bytes.values()]) + self._recorded.bytes_held + memory_size(self.request.to_dict())

    def forget(self) -> None:
        """Delete all computed resources but the summary; they are computed again on use."""
        for path in [path for path in self._computed if path != "summary"]:
            self._computed.pop(path)
            self._bytes.pop(path, None)
        self._recorded.forget()

    def paths(self) -> list[str]:
        """The paths of all resources."""
        return list(self._functions)

    def slow_paths(self) -> list[str]:
        """The resources that take long for this model and text; files include them only on request."""
        return _slow_of(self._recorded, self._functions)

    def quick_paths(self) -> list[str]:
        """The resources that are not slow."""
        slow = {*self.slow_paths()}
        return [path for path in self._functions if path not in slow]

    def get(self, path: str) -> Resource:
        """One resource by its path.

        Raises:
            DataError: there is no such resource, or the attention has no weights.
        """
        if not isinstance(path, str):
            raise DataError(f"there is no resource {path!r}", "a resource has a name: .paths() has all")
        name = path.removeprefix("attention/")
        if path not in self._functions and name in self._recorded.no_weights:
            raise DataError(
                f"{name} has no weights to show: {self._recorded.no_weights[name]}",
                f"its values are in value/{name}, what follows from them in the hidden states of its block",
            )
        if path not in self._functions:
            raise DataError(f"there is no resource {path!r}", did_you_mean(path, self._functions))
        if (computed := self._computed.get(path)) is not None:  # without waiting for other computations
            return computed
        with self._lock:
            if (computed := self._computed.get(path)) is None:
                with self._with_changes():
                    computed = self._functions[path]()
                self._bytes[path], self._computed[path] = memory_size(computed), computed
            return computed

    def heads_linking(self, attended: str | int, attending: str | int) -> list[LinkingHead]:
        """Heads by their weight from the word `attending` on the word `attended`, the greatest first.

        With an encoder-decoder, `attended` is a word of the source and `attending` one of the answer.

        Raises:
            DataError: there is no such word.
        """
        with self._lock, self._with_changes():
            return heads_linking(self._recorded, attended, attending)

    def ask(self, request: LookRequest) -> "Look":
        """A look of the same model for another request."""
        return self._factory(request)

    def stream(self, request: LookRequest) -> Iterator[AnswerToken]:
        """The tokens of the same model's greedy answer to a request, as they are generated."""
        return self._factory.stream(request)

    def to_json(self, paths: Sequence[str] | None = None) -> str:
        """Resources by path as one line of JSON; by default all but large arrays and slow resources."""
        return json_text({path: self.get(path) for path in (paths or json_paths(self.quick_paths()))})

    def to_npz(self, file: str | Path, paths: Sequence[str] | None = None) -> Path:
        """Write resources, by default all but slow ones, to an NPZ file: arrays by path, and `look.json`."""
        found = writable(file, *NPZ)
        write_npz(found, {path: self.get(path) for path in (paths or self.quick_paths())})
        return found

    def to_html(self, file: str | Path, *, live: bool = False, runtime: str | Path | None = None) -> Path:
        """Write the page with its data as one HTML file that needs no server and no network.

        With `live` the file holds the model too, and the page looks at other texts by itself. `runtime` is
        then onnxruntime-web: the npm package, unpacked or as `npm pack` writes it; by default npm fetches it
        once into the user's cache.

        Raises:
            UserError: a page cannot hold this model, or what writes it is not here.
            MissingExtra: the extra `onnx` is not installed.
            RunError: the page would compute something else; nothing is written.
        """
        found = writable(file, *HTML)
        if runtime is not None and not live:
            raise UserError("runtime is for a page that holds its model", "set live = True, or leave it out")
        model = None
        if live:
            from regard.verbs.views.live_page import model_of_page

            with self._lock:
                place = None if runtime is None else Path(runtime)
                model = model_of_page(self.run, self.summary, self.get, place)
        write_file(found, page_html(self.summary, self.get, self.quick_paths(), model=model).encode("utf-8"))
        return found

    def to_text(self) -> str:
        """Answer, tokens, alignment and heads as plain lines; fields are separated by tabs."""
        return "".join(f"{line}\n" for line in text_lines(self.summary, self.get))

    def widget(self) -> Any:
        """The page as a notebook widget.

        Raises:
            MissingExtra: anywidget is not installed.
        """
        return make_widget(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """The notebook widget, or without anywidget the page in a static frame."""
        try:
            widget = self.widget()
        except MissingExtra:
            return {"text/html": self._repr_html_(), "text/plain": self.to_text()}
        mimebundle = widget._repr_mimebundle_() or {}
        bundle = mimebundle[0] if isinstance(mimebundle, tuple) else mimebundle
        return {**bundle, "text/html": f"<pre>{html.escape(self.to_text())}</pre>"}

    def _repr_html_(self) -> str:
        page = page_html(self.summary, self.get, self.quick_paths(), max_bytes=MAX_NOTEBOOK_BYTES)
        return in_iframe(page, self.to_text())


def _summary(recorded: RecordedPass, paths: Sequence[str]) -> dict[str, Any]:
    return make_summary(recorded, list(paths), _slow_of(recorded, paths))


def _slow_of(recorded: RecordedPass, paths: Iterable[str]) -> list[str]:
    """The paths of the resources that take long to compute."""
    found = operation_counts(recorded)
    return [path for path in paths if found.get(path, 0) > SLOW_OPERATIONS]


def _short(text: str) -> str:
    return repr(text if len(text) <= MAX_REPR_CHARACTERS else f"{text[:MAX_REPR_CHARACTERS]}...")
