#!/usr/bin/env python3
"""Draws photos for the workshop, large as cameras make them: photos/stripes and photos/checks, each of 2048 x 2048 pixels, as PNG."""
import pathlib
import struct
import zlib

SIDE = 2048


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(rows):
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows), 1)) + chunk(b"IEND", b"")


def band(colors, width):
    return b"".join(colors[x // width % 2] * width for x in range(0, SIDE, width))[: 3 * SIDE]


for number in range(12):
    width, colors = 32 + 8 * number, [bytes([20 * number, 90, 200]), bytes([250, 20 * number, 60])]
    odd, even = band(colors, width), band(colors[::-1], width)
    for name, rows in (("stripes", [odd] * SIDE), ("checks", [(odd, even)[y // width % 2] for y in range(SIDE)])):
        place = pathlib.Path("photos", name, f"{number}.png")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(png(rows))
print(f"photos: 24 images of {SIDE} x {SIDE} pixels")
