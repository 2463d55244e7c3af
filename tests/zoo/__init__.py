"""Small smooth systems, and a fit of each."""
