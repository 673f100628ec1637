"""Models -> folders of other engines, each with a certificate of what the other engine computes."""
