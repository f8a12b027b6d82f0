"""The rules: one file each. A class here with a `name` and a `select` is found by that name."""
