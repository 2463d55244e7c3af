"""Random corruption of everything a user can hand to pdefit, and the rules its answer must keep."""
