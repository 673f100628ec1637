"""The dialects of the server: what requests and answers look like to each kind of client."""
