"""Images of fields drawn by plugins: vorticities of vectors, and scalars."""

import dataclasses
import functools
from collections.abc import Mapping

from pdefit._util.plugins import part
from pdefit.data.readers.fields import Film
from pdefit.output.pictures._quantities import Axis, Quantity, View, curl_of, quantities


def viewed(
    film: Film, own: Mapping[str, float] | None = None, like: View | None = None, measured: bool = False
) -> list[Quantity]:
    """Images of the fields whose coordinates name a plugin that draws them, vorticities first.

    **Arguments:**

    - `film`: the film.
    - `own`: the own scalars of this recording, such as its orientation; default none.
    - `like`: the view of another recording, whose side is used for this one; by default the plugin chooses it.
    - `measured`: whether vorticities have all kinds of their vectors; otherwise the system's derived ones are used, if
      there are any.
    """
    every = [q for q in quantities(film) if q.field.view]
    vectors: dict[tuple[str, ...], dict[str, Quantity]] = {}
    for q in every:
        if q.field.vector:
            vectors.setdefault((q.field.vector, *q.field.dims), {})[q.field.component] = q
    found, scalars = list[Quantity](), [q for q in every if not q.field.vector]
    upon: dict[tuple[str, ...], tuple[Quantity, Quantity]] = {}

    def image_of(q: Quantity) -> Quantity:
        return _image(q, part(q.field.view, "view").view(film, q.field, own or {}, like))

    for (_, *dims), parts in vectors.items():
        if {*dims} != {*parts}:
            scalars += parts.values()
            continue
        vector = parts[dims[0]], parts[dims[1]]
        seen = image_of(vector[0])
        assert seen.view is not None
        coarse = seen.view.coarse
        part_of = dataclasses.replace(_image(vector[0], coarse), parts=vector)
        right, up = (
            dataclasses.replace(part_of, combined=functools.partial(coarse.across, is_first))
            for is_first in (True, False)
        )
        upon.setdefault((*dims,), (right, up))
        made = {"parts": vector, "combined": seen.view.curl, "arrows": (right, up), "view": seen.view}
        length = vector[0].field.unit.partition("/")[0]
        curl = curl_of(vector, seen.axes, length, **made)
        # what the system derived is exact; errors of differences cancel beside those of what was observed
        exact = [q for q in scalars if q.name == curl.name and curl.field.reference in (None, *q.field.kinds)]
        if exact and not measured:
            curl = dataclasses.replace(curl, field=exact[0].field, parts=(exact[0],), combined=seen.view.points)
        found.append(curl)
    for q in scalars:
        if q.name not in [curl.name for curl in found]:
            signed = q.field.name in film.derived
            found.append(dataclasses.replace(image_of(q), arrows=upon.get(q.field.dims), is_signed=signed))
    return found


def _image(quantity: Quantity, view: View) -> Quantity:
    """A quantity as the image of a view."""
    rows, columns = view.axes
    axes = Axis("", "", rows), Axis(view.label, "", columns)
    return Quantity(quantity.field, quantity.name, (), axes, parts=(quantity,), combined=view.points, view=view)
