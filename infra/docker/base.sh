#!/usr/bin/env bash
# Builds the base image of both Dockerfiles from Debian packages, for machines without access to an image registry:
#
#   sudo infra/docker/base.sh localhost/agggen-base        # then build with --build-arg BASE=localhost/agggen-base
#
# Replaces python:3.11-slim-bookworm by Debian 12 with Python 3.11, pip and venv. It needs debootstrap and podman (with
# options: PODMAN="podman --OPTION ..."). MIRROR is another mirror of Debian packages.
set -euo pipefail
name=${1:?usage: base.sh NAME}
read -ra podman <<<"${PODMAN:-podman}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

debootstrap --variant=minbase --include=ca-certificates,python3,python3-pip,python3-venv \
  bookworm "$work/root" ${MIRROR:+"$MIRROR"}
ln -s /usr/bin/python3 "$work/root/usr/local/bin/python"
rm "$work/root/usr/lib/python3.11/EXTERNALLY-MANAGED" # pip may install, as in the official image
rm -rf "$work/root"/var/lib/apt/lists/* "$work/root"/var/cache/apt/*.bin "$work/root"/var/cache/apt/archives/*.deb
tar -C "$work/root" -c . | "${podman[@]}" import --change "CMD python" - "$name"
