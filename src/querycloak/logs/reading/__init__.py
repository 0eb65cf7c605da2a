"""Reading of every format: from files to blocks, records and fields, their values, and a code for each row."""
