"""Every method on one log: the plan, the steps in a folder that can be resumed, and the summary that pages show."""
