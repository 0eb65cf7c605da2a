"""Sign-off: split, trial release, evidence, release and the pages to sign, from one plan."""
