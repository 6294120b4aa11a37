"""What every kind of data shares: the catalogue, fetching, strict reading, splitting."""
