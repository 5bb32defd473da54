"""What a work tree needs beside its files, and where that is."""
