"""The field side by side: published algorithms of partition selection, written from their papers, beside ours."""
