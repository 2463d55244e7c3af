"""Velocity fields from files of particle image velocimetry: one module a format."""
