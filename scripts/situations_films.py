"""What an instrument makes of a film without noise, for `scripts/situations.py`."""

import numpy as np
from scipy import ndimage, signal

Films = dict[str, np.ndarray]


def _ranges(films: Films) -> dict[str, float]:
    return {name: float(np.ptp(film)) for name, film in films.items()}


def white(films: Films, rng: np.random.Generator, size: float = 0.02) -> Films:
    """White noise, as a part of the range of each film."""
    ranges = _ranges(films)
    return {name: film + size * ranges[name] * rng.normal(size=film.shape) for name, film in films.items()}


def correlated(films: Films, rng: np.random.Generator) -> Films:
    """Noise of 2 % with a correlation of 0.6 from frame to frame."""
    noise = {name: rng.standard_normal((50 + len(film), *film.shape[1:])) for name, film in films.items()}
    long = {name: signal.lfilter([0.8], [1.0, -0.6], one, axis=0)[50:] for name, one in noise.items()}
    return {name: film + 0.02 * _ranges(films)[name] * long[name] for name, film in films.items()}


def multiplicative(films: Films, rng: np.random.Generator) -> Films:
    """Noise of 10 % of the value, and 0.2 % of the range."""
    return {
        n: white({n: film}, rng, 0.002)[n] + 0.1 * film * rng.standard_normal(film.shape) for n, film in films.items()
    }


def outlier(films: Films, rng: np.random.Generator) -> Films:
    """Noise of 2 %, but of 20 % in one frame."""
    at = int(rng.integers(2, len(next(iter(films.values()))) - 2))
    many = white(films, rng, 0.2)
    return {name: np.where(_frames(film) == at, many[name], film) for name, film in white(films, rng).items()}


def drifting(films: Films, rng: np.random.Generator) -> Films:
    """Noise of 2 %, and a baseline that rises by 4 %."""
    rise = {name: 0.04 * _ranges(films)[name] * _frames(film) / (len(film) - 1) for name, film in films.items()}
    return {name: film + rise[name] for name, film in white(films, rng).items()}


def _frames(film: np.ndarray) -> np.ndarray:
    return np.arange(len(film)).reshape(-1, *[1] * (film.ndim - 1))


def blur(film: np.ndarray) -> np.ndarray:
    """A film as an instrument sees it whose points are 0.8 cells wide."""
    return ndimage.gaussian_filter(film, (0.0, *(0.8,) * (film.ndim - 1)), mode="nearest")


def blurred(films: Films, rng: np.random.Generator) -> Films:
    """Noise of 1 % on a film that is blurred."""
    return white({name: blur(film) for name, film in films.items()}, rng, 0.01)


def exact(films: Films, rng: np.random.Generator) -> Films:
    """The film itself."""
    return films


def six_digits(films: Films, rng: np.random.Generator) -> Films:
    """The film as a table of six digits after the point."""
    return {name: np.round(film, 6) for name, film in films.items()}
