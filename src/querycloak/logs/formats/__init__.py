"""The formats of logs (AOL, Excite, Sogou, UBI, CSV, JSON lines, Parquet): their readers, and detection of a format."""

from querycloak.logs.formats.detection import FORMATS, Reader, Recognised, accepted_times, choose_reader

__all__ = ["FORMATS", "Reader", "Recognised", "accepted_times", "choose_reader"]
