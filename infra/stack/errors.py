"""What can go wrong with a stack."""


class StackError(Exception):
    """A part does not start, does not answer, or ended. The message is for the user."""

    exit_code = 1


class RefusedError(StackError):
    """What was asked for cannot be done here; nothing was started."""

    exit_code = 2


class UnreadyError(Exception):
    """A part does not answer as it should, which may change with time."""
