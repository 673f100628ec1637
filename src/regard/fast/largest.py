"""The largest values of each row by operations that a CUDA graph can record; ties go to the lower id."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

CandidateTensors = tuple[Float[Tensor, "rows size"], Int64[Tensor, "rows size"], Float[Tensor, " rows"]]

CHUNK = 128
LOW = 2**32 - 1  # the lower half of a key: LOW minus the id


def largest(
    values: Float[Tensor, "rows vocab"], size: int
) -> tuple[Float[Tensor, "rows size"], Int64[Tensor, "rows size"]]:
    """The `size` largest values of each row and their ids, in descending order; float32.

    `torch.topk` promises nothing about ties, which are frequent among logits in bfloat16. Here values and ids
    are ranked together as one integer. Only the `size` chunks with the largest maxima are ranked, of equal
    ones the first: each chunk before another has a value that comes before all of the other's.
    """
    if size == 1:
        return values.max(dim=1, keepdim=True)
    rows, vocab = values.shape
    chunks = vocab // CHUNK
    if chunks < 4 * size:
        return _ranked(values, torch.arange(vocab, device=values.device).expand(rows, -1), size)
    maxima = values[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK)).amax(dim=2)
    chunk_ids = torch.arange(chunks, device=values.device).expand(rows, -1)
    _, chosen = _ranked(maxima, chunk_ids, size)
    inside = torch.arange(CHUNK, device=values.device)
    ids = (chosen[:, :, None] * CHUNK + inside).flatten(1)
    rest = torch.arange(chunks * CHUNK, vocab, device=values.device).expand(rows, -1)
    ids = torch.cat((ids, rest), dim=1)
    return _ranked(values.gather(1, ids), ids, size)


def _ranked(
    values: Float[Tensor, "rows some"], ids: Int64[Tensor, "rows some"], size: int
) -> tuple[Float[Tensor, "rows size"], Int64[Tensor, "rows size"]]:
    bits = (values + 0.0).view(torch.int32)  # + 0.0: of -0.0, which equals 0.0
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # integers in the order of the numbers
    keys = (ordered.long() << 32) + (LOW - ids)
    places = keys.topk(size, dim=1).indices
    return values.gather(1, places), ids.gather(1, places)
