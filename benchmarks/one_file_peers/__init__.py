"""What a practitioner would otherwise train on one file of labelled texts, tagged words or running text."""
