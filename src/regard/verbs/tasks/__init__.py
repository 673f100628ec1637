"""What can be trained: one file a task, each with its recipe's sections, its data and its scores."""
