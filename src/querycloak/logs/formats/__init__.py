"""The formats of logs, and which of them a log is written in."""

from querycloak.logs.formats.detection import FORMATS, Reader, Recognised, accepted_times, choose_reader

__all__ = ["FORMATS", "Reader", "Recognised", "accepted_times", "choose_reader"]
