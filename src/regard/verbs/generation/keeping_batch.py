"""Translating pieces of many texts together, of which some parts stay as they are (`keeping.py`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.running_batch import RunningBatch
from regard.errors import RegardError
from regard.verbs.generation.keeping import joined_translation, restored_translation
from regard.verbs.generation.kept_texts import HiddenText, TextHider
from regard.verbs.generation.running_answers import RunningAnswers
from regard.verbs.generation.translations import Translation


@dataclass(kw_only=True)
class _Piece:
    """A piece, its place in its request, and if it is translated in parts, those that are known."""

    hidden: HiddenText
    place: int
    whole: Translation | None = None
    tickets: list[int] = field(default_factory=list)  # of the parts
    found: dict[int, Translation] = field(default_factory=dict)


class KeepingAnswers(RunningAnswers[str, Translation]):
    """Running answers with what `hider` hides as it was: the translations of a `KeepingTranslator`.

    The parts of a piece whose translation lacks a stand-in join the batch when that is known.
    """

    def __init__(
        self,
        hider: TextHider,
        batch: RunningBatch,
        queue: Callable[[str, int], int],
        answer: Callable[[str, Sequence[Hypothesis]], Translation],
    ) -> None:
        super().__init__(batch, queue, answer)
        self._hider = hider
        self._by_ticket: dict[int, _Piece] = {}
        self._whole_of: dict[int, int] = {}  # the ticket of the piece that a part, by its ticket, is of

    def add(self, piece: str, place: int, *, in_parts: bool = False) -> int:
        hidden = self._hider.hidden(piece)
        ticket = super().add(hidden.text if hidden.stands_in else "", place, in_parts=in_parts)
        self._by_ticket[ticket] = _Piece(hidden=hidden, place=place)
        return ticket

    def cancel(self, ticket: int) -> None:
        piece = self._by_ticket.pop(ticket, None)
        for each in [ticket, *(piece.tickets if piece else [])]:
            self._whole_of.pop(each, None)
            super().cancel(each)

    def step(self) -> list[tuple[int, Translation | Exception]]:
        done: list[tuple[int, Translation | Exception]] = []
        for ticket, answer in super().step():
            own = self._whole_of.get(ticket, ticket)
            if own in self._by_ticket:
                known = answer if isinstance(answer, Exception) else self._known(own, ticket, answer)
                if known is not None:
                    self.cancel(own)
                    done.append((own, known))
        return done

    def _known(self, own: int, ticket: int, answer: Translation) -> Translation | Exception | None:
        """The translation of a piece, if it is known by the answer with this ticket; or an error."""
        piece = self._by_ticket[own]
        if ticket != own:
            piece.found[ticket] = answer
        elif (restored := restored_translation(piece.hidden, answer)) is not None:
            return restored
        else:
            piece.whole = answer
            try:
                for number, part in enumerate(piece.hidden.parts()):
                    piece.tickets.append(super().add(part, piece.place + number))
            except RegardError as error:
                return error
            self._whole_of |= dict.fromkeys(piece.tickets, own)
        if piece.whole is None or len(piece.found) < len(piece.tickets):
            return None
        return joined_translation(piece.hidden, piece.whole, [piece.found[each] for each in piece.tickets])
