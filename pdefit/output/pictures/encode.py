"""From frames to a file: H.264 in MP4, or a GIF where there is no ffmpeg."""

import contextlib
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pdefit._util.atomic import beside
from pdefit._util.errors import PdefitError

# many frames make a film of about this length, few one that is not a flicker
_SECONDS, _SLOWEST, _FASTEST = 10.0, 5, 25
_H264 = ("-c:v", "libx264", "-preset", "superfast", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart")


def write_movie(path: Path, frames: Iterator[np.ndarray], count: int, size: tuple[int, int]) -> Path:
    """Write `count` frames, bytes (height, width, 3) that come one at a time; `size` is (width, height). Returns where they
    are: in `path` (.mp4; H.264, yuv420p, padded with white to an even size, never resized), or beside it as a GIF."""
    rate = int(min(max(round(count / _SECONDS), _SLOWEST), _FASTEST))
    program = _ffmpeg()
    if program is None:
        return _write_gif(path.with_suffix(".gif"), frames, count, rate)
    with beside(path) as neighbour:
        _encode(program, neighbour, frames, rate, (size[0] + size[0] % 2, size[1] + size[1] % 2))
        _check(path.name, mp4_frames(neighbour), count)
    return path


def _ffmpeg() -> str | None:
    """The program that comes with imageio-ffmpeg, or the system's."""
    try:
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    # RuntimeError where the package came without its program
    except (ImportError, RuntimeError):
        return None


def _encode(program: str, path: Path, frames: Iterator[np.ndarray], rate: int, size: tuple[int, int]) -> None:
    """Send raw frames through a pipe to ffmpeg."""
    source = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}", "-r", str(rate), "-i", "-")
    command = [program, "-y", "-loglevel", "error", *source, *_H264, str(path)]
    # not imageio_ffmpeg.write_frames: it forks, which a process with threads of JAX must not
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=told)
        assert process.stdin is not None
        try:
            for frame in frames:
                process.stdin.write(_pad(frame, size).data)
            process.stdin.close()
            process.wait()
        except BrokenPipeError:
            process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            # what is left in the buffer of a pipe that broke
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        if process.returncode:
            told.seek(0)
            said = told.read().decode(errors="replace").strip().splitlines() or ["it did not say why"]
            raise PdefitError(f"ffmpeg could not write the movie ({said[-1]})")


def mp4_frames(path: Path) -> int:
    """How many frames an MP4 file with one video track holds, by its table of sample sizes."""
    data = path.read_bytes() if path.exists() else b""
    place = data.find(b"stsz")
    # the name of the box, version and flags, a common size, the number of samples
    return struct.unpack(">I", data[place + 12 : place + 16])[0] if place >= 0 else 0


def _write_gif(path: Path, frames: Iterator[np.ndarray], count: int, rate: int) -> Path:
    """A GIF that repeats; its colours are reduced to 256."""
    from PIL import Image

    pictures = (Image.fromarray(np.ascontiguousarray(frame)).quantize(256) for frame in frames)
    with beside(path) as neighbour:
        # neighbours that are alike become one, shown longer: frames cannot be counted
        next(pictures).save(
            neighbour, save_all=True, append_images=pictures, duration=round(1000 / rate), loop=0, optimize=False
        )
        _check(path.name, count if neighbour.stat().st_size else 0, count)
    return path


def _pad(frame: np.ndarray, padded: tuple[int, int]) -> np.ndarray:
    width, height = padded
    if frame.shape[:2] == (height, width):
        return np.ascontiguousarray(frame)
    out = np.full((height, width, 3), 255, np.uint8)
    out[: frame.shape[0], : frame.shape[1]] = frame
    return out


def _check(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise PdefitError(f"'{name}' was to hold {expected} frames, but has {found}; look for space on the disk")
