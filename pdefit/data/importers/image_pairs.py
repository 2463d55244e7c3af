"""Velocity vectors from pairs of images, by openpiv."""

import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.importers.film import FILM_OPTIONS, film
from pdefit.data.importers.options import choice, refuse_unknown, scale_of, whole_numbers
from pdefit.data.importers.recording import Recording


def image_pairs(files: list[Path], options: dict[str, str]) -> Recording:
    """Velocities at the middle times of image pairs, by interrogation windows that shrink and deform.

    Windows overlap by half. Vectors that fail a test are missing.

    **Arguments:**

    - `files`: images, as `pdefit import film` reads them.
    - `options`: `pairs=true` for every image with the next one, `pairs=double` for images 0 and 1, 2 and 3 and so on,
      `delay` apart; `windows=[64,32]` in pixels, and the options of films except `mask`.
    """
    try:
        from openpiv import windef  # pyright: ignore[reportMissingImports]
        from openpiv.pyprocess import get_rect_coordinates  # pyright: ignore[reportMissingImports]
        from openpiv.settings import PIVSettings  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise PdefitError('Vectors from images need openpiv; install it with pip install "pdefit[piv]"') from None
    refuse_unknown("piv pairs=true", options, sorted({*FILM_OPTIONS, "pairs", "windows"} - {"mask", "name"}))
    double = choice(options, "pairs", ("true", "double")) == "double"
    # y of a film runs up
    images = film(files, {key: text for key, text in options.items() if key not in ("pairs", "windows")})
    (ts, time_unit), (x, length_unit), (y, _) = images.axes.values()
    windows = whole_numbers("windows", options.get("windows", "[64,32]"), "[64,32]", ())
    most = min(x.size, y.size) // 2
    if min(windows) < 4 or any(n % 2 for n in windows) or max(windows) > most:
        raise PdefitError(
            f"windows expects even numbers of pixels from 4 to half of the image ({most}), but got {windows}; choose others"
        )
    settings = PIVSettings(
        windowsizes=tuple(windows),
        overlap=tuple(n // 2 for n in windows),
        num_iterations=len(windows),
        normalized_correlation=True,
        sig2noise_method="peak2peak",
        # displacements beyond half a window cannot be seen
        min_max_u_disp=(-windows[0] / 2, windows[0] / 2),
        min_max_v_disp=(-windows[0] / 2, windows[0] / 2),
        # medians of 5 x 5 vectors
        median_size=2,
    )
    if ts.size < 2:
        raise PdefitError("Vectors need two images, but there is one; name more files")
    between, times, step = np.diff(ts), (ts[:-1] + ts[1:]) / 2, ts[1] - ts[0]
    if double:
        if ts.size % 2 or np.any(np.abs(between - step) > 1e-6 * step):
            raise PdefitError(
                f"pairs=double needs an even number of images and no gap in their numbers, but there are {ts.size}; choose "
                f"with frames=0:N, or add the missing ones"
            )
        # a frame of the recording is a pair, not an image
        between = np.full(ts.size // 2, scale_of(options).delay or step)
        times = step * (np.round(ts[::2] / step) // 2) + between / 2
    columns, rows = get_rect_coordinates((y.size, x.size), windows[-1], windows[-1] // 2)
    # in place of the note on rows
    images.notes[-1] = (
        f"Vectors are by openpiv in windows of {', '.join(map(str, windows))} pixels that overlap by half; those that fail its "
        f"tests are missing. v is positive upward; x = y = 0 is the lower left corner."
    )
    # the first position is half a pixel
    width, height = 2 * x[0], 2 * y[0]

    def frames() -> Iterator[Mapping[str, np.ndarray]]:
        downward, last = (image.T[::-1] for frame in images.frames for image in frame.values()), None
        for time in between:
            first = next(downward) if double or last is None else last
            last = next(downward)
            u, v = (values[::-1].T for values in _vectors(windef, first, last, settings))
            yield {"u": u * width / time, "v": -v * height / time}

    axes = {
        "time": (times, time_unit),
        "x": (columns[0] * width, length_unit),
        "y": ((y.size - rows[::-1, 0]) * height, length_unit),
    }
    units = dict.fromkeys("uv", f"{length_unit}/{time_unit}")
    return Recording(axes, units, frames(), images.notes, images.source, "Velocities of pairs of images")


def _vectors(windef: Any, first: np.ndarray, last: np.ndarray, settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """Displacements along columns and rows in pixels; NaN if a test fails, or if an image has no contrast."""
    first, last = (np.where(np.isfinite(image), image, 0.0) for image in (first, last))
    size, step = settings.windowsizes[-1], settings.overlap[-1]
    # openpiv prints what it finds
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        x, y, u, v, ratio = windef.first_pass(first, last, settings)
        failed = windef.validation.typical_validation(u, v, ratio, settings)
        # the next pass starts from values that are filled in; those of the last one are taken out again
        u, v = (np.ma.array(values) for values in windef.filters.replace_outliers(u, v, failed))
        for number in range(1, settings.num_iterations):
            try:
                x, y, u, v, _, failed = windef.multipass_img_deform(first, last, number, x, y, u, v, settings)
            # openpiv has no error of its own for pairs in which nothing passes
            except ValueError:
                nothing = np.full(windef.get_field_shape(first.shape, size, step), np.nan)
                return nothing, nothing
    for image in (first, last):
        windows = np.lib.stride_tricks.sliding_window_view(image, (size, size))[::step, ::step]
        failed = failed | (np.ptp(windows, axis=(2, 3)) == 0)
    u, v = (np.where(failed, np.nan, np.ma.filled(values, np.nan)) for values in (u, v))
    return u, v
