# SPDX-License-Identifier: BSD-3-Clause
"""frames.py: frames of a simulation go to a process that draws them.

Rank 0 solves the heat equation on a plate and writes every frame into the memory of rank 1, where
it is drawn to a PNG while rank 0 computes on. If drawing is slower, the simulation waits for
memory: that is all of the flow control.

    mpirun -n 2 python3 frames.py [--size N] [--frames N] [--steps N] [--output FILE] [--check]

FILE has one %d for the number of the frame, which travels as the tag of its message.
"""

import argparse
import struct
import zlib

import numpy

import rpipe

HOTTEST = 100.0


def step(plate):
    """One step of the heat equation; the border keeps its temperature."""
    inside = plate[1:-1, 1:-1]
    around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
    inside += 0.2 * (around - 4.0 * inside)


def simulate(options, use):
    """Calls use(number, plate) for each frame."""
    plate = numpy.zeros((options.size, options.size))
    plate[0, :] = HOTTEST
    plate[options.size // 3, options.size // 4 : options.size // 2] = HOTTEST
    for number in range(options.frames):
        for _ in range(options.steps):
            step(plate)
        use(number, plate)


def colors(frame):
    """Temperatures as pixels: black, red, yellow, white."""
    scaled = numpy.clip(frame / HOTTEST, 0, 1)[..., numpy.newaxis] * 3 - numpy.arange(3)
    return (numpy.clip(scaled, 0, 1) * 255).round().astype(numpy.uint8)


def write_png(name, pixels):
    """Writes (height, width, 3) bytes as a PNG."""

    def chunk(kind, data):
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    height, width, _ = pixels.shape
    # each row begins with the number of its filter: 0, none
    rows = numpy.zeros((height, 1 + 3 * width), numpy.uint8)
    rows[:, 1:] = pixels.reshape(height, 3 * width)
    with open(name, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(rows.tobytes())))
        file.write(chunk(b"IEND", b""))


def produce(options):
    with rpipe.Writer(peer=1) as writer:

        def send(number, plate):
            with writer.alloc(plate.shape, plate.dtype, tag=number) as frame:
                frame[:] = plate  # into the memory of rank 1

        simulate(options, send)


def draw(options):
    heap = 2 * 8 * options.size**2 + 4096  # two frames: one is drawn, one is written
    drawn = 0
    with rpipe.Reader(peer=0, heap_bytes=heap) as reader:
        for message in reader:
            with message:
                frame = message.array("float64", (options.size, options.size))
                write_png(options.output % message.tag, colors(frame))
            drawn += 1
    print(f"{drawn} frames drawn: {options.output}")
    if options.check:
        check(options, drawn)


def read_png(name):
    """The pixels of what write_png has written."""
    with open(name, "rb") as file:
        data = file.read()
    width, height = struct.unpack(">II", data[16:24])
    at, packed = 8, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    rows = numpy.frombuffer(zlib.decompress(packed), numpy.uint8).reshape(height, 1 + 3 * width)
    return rows[:, 1:].reshape(height, width, 3)


def check(options, drawn):
    """The pictures are those of a simulation in this process."""

    def compare(number, plate):
        if not (read_png(options.output % number) == colors(plate)).all():
            raise SystemExit(f"frame {number} differs from the simulation")

    simulate(options, compare)
    if drawn != options.frames:
        raise SystemExit(f"{drawn} frames were drawn, {options.frames} were sent")
    print("every pixel is that of the simulation")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, default=256, help="rows and columns of the plate")
    parser.add_argument("--frames", type=int, default=20)
    parser.add_argument("--steps", type=int, default=50, help="steps of the simulation per frame")
    parser.add_argument("--output", default="frame-%03d.png", help="name of a picture")
    parser.add_argument("--check", action="store_true", help="compare the pictures with a second run")
    options = parser.parse_args()
    with rpipe.job() as job:
        if job.size != 2:
            raise SystemExit("start two processes: mpirun -n 2 python3 frames.py")
        (produce, draw)[job.rank](options)


if __name__ == "__main__":
    main()
