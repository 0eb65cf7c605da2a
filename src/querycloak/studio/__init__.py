"""`querycloak studio`: form, answers, rows of synthetic twins and the HTTP app, for a browser on the same machine."""
