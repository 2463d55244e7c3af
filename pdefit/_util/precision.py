"""Double precision, without which sums over a record lose digits."""

import jax

from pdefit._util.errors import PdefitError


def demand_float64() -> None:
    """Refuse to go on where JAX turns every float64 into a float32."""
    if not jax.config.read("jax_enable_x64"):
        raise PdefitError(
            'pdefit sums in float64, which JAX has switched off; begin with jax.config.update("jax_enable_x64", True), before '
            "any array is made"
        )
