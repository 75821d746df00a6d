"""Prometheus, its rules, and Grafana's dashboards for this project."""
