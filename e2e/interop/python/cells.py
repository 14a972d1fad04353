"""What the Python clients share: one line on the standard output for each cell.

A cell is a feature that a client is tried with. It passes when its function returns;
what it raises is the reason why it doesn't. The reader is table.sh.
"""

import os
import sys
import time
import traceback

CODECS = ["gzip", "snappy", "lz4", "zstd"]
COUNT = 300


def cell(client, feature, function, *args):
    """Runs one cell and reports it: client, feature, pass or fail, why."""
    try:
        note = function(*args) or ""
        report(client, feature, "pass", note)
    except BaseException as fault:  # a client may raise anything, and the next cell must run
        traceback.print_exc(file=sys.stderr)
        report(client, feature, "fail", f"{type(fault).__name__}: {fault}")


def report(client, feature, status, note):
    note = " ".join(str(note).split())
    print(f"{client}\t{feature}\t{status}\t{note}", flush=True)


def heard():
    """Waits until every node has heard of a change: who is asked next need not be who has made it."""
    if int(os.environ.get("NODES", "1")) > 1:
        time.sleep(0.1)


def values(count=COUNT):
    """The values that each cell writes: long enough to be worth compressing."""
    return [f"value {i} ".encode() * 20 for i in range(count)]


def same(got, want, what):
    if got != want:
        raise AssertionError(f"{what}: got {str(got)[:160]}, want {str(want)[:160]}")
