"""The radio cell: where clients stand, how strong their signals are, how long they compute, what they need."""
