"""What network policies allow: the rules of Kubernetes, evaluated for given pods.

A connection passes if the policies of the one side let it out and those of the other side let it in. A side that no
policy selects is open. Covered is what our manifests use: selectors of pods and namespaces, blocks of addresses, and
single ports.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Policy = dict[str, Any]
NAMESPACE = "agggen"


@dataclass(frozen=True)
class End:
    """A pod, or an address outside of the cluster."""

    labels: dict[str, str] = field(default_factory=dict)
    namespace: str = NAMESPACE
    address: str | None = None
    """Of what is no pod."""


def selected(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a label selector takes `labels`; an empty one takes all.

    Raises:
        NotImplementedError: an operator that our manifests do not use.
    """
    for each in selector.get("matchExpressions", []):
        if each["operator"] != "In":
            raise NotImplementedError(each["operator"])
        if labels.get(each["key"]) not in each["values"]:
            return False
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def allowed(policies: Sequence[Policy], source: End, target: End, port: int, protocol: str = "TCP") -> bool:
    """Whether `source` may open a connection to `port` of `target`."""
    out = _passes(policies, "Egress", source, target, port, protocol)
    return out and _passes(policies, "Ingress", target, source, port, protocol)


def _passes(policies: Sequence[Policy], direction: str, this: End, other: End, port: int, protocol: str) -> bool:
    if this.address is not None or this.namespace != NAMESPACE:
        return True  # not ours to decide
    rules = list(_rules(policies, direction, this))
    return not rules or any(_takes(rule, direction, other, port, protocol) for one in rules for rule in one)


def _rules(policies: Sequence[Policy], direction: str, pod: End) -> Iterator[list[Any]]:
    """The rules of each policy that holds for the pod in this direction."""
    for policy in policies:
        spec = policy["spec"]
        if direction in spec["policyTypes"] and selected(spec["podSelector"], pod.labels):
            yield spec.get(direction.lower(), [])


def _takes(rule: dict[str, Any], direction: str, other: End, port: int, protocol: str) -> bool:
    ports = rule.get("ports")
    if ports and not any(each["port"] == port and each.get("protocol", "TCP") == protocol for each in ports):
        return False
    peers = rule.get("to" if direction == "Egress" else "from")
    return not peers or any(_is_peer(peer, other) for peer in peers)


def _is_peer(peer: dict[str, Any], other: End) -> bool:
    if block := peer.get("ipBlock"):
        if other.address is None:  # pods have addresses too, but which is not known here
            return False
        address = ipaddress.ip_address(other.address)
        inside = address in ipaddress.ip_network(block["cidr"])
        return inside and not any(address in ipaddress.ip_network(one) for one in block.get("except", []))
    if other.address is not None:
        return False
    if "namespaceSelector" in peer:
        if not selected(peer["namespaceSelector"], {"kubernetes.io/metadata.name": other.namespace}):
            return False
    elif other.namespace != NAMESPACE:
        return False
    return selected(peer.get("podSelector", {}), other.labels)
