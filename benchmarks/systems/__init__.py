"""Translation systems that are trained within a budget of processor time and compared by their scores."""
