"""Videos: pictures side by side with a caption under each, written as MP4 by ffmpeg."""

import contextlib
import math
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from ees_mpi.contracts import Pixels
from ees_mpi.errors import ConfigError, EesError, MissingExtra
from ees_mpi.files import check_writable, replaced

BAR = 44  # pixels of the caption under a picture
MAP = 0.28  # of a picture's height: the map of where the robot went
PAPER, INK, FAINT, MARK = (255, 255, 255), (30, 34, 40), (150, 158, 168), (214, 96, 40)
WIDE = 16 / 9


@dataclass(frozen=True)
class Shot:
    """One picture of a rollout, packed; hundreds of them are kept."""

    seconds: float
    place: tuple[float, ...]
    packed: bytes
    shape: tuple[int, ...]

    @classmethod
    def of(cls, seconds: float, place: tuple[float, ...], pixels: Pixels) -> "Shot":
        """Pack a picture."""
        return cls(seconds, place, zlib.compress(np.ascontiguousarray(pixels).data, 1), pixels.shape)

    @property
    def pixels(self) -> Pixels:
        """The picture."""
        return np.frombuffer(zlib.decompress(self.packed), np.uint8).reshape(self.shape)


@dataclass
class Film:
    """What one individual did: its pictures, in order, and what is said of it."""

    title: str
    shots: list[Shot] = field(default_factory=list)


def check_target(out: Path) -> None:
    """Refuse a video that cannot be written, before anything is evaluated."""
    if out.suffix.lower() != ".mp4":
        raise ConfigError(f"--video {out}: expected a name that ends in .mp4")
    check_writable(out, "--video")
    _ffmpeg(), _pillow()


def _ffmpeg() -> Any:
    try:
        import imageio_ffmpeg
    except ImportError:
        raise MissingExtra("videos need imageio-ffmpeg: pip install 'ees_mpi[video]'") from None
    return imageio_ffmpeg


def _pillow() -> Any:
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise MissingExtra("videos need Pillow: pip install 'ees_mpi[video]'") from None
    return Image, ImageDraw, ImageFont


def grid(count: int, width: int, height: int) -> tuple[int, int]:
    """Return columns and rows for some pictures: few empty places, and about as wide as a screen."""

    def cost(columns: int) -> float:
        rows = -(-count // columns)
        return (columns * rows - count) / count + abs(math.log(columns * width / (rows * height) / WIDE))

    columns = min(range(1, count + 1), key=cost)
    return columns, -(-count // columns)


def write(
    out: Path, films: Sequence[Film], size: tuple[int, int], fps: float, tick: Callable[[], object] = lambda: None
) -> tuple[int, int, int]:
    """Write films side by side, each staying at its last picture until all are over; return frames, width, height.

    The file is made beside its place and renamed, so that it is whole or not there.
    """
    frames = max(len(film.shots) for film in films)
    sheet = Sheet(films, *size)
    try:
        with replaced(out) as fresh, tempfile.TemporaryFile() as words:
            _encode(fresh, sheet, fps, words, tick)
    except OSError as error:
        raise EesError(f"--video {out} could not be written: {error}") from None
    return frames, sheet.width, sheet.height


def _encode(target: Path, sheet: "Sheet", fps: float, words: IO[bytes], tick: Callable[[], object]) -> None:
    """Pipe frames through ffmpeg: H.264 in the colours that every player knows; `words`: for what it has to say."""
    source = [
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        f"{sheet.width}x{sheet.height}",
        "-r",
        f"{fps:.6g}",
        "-i",
        "-",
    ]
    coding = ["-c:v", "libx264", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    command = [_ffmpeg().get_ffmpeg_exe(), "-y", "-loglevel", "error", *source, *coding, str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=words) as ffmpeg:
        with contextlib.suppress(BrokenPipeError):  # ffmpeg says why in a moment
            for pixels in sheet.frames():
                ffmpeg.stdin.write(pixels.data)  # type: ignore[union-attr]
                tick()
        with contextlib.suppress(BrokenPipeError):
            ffmpeg.stdin.close()  # type: ignore[union-attr]
        code = ffmpeg.wait()
    if code:
        words.seek(0)
        said = words.read().decode(errors="replace").strip().splitlines()
        raise OSError(said[-1] if said else f"ffmpeg ended with code {code}")


class Sheet:
    """Lays films out as a grid; the maps under them have one scale, so that they can be compared."""

    def __init__(self, films: Sequence[Film], width: int, height: int):
        self._image, self._draw, fonts = _pillow()
        self._films, self._w, self._h = films, width, height
        self._columns, self._rows = grid(len(films), width, height + BAR)
        self.width, self.height = self._columns * width, self._rows * (height + BAR)
        self._large, self._small = fonts.load_default(15), fonts.load_default(13)
        reach = [abs(v) for film in films for shot in film.shots for v in shot.place if math.isfinite(v)]
        self._reach = max([1.0, *reach])

    def frames(self) -> Iterator[Pixels]:
        """Compose frame after frame."""
        for number in range(max(len(film.shots) for film in self._films)):
            sheet = self._image.new("RGB", (self.width, self.height), PAPER)
            for place, film in enumerate(self._films):
                corner = (place % self._columns * self._w, place // self._columns * (self._h + BAR))
                sheet.paste(self._panel(film, min(number, len(film.shots) - 1)), corner)
            yield np.ascontiguousarray(sheet)

    def _panel(self, film: Film, number: int) -> Any:
        """Draw one film's picture, its caption and where the robot has been."""
        shot = film.shots[number]
        panel = self._image.new("RGB", (self._w, self._h + BAR), PAPER)
        panel.paste(self._fitted(shot.pixels), (0, 0))
        pen = self._draw.Draw(panel)
        pen.text((8, self._h + 4), film.title, INK, self._large)
        pen.text((8, self._h + 24), where(shot.place), INK, self._small)
        pen.text((self._w - 8, self._h + 24), f"{shot.seconds:.1f} s", FAINT, self._small, anchor="ra")
        been = [s.place for s in film.shots[: number + 1] if s.place and all(map(math.isfinite, s.place))]
        if been:
            (self._map if len(been[0]) > 1 else self._track)(pen, been)
        pen.line((self._w - 1, 0, self._w - 1, self._h + BAR), PAPER)
        return panel

    def _fitted(self, pixels: Pixels) -> Any:
        """Bring a picture to the size of a panel, whole, with its own proportions."""
        picture = self._image.fromarray(pixels)
        if picture.size == (self._w, self._h):
            return picture
        scale = min(self._w / picture.width, self._h / picture.height)
        small = picture.resize((round(picture.width * scale), round(picture.height * scale)))
        fitted = self._image.new("RGB", (self._w, self._h), FAINT)
        fitted.paste(small, ((self._w - small.width) // 2, (self._h - small.height) // 2))
        return fitted

    def _track(self, pen: Any, been: Sequence[tuple[float, ...]]) -> None:
        """Show x on a line as wide as the picture, with the start in the middle."""
        y, middle = self._h - 7, self._w / 2
        xs = [middle + (self._w / 2 - 8) * place[0] / self._reach for place in been]
        pen.line((8, y, self._w - 8, y), PAPER, 3)
        pen.line((middle, y - 4, middle, y + 4), INK)
        pen.line((min(xs), y, max(xs), y), MARK, 3)
        pen.ellipse((xs[-1] - 4, y - 4, xs[-1] + 4, y + 4), MARK)

    def _map(self, pen: Any, been: Sequence[tuple[float, ...]]) -> None:
        """Show the path from above in a corner, with the start in the middle."""
        side = MAP * self._h
        left, top = self._w - side - 6, 6.0
        pen.rectangle((left, top, left + side, top + side), PAPER, FAINT)
        cx, cy, scale = left + side / 2, top + side / 2, (side / 2 - 5) / self._reach
        path = [(cx + scale * place[0], cy - scale * place[1]) for place in been]
        pen.line((cx - 3, cy, cx + 3, cy), INK)
        pen.line((cx, cy - 3, cx, cy + 3), INK)
        if len(path) > 1:
            pen.line(path, MARK, 1)
        pen.ellipse((path[-1][0] - 2, path[-1][1] - 2, path[-1][0] + 2, path[-1][1] + 2), MARK)


def where(place: Sequence[float]) -> str:
    """Write a place as x and y."""
    if not all(map(math.isfinite, place)):
        return "not finite"
    return "   ".join(f"{axis} {value:+.2f}" for axis, value in zip("xy", place, strict=False))
