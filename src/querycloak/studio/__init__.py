"""The studio: choose, see, release and sign in a browser on the owner's machine."""
