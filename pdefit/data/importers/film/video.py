"""Films in video files."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import imageio.v3
import numpy as np

from pdefit._util.errors import PdefitError
from pdefit.data.importers.film.images import Images, reading

# formats of grey pixels; all others are decoded to colours
_GREY = {"gray", "gray16le", "gray16be"}


def video(file: Path, options: Mapping[str, str]) -> Images:
    """Images of a video, such as AVI or MP4, in the order in which they are shown.

    The number of images is counted, since that in the header may be wrong.

    **Arguments:**

    - `file`: the video.
    - `options`: with `frame` or `scale`: a video states how fast it is shown, which need not be how fast it was taken.
    """
    about = imageio.v3.immeta(file, plugin="pyav")
    if not {"frame", "scale"} & options.keys():
        raise PdefitError(
            f"it is shown with {about.get('fps', 'unknown')} images a second, which may differ from the camera's rate; add "
            f"pixel=LENGTH (such as 19.53um) and frame=TIME (such as 40ms), or scale=unknown"
        )
    form = str(about.get("video_format", about.get("pix_fmt"))).split("(")[0]
    form = form if form in _GREY else "rgb24"

    def images() -> Iterator[np.ndarray]:
        return imageio.v3.imiter(file, plugin="pyav", format=form)

    def read(wanted: Iterable[int]) -> Iterator[np.ndarray]:
        left = list(wanted)
        with reading(file):
            for k, image in enumerate(images()):
                if not left:
                    return
                if k == left[0]:
                    yield image
                    left.pop(0)

    first = next(images())
    return Images((sum(1 for _ in images()), *first.shape), first.dtype, read)
