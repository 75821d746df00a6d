"""Slot error rate for E2E: which slots of a record its text misses, adds or gets wrong."""

from agggen.evaluation.slot_errors.matching import known as known
from agggen.evaluation.slot_errors.matching import says as says
from agggen.evaluation.slot_errors.patterns import Reading as Reading
from agggen.evaluation.slot_errors.scores import SLOTS as SLOTS
from agggen.evaluation.slot_errors.scores import SlotError as SlotError
from agggen.evaluation.slot_errors.scores import SlotErrors as SlotErrors
from agggen.evaluation.slot_errors.scores import slot_error_rate as slot_error_rate
from agggen.evaluation.slot_errors.scores import slot_errors as slot_errors
from agggen.evaluation.slot_errors.scores import slot_of as slot_of
