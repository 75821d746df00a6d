"""Prometheus, its rules, and Grafana's dashboards for this project; `panels` and `rules` are the sources."""
