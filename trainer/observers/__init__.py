"""What watches the loop: one file each, with the moments of `Observer`."""
