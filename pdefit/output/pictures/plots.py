"""Figures of studies for notebooks, from a result or from a run, on given axes or in a new figure."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from pdefit.output.pictures.design import DESIGN
from pdefit.output.pictures.discovery import DISCOVERY
from pdefit.output.pictures.identifiability import IDENTIFIABILITY
from pdefit.output.pictures.profiles import JOINT_PROFILES, PROFILES
from pdefit.output.pictures.studies import ADJOINTS, SENSITIVITY
from pdefit.output.pictures.study import Source

Given = Axes | Sequence[Axes] | None


def profiles(found: Source, ax: Given = None) -> list[Axes]:
    """Increase of J against each scalar, with the parabola of the Gauss-Newton matrix.

        found = pdefit.profiles(fit.functional, fit.theta, ["D"])
        fig, ax = plt.subplots()
        pdefit.plot.profiles(found, ax)

    **Arguments:**

    - `found`: the result of `pdefit.profiles`, or the directory of a run with profiles.json.
    - `ax`: one or more axes, for as many scalars; default a new figure.
    """
    return PROFILES.show(found, ax)


def joint_profile(found: Source, ax: Given = None) -> list[Axes]:
    """Increase of J over two scalars, with the edge of their joint 95 % region.

    **Arguments:**

    - `found`: the result of `pdefit.joint_profile`, or the directory of a run with joint_profiles.json.
    - `ax`: one or more axes, for as many pairs; default a new figure.
    """
    return JOINT_PROFILES.show(found, ax)


def identifiability(found: Source, ax: Given = None) -> list[Axes]:
    """Controls that compensate each other, the eigenvalues, and the projections against the threshold.

    **Arguments:**

    - `found`: the result of `pdefit.identify`, or the directory of a run with identifiability.json.
    - `ax`: one or more axes, for as many panels; default a new figure.
    """
    return IDENTIFIABILITY.show(found, ax)


def design(found: Source, ax: Given = None) -> list[Axes]:
    """Expected intervals, and the gain from one more frame, other cadences, and a second observation of a place.

    **Arguments:**

    - `found`: the result of `pdefit.design`, or the directory of a run with design.json.
    - `ax`: one or more axes, for as many panels; default a new figure.
    """
    return DESIGN.show(found, ax)


def sensitivity(found: Source, ax: Given = None) -> list[Axes]:
    """Effect of each parameter on the observations.

    **Arguments:**

    - `found`: the result of `pdefit.sensitivity`, or the directory of a run with sensitivity.json.
    - `ax`: the axes; default a new figure.
    """
    return SENSITIVITY.show(found, ax)


def adjoints(found: Source, ax: Given = None) -> list[Axes]:
    """Error, time and memory of each sensitivity algorithm, and the error of finite differences against the step.

    **Arguments:**

    - `found`: the result of `pdefit.compare`, or the directory of a run with compare.json.
    - `ax`: one or more axes, for as many panels; default a new figure.
    """
    return ADJOINTS.show(found, ax)


def discovery(found: Source, ax: Given = None) -> list[Axes]:
    """Criterion of each set of terms against its number of terms, and its error at held-out frames.

    **Arguments:**

    - `found`: the result of `pdefit.discover`, or the directory of a run with discovery.json.
    - `ax`: one or two axes; default a new figure.
    """
    return DISCOVERY.show(found, ax)
