"""Loads critics by address: ``included``, a folder, ``s3://bucket/prefix``, or ``models:/NAME@ALIAS``."""

import hashlib
from pathlib import Path

from agggen.bundle import CRITIC_FILES
from agggen.verification.critic.critic import SHIPPED, Critic, load_critic
from agggen_platform.storage.bundles import MANIFEST, get_bundle
from agggen_platform.storage.folder import Folder

INCLUDED = "included"  # the address of the critic that ships with agggen


def resolve_critic(address: str) -> str:
    """The absolute address of the critic's folder; ``included`` stays as it is."""
    if address == INCLUDED:
        return address
    if address.startswith("models:/"):
        from agggen_platform.registry import resolve

        address = resolve(address)
    return Folder(address).address


def open_critic(address: str) -> tuple[Critic, str]:
    """The critic at `address`, and the SHA-256 of its files; raises CriticError or BundleError."""
    address = resolve_critic(address)
    if address == INCLUDED:
        return load_critic(SHIPPED), _fingerprint(SHIPPED)
    folder = Path(address)
    if Folder(address).local is None or (folder / MANIFEST).is_file():
        folder = get_bundle(address)
    return load_critic(folder), _fingerprint(folder)


def _fingerprint(folder: Path) -> str:
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in CRITIC_FILES)).hexdigest()
