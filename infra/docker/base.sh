#!/usr/bin/env bash
# Builds the base image of both Dockerfiles from Debian's packages, where no registry of images can be reached:
#
#   sudo infra/docker/base.sh localhost/agggen-base        # then build with --build-arg BASE=localhost/agggen-base
#
# It needs debootstrap and podman (PODMAN="podman --OPTION ..." for options) and stands in for python:3.11-slim-bookworm:
# Debian 12 with its Python 3.11, pip and venv, called `python` and `pip`. MIRROR is another mirror of Debian's packages.
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
