"""Velocity vectors from pairs of images, by openpiv."""

import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.importers.film.film import IMAGE_OPTIONS, Film
from pdefit.data.importers.options import numbers
from pdefit.data.importers.recording import Recording
from pdefit.data.importers.scale import SCALE_OPTIONS, refuse_unknown, scale_of


def image_pairs(files: list[Path], options: dict[str, str]) -> Recording:
    """Velocities at the middle times of pairs of images, by interrogation windows that shrink and deform.

    Windows overlap by half. Vectors that fail a test are missing.

    **Arguments:**

    - `files`: images, as `pdefit import film` reads them.
    - `options`: `pairs=true` for every image with the next one, `pairs=double` for images 0 and 1, 2 and 3 and so on, `delay`
      apart; `windows=[64,32]` in pixels, and those of films without `mask`.
    """
    try:
        from openpiv import windef  # pyright: ignore[reportMissingImports]
        from openpiv.pyprocess import get_rect_coordinates  # pyright: ignore[reportMissingImports]
        from openpiv.settings import PIVSettings  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise PdefitError('Vectors from images need openpiv; install it with pip install "pdefit[piv]"') from None
    refuse_unknown("piv pairs=true", options, (*SCALE_OPTIONS, *IMAGE_OPTIONS, "pairs", "windows"))
    if "mask" in options or options["pairs"] not in ("true", "double"):
        raise PdefitError(
            f"pairs expects true or double and no mask, but got '{options['pairs']}'; correct the options"
        )
    source, double, scale = Film(files, options), options["pairs"] == "double", scale_of(options)
    windows = [int(n) for n in numbers("windows", options.get("windows", "[64,32]"), "[64,32]", ())]
    if min(windows) < 4 or any(n % 2 for n in windows) or max(windows) > min(source.shape) / 2:
        raise PdefitError(
            f"windows expects even numbers of pixels from 4 to half of the image ({min(source.shape) // 2}), but got "
            f"{windows}; choose others"
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
    kept = source.numbers
    if len(kept) < 2:
        raise PdefitError("Vectors need two images, but there is one; name more files")
    if double and (len(kept) % 2 or source.has_gaps):
        raise PdefitError(
            f"pairs=double needs an even number of images and no gap in their numbers, but there are {len(kept)}; choose with "
            f"frames=0:N, or add the missing ones"
        )
    if double:
        delay = scale.delay or source.frame
        between, ts = np.full(len(kept) // 2, delay), source.frame * (kept[::2] // 2) + delay / 2
    else:
        between, ts = source.frame * np.diff(kept), source.frame * (kept[:-1] + kept[1:]) / 2
    x, y = get_rect_coordinates((source.shape[0], source.shape[1]), windows[-1], windows[-1] // 2)
    speed = f"{source.length_unit}/{source.time_unit}"
    source.notes.append(
        f"Vectors are by openpiv in windows of {', '.join(map(str, windows))} pixels that overlap by half; those that fail its "
        f"tests are missing. v is positive upward; x = y = 0 is the lower left corner."
    )

    def frames() -> Iterator[Mapping[str, np.ndarray]]:
        images, last = source.images(), None
        for time in between:
            last = next(images) if double or last is None else last
            first, last = last, next(images)
            u, v = (values[::-1].T for values in _vectors(windef, first, last, settings))
            yield {"u": u * source.pixel[0] / time, "v": -v * source.pixel[1] / time}

    return Recording(
        ts=ts,
        time_unit=source.time_unit,
        axes={"x": x[0] * source.pixel[0], "y": (source.shape[0] - y[::-1, 0]) * source.pixel[1]},
        length_unit=source.length_unit,
        units={"u": speed, "v": speed},
        frames=frames(),
        notes=source.notes,
        source=[file.name for file in source.source],
        title="Velocities of pairs of images",
    )


def _vectors(windef: Any, first: np.ndarray, last: np.ndarray, settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """Displacements along columns and rows in pixels. NaN where a test fails, or an image has no contrast."""
    first, last = (np.where(np.isfinite(image), image, 0.0) for image in (first, last))
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
                shape = windef.get_field_shape(first.shape, settings.windowsizes[-1], settings.overlap[-1])
                return np.full(shape, np.nan), np.full(shape, np.nan)
    size, step = settings.windowsizes[-1], settings.overlap[-1]
    for image in (first, last):
        windows = np.lib.stride_tricks.sliding_window_view(image, (size, size))[::step, ::step]
        failed = failed | (np.ptp(windows, axis=(2, 3)) == 0)
    return np.where(failed, np.nan, np.ma.filled(u, np.nan)), np.where(failed, np.nan, np.ma.filled(v, np.nan))
