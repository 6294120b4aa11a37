"""Images: read strictly into arrays of bytes, whatever form their publisher gave them."""
