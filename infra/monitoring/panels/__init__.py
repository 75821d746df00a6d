"""What Grafana's dashboards show: each panel's query, unit, and a sentence for who looks at it at night."""

from infra.monitoring.panels.board import Board, Panel
from infra.monitoring.panels.bulk import BULK
from infra.monitoring.panels.endpoint import ENDPOINT
from infra.monitoring.panels.training import TRAINING

DASHBOARDS = (TRAINING, BULK, ENDPOINT)

__all__ = ["DASHBOARDS", "Board", "Panel"]
