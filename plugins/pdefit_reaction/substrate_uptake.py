"""Two species of which one takes up the other by a law that nobody knows."""

import pdefit
from pdefit.terms import AbstractTerm, Formula
from pdefit_reaction.gray_scott import GrayScott


class SubstrateUptake(GrayScott):
    """An activator v that turns a substrate u into itself at a rate that is a function of both.

        u_t = D_u lap u - uptake(u, v) + feed (1 - u)
        v_t = D_v lap v + uptake(u, v) - (feed + kill) v

    What one loses the other gains: one unknown function stands in both equations. The Gray-Scott equations are
    uptake = u v^2. Not for species that react in two ways at once, which this one function cannot tell apart.

    **Arguments:** those of `GrayScott`, and

    - `uptake`: a term of u and v, in 1/time.
    """

    uptake: AbstractTerm = pdefit.parameter(
        default_factory=lambda: Formula("u * v^2", ("u", "v")), unit="1/time", doc="uptake of the substrate"
    )

    def eaten(self, y):
        return self.uptake(y.u, y.v)
