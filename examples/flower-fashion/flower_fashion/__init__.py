"""FedTeddi on a fleet of Flower nodes."""
