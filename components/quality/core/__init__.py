"""What every gate shares: its report, and the one door to Great Expectations."""
