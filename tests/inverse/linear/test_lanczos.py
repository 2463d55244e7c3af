"""Bounds of Lanczos' method against dense eigenpairs."""

import numpy as np
import pytest

from pdefit.inverse.linear.lanczos import unseen_by_products


def test_products_bound_what_is_unseen():
    """On either side of the exact length after every product, with a spectrum as wide as that of film and hidden gates."""
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(200, 200)))[0]
    values, start = 10.0 ** rng.uniform(-8, 11, 200), np.eye(200)[0]
    exact = start @ (vectors / (values + 1)) @ vectors.T @ start
    widths = []
    for products in (3, 10, 30, 60, 200):
        found = unseen_by_products(
            lambda v: vectors @ (values * (v @ vectors)), start, 1.0, np.ones(1), exact, products
        )
        assert found.least <= exact * (1 + 1e-6) and found.most >= exact * (1 - 1e-6)
        assert found.curve[0] == pytest.approx(found.least) and start @ found.part == pytest.approx(found.least)
        widths.append(found.most - found.least)
    assert widths[0] > 0.1 and widths[-1] < 0.03 * exact and np.all(np.diff(widths) <= 0)
