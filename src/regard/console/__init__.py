"""Output to the terminal: results, notes, tables, progress bars, plots and attention maps.

Results go to stdout; progress, notes and warnings to stderr. A terminal gets bars and colours (no colours if
NO_COLOR is set); files and pipes get plain lines for grep, never wrapped or cut.
"""

from regard.console.alignments import alignment
from regard.console.plots import plot
from regard.console.progress import LinesProgress, Progress, downloads, duration
from regard.console.streams import is_terminal, note, notes_to_terminal, say, warn
from regard.console.tables import print_confusion, scores, table

__all__ = [
    "LinesProgress",
    "Progress",
    "alignment",
    "downloads",
    "duration",
    "is_terminal",
    "note",
    "notes_to_terminal",
    "plot",
    "print_confusion",
    "say",
    "scores",
    "table",
    "warn",
]
