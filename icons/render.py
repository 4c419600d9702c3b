#!/usr/bin/env python3
"""Draws every icon of the app from signed distance functions; needs only the standard library.

Run `python3 icons/render.py` after changing a shape and commit the files it writes: the build reads
the files, never this script. The pixels are the same on every machine.

Coordinates run from -1 to 1 with y downwards; a shape returns its distance to a point, negative inside.
"""

import math
import struct
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Tray size: 22 px is the panel's nominal icon, drawn at twice that for dense screens.
TRAY_PX = 44

INDIGO_TOP = (0x71, 0x7D, 0xF0)
INDIGO_BOTTOM = (0x49, 0x54, 0xC4)
WHITE = (0xFF, 0xFF, 0xFF)

# Mid tones, so that each is seen on a dark and on a light panel.
TRAY_COLOURS = {
    "idle": (0x2F, 0xA8, 0x6B),
    "busy": (0x6B, 0x78, 0xF0),
    "paused": (0xD1, 0x8B, 0x1C),
    "attention": (0xE0, 0x4F, 0x4F),
    "offline": (0x8A, 0x90, 0x9E),
}


def ring(x, y, radius, thickness):
    return abs(math.hypot(x, y) - radius) - thickness / 2


def arc(x, y, radius, thickness, start, sweep):
    """A stroke with round ends; degrees, clockwise from twelve o'clock."""
    middle = math.radians(start + sweep / 2)
    half = math.radians(sweep / 2)
    # Turn the plane so that the middle of the arc lies on +y, then use its mirror symmetry.
    px = abs(x * math.cos(middle) + y * math.sin(middle))
    py = x * math.sin(middle) - y * math.cos(middle)
    if math.atan2(px, py) <= half:
        return abs(math.hypot(px, py) - radius) - thickness / 2
    return math.hypot(px - radius * math.sin(half), py - radius * math.cos(half)) - thickness / 2


def segment(x, y, a, b, thickness):
    ax, ay = a
    bx, by = b[0] - ax, b[1] - ay
    t = max(0.0, min(1.0, ((x - ax) * bx + (y - ay) * by) / (bx * bx + by * by)))
    return math.hypot(x - ax - bx * t, y - ay - by * t) - thickness / 2


def disc(x, y, radius):
    return math.hypot(x, y) - radius


def rounded_square(x, y, half, corner):
    dx, dy = abs(x) - half + corner, abs(y) - half + corner
    return math.hypot(max(dx, 0), max(dy, 0)) + min(max(dx, dy), 0) - corner


def tick(x, y, scale, thickness):
    corner = (-0.08 * scale, 0.36 * scale)
    return min(
        segment(x, y, (-0.38 * scale, 0.06 * scale), corner, thickness),
        segment(x, y, corner, (0.62 * scale, -0.5 * scale), thickness),
    )


TRAY_SHAPES = {
    "idle": lambda x, y: ring(x, y, 0.68, 0.24),
    "busy": lambda x, y: min(ring(x, y, 0.78, 0.12), arc(x, y, 0.42, 0.24, -20, 250)),
    "paused": lambda x, y: min(
        segment(x, y, (-0.34, -0.56), (-0.34, 0.56), 0.34),
        segment(x, y, (0.34, -0.56), (0.34, 0.56), 0.34),
    ),
    "attention": lambda x, y: min(ring(x, y, 0.74, 0.2), disc(x, y, 0.3)),
    "offline": lambda x, y: min(arc(x, y, 0.68, 0.22, 20 + 120 * n, 70) for n in range(3)),
}


def coverage(distance, pixel):
    """How much of a pixel lies inside; the edge is one pixel wide."""
    return max(0.0, min(1.0, 0.5 - distance / pixel))


def mix(a, b, t):
    return tuple(round(p + (q - p) * t) for p, q in zip(a, b))


def app_pixel(x, y, pixel):
    # A ring that a tick breaks open: a case that came back with its verdict.
    body = coverage(rounded_square(x, y, 0.92, 0.42), pixel)
    background = mix(INDIGO_TOP, INDIGO_BOTTOM, (y + 1) / 2)
    mark_x, mark_y = x + 0.03, y - 0.02
    stroke = min(arc(mark_x, mark_y, 0.54, 0.15, 82, 286), tick(mark_x, mark_y, 0.78, 0.15))
    return (*mix(background, WHITE, coverage(stroke, pixel)), round(255 * body))


def raster(size, colour_at):
    pixel = 2 / size
    rows = []
    for row in range(size):
        y = (row + 0.5) * pixel - 1
        rows.append([colour_at((column + 0.5) * pixel - 1, y, pixel) for column in range(size)])
    return rows


def png(rows):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = len(rows)
    raw = b"".join(b"\0" + bytes(channel for pixel in row for channel in pixel) for row in rows)
    header = struct.pack(">IIBBBBB", size, size, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")


def ico(images):
    """A Windows icon holding PNG images; `images` maps a size in pixels to PNG bytes."""
    offset = 6 + 16 * len(images)
    entries, body = b"", b""
    for size, data in images.items():
        # The size field is one byte; 256 is written as 0.
        entries += struct.pack("<BBBBHHII", size % 256, size % 256, 0, 0, 1, 32, len(data), offset + len(body))
        body += data
    return struct.pack("<HHH", 0, 1, len(images)) + entries + body


def icns(images):
    """A macOS icon; `images` maps a four-letter entry type to PNG bytes."""
    body = b"".join(kind + struct.pack(">I", 8 + len(data)) + data for kind, data in images.items())
    return b"icns" + struct.pack(">I", 8 + len(body)) + body


def main():
    app = {size: png(raster(size, app_pixel)) for size in (16, 32, 48, 64, 128, 256, 512)}
    (HERE / "32x32.png").write_bytes(app[32])
    (HERE / "128x128.png").write_bytes(app[128])
    (HERE / "128x128@2x.png").write_bytes(app[256])
    (HERE / "icon.png").write_bytes(app[512])
    (HERE / "icon.ico").write_bytes(ico({size: app[size] for size in (16, 32, 48, 64, 256)}))
    entries = {b"icp4": 16, b"icp5": 32, b"ic11": 32, b"ic12": 64, b"ic07": 128, b"ic13": 256, b"ic08": 256, b"ic09": 512}
    (HERE / "icon.icns").write_bytes(icns({kind: app[size] for kind, size in entries.items()}))
    for state, shape in TRAY_SHAPES.items():
        colour = TRAY_COLOURS[state]
        rows = raster(TRAY_PX, lambda x, y, pixel: (*colour, round(255 * coverage(shape(x, y), pixel))))
        (HERE / f"tray-{state}.png").write_bytes(png(rows))


if __name__ == "__main__":
    main()
