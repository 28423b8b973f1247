"""A five-point stencil over a grid, by tiles: every tile of a step waits for its neighbours of the step before.

    python stencil.py [ENGINE]      such as `stencil.py virtual`; PLIMSOLL_RECORD=profile records it
"""

import sys

import numpy as np
import plimsoll
from plimsoll import In, Out

SIDE, TILE, STEPS = 64, 16, 8

with plimsoll.Device(engine=sys.argv[1] if len(sys.argv) > 1 else None) as device:

    @device.kernel
    def step(around, to, top, left):
        """`around` is the tile and what surrounds it, as far as there is any; then its distance from the view's edges."""
        rows, columns = to.shape
        wide = np.zeros((around.shape[0] + 2, around.shape[1] + 2), "f4")
        wide[1:-1, 1:-1] = around
        total = wide[1:-1, 1:-1] + wide[:-2, 1:-1]
        total = total + wide[2:, 1:-1]
        total = total + wide[1:-1, :-2]
        total = total + wide[1:-1, 2:]
        to[:] = (total / np.float32(5))[top : top + rows, left : left + columns]

    grids = [(np.arange(SIDE * SIDE) % 7).astype("f4").reshape(SIDE, SIDE), np.zeros((SIDE, SIDE), "f4")]

    def stencil(o):
        grid = [o.tensor(one) for one in grids]
        for t in range(STEPS):
            with o.scope():
                for i in range(0, SIDE, TILE):
                    for j in range(0, SIDE, TILE):
                        top, left = int(i > 0), int(j > 0)
                        around = grid[t % 2][i - top : i + TILE + 1, j - left : j + TILE + 1]
                        to = grid[(t + 1) % 2].tile((i // TILE, j // TILE), (TILE, TILE))
                        o.submit(step, In(around), Out(to), top, left)

    device.run(stencil)
    weights = np.arange(SIDE * SIDE) % 13
    checksum = float((grids[STEPS % 2].reshape(-1).astype("f8") * weights).sum())
    print(f"stencil: {device.report['tasks']} tasks, checksum {checksum:.3f}")
