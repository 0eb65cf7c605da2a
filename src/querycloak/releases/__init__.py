"""Releases: tables with their guarantee, the output filter, the folder with card and datasheet, saving, loading."""
