"""Make the two samples of this folder again, from the Debian packages previsat and gpredict.

    python data/samples/orbital/make_samples.py            # from the root of a checkout, on Debian 12 with apt
    python data/samples/orbital/make_samples.py --check    # make them aside and compare with the files here

The packages are downloaded and unpacked into a temporary folder, not installed (previsat alone would bring 44 others).
Of each package one file is read, whose sha256 is checked first, so that another version of a package is refused rather
than turned into another sample. Needs apt-get and dpkg-deb, and a package index (`apt-get update`) not too old.
"""

import argparse
import csv
import io
import subprocess
import sys
import tempfile
from pathlib import Path

from components.datasets.core.catalogue import load_catalogue
from components.datasets.orbital.mechanics import eccentricity_from_altitudes, mean_motion_from_period
from components.datasets.orbital.prepare import smallest_by_hash
from components.datasets.orbital.previsat import read_text
from components.datasets.orbital.satcat import FACTS_COLUMNS
from components.datasets.orbital.tle import parse_element_set
from components.errors import DataError, QuintetError
from components.files import sha256_bytes, write_bytes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]

ROWS = 6000
PREVISAT_FILE = "usr/share/Astropedia/PreviSat/data/donnees.sat"
PREVISAT_SHA256 = "6b4111deed1454ceb57b55e0c788bef0bd44cb4a301150e4d776c8e5e2a93d74"
GPREDICT_FILE = "usr/share/gpredict/data/satdata/satellites.dat"
GPREDICT_SHA256 = "37fa82b8645c5602fd3894e6dfade7cc547512fe9ffeb0b95436c451c4316ca7"


def unpacked(package: str, file: str, sha256: str, folder: Path) -> Path:
    """Path of `file` from Debian's `package`, unpacked below `folder` and verified."""
    inner = folder / package
    inner.mkdir()
    answer = subprocess.run(["apt-get", "download", package], cwd=inner, check=False, capture_output=True, text=True)
    if answer.returncode != 0:
        came = answer.stderr.strip()
        raise DataError(f"apt-get download {package} failed: {came}; run `apt-get update` and try again")
    archive = next(inner.glob("*.deb"))
    subprocess.run(["dpkg-deb", "-x", archive, inner / "x"], check=True)
    path = inner / "x" / file
    came = sha256_bytes(path.read_bytes())
    if came != sha256:
        raise DataError(f"{archive.name}: {file} has sha256 {came}, allowed is {sha256}; take the version in README.md")
    return path


def facts_text(path: Path) -> str:
    """CSV text of the facts of ROWS objects in orbit, chosen by the smallest sha256 of their identifiers."""
    exclusions = load_catalogue(ROOT).entry("orbital-previsat-2016").exclusions
    table = smallest_by_hash(read_text([path], exclusions), ROWS)
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(FACTS_COLUMNS)
    for row in table.itertuples():
        # numbers as the catalogue prints them: two decimals of a minute and a degree, whole kilometres
        writer.writerow(
            [
                row.norad_id,
                row.name,
                row.kind,
                row.launch,
                f"{row.period_min:.2f}",
                f"{row.inclination_deg:.2f}",
                f"{row.perigee_km:.0f}",
                f"{row.apogee_km:.0f}",
                f"{eccentricity_from_altitudes(row.perigee_km, row.apogee_km):.7f}",
                f"{mean_motion_from_period(row.period_min):.8f}",
            ]
        )
    return buffer.getvalue()


def element_sets_text(path: Path) -> str:
    """Three-line text of all element sets of gpredict's satellite list, by catalogue number."""
    sets = []
    for section in path.read_text(encoding="ascii").split("\n["):
        fields = dict(line.split("=", 1) for line in section.splitlines() if "=" in line)
        if "TLE1" in fields:
            elements = parse_element_set(fields["TLE1"], fields["TLE2"], fields["NAME"])
            sets.append((elements.norad_id, f"0 {fields['NAME']}\n{fields['TLE1']}\n{fields['TLE2']}\n"))
    return "".join(text for _, text in sorted(sets))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the files here and write nothing")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = {
            "satcat_2016_sample.csv": facts_text(unpacked("previsat", PREVISAT_FILE, PREVISAT_SHA256, folder)),
            "gpredict_2018.tle": element_sets_text(unpacked("gpredict", GPREDICT_FILE, GPREDICT_SHA256, folder)),
        }
    differing = 0
    for file, text in made.items():
        content = text.encode("ascii")
        verdict = "written"
        if check:
            same = (HERE / file).is_file() and (HERE / file).read_bytes() == content
            differing += not same
            verdict = "equal to the file here" if same else "DIFFERENT from the file here"
        else:
            write_bytes(HERE / file, content)
        print(f"{file}: {len(content)} bytes, sha256 {sha256_bytes(content)}: {verdict}")
    return 1 if differing else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except QuintetError as error:
        sys.exit(str(error))
