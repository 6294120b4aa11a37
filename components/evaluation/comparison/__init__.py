"""Comparison of the arms of a study: intervals, paired tests, tables, fronts and pictures, from plain numbers."""
