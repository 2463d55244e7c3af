"""Batches: ways to run many trajectories of equal shape."""

from pdefit.integrate.loop.batch import AbstractBatch as AbstractBatch
from pdefit.integrate.loop.batch import Chunk as Chunk
from pdefit.integrate.loop.batch import Devices as Devices
from pdefit.integrate.loop.batch import Loop as Loop
from pdefit.integrate.loop.batch import Vmap as Vmap
