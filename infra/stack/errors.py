"""The errors of a stack."""


class StackError(Exception):
    """A part does not start, does not answer, or has ended. The message is for the user."""

    exit_code = 1


class RefusedError(StackError):
    """The request is invalid; nothing was started."""

    exit_code = 2


class UnreadyError(Exception):
    """A part does not answer yet."""
