"""Long-Range Arena: classification of long sequences of tokens, made by generators or from texts and images."""
