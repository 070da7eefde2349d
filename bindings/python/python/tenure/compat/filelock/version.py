"""The release of filelock whose interface this is."""

__version__ = version = "4.2.10"
__version_tuple__ = version_tuple = (4, 2, 10)
