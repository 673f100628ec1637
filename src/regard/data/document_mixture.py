"""Several corpora of running text as one training corpus, for (masked) language models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.corpus_mixture import digest_of, refuse_no_weight
from regard.data.documents import Documents, DocumentSettings


@dataclass(frozen=True, kw_only=True)
class MixedDocumentSettings(DocumentSettings):
    """One of several corpora of running text to train on: a table `[[data.train]]` for each.

    `weight`: its share of what training reads, relative to the other corpora's weights: of the tokens of a
    language model, of the texts of a masked one. All corpora have one, or none.
    """

    weight: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_no_weight(self.weight, "text")


class DocumentMixture:
    """The documents of several corpora, one corpus after the other.

    Attributes:
        corpora: the corpora.
    """

    def __init__(self, corpora: Sequence[Documents]) -> None:
        self.corpora = tuple(corpora)
        self.name = " + ".join(each.name for each in corpora)

    def __iter__(self) -> Iterator[str]:
        for each in self.corpora:
            yield from each

    def fingerprint(self) -> str:
        """A digest of everything that determines the texts; the files' paths are not part of it."""
        return digest_of(self.corpora)


def open_documents(
    settings: DocumentSettings | tuple[MixedDocumentSettings, ...], base: Path
) -> Documents | DocumentMixture:
    """The documents of one corpus or of several; relative paths start at the folder `base`."""
    if isinstance(settings, DocumentSettings):
        return Documents(settings, base)
    return DocumentMixture([Documents(each, base) for each in settings])


def document_corpora(documents: Documents | DocumentMixture) -> tuple[Documents, ...]:
    """The corpora of documents of a mixture, or the only one."""
    return documents.corpora if isinstance(documents, DocumentMixture) else (documents,)
