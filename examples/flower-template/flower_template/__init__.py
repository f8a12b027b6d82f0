"""A Flower app in which a scheduler of fedteddi decides who uploads."""
