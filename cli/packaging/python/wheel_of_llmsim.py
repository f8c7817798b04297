"""Makes a wheel of the module and the program (PEP 517, PEP 427); needs nothing but Python, CMake and a compiler.

It builds the sources that it lies in.  LLMSIM_BUILD names a folder that is configured already; else one is made beside the sources'
other builds.  The program is the one without shared libraries where its archives are there.
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[3]


def _version():
    text = (SOURCE / "CMakeLists.txt").read_text()
    return re.search(r"project\(llmsim VERSION ([0-9.]+)", text).group(1)


def _built():
    """The folder of the package and the program."""
    build = os.environ.get("LLMSIM_BUILD")
    if not build:
        build = str(SOURCE / "build" / "wheel")
        subprocess.run(
            ["cmake", "-S", str(SOURCE), "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_UNITY_BUILD=ON",
             "-DLLMSIM_BUILD_TESTS=OFF", "-DPython3_EXECUTABLE=" + sys.executable], check=True, stdout=sys.stderr)
    build = pathlib.Path(build).resolve()
    subprocess.run(["cmake", "--build", str(build), "--target", "llmsim", "llmsim_python"], check=True, stdout=sys.stderr)
    portable = subprocess.run(["cmake", "--build", str(build), "--target", "llmsim_portable"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
    return build / "cli/python/llmsim", build / ("portable/llmsim" if portable else "cli/llmsim")


def _tag():
    """That of this Python on this machine: cp311-cp311-linux_x86_64."""
    python = "cp%d%d" % sys.version_info[:2]
    return "%s-%s-%s" % (python, python, re.sub("[-.]", "_", sysconfig.get_platform()))


def _metadata():
    return "Metadata-Version: 2.1\nName: llmsim\nVersion: %s\nSummary: Predict memory, step time and MFU of LLM training\n" \
           "License: Apache-2.0\nRequires-Python: >=3.9\n" % _version()


class _Wheel:
    def __init__(self, path):
        self._file = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self._records = []

    def add(self, name, data, mode=0o644):
        entry = zipfile.ZipInfo(name)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self._file.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self._records.append("%s,sha256=%s,%d" % (name, digest, len(data)))

    def close(self, info):
        self._records.append(info + "/RECORD,,")
        self._file.writestr(info + "/RECORD", "\n".join(self._records) + "\n")
        self._file.close()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    package, program = _built()
    stem, tag = "llmsim-" + _version(), _tag()
    wheel = _Wheel(pathlib.Path(wheel_directory) / ("%s-%s.whl" % (stem, tag)))
    for file in sorted(package.iterdir()):
        if file.is_file():
            wheel.add("llmsim/" + file.name, file.read_bytes())
    wheel.add(stem + ".data/scripts/llmsim", program.read_bytes(), 0o755)
    info = stem + ".dist-info"
    wheel.add(info + "/METADATA", _metadata().encode())
    wheel.add(info + "/WHEEL", ("Wheel-Version: 1.0\nGenerator: llmsim\nRoot-Is-Purelib: false\nTag: %s\n" % tag).encode())
    wheel.close(info)
    return "%s-%s.whl" % (stem, tag)


def build_sdist(sdist_directory, config_settings=None):
    raise RuntimeError("the sources are a checkout of llmsim; pip install ./cli/packaging/python builds it where it lies")


def get_requires_for_build_wheel(config_settings=None):
    return []
