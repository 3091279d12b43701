#!/usr/bin/env python3
"""Lay pictures out on one small sheet: jobs/contact_sheet.py SHEET.png PICTURE.png ..."""

import sys
from pathlib import Path

from PIL import Image, ImageDraw

WIDTH, GAP, CAPTION, COLUMNS, SHADES = 460, 16, 18, 3, 64


def lay_out(paths: list[Path]) -> Image.Image:
    """Put each picture, named, under what is shortest so far of three columns."""
    heights, places = [0] * COLUMNS, []
    for path in paths:
        picture = Image.open(path).convert("RGB")
        small = picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS)
        column = heights.index(min(heights))
        places.append((path.stem, small, column * (WIDTH + GAP), heights[column]))
        heights[column] += CAPTION + small.height + GAP
    sheet = Image.new("RGB", (COLUMNS * (WIDTH + GAP) - GAP, max(heights) - GAP), "white")
    for name, small, x, y in places:
        ImageDraw.Draw(sheet).text((x, y), f"figure {name}", fill="black", font_size=13)
        sheet.paste(small, (x, y + CAPTION))
    return sheet


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    # A palette: some hundred kilobytes less, and nothing that one sees.
    lay_out([Path(name) for name in sys.argv[2:]]).quantize(SHADES).save(sys.argv[1], optimize=True)
