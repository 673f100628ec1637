"""The exception of a contender that cannot do a piece of work; the table reports its message."""


class Unfit(Exception):
    """The message is the reason."""
