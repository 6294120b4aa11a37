"""The methods themselves, in pure PyTorch: nothing here knows of files, trackers or pipelines."""
