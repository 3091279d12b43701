"""Videos: pictures side by side with a caption under each, written as MP4 or GIF by ffmpeg."""

import contextlib
import math
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.contracts import Pixels
from ees_mpi.errors import EesError, MissingExtra
from ees_mpi.files import replaced

CAPTION = 44  # height in pixels of the caption under a picture
MAP = 0.28  # side of the map, as a share of a picture's height
WHITE, BLACK, GREY, ORANGE = (255, 255, 255), (30, 34, 40), (150, 158, 168), (214, 96, 40)
SCREEN = 16 / 9
SUFFIXES = (".mp4", ".gif")
PAUSE = 1.5  # seconds for which a GIF, which begins again, shows its last picture
GIF = [
    "-filter_complex",
    f"tpad=stop_mode=clone:stop_duration={PAUSE},split[a][b];[a]palettegen=max_colors=96[p];"
    "[b][p]paletteuse=dither=none:diff_mode=rectangle",
    "-loop",
    "0",
]
H264 = ["-c:v", "libx264", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]  # for every player


@dataclass(frozen=True)
class Shot:
    """One picture of a rollout, compressed, because hundreds are kept in memory."""

    seconds: float
    position: tuple[float, ...]
    packed: bytes
    shape: tuple[int, ...]

    @classmethod
    def of(cls, seconds: float, position: tuple[float, ...], pixels: Pixels) -> "Shot":
        return cls(seconds, position, zlib.compress(np.ascontiguousarray(pixels).data, 1), pixels.shape)

    @property
    def pixels(self) -> Pixels:
        return np.frombuffer(zlib.decompress(self.packed), np.uint8).reshape(self.shape)

    @property
    def finite(self) -> bool:
        return all(map(math.isfinite, self.position))


Film = tuple[str, Sequence[Shot]]  # a title, and the pictures of one individual in order


def packages() -> tuple[Any, ...]:
    """Return the packages that videos need; raise a MissingExtra if one is not installed."""
    try:
        import imageio_ffmpeg
        from PIL import Image, ImageDraw, ImageFont, ImageOps
    except ImportError:
        raise MissingExtra("videos need imageio-ffmpeg and Pillow: pip install 'ees_mpi[video]'") from None
    return imageio_ffmpeg, Image, ImageDraw, ImageFont, ImageOps


def grid(count: int, width: int, height: int) -> tuple[int, int]:
    """Return columns and rows for some pictures: few empty places, and about as wide as a screen."""

    def cost(columns: int) -> float:
        rows = -(-count // columns)
        return (columns * rows - count) / count + abs(math.log(columns * width / (rows * height) / SCREEN))

    columns = min(range(1, count + 1), key=cost)
    return columns, -(-count // columns)


def write(out: Path, frames: Iterator[Pixels], size: str, fps: float, tick: Callable[[], object]) -> None:
    """Write a video; the suffix of its name says its kind. ffmpeg gets the frames, and says errors into a file."""
    kind = GIF if out.suffix.lower() == ".gif" else H264
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", f"{fps:.6g}", "-i", "-"]
    command = [packages()[0].get_ffmpeg_exe(), "-y", "-loglevel", "error", *source, *kind]
    try:
        with replaced(out) as fresh, tempfile.TemporaryFile() as messages:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": messages}
            # A broken pipe: ffmpeg has stopped, and its message follows.
            with contextlib.suppress(BrokenPipeError), subprocess.Popen([*command, str(fresh)], **pipes) as ffmpeg:
                for pixels in frames:
                    ffmpeg.stdin.write(pixels.data)  # type: ignore[union-attr]
                    tick()
            if ffmpeg.returncode:
                messages.seek(0)
                lines = messages.read().decode(errors="replace").strip().splitlines()
                raise OSError(lines[-1] if lines else f"ffmpeg ended with code {ffmpeg.returncode}")
    except OSError as error:
        raise EesError(f"--video {out} could not be written: {error}") from None


class Sheet:
    """Films in a grid, with maps of one scale to compare them; a shorter film stays at its last picture."""

    def __init__(self, films: Sequence[Film], width: int, height: int):
        _, self._image, self._draw, fonts, self._operations = packages()
        self._films, self._w, self._h = films, width, height
        self._columns, rows = grid(len(films), width, height + CAPTION)
        self.width, self.height = self._columns * width, rows * (height + CAPTION)
        self.count = max(len(shots) for _, shots in films)
        self._large, self._small = fonts.load_default(15), fonts.load_default(13)
        distances = [abs(v) for _, shots in films for shot in shots for v in shot.position if math.isfinite(v)]
        self._reach = max([1.0, *distances])

    def frames(self) -> Iterator[Pixels]:
        for number in range(self.count):
            sheet = self._image.new("RGB", (self.width, self.height), WHITE)
            for place, (title, shots) in enumerate(self._films):
                corner = (place % self._columns * self._w, place // self._columns * (self._h + CAPTION))
                sheet.paste(self._panel(title, shots[: number + 1]), corner)
            yield np.ascontiguousarray(sheet)

    def _panel(self, title: str, shots: Sequence[Shot]) -> Any:
        """Draw the last picture of a film so far, its caption and the path of the robot."""
        shot = shots[-1]
        panel = self._image.new("RGB", (self._w, self._h + CAPTION), WHITE)
        picture = self._image.fromarray(shot.pixels)
        panel.paste(self._operations.pad(picture, (self._w, self._h), color=GREY), (0, 0))
        draw = self._draw.Draw(panel)
        draw.text((8, self._h + 4), title, BLACK, self._large)
        numbers = "   ".join(f"{axis} {value:+.2f}" for axis, value in zip("xy", shot.position, strict=False))
        draw.text((8, self._h + 24), numbers if shot.finite else "not finite", BLACK, self._small)
        draw.text((self._w - 8, self._h + 24), f"{shot.seconds:.1f} s", GREY, self._small, anchor="ra")
        path = [(*shot.position, 0.0)[:2] for shot in shots if shot.position and shot.finite]  # of a cheetah y is 0
        if path:
            self._map(draw, path)
        draw.line((self._w - 1, 0, self._w - 1, self._h + CAPTION), WHITE)
        return panel

    def _map(self, draw: Any, path: Sequence[tuple[float, ...]]) -> None:
        """Draw the path from above in a corner, with the start in the middle."""
        side = MAP * self._h
        left, top = self._w - side - 6, 6.0
        draw.rectangle((left, top, left + side, top + side), WHITE, GREY)
        cx, cy, scale = left + side / 2, top + side / 2, (side / 2 - 5) / self._reach
        points = [(cx + scale * position[0], cy - scale * position[1]) for position in path]
        draw.line((cx - 3, cy, cx + 3, cy), BLACK)
        draw.line((cx, cy - 3, cx, cy + 3), BLACK)
        if len(points) > 1:
            draw.line(points, ORANGE, 1)
        x, y = points[-1]
        draw.ellipse((x - 2, y - 2, x + 2, y + 2), ORANGE)
