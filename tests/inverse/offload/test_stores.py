"""What every store of checkpoints has to keep, in memory or in a file."""

from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pdefit.inverse.offload.stores import CheckpointStore, HostStore
from pdefit.output.store.adjoint_scratch import CheckpointFile

_SLOTS = 4
Make = Callable[[Sequence], CheckpointStore]


@pytest.fixture(params=["host", "file"])
def make(request, tmp_path: Path):
    """Makes stores for states like the given one, and closes them."""
    opened: list[CheckpointStore] = []

    def one(like: Sequence) -> CheckpointStore:
        path = tmp_path / f"{len(opened)}.h5"
        opened.append(HostStore() if request.param == "host" else CheckpointFile(path, like, _SLOTS))
        return opened[-1]

    yield one
    for store in opened:
        store.close()


def _state(generator: np.random.Generator) -> list[np.ndarray]:
    return [generator.normal(size=(3, 5)), generator.integers(0, 9, (), np.int32), generator.normal(size=7)]


def _assert_same(found: Sequence[np.ndarray], expected: Sequence) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        b = np.asarray(b)
        assert isinstance(a, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("seed", range(20))
def test_any_sequence_reads_what_was_written_last(make: Make, seed):
    generator = np.random.default_rng(seed)
    store, kept = make(_state(generator)), {}
    read = []
    for _ in range(200):
        slot = int(generator.integers(_SLOTS))
        match generator.choice(["write", "read", "prefetch"]):
            case "write":
                kept[slot] = _state(generator)
                store.write(slot, kept[slot])
            case "prefetch":
                store.prefetch(slot)
            case "read" if slot in kept:
                read.append((store.read(slot), kept[slot]))
            case "read":
                with pytest.raises(KeyError):
                    store.read(slot)
    # nothing that was handed out changed afterwards
    for found, expected in read:
        _assert_same(found, expected)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "bfloat16", "float16", "complex128", "bool", "int8", "uint64", "float8_e4m3fn"]
)
def test_every_dtype_comes_back_bit_for_bit(make: Make, dtype):
    raw = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 256, (16, 48), np.uint8)
    # any bits: NaN with a payload, infinities, negative zeros
    leaf = raw.view(jnp.dtype(dtype))
    store = make([leaf])
    store.write(0, [leaf])
    _assert_same(store.read(0), [leaf])


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (3, 1, 2, 2)])
def test_leaves_of_any_shape(make: Make, shape):
    state = [np.ones(3), np.full(shape, 2.0)]
    store = make(state)
    store.write(1, state)
    _assert_same(store.read(1), state)


def test_leaves_need_not_be_contiguous(make: Make):
    state = [np.arange(12.0).reshape(3, 4).T, np.arange(10.0)[::2], np.broadcast_to(1.0, (3, 3))]
    store = make(state)
    store.write(0, state)
    _assert_same(store.read(0), state)


def test_a_copy_is_kept_even_of_a_buffer_that_is_donated(make: Make):
    step = jax.jit(lambda y: y + 1, donate_argnums=0)
    y, mine = jnp.zeros(1000), np.zeros(1000)
    store = make([y, mine])
    for slot in range(_SLOTS):
        store.write(slot, [y, mine])
        mine += 1
        y = step(y)
    for slot in range(_SLOTS):
        _assert_same(store.read(slot), [np.full(1000, float(slot))] * 2)


def test_what_is_read_goes_back_into_a_jitted_function(make: Make):
    y = jnp.arange(100.0)
    store = make([y])
    store.write(0, [y])
    (read,) = store.read(0)
    assert jax.jit(lambda y: y.sum(), donate_argnums=())(read) == 4950.0
    store.write(0, [2 * y])
    _assert_same([read], [y])
