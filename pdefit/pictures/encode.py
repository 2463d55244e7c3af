"""From frames to a file: H.264 in MP4, or a GIF where there is no ffmpeg."""

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pdefit.errors import PdefitError

# many frames make a film of about this length, few one that is not a flicker
_SECONDS, _SLOWEST, _FASTEST = 10.0, 5, 25
_H264 = ["-preset", "superfast", "-crf", "20", "-movflags", "+faststart"]


def write_movie(path: Path, frames: Iterator[np.ndarray], count: int, size: tuple[int, int]) -> Path:
    """Write `count` frames, bytes (height, width, 3) that come one at a time; `size` is (width, height). Returns where they
    are: in `path` (.mp4; H.264, yuv420p, padded with white to an even size, never resized), or beside it as a GIF."""
    rate = int(min(max(round(count / _SECONDS), _SLOWEST), _FASTEST))
    padded = tuple(n + n % 2 for n in size)
    append: Callable[[Any], None]
    try:
        import imageio_ffmpeg

        imageio_ffmpeg.get_ffmpeg_exe()
    # ImportError, and RuntimeError where the package came without its program
    except (ImportError, RuntimeError):
        return _write_gif(path.with_suffix(".gif"), frames, count, rate)
    neighbour = path.with_name(f".{path.stem}.partial.mp4")
    try:
        writer: Any = imageio_ffmpeg.write_frames(
            str(neighbour), padded, fps=rate, codec="libx264", pix_fmt_in="rgb24", pix_fmt_out="yuv420p", quality=None,
            macro_block_size=2, ffmpeg_log_level="error", output_params=_H264,
        )  # fmt: skip
        writer.send(None)
        append = writer.send
        for frame in frames:
            append(_pad(frame, padded))
        writer.close()
        _check(path.name, mp4_frames(neighbour), count)
        os.replace(neighbour, path)
    except OSError as error:
        raise PdefitError(f"ffmpeg could not write '{path}' ({str(error).strip().splitlines()[-1]})") from None
    finally:
        neighbour.unlink(missing_ok=True)
    return path


def mp4_frames(path: Path) -> int:
    """How many frames an MP4 file with one video track holds, by its table of sample sizes."""
    data = path.read_bytes() if path.exists() else b""
    place = data.find(b"stsz")
    # the name of the box, version and flags, a common size, the number of samples
    return struct.unpack(">I", data[place + 12 : place + 16])[0] if place >= 0 else 0


def _write_gif(path: Path, frames: Iterator[np.ndarray], count: int, rate: int) -> Path:
    """A GIF that repeats; its colours are reduced to 256."""
    from PIL import Image

    neighbour = path.with_name(f".{path.stem}.partial.gif")
    try:
        pictures = (Image.fromarray(np.ascontiguousarray(frame)).quantize(256) for frame in frames)
        # frames that are alike become one, which would change their number
        next(pictures).save(
            neighbour, save_all=True, append_images=pictures, duration=round(1000 / rate), loop=0, optimize=False
        )
        _check(path.name, count if neighbour.stat().st_size else 0, count)
        os.replace(neighbour, path)
    finally:
        neighbour.unlink(missing_ok=True)
    return path


def _pad(frame: np.ndarray, padded: tuple[int, ...]) -> np.ndarray:
    width, height = padded
    if frame.shape[:2] == (height, width):
        return np.ascontiguousarray(frame)
    out = np.full((height, width, 3), 255, np.uint8)
    out[: frame.shape[0], : frame.shape[1]] = frame
    return out


def _check(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise PdefitError(f"'{name}' was to hold {expected} frames, but has {found}; look for space on the disk")
