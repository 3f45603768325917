//! An append-only file of checksummed frames (the manifest): writer and reader.
