"""Documents of finished work: their full texts on the archive branch, stubs in their places."""
