"""Make the Fashion-MNIST sample of this folder again, from the Debian package dataset-fashion-mnist.

    apt-get download dataset-fashion-mnist && dpkg-deb -x dataset-fashion-mnist_*.deb unpacked
    python data/samples/images/make_samples.py unpacked/usr/share/datasets/fashion-mnist            # from the checkout
    python data/samples/images/make_samples.py --check unpacked/usr/share/datasets/fashion-mnist    # only compare

The four files of the package are compressed anew by Debian; what is inside must be what `data/catalogue.yaml` says of
`fashion-mnist`, so that another version of the package is refused rather than turned into another sample.
"""

import argparse
import gzip
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.datasets.core.archives import gunzip
from components.datasets.core.catalogue import load_catalogue
from components.datasets.core.sampling import smallest_hashes
from components.datasets.images.idx import read_array
from components.errors import DataError, QuintetError
from components.files import sha256_bytes, write_bytes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]

# rows of each class
ROWS = {"train": 600, "t10k": 100}


def verified(folder: Path, name: str) -> Path:
    """Path of the package's file `name`, whose content is the catalogued one."""
    path = folder / f"{name}.gz"
    file = next(file for file in load_catalogue(ROOT).entry("fashion-mnist").files if file.name == name)
    came = sha256_bytes(b"".join(gunzip(path, file.bytes or 0)))
    if came != file.sha256:
        raise DataError(
            f"{path}: got content of sha256 {came}, allowed is {file.sha256}; take the version in README.md"
        )
    return path


def idx(array: NDArray[np.uint8]) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.asarray(array.shape, dtype=">i4").tobytes()
    # without a time the same array always gives the same bytes
    return gzip.compress(header + array.tobytes(), compresslevel=9, mtime=0)


def sample(folder: Path, part: str, rows: int) -> dict[str, bytes]:
    """The images of each class whose pixels have the smallest sha256, in the order of the published files."""
    images = read_array(verified(folder, f"{part}-images-idx3-ubyte"), 3)
    labels = read_array(verified(folder, f"{part}-labels-idx1-ubyte"), 1)
    chosen = []
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label)
        chosen.append(of_class[smallest_hashes([images[row].tobytes() for row in of_class], rows)])
    kept = np.sort(np.concatenate(chosen))
    return {
        f"fashion-mnist-sample-{part}-images-idx3-ubyte.gz": idx(images[kept]),
        f"fashion-mnist-sample-{part}-labels-idx1-ubyte.gz": idx(labels[kept]),
    }


def same(path: Path, content: bytes) -> bool:
    """Whether the same is inside: another version of zlib may compress otherwise."""
    return path.is_file() and gzip.decompress(path.read_bytes()) == gzip.decompress(content)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the package's four files")
    parser.add_argument("--check", action="store_true", help="compare with the files here and write nothing")
    arguments = parser.parse_args()
    made: dict[str, bytes] = {}
    for part, rows in ROWS.items():
        made |= sample(arguments.folder, part, rows)
    differing = 0
    for name, content in made.items():
        verdict = "written"
        if arguments.check:
            equal = same(HERE / name, content)
            differing += not equal
            verdict = "equal to the file here" if equal else "DIFFERENT from the file here"
        else:
            write_bytes(HERE / name, content)
        print(f"{name}: {len(content)} bytes, sha256 {sha256_bytes(content)}: {verdict}")
    return 1 if differing else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except QuintetError as error:
        sys.exit(str(error))
