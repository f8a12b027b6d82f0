"""Data sets: the embedded ones, CIFAR, arrays of your own."""
