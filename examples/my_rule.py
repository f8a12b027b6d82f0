"""A scheduler of your own in one file. Try it:

fedteddi check examples/my_rule.py:ShortestUploads
fedteddi example | fedteddi schedule - --scheduler examples/my_rule.py:ShortestUploads
"""

import numpy as np

from fedteddi import RoundView, Schedule


class ShortestUploads:
    """As many uploads as possible: whoever needs the least bandwidth first."""

    name = "shortest-uploads"

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Admit clients by rising B* until the next one does not fit; equal ones in random order."""
        order = np.lexsort((rng.random(view.num_clients), view.needed_hz))
        count = int(np.searchsorted(np.cumsum(view.needed_hz[order]), view.total_hz, side="right"))
        chosen = order[:count]
        return Schedule(clients=tuple(chosen), bandwidth_hz=tuple(view.needed_hz[chosen]))
