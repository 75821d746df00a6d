"""Slot errors of texts about E2E records: missed, added and wrong values."""

from agggen.verification.e2e.matching import expresses as expresses
from agggen.verification.e2e.matching import has_patterns as has_patterns
from agggen.verification.e2e.patterns import Reading as Reading
from agggen.verification.e2e.scores import SLOTS as SLOTS
from agggen.verification.e2e.scores import VERSION as VERSION
from agggen.verification.e2e.scores import SlotError as SlotError
from agggen.verification.e2e.scores import SlotErrors as SlotErrors
from agggen.verification.e2e.scores import slot_errors as slot_errors
from agggen.verification.e2e.scores import slot_of as slot_of
