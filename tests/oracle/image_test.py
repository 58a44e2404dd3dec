"""Images decoded, resized and changed by us and by Pillow: how far apart they are, at most.

image_test.py, with HYPERION_IMAGE_RENDERS naming the program of image_renders.cc.
"""
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

SEED = int(os.environ.get("HYPERION_TEST_SEED", "1"))
RANDOM = random.Random(SEED)


def picture(width, height, generator):
    levels = np.zeros((height, width, 3))
    for step, strength in ((32, 110), (8, 60), (2, 30)):
        coarse = generator.normal(size=(height // step + 2, width // step + 2, 3)) * strength
        for c in range(3):
            layer = Image.fromarray(coarse[:, :, c].astype(np.float32)).resize((width, height), Image.Resampling.BICUBIC)
            levels[:, :, c] += np.asarray(layer)
    return Image.fromarray((levels + 128).clip(0, 255).astype(np.uint8))


def turned(image, turns):
    hue, saturation, value = image.convert("HSV").split()
    shifted = (np.array(hue).astype(np.int64) + int(turns * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(shifted.astype(np.uint8)), saturation, value)).convert("RGB")


def moved(image, matrix):
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST)


def cases(folder):
    """(operation, file, what Pillow makes of it, most levels apart)"""
    generator = np.random.default_rng(SEED)
    for number, size in enumerate([(97, 61), (64, 64), (150, 201), (33, 5)]):
        image = picture(*size, generator)
        png = f"{folder}/{number}.png"
        image.save(png)
        for mode in ("L", "P", "RGBA", "LA", "1"):
            path = f"{folder}/{number}.{mode}.png"
            image.convert(mode).save(path)
            yield "decode", path, image.convert(mode).convert("RGB"), 0
        for subsampling in (0, 1, 2):
            for progressive in (False, True):
                path = f"{folder}/{number}.{subsampling}{progressive}.jpg"
                image.save(path, quality=90, subsampling=subsampling, progressive=progressive)
                yield "decode", path, Image.open(path).convert("RGB"), 0
        for mode in ("L", "CMYK"):
            path = f"{folder}/{number}.{mode}.jpg"
            image.convert(mode).save(path, quality=90)
            yield "decode", path, Image.open(path).convert("RGB"), 1
        width, height = size
        for _ in range(25):
            left, top = RANDOM.randrange(width), RANDOM.randrange(height)
            w, h = RANDOM.randint(1, width - left), RANDOM.randint(1, height - top)
            to = (RANDOM.randint(1, 120), RANDOM.randint(1, 120))
            cut = image.crop((left, top, left + w, top + h))
            for name in ("bilinear", "bicubic"):
                wanted = cut.resize(to, getattr(Image.Resampling, name.upper()))
                yield f"{name} {left} {top} {w} {h} {to[0]} {to[1]}", png, wanted, 0
        for factor in (0, 0.1, 0.37, 0.73, 1, 1.27, 1.9):
            yield f"brighten {factor}", png, ImageEnhance.Brightness(image).enhance(factor), 0
            yield f"contrast {factor}", png, ImageEnhance.Contrast(image).enhance(factor), 0
            yield f"saturate {factor}", png, ImageEnhance.Color(image).enhance(factor), 0
            yield f"sharpen {factor}", png, ImageEnhance.Sharpness(image).enhance(factor), 0
        for turns in (-0.5, -0.2, -0.004, 0, 0.1, 0.33, 0.5):
            yield f"turn_hue {turns}", png, turned(image, turns), 0
        for bits in range(4, 9):
            yield f"posterize {bits}", png, ImageOps.posterize(image, bits), 0
        for threshold in (0, 76.5, 128, 255):
            yield f"solarize {threshold}", png, ImageOps.solarize(image, threshold), 0
        yield "stretch_contrast", png, ImageOps.autocontrast(image), 0
        yield "equalize", png, ImageOps.equalize(image), 0
        yield "mirror", png, ImageOps.mirror(image), 0
        for slope in (-0.3, -0.09, 0.01, 0.17, 0.3):
            yield f"shear_across {slope}", png, moved(image, (1, slope, 0, 0, 1, 0)), 0
            yield f"shear_down {slope}", png, moved(image, (1, 0, 0, slope, 1, 0)), 0
        for right, down in ((0, 0), (5, 0), (0, -4), (-3, 2), (500, 1)):
            yield f"shift {right} {down}", png, moved(image, (1, 0, -right, 0, 1, -down)), 0
        for degrees in (-30, -9.3, 1, 17, 30):
            yield f"rotate {degrees}", png, image.rotate(degrees, Image.Resampling.NEAREST), 0


def main():
    wrong, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        wanted = list(cases(folder))
        lines = "".join(f"{what}|{path}|{folder}/{i}.raw\n" for i, (what, path, _, _) in enumerate(wanted))
        subprocess.run([os.environ["HYPERION_IMAGE_RENDERS"]], input=lines.encode(), check=True)
        for i, (what, path, image, most) in enumerate(wanted):
            with open(f"{folder}/{i}.raw", "rb") as file:
                height, width = np.frombuffer(file.read(16), dtype=np.int64)
                ours = np.frombuffer(file.read(), dtype=np.uint8).reshape(height, width, 3)
            theirs = np.asarray(image)
            apart = 999 if ours.shape != theirs.shape else int(np.abs(ours.astype(int) - theirs.astype(int)).max())
            if apart > most:
                off = int((ours != theirs).sum()) if apart < 999 else -1
                wrong.append(f"{what} of {os.path.basename(path)}: {apart} levels apart, {off} of {ours.size} values")
            count += 1
    print("\n".join(wrong))
    print(f"{count} images, {len(wrong)} further from Pillow's than allowed (seed {SEED})")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
