"""What was heard while a model worked: call by call, and put together into the whole picture.

A model that is decoded with a cache goes row by row: each call of a decoder's self-attention has a query or
a few, and keys of all positions so far. Put together they are the lower triangle that reading at once gives.
In a beam rows of the batch are moved between calls; whoever moves them says so (`moved`), and a row of now
is followed back to the rows in which it sat (see `following.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from regard.errors import ConfigError
from regard.layers.scaled_dot_product import attention_weights

Recorded = Literal["query", "key", "value", "mask", "bias", "scores", "weights", "mixed"]
PARTS: tuple[Recorded, ...] = get_args(Recorded)


class RowPosition(NamedTuple):
    """A row of the batch at some time of a decoding: how many `events` had been before."""

    row: int
    moment: int


@dataclass(frozen=True)
class ModuleCall:
    """What was heard in one call of a module; `moment` as in `RowPosition`.

    Parts are laid out [batch, heads, rows, columns or features]; of a mask and a bias the first three may
    be 1. Those that nobody wanted or that there are not, are absent.
    """

    moment: int
    rows: int
    columns: int
    parts: dict[str, Tensor]


@dataclass
class Recording:
    """What was heard, by the names of modules.

    `query(name)` and its like give one row of the batch, by default the first; a `RowPosition` names a row
    of a beam search; `row=None` gives all rows, with a batch axis in front. Keys and values are
    those of each query head: shared ones are repeated.

    Raises:
        ConfigError: nothing of that kind was recorded under that name.
    """

    heads: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of each attention, those recorded
    parts: tuple[str, ...] = ("weights",)  # of each attention
    growing: frozenset[str] = frozenset()  # attentions whose columns grow with their rows
    heard: dict[str, list[ModuleCall]] = field(default_factory=dict)
    events: list[Int64[Tensor, " rows"] | None] = field(default_factory=list)  # rows moved; None: a step
    bytes_held: int = 0

    # Of an attention, [heads, rows, ...]; with `row=None`, [batch, heads, rows, ...]

    def weights(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch heads rows columns"]:
        """How much each row looks at each column, before dropout; 0 where a column was not there yet.

        Where only queries, keys, mask and bias were recorded, which are small, it is computed from them.
        """
        if "weights" not in self.parts and {"query", "key", "mask", "bias"} <= {*self.parts}:
            return self._computed_weights(name, row)
        return self._picture(name, "weights", row, 0.0)

    def scores(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch heads rows columns"]:
        """What the weights are the softmax of, bias in, mask not; -inf where a column was not there yet."""
        return self._picture(name, "scores", row, -torch.inf)

    def mask(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Bool[Tensor, "*batch some_heads rows columns"]:
        """True where a row may look; of one head if it is the same for all."""
        return self._picture(name, "mask", row, False)

    def bias(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch some_heads rows columns"] | None:
        """What positions add to the scores; of one head if it is the same for all; None: nothing."""
        if not any("bias" in call.parts for call in self._calls(name, "bias")):
            return None
        return self._picture(name, "bias", row, 0.0)

    def query(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch heads rows d_head"]:
        """As the kernel got them: norms, rotary positions and scale are in."""
        return self._line(name, "query", row)

    def key(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch heads columns d_head"]:
        """As the kernel got them: query . key / sqrt(d_head) is the score, but for a bias."""
        return self._line(name, "key", row) if name in self.growing else self._once(name, "key", row)

    def value(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch heads columns d_value"]:
        return self._line(name, "value", row) if name in self.growing else self._once(name, "value", row)

    def mixed(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch heads rows d_value"]:
        """What each head gives: its mean of the values (in training, after dropout)."""
        return self._line(name, "mixed", row)

    # Of other modules

    def hidden(self, name: str, row: int | RowPosition | None = 0) -> Float[Tensor, "*batch len width"]:
        """What the block called `name` gave."""
        found = self._line(name, "hidden", row)
        return found.squeeze(-3)

    def logits(self, row: int | RowPosition | None = 0) -> Tensor:
        """What the model gave: of each position, or of a text, as its head has it."""
        found = self._line("logits", "hidden", row)
        return found.squeeze(-3)

    # Call by call, whole batches

    @property
    def calls(self) -> dict[str, list[Tensor]]:
        """The weights of each attention, one tensor [batch, heads, rows, columns] for each call."""
        return {name: [call.parts["weights"] for call in self.heard[name]] for name in self.heads}

    def last(self, name: str) -> Float[Tensor, "batch heads rows columns"]:
        """The weights of the attention called `name` when it was last called."""
        return self._calls(name, "weights")[-1].parts["weights"]

    def whole(self, name: str) -> Float[Tensor, "batch heads rows columns"]:
        """The weights of all its calls put together: a decoder may go position by position."""
        return self.weights(name, row=None)

    def forget(self) -> None:
        """Begin anew: what was heard so far is given up."""
        for calls in self.heard.values():
            calls.clear()
        self.events.clear()
        self.bytes_held = 0

    # What happens between calls

    def moved(self, rows: Int64[Tensor, " rows"]) -> None:
        """From now on row i of the batch is what row `rows[i]` was."""
        self.events.append(rows.detach().cpu().clone())

    def stepped(self) -> int:
        """A step begins; its moment."""
        self.events.append(None)
        return len(self.events)

    def rows_at(self, rows: Int64[Tensor, " rows"], later: int, earlier: int) -> Int64[Tensor, " rows"]:
        """Where what sits in these rows at the moment `later` sat at `earlier`."""
        for event in reversed(self.events[earlier:later]):
            rows = rows if event is None else event[rows]
        return rows

    def _computed_weights(self, name: str, row: int | RowPosition | None) -> Tensor:
        query, key, mask = self.query(name, row), self.key(name, row), self.mask(name, row)
        bias = self.bias(name, row)
        if row is None:
            return attention_weights(query, key, mask, bias)
        return attention_weights(query[None], key[None], mask[None], None if bias is None else bias[None])[0]

    def _calls(self, name: str, part: str) -> list[ModuleCall]:
        if name not in self.heard:
            known = ", ".join(self.heard) or "nothing"
            raise ConfigError(f"nothing is recorded under {name!r}", f"recorded: {known}")
        calls = self.heard[name]
        if not calls:
            raise ConfigError(
                f"{name} was not called while it was recorded", "run the model inside the `with`"
            )
        known = calls[0].parts.keys() | ({"mask", "bias"} & {*self.parts} if name in self.heads else set())
        if part not in known:  # a mask and a bias need not be given
            raise ConfigError(f"no {part} of {name} is recorded", f"recorded: {', '.join(sorted(known))}")
        return calls

    def _followed(
        self, name: str, part: str, row: int | RowPosition | None
    ) -> Iterable[tuple[ModuleCall, Int64[Tensor, " rows"]]]:
        """The calls that made what sits in `row`, and where it sat in each."""
        calls = self._calls(name, part)
        if row is None:
            moment = calls[-1].moment
            rows = torch.arange(max(each.size(0) for each in calls[-1].parts.values()))
        else:
            seat = row if isinstance(row, RowPosition) else RowPosition(row, len(self.events))
            rows, moment = torch.tensor([seat.row]), seat.moment
        for call in calls:
            if call.moment <= moment:
                yield call, self.rows_at(rows, moment, call.moment)

    def _line(self, name: str, part: str, row: int | RowPosition | None) -> Tensor:
        """Calls one after the other: [heads, all rows, features]."""
        found = [_taken(call.parts[part], rows) for call, rows in self._followed(name, part, row)]
        return _single(torch.cat(found, dim=2), row)

    def _once(self, name: str, part: str, row: int | RowPosition | None) -> Tensor:
        """What is the same in all calls: [heads, columns, features]."""
        *_, (call, rows) = self._followed(name, part, row)
        return _single(_taken(call.parts[part], rows), row)

    def _picture(self, name: str, part: str, row: int | RowPosition | None, empty: float | bool) -> Tensor:
        """Calls one below the other, each at its columns: [heads, all rows, all columns]."""
        pieces = list(self._followed(name, part, row))
        grows = name in self.growing
        height = sum(call.rows for call, _ in pieces)
        width = height if grows else max(call.columns for call, _ in pieces)
        found, begin = [], 0
        for call, rows in pieces:
            begin += call.rows
            left = begin - call.columns if grows else 0
            piece = _expanded(call, part, rows)
            whole = piece.new_full((*piece.shape[:-1], width), empty)
            whole[..., left : left + call.columns] = piece
            found.append(whole)
        return _single(torch.cat(_alike(found), dim=2), row)


def _taken(tensor: Tensor, rows: Int64[Tensor, " rows"]) -> Tensor:
    """These rows of the batch; a batch of one may stand for all."""
    if tensor.size(0) == 1:
        return tensor.expand(len(rows), *tensor.shape[1:])
    return tensor[rows.to(tensor.device)]


def _expanded(call: ModuleCall, part: str, rows: Int64[Tensor, " rows"]) -> Tensor:
    """A mask or bias that was not given says nothing: all may be looked at, nothing is added."""
    given = call.parts.get(part)
    if given is None:
        device = next(iter(call.parts.values())).device if call.parts else None
        given = torch.ones(1, 1, 1, call.columns, dtype=torch.bool, device=device)
        given = given if part == "mask" else torch.zeros_like(given, dtype=torch.get_default_dtype())
    return _taken(given, rows).expand(-1, -1, call.rows, -1)


def _alike(pieces: Sequence[Tensor]) -> list[Tensor]:
    """Of as many heads each."""
    heads = max(piece.size(1) for piece in pieces)
    return [piece.expand(-1, heads, -1, -1) for piece in pieces]


def _single(found: Tensor, row: int | RowPosition | None) -> Tensor:
    return found if row is None else found[0]
