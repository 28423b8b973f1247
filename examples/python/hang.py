"""A kernel that does not return, and how a program hears of it: the run has a deadline.

    python hang.py      ends with code 23 and an explanation
"""

import sys
import threading

import plimsoll
from plimsoll import Out

may_return = threading.Event()

# Without `lend=False` the calling thread would be the one that is stuck.
with plimsoll.Device(workers=2, lend=False) as device:

    @device.kernel
    def stuck(x):
        while not may_return.is_set():
            pass
        x[0] = 1

    def hang(o):
        x = o.submit(stuck, Out(1, "i32"))
        try:
            o.read(x)
        finally:
            may_return.set()  # so that the example ends: a run returns when its kernels have

    try:
        device.run(hang, deadline=0.05)
    except plimsoll.Error as error:
        if error.code != 23:
            raise
        print(f"hang: {error.name} ({error.code})")
    else:
        sys.exit("expected the deadline")
