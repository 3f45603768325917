#![expect(
    unsafe_code,
    reason = "instructions of the processor, measured: four to five times the rate (decision 0068)"
)]
//! AES-256-GCM by the instructions of newer x86-64 processors, sixteen blocks at a time.
//!
//! ```text
//! body      | 256 bytes: 4 registers of 4 blocks | 256 bytes | ... | rest |
//! seal      each xor AES(nonce, 2, 3, 4, ...)       then the tag is computed over the result
//! open      the tag is computed and compared; only then is the body decrypted
//! tag       (bound | encrypted | lengths) as a polynomial at H, xor AES(nonce, 1)
//! ```
//! The bytes are as in NIST SP 800-38D and in the crate `aes-gcm`, which does the same on every
//! other processor (`aes_gcm.rs`): tests compare the two. Of a key this keeps its rounds and the
//! powers of H that one step takes.
//!
//! The polynomial. GHASH is computed as POLYVAL (RFC 8452, appendix A) of the bytes in reverse
//! order, at `H * x`. With `H = H1 * x^64 + H0` and `D = H * x^-64`, which is kept beside H, the
//! product of a block `M = M1 * x^64 + M0` is `(M0 * D + M1 * H) * x^-64`. Sixteen such sums are
//! added up before the one reduction by `x^-64`. Since `x^-64 = x^64 + P` with
//! `P = x^63 + x^62 + x^57`, that is one more multiplication.
//!
//! Invariants: a [`Wide`] exists only where [`Wide::new`] found the instructions. Times and
//! addresses depend only on lengths, not on key or body. The key's state is zeroed when it is
//! dropped. Thread safety: immutable.
//! Not here: nonces, and which bytes are bound.

use super::{KEY_BYTES, NONCE_BYTES, TAG_BYTES};
use std::arch::x86_64::*;
use zeroize::Zeroize;

/// Bytes of a block of AES.
const BLOCK: usize = 16;
/// The blocks and the bytes of a step.
const STEP_BLOCKS: usize = 16;
const STEP: usize = STEP_BLOCKS * BLOCK;
/// Bytes of a register.
const LANES: usize = 64;

/// `x^63 + x^62 + x^57`.
const P: i64 = 0xC200_0000_0000_0000_u64.cast_signed();

/// See the module.
pub(super) struct Wide {
    rounds: [[u8; BLOCK]; 15],
    /// H to the powers of 16, 15, ..., 1.
    powers: [u8; STEP],
    /// Each of these powers times `x^-64`.
    shifted: [u8; STEP],
}

impl Drop for Wide {
    fn drop(&mut self) {
        self.rounds.zeroize();
        self.powers.zeroize();
        self.shifted.zeroize();
    }
}

impl Wide {
    /// The cipher of this key; `None` on a processor without the instructions.
    pub(super) fn new(key: &[u8; KEY_BYTES]) -> Option<Box<Wide>> {
        let has_all = is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("vpclmulqdq");
        // SAFETY: the processor has what the function is compiled for, as was just asked.
        has_all.then(|| unsafe { expanded(key) })
    }

    /// Encrypts `body` in its place. Returns the tag.
    #[inline]
    pub(super) fn seal(
        &self,
        nonce: &[u8; NONCE_BYTES],
        bound: &[u8],
        body: &mut [u8],
    ) -> [u8; TAG_BYTES] {
        // SAFETY: there is a `Wide`, so the processor has what the functions are compiled for.
        unsafe {
            apply(self, nonce, body);
            tag_of(self, nonce, bound, body)
        }
    }

    /// Decrypts `body` in its place, if `tag` is the tag with which it was sealed. Otherwise `body`
    /// is unchanged.
    #[inline]
    pub(super) fn open(
        &self,
        nonce: &[u8; NONCE_BYTES],
        bound: &[u8],
        body: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> bool {
        // SAFETY: as in `seal`.
        unsafe {
            let expected = u128::from_le_bytes(tag_of(self, nonce, bound, body));
            // One comparison of all bits: its duration does not tell where they differ.
            let is_right = expected ^ u128::from_le_bytes(*tag) == 0;
            if is_right {
                apply(self, nonce, body);
            }
            is_right
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; LANES]) -> __m512i {
    // SAFETY: the slice has the bytes, and the instruction asks for no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(bytes: &mut [u8; LANES], register: __m512i) {
    // SAFETY: as in `load`.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), register) }
}

#[inline]
fn block_of(bytes: &[u8; BLOCK]) -> __m128i {
    // SAFETY: as in `load`.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// One store, as the compiler makes it.
#[inline]
#[target_feature(enable = "sse2")]
fn bytes_of(block: __m128i) -> [u8; BLOCK] {
    let low = _mm_cvtsi128_si64(block) as u64;
    let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(block, block)) as u64;
    (u128::from(low) | u128::from(high) << 64).to_le_bytes()
}

/// The four registers of a step.
#[inline]
fn lanes(step: &[u8; STEP]) -> &[[u8; LANES]; STEP / LANES] {
    let (lanes, _) = step.as_chunks::<LANES>();
    lanes.try_into().expect("four registers are a step")
}

#[target_feature(enable = "aes,pclmulqdq,avx512f,avx512bw,vaes,vpclmulqdq")]
fn expanded(key: &[u8; KEY_BYTES]) -> Box<Wide> {
    let rounds = rounds_of(key).map(|round| bytes_of(round));
    let mut wide = Box::new(Wide {
        rounds,
        powers: [0; STEP],
        shifted: [0; STEP],
    });
    let hash_key = u128::from_le_bytes(bytes_of(encrypted(&wide, _mm_setzero_si128())));
    let h = block_of(&times_x(hash_key.swap_bytes()).to_le_bytes());
    let d = shifted(h);
    let mut power = h;
    for at in (0..STEP_BLOCKS).rev() {
        let place = at * BLOCK..(at + 1) * BLOCK;
        wide.powers[place.clone()].copy_from_slice(&bytes_of(power));
        wide.shifted[place].copy_from_slice(&bytes_of(shifted(power)));
        power = times(power, h, d);
    }
    wide
}

/// The keys of the fifteen rounds (FIPS 197).
#[inline]
#[target_feature(enable = "aes")]
fn rounds_of(key: &[u8; KEY_BYTES]) -> [__m128i; 15] {
    #[inline]
    #[target_feature(enable = "aes")]
    fn mixed(key: __m128i, with: __m128i) -> __m128i {
        let key = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
        let key = _mm_xor_si128(key, _mm_slli_si128::<8>(key));
        _mm_xor_si128(key, with)
    }
    #[inline]
    #[target_feature(enable = "aes")]
    fn even<const CONSTANT: i32>(before: __m128i, last: __m128i) -> __m128i {
        let with = _mm_aeskeygenassist_si128::<CONSTANT>(last);
        mixed(before, _mm_shuffle_epi32::<0xFF>(with))
    }
    #[inline]
    #[target_feature(enable = "aes")]
    fn odd(before: __m128i, last: __m128i) -> __m128i {
        let with = _mm_aeskeygenassist_si128::<0>(last);
        mixed(before, _mm_shuffle_epi32::<0xAA>(with))
    }
    let mut rounds = [_mm_setzero_si128(); 15];
    let (halves, _) = key.as_chunks::<BLOCK>();
    rounds[0] = block_of(&halves[0]);
    rounds[1] = block_of(&halves[1]);
    for at in 2..15 {
        let (before, last) = (rounds[at - 2], rounds[at - 1]);
        rounds[at] = match at {
            2 => even::<0x01>(before, last),
            4 => even::<0x02>(before, last),
            6 => even::<0x04>(before, last),
            8 => even::<0x08>(before, last),
            10 => even::<0x10>(before, last),
            12 => even::<0x20>(before, last),
            14 => even::<0x40>(before, last),
            _ => odd(before, last),
        };
    }
    rounds
}

/// The encrypted block.
#[inline]
#[target_feature(enable = "aes")]
fn encrypted(wide: &Wide, block: __m128i) -> __m128i {
    let mut block = _mm_xor_si128(block, block_of(&wide.rounds[0]));
    for round in &wide.rounds[1..14] {
        block = _mm_aesenc_si128(block, block_of(round));
    }
    _mm_aesenclast_si128(block, block_of(&wide.rounds[14]))
}

/// The counter block: the nonce, and behind it `count` as a big-endian number.
#[inline]
fn counter(nonce: &[u8; NONCE_BYTES], count: u32) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..NONCE_BYTES].copy_from_slice(nonce);
    block[NONCE_BYTES..].copy_from_slice(&count.swap_bytes().to_le_bytes());
    block
}

/// Encrypts or decrypts `body`: both are the same operation.
#[target_feature(enable = "aes,avx512f,avx512bw,vaes")]
fn apply(wide: &Wide, nonce: &[u8; NONCE_BYTES], body: &mut [u8]) {
    let mut rounds = [_mm512_setzero_si512(); 15];
    for (register, round) in rounds.iter_mut().zip(&wide.rounds) {
        *register = _mm512_broadcast_i32x4(block_of(round));
    }
    // The count is the last word of each block. It is kept in the processor's byte order, and
    // swapped in each register.
    let first = u128::from_le_bytes(counter(nonce, 0)).to_le_bytes();
    let base = _mm512_broadcast_i32x4(block_of(&first));
    let within = _mm512_set_epi32(3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0);
    let swap = _mm512_broadcast_i32x4(_mm_set_epi8(
        12, 13, 14, 15, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
    ));
    let ones = _mm512_set_epi32(1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0);
    let four = _mm512_slli_epi32::<2>(ones);
    // The first count belongs to the tag.
    let mut count = _mm512_add_epi32(_mm512_add_epi32(base, within), _mm512_slli_epi32::<1>(ones));
    let (steps, rest) = body.as_chunks_mut::<STEP>();
    for step in steps {
        count = apply_step(&rounds, count, swap, four, step);
    }
    if !rest.is_empty() {
        let mut step = [0; STEP];
        step[..rest.len()].copy_from_slice(rest);
        apply_step(&rounds, count, swap, four, &mut step);
        rest.copy_from_slice(&step[..rest.len()]);
    }
}

/// Does a step. Returns the count of the next one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn apply_step(
    rounds: &[__m512i; 15],
    mut count: __m512i,
    swap: __m512i,
    four: __m512i,
    step: &mut [u8; STEP],
) -> __m512i {
    let mut blocks = [count; STEP / LANES];
    for block in &mut blocks {
        *block = _mm512_xor_si512(_mm512_shuffle_epi8(count, swap), rounds[0]);
        count = _mm512_add_epi32(count, four);
    }
    for round in &rounds[1..14] {
        for block in &mut blocks {
            *block = _mm512_aesenc_epi128(*block, *round);
        }
    }
    let (lanes, _) = step.as_chunks_mut::<LANES>();
    for (lane, block) in lanes.iter_mut().zip(&blocks) {
        let key = _mm512_aesenclast_epi128(*block, rounds[14]);
        let mixed = _mm512_xor_si512(load(lane), key);
        store(lane, mixed);
    }
    count
}

/// The tag of encrypted bytes.
#[target_feature(enable = "aes,pclmulqdq,avx512f,avx512bw,vaes,vpclmulqdq")]
fn tag_of(wide: &Wide, nonce: &[u8; NONCE_BYTES], bound: &[u8], body: &[u8]) -> [u8; TAG_BYTES] {
    let mut sum = sum_of(wide, _mm_setzero_si128(), bound);
    let (steps, rest) = body.as_chunks::<STEP>();
    for step in steps {
        sum = sum_step(wide, sum, step);
    }
    // The rest and the lengths are the last blocks of a step: zeros in front of a sum add nothing
    // to it.
    let mut rest_blocks = rest.len().div_ceil(BLOCK);
    let mut last = [0; STEP];
    if rest_blocks == STEP_BLOCKS {
        last[..rest.len()].copy_from_slice(rest);
        sum = sum_step(wide, sum, &last);
        (last, rest_blocks) = ([0; STEP], 0);
    }
    let start = (STEP_BLOCKS - 1 - rest_blocks) * BLOCK;
    if rest_blocks > 0 {
        last[start..start + rest.len()].copy_from_slice(rest);
    }
    let bits = |bytes: &[u8]| (bytes.len() as u64 * 8).swap_bytes().to_le_bytes();
    last[STEP - 16..STEP - 8].copy_from_slice(&bits(bound));
    last[STEP - 8..].copy_from_slice(&bits(body));
    let so_far = u128::from_le_bytes(bytes_of(sum))
        .swap_bytes()
        .to_le_bytes();
    for (byte, sum) in last[start..start + BLOCK].iter_mut().zip(so_far) {
        *byte ^= sum;
    }
    let sum = sum_step(wide, _mm_setzero_si128(), &last);
    let mask = encrypted(wide, block_of(&counter(nonce, 1)));
    let sum = u128::from_le_bytes(bytes_of(sum)).swap_bytes();
    (sum ^ u128::from_le_bytes(bytes_of(mask))).to_le_bytes()
}

/// `sum` with the blocks of `bytes`, which should be few.
#[inline]
#[target_feature(enable = "pclmulqdq,avx512f")]
fn sum_of(wide: &Wide, mut sum: __m128i, bytes: &[u8]) -> __m128i {
    let last = |of: &[u8; STEP]| block_of(of.last_chunk().expect("a step has more than a block"));
    let (h, d) = (last(&wide.powers), last(&wide.shifted));
    for part in bytes.chunks(BLOCK) {
        let mut block = [0; BLOCK];
        block[..part.len()].copy_from_slice(part);
        let block = u128::from_le_bytes(block).swap_bytes().to_le_bytes();
        sum = times(_mm_xor_si128(sum, block_of(&block)), h, d);
    }
    sum
}

/// `sum` with sixteen blocks.
#[inline]
#[target_feature(enable = "pclmulqdq,avx512f,avx512bw,vpclmulqdq")]
fn sum_step(wide: &Wide, sum: __m128i, step: &[u8; STEP]) -> __m128i {
    let reverse = _mm512_broadcast_i32x4(_mm_set_epi8(
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    ));
    let (powers, shifted) = (lanes(&wide.powers), lanes(&wide.shifted));
    let mut carried = _mm512_zextsi128_si512(sum);
    let (mut high, mut low) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for (at, lane) in lanes(step).iter().enumerate() {
        let m = _mm512_xor_si512(_mm512_shuffle_epi8(load(lane), reverse), carried);
        carried = _mm512_setzero_si512();
        let (h, d) = (load(&powers[at]), load(&shifted[at]));
        let by_d = _mm512_clmulepi64_epi128::<0x10>(m, d);
        let by_h = _mm512_clmulepi64_epi128::<0x11>(m, h);
        high = _mm512_ternarylogic_epi64::<0x96>(high, by_d, by_h);
        let by_d = _mm512_clmulepi64_epi128::<0x00>(m, d);
        let by_h = _mm512_clmulepi64_epi128::<0x01>(m, h);
        low = _mm512_ternarylogic_epi64::<0x96>(low, by_d, by_h);
    }
    reduced(folded(high), folded(low))
}

/// The sum of a register's four blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn folded(register: __m512i) -> __m128i {
    let halves = _mm256_xor_si256(
        _mm512_castsi512_si256(register),
        _mm512_extracti64x4_epi64::<1>(register),
    );
    _mm_xor_si128(
        _mm256_castsi256_si128(halves),
        _mm256_extracti128_si256::<1>(halves),
    )
}

/// `high + low * x^-64`.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn reduced(high: __m128i, low: __m128i) -> __m128i {
    let by_p = _mm_clmulepi64_si128::<0x00>(low, _mm_set_epi64x(0, P));
    let swapped = _mm_shuffle_epi32::<0x4E>(low);
    _mm_xor_si128(high, _mm_xor_si128(swapped, by_p))
}

/// The product of two numbers. `d` is the second one times `x^-64`.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn times(m: __m128i, h: __m128i, d: __m128i) -> __m128i {
    let high = _mm_xor_si128(
        _mm_clmulepi64_si128::<0x10>(m, d),
        _mm_clmulepi64_si128::<0x11>(m, h),
    );
    let low = _mm_xor_si128(
        _mm_clmulepi64_si128::<0x00>(m, d),
        _mm_clmulepi64_si128::<0x01>(m, h),
    );
    reduced(high, low)
}

/// `h * x^-64`.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn shifted(h: __m128i) -> __m128i {
    reduced(_mm_setzero_si128(), h)
}

/// `h * x`. The bit that is shifted out decides nothing except a mask.
fn times_x(h: u128) -> u128 {
    let carry = (h >> 127).wrapping_neg();
    (h << 1) ^ (carry & (0xC2 << 120 | 1))
}
