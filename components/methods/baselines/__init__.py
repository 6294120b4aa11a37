"""What DDCL-Attention is measured against: readouts and quantisers of other makers, behind its own interfaces."""
