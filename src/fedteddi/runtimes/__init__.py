"""Ways to be the clients: in this process, or (to come) on a real fleet."""
