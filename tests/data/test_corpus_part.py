"""A file that is not a part of a tokenised corpus of its kind is refused by name."""

import numpy as np
import pytest
from safetensors.numpy import save

from regard.data.pair_part import PairPart
from regard.data.text_part import TextPart
from regard.errors import DataError

OTHERS = {"empty": b"", "others": save({"lines": np.zeros(1)})}


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize(("kind", "of"), [(PairPart, "pairs"), (TextPart, "documents")])
def test_another_file_is_refused(kind, of, content):
    with pytest.raises(DataError, match=f"parts/7 is not a part of a tokenised corpus of {of}"):
        kind.of(content, "parts/7")
