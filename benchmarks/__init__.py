"""What Quintet costs beside what one would use instead: ratios against named peers, with the accuracy of both sides."""
