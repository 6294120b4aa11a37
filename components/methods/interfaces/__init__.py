"""What readouts and quantisers have in common, whoever made them: the methods and their rivals stand behind these."""
