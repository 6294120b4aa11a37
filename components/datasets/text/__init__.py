"""Text with labels: sentences, reviews, messages, and pairs of sentences."""
