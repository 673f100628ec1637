"""The confidence interval of a proportion, such as an accuracy."""

import math


def wilson_interval(hits: int, total: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of the proportion `hits` / `total` (Wilson 1927).

    Unlike the normal approximation it stays between 0 and 1, and has a width for a proportion of 0 or 1.
    """
    z = 1.959963984540054  # standard deviations, within which 95 % of a normal distribution lie
    share, weight = hits / total, z * z / total
    middle = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / total + weight / (4 * total)) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)
