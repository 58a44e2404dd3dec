"""What Pillow and numpy reach in making training images, to hold ours against (script/bench-images-peer).

  bench_images_peer.py make FOLDER [COUNT]    writes JPEG files of about 500 x 400 pixels, quality 90, 4:2:0
  bench_images_peer.py measure FOLDER [SECONDS]    images a second of the processor: decode, random resized crop, normalise
"""
import io
import math
import pathlib
import sys
import time

import numpy as np
from PIL import Image, ImageDraw

SIDE = 224
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


def make(folder, count):
    """Smooth noise of several sizes, some discs with hard edges, a little grain."""
    generator = np.random.default_rng(1)
    for number in range(count):
        width, height = int(generator.integers(460, 540)), int(generator.integers(370, 430))
        levels = generator.normal(size=(height, width, 3)) * 4 + 128
        for step, strength in ((64, 110), (16, 50), (4, 25)):
            coarse = (generator.normal(size=(height // step + 2, width // step + 2, 3)) * strength).astype(np.float32)
            for c in range(3):
                levels[:, :, c] += np.asarray(Image.fromarray(coarse[:, :, c]).resize((width, height), Image.Resampling.BICUBIC))
        image = Image.fromarray(levels.clip(0, 255).astype(np.uint8))
        draw = ImageDraw.Draw(image)
        for _ in range(8):
            x, y, radius = generator.integers(0, width), generator.integers(0, height), generator.integers(8, 60)
            draw.ellipse([int(x - radius), int(y - radius), int(x + radius), int(y + radius)],
                         fill=tuple(int(v) for v in generator.integers(0, 255, 3)))
        image.save(folder / f"{number:03}.jpg", quality=90, subsampling=2)


def random_box(width, height, generator):
    for _ in range(10):
        area = width * height * generator.uniform(0.08, 1)
        ratio = math.exp(generator.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(generator.integers(0, width - w + 1)), int(generator.integers(0, height - h + 1))
            return left, top, left + w, top + h
    return 0, 0, width, height


def one(file, generator):
    image = Image.open(io.BytesIO(file)).convert("RGB")
    image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=random_box(*image.size, generator))
    if generator.integers(0, 2) == 1:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    pixels = np.asarray(image, dtype=np.float32)
    pixels *= 1 / 255
    pixels -= MEAN
    pixels /= DEVIATION
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def measure(folder, seconds):
    files = [path.read_bytes() for path in sorted(folder.iterdir())]
    generator = np.random.default_rng(0)
    passes = []
    while not passes or sum(passes) < seconds:
        begin = time.process_time()
        for file in files:
            one(file, generator)
        passes.append(time.process_time() - begin)
    passes = sorted(passes[1:] or passes)  # the first warms up
    print(f"{len(files) / passes[len(passes) // 2]:.2f}")


if __name__ == "__main__":
    command, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if command == "make":
        make(folder, int(sys.argv[3]) if len(sys.argv) > 3 else 32)
    else:
        measure(folder, float(sys.argv[3]) if len(sys.argv) > 3 else 2)
