"""Two species, one of which takes up the other by an unknown law."""

import pdefit
from pdefit.terms import AbstractTerm, Formula
from pdefit_reaction.gray_scott import GrayScott


class SubstrateUptake(GrayScott):
    """An activator v that converts a substrate u into itself at a rate that is a function of both.

        u_t = D_u lap u - uptake(u, v) + feed (1 - u)
        v_t = D_v lap v + uptake(u, v) - (feed + kill) v

    One unknown function appears in both equations, since one gains what the other loses. The Gray-Scott equations have
    uptake = u v^2. Two simultaneous reactions cannot be told apart by one function.

    **Arguments:** as in `GrayScott`, and

    - `uptake`: a term of u and v, in 1/time.
    """

    uptake: AbstractTerm = pdefit.parameter(
        default_factory=lambda: Formula("u * v^2", ("u", "v")), unit="1/time", doc="uptake of the substrate"
    )

    def eaten(self, y):
        return self.uptake(y.u, y.v)
