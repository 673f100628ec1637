"""A number with its noun: 1 update, 1,000 updates."""


def counted(count: int, one: str, many: str = "") -> str:
    """`count` and the noun in the singular or the plural; `many` is the plural if it is not `one` + s.

    >>> counted(1, "thing is", "things are"), counted(1000, "update")
    ('1 thing is', '1,000 updates')
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
