"""A sentence and its translation, as the texts here write them."""

Pair = tuple[str, str]


def parsed(line: str, between: str = " = ") -> Pair:
    """The two sides of a line."""
    source, target = line.split(between)
    return source, target
