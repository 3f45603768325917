use super::*;
use proptest::prelude::*;

fn packer(codec: Codec) -> Packer {
    Packer::new(&TableOptions {
        block_bytes: 4096,
        restart_interval: 16,
        codec,
        zstd_level: 3,
        filter_bits_per_key: 0,
    })
}

/// Packs `block` behind other bytes, which stay. Returns the bytes and the codec.
fn packed(codec: Codec, block: &[u8]) -> (Vec<u8>, Codec) {
    let mut buffer = [b"before", block].concat();
    let used = packer(codec).pack(&mut buffer, 6);
    assert!(buffer.starts_with(b"before"));
    (buffer.split_off(6), used)
}

fn codecs() -> Vec<Codec> {
    match zstd::IS_THERE {
        true => vec![Codec::Lz4, Codec::Zstd],
        false => vec![Codec::Lz4],
    }
}

/// A text of `len` letters of few kinds.
fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| b'a' + (at * at / 7 % 5) as u8).collect()
}

/// Bytes that have nothing in common.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let words = (0..).map(|at| xxhash_rust::xxh3::xxh3_64_with_seed(&u64::to_le_bytes(at), seed));
    words.flat_map(u64::to_le_bytes).take(len).collect()
}

#[test]
fn of_blocks_that_do_not_get_smaller_few_are_tried_and_those_that_do_are_found_again() {
    for codec in codecs() {
        let mut packer = packer(codec);
        let mut tried = 0;
        for seed in 0..808 {
            tried += u32::from(packer.is_tried());
            assert_eq!(packer.pack(&mut noise(4096, seed), 0), Codec::None);
        }
        // The first eight, and one in eight of the others.
        assert_eq!(tried, 8 + 100);

        let after: Vec<Codec> = (0..100).map(|_| packer.pack(&mut text(4096), 0)).collect();
        let found = after.iter().position(|&used| used == codec).unwrap();
        assert!(found < 8, "{found}");
        assert!(after[found..].iter().all(|&used| used == codec));
    }
}

proptest! {
    #[test]
    fn a_block_comes_back_and_is_smaller_by_an_eighth_if_packed(
        block in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..300),
            prop::collection::vec(0..3u8, 0..3000),
        ],
    ) {
        for codec in codecs() {
            let (payload, used) = packed(codec, &block);
            prop_assert_eq!(&unpack(&payload, used, None).unwrap()[..], &block[..]);
            match used {
                Codec::None => prop_assert_eq!(&payload, &block),
                used => {
                    prop_assert_eq!(used, codec);
                    prop_assert!(payload.len() <= block.len() - block.len() / 8);
                }
            }
        }
    }

    #[test]
    fn whatever_the_bytes_are_unpacking_ends(
        payload in prop::collection::vec(any::<u8>(), 0..200),
        at in 0..200usize,
        byte in any::<u8>(),
    ) {
        for codec in [Codec::Lz4, Codec::Zstd, Codec::ZstdDictionary] {
            let _ = unpack(&payload, codec, None);
        }
        for codec in codecs() {
            let (mut payload, used) = packed(codec, &text(1000));
            let at = at % payload.len();
            payload[at] = byte;
            if let Ok(bytes) = unpack(&payload, used, None) {
                prop_assert!(bytes.len() <= RAW_BYTES_MAX);
            }
            let _ = unpack(&payload[..at], used, None);
        }
    }
}

#[test]
fn what_saves_less_than_an_eighth_stays_as_it_is() {
    // Letters that repeat nowhere, and a part that repeats.
    let mixed = |repeated: usize| {
        let mut state = 1u32;
        let mut block: Vec<u8> = Vec::new();
        block.resize_with(800, || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        block.extend(vec![b'x'; repeated]);
        block
    };
    for codec in codecs() {
        assert_eq!(packed(codec, &mixed(60)).1, Codec::None);
        assert_eq!(packed(codec, &mixed(300)).1, codec);
        assert_eq!(packed(codec, b"q7Zx").1, Codec::None);
        assert_eq!(packed(codec, b"").1, Codec::None);
    }
}

#[test]
fn a_block_above_the_limit_is_not_packed_and_one_that_promises_more_refused() {
    let block = vec![0; RAW_BYTES_MAX + 1];
    for codec in codecs() {
        assert_eq!(packed(codec, &block).1, Codec::None);
        let (payload, used) = packed(codec, &block[..RAW_BYTES_MAX]);
        assert_eq!(used, codec);
        assert_eq!(unpack(&payload, used, None).unwrap().len(), RAW_BYTES_MAX);
        // The greatest promise whose length has the same number of bytes: one more.
        let len_bytes = {
            let mut len = Vec::new();
            codec::put_varint(&mut len, RAW_BYTES_MAX as u64);
            len.len()
        };
        let mut hostile = Vec::new();
        codec::put_varint(&mut hostile, RAW_BYTES_MAX as u64 + 1);
        hostile.extend_from_slice(&payload[len_bytes..]);
        assert!(unpack(&hostile, used, None).is_err());
    }
}

#[test]
fn hostile_lengths_do_not_allocate() {
    for promised in [u64::MAX, 1 << 62, 1 << 40, (16 << 20) + 1] {
        let mut payload = Vec::new();
        codec::put_varint(&mut payload, promised);
        payload.extend_from_slice(&[0; 4]);
        for codec in codecs() {
            assert!(unpack(&payload, codec, None).is_err(), "{promised}");
        }
    }
    let mut payload = Vec::new();
    codec::put_varint(&mut payload, 4 * 255 + 1);
    payload.extend_from_slice(&[0; 4]);
    assert!(unpack(&payload, Codec::Lz4, None).is_err());
    for codec in codecs() {
        assert!(unpack(&[], codec, None).is_err());
        assert!(unpack(&[0x80; 11], codec, None).is_err());
    }
}

#[cfg(feature = "zstd")]
mod with_zstd {
    use super::*;

    /// Blocks that have words in common; `seed` chooses the words.
    fn blocks(seed: usize) -> (Vec<u8>, Vec<usize>) {
        let block = |number: usize| {
            (0..20)
                .map(|row| {
                    format!(
                        "{{\"name\":\"user {}\",\"city-{seed}\":\"{}\"}}",
                        number * row,
                        row * seed
                    )
                })
                .collect::<String>()
                .into_bytes()
        };
        let blocks: Vec<Vec<u8>> = (0..200).map(block).collect();
        (blocks.concat(), blocks.iter().map(Vec::len).collect())
    }

    #[test]
    fn a_block_packed_with_a_dictionary_needs_that_very_one() {
        let trained = |seed: usize| {
            let mut packer = packer(Codec::ZstdDictionary);
            let (all, lens) = blocks(seed);
            let bytes = packer.train(&all, &lens).expect("a dictionary");
            let mut buffer = all[..lens[0]].to_vec();
            let used = packer.pack(&mut buffer, 0);
            assert_eq!(used, Codec::ZstdDictionary);
            (dictionary(&bytes).unwrap(), buffer, all[..lens[0]].to_vec())
        };
        let (own, payload, block) = trained(1);
        let (other, ..) = trained(2);
        let with = |dictionary| unpack(&payload, Codec::ZstdDictionary, dictionary);
        assert_eq!(&with(Some(&own)).unwrap()[..], &block[..]);
        assert!(with(Some(&other)).is_err());
        assert_eq!(with(None), Err(NO_DICTIONARY));
        assert!(unpack(&payload, Codec::Zstd, Some(&own)).is_err());
    }

    #[test]
    fn few_blocks_have_no_dictionary_and_nonsense_is_none() {
        let (all, lens) = blocks(1);
        let few = SAMPLE_BYTES_MIN / lens[0] / 2;
        let len: usize = lens[..few].iter().sum();
        let mut packer = packer(Codec::ZstdDictionary);
        assert_eq!(packer.train(&all[..len], &lens[..few]), None);
        let bytes = packer.train(&all, &lens).unwrap();
        assert!(bytes.len() <= all.len() / DICTIONARY_SHARE);
        for nonsense in [&b""[..], b"no dictionary", &bytes[..9], &[0; 4096]] {
            assert!(dictionary(nonsense).is_err());
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << (at % 8);
            let _ = dictionary(&bad);
        }
    }
}
