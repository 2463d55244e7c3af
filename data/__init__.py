"""Observations that ship with pdefit; see README.md here for provenance and licences."""
