"""The report of an evaluation: data in, a folder with an HTML page, Markdown, JSON and one line a record out."""

from agggen.evaluation.report.content import Measure, Mistake, Report, Row, Section
from agggen.evaluation.report.folder import check_target, write_report

__all__ = ["Measure", "Mistake", "Report", "Row", "Section", "check_target", "write_report"]
