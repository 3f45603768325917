use super::ready::Merges;
use super::*;
use proptest::prelude::*;

/// Asserts the same result for one call, for one call after the other, and for operands that were
/// merged before.
fn agrees(merges: Merges, existing: Option<&[u8]>, operands: &[&[u8]], cut: usize) -> Vec<u8> {
    let whole = full(&merges, b"k", existing, operands).expect("merges");
    let mut stepwise = existing.map(<[u8]>::to_vec);
    for operand in operands {
        stepwise = full(&merges, b"k", stepwise.as_deref(), &[operand]).expect("merges");
    }
    assert_eq!(stepwise, whole, "{merges:?}: one after another");
    let (front, back) = operands.split_at(cut.clamp(1, operands.len() - 1));
    let front = partial(&merges, b"k", front).expect("associative");
    let back = partial(&merges, b"k", back).expect("associative");
    let folded = full(&merges, b"k", existing, &[&front, &back]).expect("merges");
    assert_eq!(folded, whole, "{merges:?}: merged before");
    whole.expect("a value")
}

proptest! {
    #[test]
    fn ready_operators_do_not_depend_on_where_operands_meet(
        numbers in prop::collection::vec(any::<u64>(), 2..6),
        existing in proptest::option::of(any::<u64>()),
        cut in 1usize..5,
    ) {
        let bytes: Vec<[u8; 8]> = numbers.iter().map(|number| number.to_le_bytes()).collect();
        let operands: Vec<&[u8]> = bytes.iter().map(|bytes| &bytes[..]).collect();
        let below = existing.map(u64::to_le_bytes);
        let below = below.as_ref().map(|bytes| &bytes[..]);
        for merges in [Merges::AddU64, Merges::AddI64, Merges::Max, Merges::Min, Merges::Append] {
            agrees(merges, below, &operands, cut);
        }
        let sum = numbers.iter().chain(&existing).fold(0u64, |sum, number| sum.wrapping_add(*number));
        prop_assert_eq!(agrees(Merges::AddU64, below, &operands, cut), sum.to_le_bytes());
        let sets: Vec<Vec<u8>> = operands.chunks(2).map(Merges::set).collect();
        let mut sets: Vec<&[u8]> = sets.iter().map(|set| &set[..]).collect();
        sets.push(&[]);
        let union = agrees(Merges::Union, None, &sets, cut);
        prop_assert_eq!(union, Merges::set(&operands));
    }
}

#[test]
fn names_are_those_of_the_manifest() {
    for merges in Merges::ALL {
        assert_eq!(Merges::named(merges.name()), Some(merges));
    }
    assert_eq!(Merges::named("evendb.product"), None);
}

#[test]
fn operands_that_make_no_sense_are_errors_of_the_key() {
    for (merges, what) in [
        (Merges::AddU64, "3 bytes where a number has 8"),
        (Merges::Union, "a set that makes no sense"),
    ] {
        let error = full(&merges, b"key", None, &[b"\x07ab"]).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::MergeFailed);
        let text = error.to_string();
        assert!(text.contains(what) && text.contains("b\"key\""), "{text}");
        assert_eq!(partial(&merges, b"key", &[b"\x07ab", b"\x07ab"]), None);
    }
}

struct Panics;

impl MergeOperator for Panics {
    fn name(&self) -> &str {
        "panics"
    }
    fn full_merge(
        &self,
        _key: &[u8],
        _existing: Option<&[u8]>,
        _operands: &[&[u8]],
    ) -> std::result::Result<Option<Vec<u8>>, MergeError> {
        panic!("on purpose")
    }
    fn partial_merge(&self, _key: &[u8], _operands: &[&[u8]]) -> Option<Vec<u8>> {
        panic!("on purpose")
    }
}

#[test]
fn a_panic_is_an_error_of_the_key() {
    let error = full(&Panics, b"key", None, &[b"x"]).expect_err("caught");
    assert_eq!(error.kind(), ErrorKind::MergeFailed);
    assert!(error.to_string().contains("it panicked: on purpose"));
    assert_eq!(partial(&Panics, b"key", &[b"x", b"y"]), None);
}
