"""Reads PromQL as Prometheus does, and says which metrics and labels a query uses that nobody exports."""

from __future__ import annotations

import re
from typing import Any

import promql_parser

from tests.manifests.exported_metrics import OF_TARGETS, VALUED, Known

VARIABLES = {"$__rate_interval": "5m", "$run": ".+", "$kind": ".+"}
"""What Grafana puts in; every other variable is unknown."""


class QueryError(AssertionError):
    """A query that is no PromQL, or that asks for what is not there."""


def filled(query: str) -> str:
    """The query with Grafana's variables."""
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    if unknown := re.search(r"\$\w+", query):
        raise QueryError(f"no such variable: {unknown.group()}")
    return query


def labels_of(query: str, known: Known) -> frozenset[str]:
    """The labels of what the query gives; raises QueryError for one that uses an unknown metric, label or value."""
    try:
        tree = promql_parser.parse(query)
    except ValueError as error:
        raise QueryError(f"{error}: {query}") from error
    return _labels(tree, known) or frozenset()


def _labels(tree: Any, known: Known) -> frozenset[str] | None:
    """None of a number."""
    match type(tree).__name__:
        case "NumberLiteral" | "StringLiteral":
            return None
        case "VectorSelector":
            return _selected(tree, known)
        case "MatrixSelector":
            return _selected(tree.vector_selector, known)
        case "ParenExpr" | "UnaryExpr" | "SubqueryExpr":
            return _labels(tree.expr, known)
        case "Call":
            return _called(tree, known)
        case "AggregateExpr":
            return _aggregated(tree, known)
        case "BinaryExpr":
            return _joined(tree, known)
        case kind:
            raise QueryError(f"{kind} is not looked into here")


def _selected(selector: Any, known: Known) -> frozenset[str]:
    name = selector.name
    if name not in known:
        raise QueryError(f"nobody exports {name}")
    there = known[name]
    labels = frozenset(there) | (
        frozenset() if ":" in name else OF_TARGETS
    )  # a recording rule's are those it groups by
    for matcher in selector.matchers.matchers:
        if matcher.name not in labels:
            raise QueryError(f"{name} has no label {matcher.name}; it has {', '.join(sorted(labels))}")
        values = there.get(matcher.name, frozenset())
        exact, one_of = (matcher.op == op for op in (promql_parser.MatchOp.Equal, promql_parser.MatchOp.Re))
        for value in [matcher.value] if exact else matcher.value.split("|") if one_of else []:
            if values and matcher.name in VALUED and value != ".+" and value not in values:
                raise QueryError(f"{name} has no {matcher.name}={value!r}; it has {', '.join(sorted(values))}")
    return labels


def _called(call: Any, known: Known) -> frozenset[str] | None:
    found = [labels for labels in (_labels(argument, known) for argument in call.args) if labels is not None]
    if call.func.name == "histogram_quantile":
        if "le" not in found[0]:
            raise QueryError("a quantile of what has no label le")
        return found[0] - {"le"}
    return found[0] if found else None


def _aggregated(tree: Any, known: Known) -> frozenset[str]:
    inner = _labels(tree.expr, known)
    assert inner is not None
    if tree.modifier is None:
        return frozenset()
    named = frozenset(tree.modifier.labels)
    if missing := named - inner:
        raise QueryError(f"grouped by {', '.join(sorted(missing))}, which is not among {', '.join(sorted(inner))}")
    return named if tree.modifier.type == promql_parser.AggModifierType.By else inner - named


def _joined(tree: Any, known: Known) -> frozenset[str] | None:
    left, right = _labels(tree.lhs, known), _labels(tree.rhs, known)
    if left is None or right is None:
        return right if left is None else left
    matching = tree.modifier.matching if tree.modifier else None
    if matching is None and left != right:
        raise QueryError(f"joins what has {sorted(left)} with what has {sorted(right)}, which never match")
    if matching is not None and (missing := frozenset(matching.labels) - (left & right)):
        raise QueryError(f"joined on {', '.join(sorted(missing))}, which not both sides have")
    return left
