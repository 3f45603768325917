"""A data frame into a database and back: rows of package names, by Arrow's stream.

    python bench/frames.py [--rows 10000000]

Needs `pip install polars` and a release build. The rows look like a list of releases: a name, a
version, a size and a digest; the key is `name NUL version` and the value the rest, about 60 bytes.
The frame goes in and comes out by Arrow's streams. Printed: seconds and the most resident memory of
each step, and whether what came back is equal; then, of a tenth of the rows, what the way by pairs
of Python takes.
"""

import argparse
import os
import resource
import shutil
import tempfile
import threading
import time

import polars

import evendb


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() >> 20


class Step:
    """Seconds of a block, and the greatest resident size in MiB while it ran."""

    def __init__(self, name):
        self.name, self.most, self.over = name, 0, threading.Event()

    def look(self):
        while not self.over.wait(0.02):
            self.most = max(self.most, resident())

    def __enter__(self):
        self.before, self.began = resident(), time.perf_counter()
        threading.Thread(target=self.look, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self.over.set()
        seconds = time.perf_counter() - self.began
        print(f"{self.name:34}{seconds:8.1f} s   resident {self.before:6} MiB, at most {self.most}")


def frame_of(rows):
    number = polars.int_range(rows, eager=True)
    name = ("package-" + (number // 20).cast(polars.String).str.zfill(8)).alias("name")
    version = ("1." + (number % 20).cast(polars.String).str.zfill(2)).alias("version")
    digest = number.hash(seed=1).cast(polars.String).str.zfill(20)
    rest = (digest + digest + ",").alias("digest")
    frame = polars.DataFrame([name, version, rest, (number * 37 % 1_000_003).alias("size")])
    return frame.select(
        polars.concat_str("name", polars.lit("\0"), "version").cast(polars.Binary).alias("key"),
        polars.concat_str("digest", polars.col("size").cast(polars.String))
        .cast(polars.Binary)
        .alias("value"),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    path = tempfile.mkdtemp()
    try:
        with Step("the frame is made"):
            frame = frame_of(rows)
        with evendb.open(path + "/db", memory_budget="512MiB") as db:
            with Step("ingest of the frame"):
                assert db.ingest(frame)["records"] == rows
            with Step("read back by polars"):
                back = polars.DataFrame(db.arrow())
            print("equal:", back.equals(frame.cast(back.schema)))
            with Step("a tenth of it, as pairs"):
                tenth = frame.head(rows // 10)
                db.keyspace("pairs").ingest(zip(tenth["key"].to_list(), tenth["value"].to_list()))
            db.drop_keyspace("pairs")
            with Step("some of them, by a prefix"):
                part = polars.DataFrame(db.arrow(prefix=b"package-0000"))
            print(len(part), "rows;", sum(e.stat().st_size for e in os.scandir(path + "/db")) >> 20,
                  "MiB on the disk")
    finally:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
