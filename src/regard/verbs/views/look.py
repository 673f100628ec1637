"""A Look: one run of one text, as named resources that are computed when they are asked for."""

import html
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from regard.errors import DataError, MissingExtra, did_you_mean
from regard.verbs.views.ablation_resources import operation_counts
from regard.verbs.views.files import in_json, json_text, writable, write_file, write_npz
from regard.verbs.views.inspected_run import AnswerToken, InspectedRun
from regard.verbs.views.linking_heads import LinkingHead, heads_linking
from regard.verbs.views.memory_size import memory_size
from regard.verbs.views.page_file import IN_A_NOTEBOOK, in_iframe, page_html
from regard.verbs.views.plain_text import text_lines
from regard.verbs.views.recorded_pass import RecordedPass, Resource, ResourceFunction
from regard.verbs.views.request import Request
from regard.verbs.views.resources import resources_of
from regard.verbs.views.summary import make_summary
from regard.verbs.widget import make_widget

SLOW = 1e12  # operations: some ten seconds of a laptop's
SHOWN = 60  # characters of a text in a repr


@runtime_checkable
class LookFactory(Protocol):
    """What makes other looks of the same model."""

    def __call__(self, request: Request) -> "Look": ...

    def stream(self, request: Request) -> Iterator[AnswerToken]: ...


class Look:
    """What a model did with one text.

    A resource is JSON (a dict or a list) or an array; `paths` names them, `get` computes one, once. All that
    is computed is computed under `changed`, which switches off in the model what the run went without, and
    under `lock`: one model works on one thing at a time.
    """

    def __init__(
        self,
        run: InspectedRun,
        *,
        lock: AbstractContextManager[Any],
        changed: Callable[[], AbstractContextManager[Any]],
        again: "LookFactory",
    ) -> None:
        self.run = run
        self._lock, self._changed, self._again = lock, changed, again
        self._watched = RecordedPass(run)
        self._makers: dict[str, ResourceFunction] = {"summary": self._summary, **resources_of(self._watched)}
        self._made: dict[str, Resource] = {}
        self._bytes: dict[str, int] = {}  # of what was made

    def __repr__(self) -> str:
        """What was read and answered, by which model, and how to go on: nothing is computed for it."""
        answer = "" if self.run.answer is None else f" -> {_short(self.run.answer.get('text', ''))}"
        return (
            f"<Look: {_short(self.request.text)}{answer}; {self.run.loaded.path},"
            f" {len(self._makers)} resources: .paths(), .get(path), .to_text(), .to_html(file)>"
        )

    @property
    def request(self) -> Request:
        return self.run.request

    @property
    def summary(self) -> dict[str, Any]:
        """What the model is, what was read and answered, and what else there is to see."""
        found = self.get("summary")
        assert isinstance(found, dict)
        return found

    @property
    def bytes_held(self) -> int:
        """What is kept of it so far: resources that were asked for, what was recorded, what was asked."""
        return sum([*self._bytes.values()]) + self._watched.bytes_held + memory_size(self.request.to_dict())

    def forget(self) -> None:
        """Keep no resource but the summary: each is computed again when it is asked for."""
        for path in [path for path in self._made if path != "summary"]:
            self._made.pop(path)
            self._bytes.pop(path, None)
        self._watched.forget()

    def paths(self) -> list[str]:
        """The names of all resources."""
        return list(self._makers)

    def slow_paths(self) -> list[str]:
        """Those that take long, of a large model or a long text; files hold them only if asked for."""
        found = operation_counts(self._watched)
        return [path for path in self._makers if found.get(path, 0) > SLOW]

    def quick_paths(self) -> list[str]:
        """All others."""
        slow = {*self.slow_paths()}
        return [path for path in self._makers if path not in slow]

    def get(self, path: str) -> Resource:
        """One resource.

        Raises:
            DataError: there is none of that name.
        """
        if path not in self._makers:
            raise DataError(f"nothing to see is called {path!r}", did_you_mean(path, self._makers))
        if (made := self._made.get(path)) is not None:  # whatever else is being computed
            return made
        with self._lock:
            if (made := self._made.get(path)) is None:
                with self._changed():
                    made = self._makers[path]()
                self._bytes[path], self._made[path] = memory_size(made), made
            return made

    def heads_linking(self, seen: str, looking: str) -> list[LinkingHead]:
        """The heads that look from one word at another, the strongest first; see `looking/pairs.py`.

        Raises:
            DataError: there is no such word.
        """
        with self._lock, self._changed():
            return heads_linking(self._watched, seen, looking)

    def ask(self, request: Request) -> "Look":
        """Another look of the same model."""
        return self._again(request)

    def stream(self, request: Request) -> Iterator[AnswerToken]:
        """The likeliest answer of the same model, as it grows."""
        return self._again.stream(request)

    def to_json(self, paths: Sequence[str] | None = None) -> str:
        """These resources as one line of JSON by their paths; without `paths` all but bulky and slow ones."""
        return json_text({path: self.get(path) for path in (paths or in_json(self.quick_paths()))})

    def to_npz(self, file: str | Path, paths: Sequence[str] | None = None) -> Path:
        """These resources, or all quick ones, as an NPZ file: arrays by their paths, and `look.json`."""
        found = writable(file)
        write_npz(found, {path: self.get(path) for path in (paths or self.quick_paths())})
        return found

    def to_html(self, file: str | Path) -> Path:
        """The page with all of this inside, as one HTML file that opens without a server or a network."""
        found = writable(file)
        write_file(found, page_html(self.summary, self.get, self.quick_paths()).encode("utf-8"))
        return found

    def to_text(self) -> str:
        """What is to be seen in plain lines, fields between tabs: answer, tokens, alignment, heads."""
        return "".join(f"{line}\n" for line in text_lines(self.summary, self.get))

    def widget(self) -> Any:
        """The page as a widget of a notebook.

        Raises:
            MissingExtra: anywidget is not installed.
        """
        return make_widget(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """In a notebook the widget; where there are none, the same page in a frame, which asks no model."""
        try:
            widget = self.widget()
        except MissingExtra:
            return {"text/html": self._repr_html_(), "text/plain": self.to_text()}
        told = widget._repr_mimebundle_() or {}
        bundle = told[0] if isinstance(told, tuple) else told
        return {**bundle, "text/html": f"<pre>{html.escape(self.to_text())}</pre>"}

    def _repr_html_(self) -> str:
        page = page_html(self.summary, self.get, self.quick_paths(), room=IN_A_NOTEBOOK)
        return in_iframe(page, self.to_text())

    def _summary(self) -> dict[str, Any]:
        others = [path for path in self._makers if path != "summary"]
        return make_summary(self._watched, others, self.slow_paths())


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")
