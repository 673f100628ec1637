"""What a contender raises that cannot do a piece of work: a row of the table says why."""


class Unfit(Exception):
    """The message is the reason."""
