"""Three ways to look for the set with the lowest P3: greedy (the paper's), refined, exact."""
