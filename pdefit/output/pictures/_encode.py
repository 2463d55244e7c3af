"""Encoding of frames: H.264 in MP4, or a GIF where PyAV was built without an encoder for H.264."""

import io
from collections.abc import Iterator
from pathlib import Path

import av
import av.error
import imageio.v3
import numpy as np

from pdefit._util.atomic import beside
from pdefit._util.errors import PdefitError, first_line

# length of a movie of many frames in seconds, and bounds on its frames per second
_SECONDS, _SLOWEST, _FASTEST = 10.0, 5, 25
# suffix, encoder, pixel format
_MP4, _GIF = (".mp4", "libx264", "yuv420p"), (".gif", "gif", "rgb8")


def write_movie(path: Path, frames: Iterator[np.ndarray], count: int) -> Path:
    """Write a movie from frames that come one at a time; returns the file, which appears when it is complete.

    An odd width or height is padded with white to an even one, which yuv420p needs. Frames are never resized.

    **Arguments:**

    - `path`: of the movie; its suffix becomes .mp4 or .gif.
    - `frames`: bytes (height, width, 3).
    - `count`: number of frames.
    """
    rate = int(min(max(round(count / _SECONDS), _SLOWEST), _FASTEST))
    suffix, codec, pixels = _MP4 if _MP4[1] in av.codecs_available else _GIF
    path, found = path.with_suffix(suffix), 0
    # in memory: on a full disk the destructor of imageio's plugin would print a traceback
    encoded = io.BytesIO()
    try:
        with imageio.v3.imopen(encoded, "w", plugin="pyav", extension=suffix) as file:
            file.init_video_stream(codec, fps=rate, pixel_format=pixels)
            for frame in frames:
                height, width = frame.shape[:2]
                file.write_frame(np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), constant_values=255))
                found += 1
    except av.error.FFmpegError as error:
        raise PdefitError(f"The encoder {codec} could not write '{path.name}' ({first_line(error)})") from error
    if found != count:
        raise PdefitError(f"'{path.name}' was to hold {count} frames, but got {found}; draw it again")
    with beside(path) as neighbour:
        neighbour.write_bytes(encoded.getbuffer())
    return path
