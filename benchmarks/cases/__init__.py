"""What is measured, one file a question; `rows` yields its lines of the table."""
