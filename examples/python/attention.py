"""Attention by blocks with a running softmax: blocks of keys and values come one after the other for every tile of queries.

    python attention.py [ENGINE]
"""

import sys

import numpy as np
import plimsoll
from plimsoll import In, InOut, Out

TOKENS, WIDTH, TILE = 64, 16, 16

with plimsoll.Device(engine=sys.argv[1] if len(sys.argv) > 1 else None) as device:

    @device.kernel
    def start(total, state):
        total[:] = 0
        state[:, 0] = -1e30
        state[:, 1] = 0

    @device.kernel
    def attend(q, k, v, total, state):
        """What is kept between blocks: the weighted sum, and per row the largest score and the sum of weights."""
        scores = q @ k.T
        for j in range(len(k)):
            most = np.maximum(scores[:, j], state[:, 0])
            keep, weight = np.exp(state[:, 0] - most), np.exp(scores[:, j] - most)
            total[:] = total * keep[:, None] + weight[:, None] * v[j]
            state[:, 1] = state[:, 1] * keep + weight
            state[:, 0] = most

    @device.kernel
    def normalise(total, state, rows):
        if (state[:, 1] <= 0).any():
            raise ValueError("a row has no weights")
        rows[:] = total / state[:, 1:]

    at = np.arange(TOKENS * WIDTH)
    q, k, v = ((at % 11) / 11).astype("f4"), ((at % 7) / 7).astype("f4"), (at % 5).astype("f4")
    result = np.zeros((TOKENS, WIDTH), "f4")

    def attention(o):
        tq, tk, tv = (o.tensor(one.reshape(TOKENS, WIDTH), writable=False) for one in (q, k, v))
        rows = o.tensor(result)
        for i in range(0, TOKENS, TILE):
            with o.scope():
                total, state = o.submit(start, Out((TILE, WIDTH), "f32"), Out((TILE, 2), "f32"))
                for j in range(0, TOKENS, TILE):
                    o.submit(attend, In(tq[i : i + TILE]), In(tk[j : j + TILE]), In(tv[j : j + TILE]), InOut(total), InOut(state))
                o.submit(normalise, In(total), In(state), Out(rows[i : i + TILE]))

    device.run(attention)
    checksum = float((result.reshape(-1).astype("f8") * (at % 13)).sum())
    print(f"attention: {device.report['tasks']} tasks, checksum {checksum:.2f}")
