//! A Bloom filter over key hashes, for absent keys of a table and for sections of a chunk's log.
/// An immutable Bloom filter.
#[derive(Debug, Clone)]
pub struct BloomFilter;
