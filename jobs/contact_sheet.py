#!/usr/bin/env python3
"""Put pictures on one sheet, in rows: jobs/contact_sheet.py SHEET.png PICTURE.png ..."""

import sys
from pathlib import Path

from PIL import Image, ImageDraw

SCALE, WIDTH, GAP, CAPTION, SHADES = 0.5, 1600, 20, 20, 256


def lay_out(paths: list[Path]) -> Image.Image:
    """Return a sheet with the pictures in rows, each with its name above."""
    places, x, y, tallest = [], 0, 0, 0
    for path in paths:
        picture = Image.open(path).convert("RGB")
        size = round(picture.width * SCALE), round(picture.height * SCALE)
        if x and x + size[0] > WIDTH:
            x, y, tallest = 0, y + tallest, 0
        places.append((path.stem, picture.resize(size, Image.Resampling.LANCZOS), x, y))
        x, tallest = x + size[0] + GAP, max(tallest, CAPTION + size[1] + GAP)
    sheet = Image.new("RGB", (WIDTH, y + tallest - GAP), "white")
    for name, small, x, y in places:
        ImageDraw.Draw(sheet).text((x, y), f"figure {name}", fill="black", font_size=13)
        sheet.paste(small, (x, y + CAPTION))
    return sheet


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    # A palette makes the file three times smaller without a visible difference.
    lay_out([Path(name) for name in sys.argv[2:]]).quantize(SHADES).save(sys.argv[1], optimize=True)
