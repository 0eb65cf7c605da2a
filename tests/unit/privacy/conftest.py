"""Machines that run several things at once make single examples slow: no deadline for them."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
