"""Videos: pictures side by side with a caption under each, written as MP4 or GIF by ffmpeg."""

import contextlib
import math
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ees_mpi.errors import EesError, MissingExtra
from ees_mpi.files import replaced
from ees_mpi.tasks.base import Pixels

CAPTION = 44  # height in pixels of the caption under a picture
LINE = 18  # of one more line in it
NARROWEST = 200  # width in pixels of a panel, unless a smaller one is asked for
MAP = 0.28  # side of the map, as a share of a picture's height
WHITE, BLACK, GREY, ORANGE = (255, 255, 255), (30, 34, 40), (150, 158, 168), (214, 96, 40)
SCREEN = 16 / 9
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


class Film(NamedTuple):
    """The pictures of one individual in order, and its caption."""

    title: str
    shots: Sequence[Shot]
    own: tuple[str, str] | None = None  # the lines of an own task: behaviour, std; None: the present x and y


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


def fitting(picture: Sequence[int], width: int, height: int) -> tuple[int, int]:
    """Return the even size of a panel, at most the given one, that has the shape of a picture [height, width, 3].

    It stays wide enough for its caption.
    """
    scale = min(width / picture[1], height / picture[0])
    across, down = (max(2, 2 * round(side * scale / 2)) for side in (picture[1], picture[0]))
    return max(across, min(width, NARROWEST)), down


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


def _path(film: Film, shots: Sequence[Shot]) -> list[tuple[float, ...]]:
    """Return the finite positions of a film; those of an own task relative to its first one: 0 is no start there."""
    path = [shot.position for shot in shots if shot.position and shot.finite]
    begin = path[0] if path and film.own else (0.0, 0.0)
    return [tuple(value - first for value, first in zip(place, begin, strict=False)) for place in path]


class Sheet:
    """Films in a grid, with maps of one scale to compare them; a shorter film stays at its last picture."""

    def __init__(self, films: Sequence[Film], width: int, height: int):
        _, self._image, self._draw, fonts, self._operations = packages()
        self._films, (self._w, self._h) = films, fitting(films[0].shots[0].shape, width, height)
        self._caption = CAPTION + LINE * any(film.own for film in films)
        self._columns, rows = grid(len(films), self._w, self._h + self._caption)
        self.width, self.height = self._columns * self._w, rows * (self._h + self._caption)
        self.count = max(len(film.shots) for film in films)
        self._large, self._small = fonts.load_default(15), fonts.load_default(13)
        distances = [abs(v) for film in films for place in _path(film, film.shots) for v in place]
        self._reach = max(distances, default=0.0) or 1.0
        if not any(film.own for film in films):
            self._reach = max(1.0, self._reach)

    def frames(self) -> Iterator[Pixels]:
        for number in range(self.count):
            sheet = self._image.new("RGB", (self.width, self.height), WHITE)
            for place, film in enumerate(self._films):
                corner = (place % self._columns * self._w, place // self._columns * (self._h + self._caption))
                sheet.paste(self._panel(film, film.shots[: number + 1]), corner)
            yield np.ascontiguousarray(sheet)

    def _panel(self, film: Film, shots: Sequence[Shot]) -> Any:
        """Draw the last picture of a film so far, its caption and the path of the robot."""
        shot = shots[-1]
        panel = self._image.new("RGB", (self._w, self._h + self._caption), WHITE)
        picture = self._image.fromarray(shot.pixels)
        panel.paste(self._operations.pad(picture, (self._w, self._h), color=WHITE), (0, 0))
        draw = self._draw.Draw(panel)
        draw.text((8, self._h + 4), film.title, BLACK, self._large)
        place = "   ".join(f"{axis} {value:+.2f}" for axis, value in zip("xy", shot.position, strict=False))
        lines = film.own or (place if shot.finite else "not finite",)
        for number, line in enumerate(lines):
            draw.text((8, self._h + 24 + LINE * number), line, BLACK, self._small)
        bottom = self._h + self._caption - CAPTION + 24
        draw.text((self._w - 8, bottom), f"{shot.seconds:.1f} s", GREY, self._small, anchor="ra")
        path = [(*place, 0.0)[:2] for place in _path(film, shots)]  # of a cheetah y is 0
        if path:
            self._map(draw, path)
        draw.line((self._w - 1, 0, self._w - 1, self._h + self._caption), WHITE)
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
