"""Films: images of a camera or a microscope in TIFF, video or NumPy files."""
