#!/usr/bin/env bash
# Starts the Docker Engine, BuildKit and Compose of Debian 13 on Debian 12, unpacked into a folder instead of installed:
#
#   eval "$(sudo tests/cluster/dockerd.sh)"        # sets DOCKER_HOST, DOCKER_CONFIG and PATH
#   sudo tests/cluster/dockerd.sh stop
#
# It needs runc and iptables. Images are in /var/lib/agggen-docker/data.
set -euo pipefail
place=/var/lib/agggen-docker
socket=/run/agggen-docker.sock
pid=/run/agggen-docker.pid

if [[ ${1:-} == stop ]]; then
  [[ ! -e $pid ]] || kill "$(<"$pid")"
  exit
fi

if [[ ! -x $place/engine/usr/sbin/dockerd ]]; then
  apt=$place/apt
  mkdir -p "$apt"/{lists,cache/archives}/partial "$place/config" "$place/debs"
  mirror=$(apt-get indextargets --format '$(SITE)' "Origin: Debian" "Codename: bookworm" | head -n 1)
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$apt/sources.list"
  cat >"$apt/apt.conf" <<EOF
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$apt/lists";
Dir::Cache "$apt/cache";
EOF
  export APT_CONFIG=$apt/apt.conf
  apt-get update -qq >&2
  cd "$place/debs"
  apt-get download -qq {containerd,docker-buildx,docker-cli,docker-compose,docker.io,tini}/trixie >&2
  for package in *.deb; do dpkg -x "$package" "$place/engine"; done
  rm -r "$place/debs" "$apt"
fi
echo "{\"cliPluginsExtraDirs\": [\"$place/engine/usr/libexec/docker/cli-plugins\"]}" >"$place/config/config.json"
export PATH=$place/engine/usr/bin:$place/engine/usr/sbin:$PATH

if ! docker --host="unix://$socket" version >/dev/null 2>&1; then
  # A daemon that has to turn forwarding on closes it for all networks that are not its own.
  sysctl -q net.ipv4.ip_forward=1
  setsid dockerd --host="unix://$socket" --pidfile="$pid" --data-root="$place/data" --exec-root=/run/agggen-docker \
    --bridge=none --default-address-pool=base=172.29.0.0/16,size=24 --exec-opt=native.cgroupdriver=cgroupfs \
    --init-path="$place/engine/usr/bin/tini-static" --log-level=warn </dev/null >"$place/dockerd.log" 2>&1 &
  for _ in {1..60}; do
    docker --host="unix://$socket" version >/dev/null 2>&1 && break
    sleep 0.5
  done
  docker --host="unix://$socket" version >/dev/null || { cat "$place/dockerd.log" >&2; exit 1; }
fi
echo "export DOCKER_HOST=unix://$socket DOCKER_CONFIG=$place/config PATH=$place/engine/usr/bin:\$PATH"
