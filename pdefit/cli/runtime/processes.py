"""Processes of one SLURM step that share a fit. Process 0 leads: it alone writes and prints. The other processes follow.

Each follower keeps a connection to process 0. It carries a few lines: JAX's port, the run, the start of the fit, and
the common exit code. A connection that ends without such a code means that a process died. The system of a killed
process closes it at once; a lost machine is noticed in less than a minute. JAX by itself would wait for ever with gloo,
and otherwise notice after minutes.
"""

import json
import logging
import os
import queue
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from shlex import quote
from typing import Any

from pdefit._util import interrupts
from pdefit._util.errors import PdefitError

log = logging.getLogger("pdefit")

# what srun sets, and JAX reads
_STEP = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS")
# ports that systems do not give away by themselves, and seconds in which all processes must have started
_PORTS, _START = range(61440, 65536), 300.0
# seconds of silence, between questions, and the number of these without an answer, after which a machine is gone
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 6))

_peers: list[socket.socket] = []
_lines: queue.SimpleQueue[Any] = queue.SimpleQueue()
_parted = threading.Event()
# the run for the sentence about a death, and where a follower, which is silent, says it
_run, _terminal = "", 2


def tasks() -> int:
    """Number of tasks of the SLURM step of this process; 1 outside a step."""
    return int(os.environ["SLURM_STEP_NUM_TASKS"]) if all(name in os.environ for name in _STEP) else 1


def joined() -> bool:
    """True if this process shares a fit with other processes."""
    return bool(_peers)


def follows() -> bool:
    """True if another process leads the shared fit."""
    return bool(_peers) and os.environ["SLURM_PROCID"] != "0"


def join() -> None:
    """Connect to the other processes of the step, for JAX too, which must not have started; it uses all their devices."""
    import jax

    global _terminal
    number = int(os.environ["SLURM_PROCID"])
    # the first of node[003-007,9],other
    host = "".join(re.match(r"([^,\[]+)(?:\[(\w+))?", os.environ["SLURM_STEP_NODELIST"]).groups(""))  # pyright: ignore
    step = int(os.environ["SLURM_JOB_ID"]) + int(os.environ.get("SLURM_STEP_ID", 0))
    port = _PORTS[step % len(_PORTS)]
    # before those of JAX, because a system closes the connections of a killed process in their order
    try:
        _peers.extend(_accepted(port, tasks() - 1) if number == 0 else [_connected(host, port)])
    except OSError as error:
        raise PdefitError(
            f"Process {number} of {tasks()} does not find the others at {host}, port {port} ({error}); start all of them by "
            f"one srun"
        ) from None
    for peer in _peers:
        threading.Thread(target=_listen, args=(peer,), daemon=True).start()
    if number == 0:
        with socket.create_server(("", 0)) as free:
            service = free.getsockname()[1]
        tell(service)
    else:
        service, _terminal = heard(), os.dup(2)
        # whatever ends a process without its will, JAX writes pages about it
        with open(os.devnull, "w") as nothing:
            for stream in (1, 2):
                os.dup2(nothing.fileno(), stream)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # srun may show each task its own GPU only, which is then number 0
    alone = "CUDA_VISIBLE_DEVICES" in os.environ and "," not in os.environ["CUDA_VISIBLE_DEVICES"]
    jax.distributed.initialize(f"{host}:{service}", tasks(), number, [0] if alone else None)
    # all together, because each waits for the devices of the others
    jax.devices()


def call(run: str) -> None:
    """Tell the following processes which run they work on; they begin to build its experiment."""
    global _run
    _run = run
    tell(run)


def called() -> str:
    """The run that this following process works on."""
    global _run
    _run = heard()
    return _run


def tell(word: Any) -> None:
    """Send a text or number to all following processes, if any."""
    for peer in _peers:
        with suppress(OSError):
            peer.sendall(json.dumps([word]).encode() + b"\n")


def heard() -> Any:
    """Wait for the next message from process 0."""
    return _lines.get()


def part() -> None:
    """End the shared work once all processes are here; each continues, or ends, separately."""
    import jax

    _parted.set()
    jax.distributed.shutdown()
    for peer in _peers:
        peer.close()
    _peers.clear()


@contextmanager
def together() -> Iterator[None]:
    """Context manager of shared work. If one process is lost, all end; after it the processes separate."""
    if not _peers:
        yield
        return
    import jax

    try:
        yield
    except jax.errors.JaxRuntimeError:
        lost()
        raise
    part()


def dismiss(code: int) -> None:
    """End the processes that follow this one, with an exit code."""
    _parted.set()
    if not follows():
        tell({"end": code})


def end(code: int) -> None:
    """End this process at once, with its followers, if they share a fit; no effect otherwise."""
    if _peers:
        dismiss(code)
        # JAX would wait for the others
        interrupts.leave(code)


def speak() -> None:
    """Let a following process write on the terminal again."""
    if _terminal != 2:
        os.dup2(_terminal, 2)


def lost() -> None:
    """Wait for the message about a lost process after an evaluation failed because of it."""
    time.sleep(5.0 if _peers else 0.0)


def _accepted(port: int, count: int) -> list[socket.socket]:
    with socket.create_server(("", port)) as server:
        server.settimeout(_START)
        peers = [server.accept()[0] for _ in range(count)]
    return [_with_keepalive(peer) for peer in peers]


def _connected(host: str, port: int) -> socket.socket:
    begin = time.monotonic()
    while True:
        try:
            return _with_keepalive(socket.create_connection((host, port), _START))
        except OSError:
            if time.monotonic() - begin > _START:
                raise
            time.sleep(0.1)


def _with_keepalive(peer: socket.socket) -> socket.socket:
    peer.settimeout(None)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return peer


def _listen(peer: socket.socket) -> None:
    """Store the messages of a peer, and end this process with it."""
    with suppress(OSError, ValueError), peer.makefile(encoding="utf-8") as lines:
        for line in lines:
            (word,) = json.loads(line)
            if isinstance(word, dict):
                os._exit(word["end"])
            _lines.put(word)
    if not _parted.is_set():
        again = f"; `pdefit resume {quote(_run)}` under the same srun goes on" if _run else ""
        sentence = f"another process of this fit has ended, and so this one does{again}"
        # for all else it is a `kill -9`, which the files of a run survive
        os.write(_terminal, f"error: {sentence}\n".encode())
        log.error(sentence)
        os._exit(1)
