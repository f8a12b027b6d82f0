"""Every coordinate's values over the uploads in order, for vectors of any library."""

import numpy as np

from fedteddi.aggregation.rule import Vector


def in_order(vectors: tuple[Vector, ...]) -> list[Vector]:
    """Sort n vectors coordinate by coordinate: the first has every coordinate's lowest value, n × [P].

    Odd-even transposition: n passes that compare neighbours, exact, with no more than two vectors besides.
    """
    found = list(vectors)
    for start in range(len(found)):
        for left in range(start % 2, len(found) - 1, 2):
            found[left], found[left + 1] = _lower_first(found[left], found[left + 1])
    return found


def mean_of(vectors: list[Vector]) -> Vector:
    """Return the plain mean, [P]; no sum of finite numbers overflows on the way."""
    total = vectors[0] * (1.0 / len(vectors))
    for vector in vectors[1:]:
        total = total + vector * (1.0 / len(vectors))
    return total


def _lower_first(one: Vector, other: Vector) -> tuple[Vector, Vector]:
    if isinstance(one, np.ndarray):
        return np.minimum(one, other), np.maximum(one, other)
    return one.minimum(other), one.maximum(other)
