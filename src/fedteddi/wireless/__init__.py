"""The radio cell: where clients stand, how well they are heard, how long they compute, what they need."""
