"""Unpack a kit beside a Python that holds torch, and run a command in the environment: no pip, no network.

    python3 benchmarks/gpu_kit/unpack.py [KIT] [--into FOLDER] [-- COMMAND ...]
    python3 benchmarks/gpu_kit/unpack.py --list > has.txt

Run it with the interpreter that holds torch: the environment gets the kit's packages first, then this checkout,
then that interpreter's packages. `make gpu-kit` writes the kit; `--list` writes what it is made from. Standard library
only, since it runs where nothing is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import os
import platform
import re
import shutil
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata, util
from pathlib import Path, PurePosixPath
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = "kit.json"
MARKER = "trainwright-kit.json"
"""In an environment: what it was made from; `{}` while it is being made, so that a broken one is made anew."""
LIBRARIES = frozenset({"site-packages", "dist-packages"})
MAX_NAMED = 3


class KitError(Exception):
    """Why the kit cannot be unpacked here, and what to do."""


def main() -> int:
    """Unpack, then become the command that follows `--`. Returns the exit status."""
    mine, command = _divided(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    default = ROOT / "build" / "gpu-kit" / f"trainwright-kit-{minor}.tar.xz"
    parser.add_argument("kit", nargs="?", type=Path, default=default, help=f"by default {default.relative_to(ROOT)}")
    parser.add_argument(
        "--into", type=Path, default=ROOT / "build" / "gpu-environment", help="the environment's folder"
    )
    parser.add_argument("--list", action="store_true", help="print what this Python has, for `make gpu-kit HAS=FILE`")
    options = parser.parse_args(mine)
    if options.list:
        sys.stdout.write("".join(f"{line}\n" for line in installed()))
        return 0
    try:
        folder = unpack(options.kit, options.into.absolute())
    except KitError as error:
        sys.stderr.write(f"unpack.py: {error}\n")
        return 2
    if command:
        _become(command, folder)
    sys.stdout.write(f"Ready: {folder / 'bin' / 'trainwright'} doctor\n")
    return 0


def _divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Divide at the first `--`: argparse's own handling of it differs between versions of Python."""
    place = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:place], arguments[place + 1 :]


def _become(command: list[str], folder: Path) -> None:
    """Replace this process, so that the command's signals and exit status are its own."""
    os.chdir(ROOT)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(folder), "PYTHONSAFEPATH": "1"}
    environment.pop("PYTHONHOME", None)
    try:
        sys.stdout.flush()
        os.execvpe(command[0], command, environment)  # noqa: S606 - the owner's own words, through no shell
    except OSError as error:
        raise SystemExit(f"unpack.py: {command[0]} cannot be run: {error}") from None


def installed() -> list[str]:
    """Return `name==version` of all that this interpreter can import, torch with the CUDA it was built for."""
    found = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), distribution.version)
    torch = util.find_spec("torch")
    if torch is not None and torch.origin and "torch" in found:
        text = Path(torch.origin).with_name("version.py").read_text(encoding="utf-8")
        cuda = re.search(r"^cuda\b.*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
        public = found["torch"].partition("+")[0]
        found["torch"] = f"{public}+cu{cuda[1].replace('.', '')}" if cuda else found["torch"]
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def unpack(kit: Path, folder: Path) -> Path:
    """Make the environment, or find it made from the same kit, interpreter and checkout.

    Raises:
        KitError: the kit is damaged or for another machine, or the folder holds something else.
    """
    digest = _digest_of(kit)
    with _opened(kit) as (archive, manifest):
        _refuse_other_machine(manifest)
        holders = _holders()
        made_from = {"sha256": digest, "python": sys.executable, "libraries": holders, "checkout": str(ROOT)}
        with _locked(folder):
            if _marked(folder) == made_from:
                return folder
            for line in differences(manifest):
                sys.stderr.write(f"unpack.py: {line}\n")
            _refuse_other_content(folder)
            packages = folder.with_name(f"{folder.name}.unpacking")
            shutil.rmtree(packages, ignore_errors=True)
            _extract(archive, manifest, packages)  # beside an earlier environment, which a damaged kit leaves alone
            site = _make(folder, packages)
            _add_holders(site, holders)
            _add_checkout(folder, site)
            (folder / MARKER).write_text(json.dumps(made_from, indent=2) + "\n", encoding="utf-8")
    return folder


def _digest_of(kit: Path) -> str:
    digest = hashlib.sha256()
    try:
        with kit.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise KitError(
            f"{kit} cannot be read ({error.strerror}). `make gpu-kit PYTHON_VERSION="
            f"{sys.version_info[0]}.{sys.version_info[1]}` writes it, on a machine with a network."
        ) from None
    return digest.hexdigest()


@contextmanager
def _opened(kit: Path) -> Iterator[tuple[tarfile.TarFile, dict[str, Any]]]:
    """Give the archive behind its first member, the manifest; word what a damaged archive raises."""
    try:
        with tarfile.open(kit, "r:xz") as archive:
            first = archive.next()
            file = archive.extractfile(first) if first is not None and first.name == MANIFEST else None
            if file is None:
                raise KitError(f"{kit} is no kit: its first member is not {MANIFEST}. `make gpu-kit` writes one.")
            manifest: dict[str, Any] = json.loads(file.read())
            yield archive, manifest
    except (tarfile.TarError, lzma.LZMAError, EOFError, json.JSONDecodeError) as error:
        raise KitError(f"{kit} is damaged ({error}). Copy it again, and compare its SHA-256.") from None


def _refuse_other_machine(manifest: dict[str, Any]) -> None:
    """Refuse what the compiled packages do not run on, and a Python without torch."""
    wanted, here = manifest["python"], f"{sys.version_info[0]}.{sys.version_info[1]}"
    if here != wanted or sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        remedy = f", or `make gpu-kit PYTHON_VERSION={here}`" if sys.version_info >= (3, 10) else ""
        raise KitError(
            f"this is {platform.python_implementation()} {platform.python_version()} at {sys.executable}, and the kit "
            f"is for CPython {wanted}. Run unpack.py with that{remedy}."
        )
    if (sys.platform, platform.machine()) != ("linux", manifest["machine"]):
        raise KitError(f"this is {sys.platform} {platform.machine()}, and the kit is for linux {manifest['machine']}.")
    least = tuple(manifest["glibc"])
    library, version = platform.libc_ver()
    if library != "glibc" or tuple(int(part) for part in version.split(".")[:2]) < least:
        raise KitError(
            f"the C library is {library or 'not glibc'} {version}, and the kit needs glibc {least[0]}.{least[1]} or "
            "newer. Run it in a container of a newer Linux."
        )
    if (Path(sys.prefix) / MARKER).exists():
        raise KitError(f"{sys.executable} is of a kit's own environment. Run unpack.py with the Python that has torch.")
    if util.find_spec("torch") is None:
        raise KitError(
            f"{sys.executable} has no torch, and the kit brings none. Run unpack.py with the Python that has it."
        )


def _holders() -> list[str]:
    """Return the folders of packages of this interpreter, in their order: torch's is among them."""
    found = [path for path in sys.path if Path(path).name in LIBRARIES and Path(path).is_dir()]
    torch = util.find_spec("torch")
    if torch is not None and torch.origin:
        found.append(str(Path(torch.origin).parents[1]))
    return list(dict.fromkeys(found))


def differences(manifest: dict[str, Any]) -> list[str]:
    """Return in words what the kit counts on and this interpreter has not, or has in another version."""
    found = []
    for name, wanted in sorted(manifest["expects"].items()):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            found.append(f"{name} is not here, and {_by(wanted)} needs it. A kit made from --list brings it.")
            continue
        unmet = {who: rule for who, rule in wanted.items() if not _fits(version, rule)}
        if unmet:
            found.append(
                f"{name} is {version} here, and {_by(unmet)} wants {' and '.join(sorted(set(unmet.values())))}."
            )
    return found


def _by(wanted: dict[str, str]) -> str:
    return ", ".join(sorted(wanted)[:MAX_NAMED])


def _fits(version: str, rule: str) -> bool:
    """Return whether a version fits; True where nothing here can compare versions."""
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:
        return True
    return SpecifierSet(rule, prereleases=True).contains(version)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time make the environment: the jobs of an array start together."""
    import fcntl  # which other platforms lack, and they are to be refused in words

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock: IO[str] = folder.with_name(f"{folder.name}.lock").open("w")
    except OSError as error:
        raise KitError(f"{folder.parent} cannot be written ({error.strerror}). Name another folder: --into.") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _marked(folder: Path) -> dict[str, Any] | None:
    """Return what the environment was made from; None where there is none of ours."""
    try:
        found: dict[str, Any] = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def _refuse_other_content(folder: Path) -> None:
    if _marked(folder) is None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise KitError(f"{folder} is there and is no environment of a kit. Remove it, or name another: --into.")


def _make(folder: Path, packages: Path) -> Path:
    """Make an environment without pip around the packages, in place of an earlier one; returns their folder in it."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    (folder / MARKER).write_text("{}\n", encoding="utf-8")
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    # The scheme that no distribution of Linux changes.
    site = Path(sysconfig.get_path("purelib", "posix_prefix", {"base": str(folder), "platbase": str(folder)}))
    site.rmdir()
    packages.rename(site)
    return site


def _extract(archive: tarfile.TarFile, manifest: dict[str, Any], site: Path) -> None:
    """Write the files that the manifest lists, each held to its digest; nothing else of the archive is written."""
    missing: dict[str, str] = dict(manifest["files"])
    for member in archive:
        if member.name == MANIFEST:
            continue
        digest = missing.pop(member.name, None)
        if digest is None or not member.isreg() or not _is_inside(member.name):
            raise KitError(f"the kit holds {member.name!r}, which its manifest does not. Nothing more was unpacked.")
        file = archive.extractfile(member)
        content = file.read() if file is not None else b""
        if hashlib.sha256(content).hexdigest() != digest:
            raise KitError(f"{member.name} in the kit has another digest than its manifest says. Copy the kit again.")
        path = site / member.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if member.mode & 0o100 else 0o644)
    if missing:
        raise KitError(f"the kit ends before {next(iter(missing))}, {len(missing)} files in all. Copy it again.")


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and bool(path.parts)


def _add_holders(site: Path, holders: list[str]) -> None:
    """Put the interpreter's packages behind the kit's, their own .pth files included.

    `venv --system-site-packages` would show those of the base interpreter, where this one is in an environment itself.
    """
    lines = [f"import site; site.addsitedir({folder!r})\n" for folder in holders]
    (site / "zz_torch.pth").write_text("".join(lines), encoding="utf-8")


def _add_checkout(folder: Path, site: Path) -> None:
    """Install this checkout as `pip install --editable` would: path, metadata and command."""
    text = (ROOT / "src" / "trainwright" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise KitError(f"{ROOT} is no checkout of Trainwright: src/trainwright/__init__.py has no version.")
    (site / "trainwright.pth").write_text(f"{ROOT / 'src'}\n", encoding="utf-8")
    info = site / f"trainwright-{found[1]}.dist-info"
    info.mkdir()
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: trainwright\nVersion: {found[1]}\n",
        "entry_points.txt": "[console_scripts]\ntrainwright = trainwright.server.entry:main\n",
        "direct_url.json": json.dumps({"url": ROOT.as_uri(), "dir_info": {"editable": True}}),
        "top_level.txt": "trainwright\n",
        "INSTALLER": "trainwright-kit\n",
    }
    for name, content in files.items():
        (info / name).write_text(content, encoding="utf-8")
    (info / "RECORD").write_text("".join(f"{info.name}/{name},,\n" for name in (*files, "RECORD")), encoding="utf-8")
    command = folder / "bin" / "trainwright"
    # Through the shell, since a path in a first line of its own may be neither long nor hold a blank.
    command.write_text(
        "#!/bin/sh\n"
        '\'\'\'exec\' "$(dirname "$(readlink -f "$0")")/python" -P "$0" "$@"\n'
        "'''\n"
        "import sys\n"
        "from trainwright.server.entry import main\n"
        "sys.exit(main())\n",
        encoding="utf-8",
    )
    command.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main())
