"""The report of an evaluation: a folder with an HTML page, all scores as JSON, and a JSON line per record."""

from agggen.report.content import Measure, Report, Row, Section
from agggen.report.folder import check_target, write_report

__all__ = ["Measure", "Report", "Row", "Section", "check_target", "write_report"]
