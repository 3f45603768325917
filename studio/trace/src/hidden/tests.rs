use super::{HashedKeys, KeyGatherer, hide_names, spaced};
use crate::{ErrorKind, Header, Kind, Operation, Outcome};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn operation(key: Vec<u8>, end_key: Option<Vec<u8>>, keyspace: u32) -> Operation {
    let mut operation = Operation::new(Kind::Scan, key);
    operation.end_key = end_key;
    operation.keyspace = keyspace;
    operation.value = Some(b"secret".to_vec());
    operation.value_len = Some(6);
    operation.outcome = Outcome::Present {
        len: Some(6),
        hash: Some(1),
    };
    operation
}

fn ordered(operations: &[Operation]) -> Vec<Operation> {
    let mut gatherer = KeyGatherer::new(64 << 20);
    operations.iter().for_each(|one| gatherer.add(one).unwrap());
    let keys = gatherer.finish();
    let mut hidden = operations.to_vec();
    hidden.iter_mut().for_each(|one| keys.hide(one).unwrap());
    hidden
}

fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// Keys with few different bytes, so that there are many prefixes, and some keys with any bytes.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(0..3_u8, 0..6), vec(any::<u8>(), 0..4)]
}

proptest! {
    #[test]
    fn ordered_keys_keep_equality_order_lengths_and_prefixes_and_nothing_else(
        keys in vec((key(), option::of(key()), 0..2_u32), 1..60),
        shift in any::<u8>(),
    ) {
        let made: Vec<_> = keys.iter().map(|(key, end, keyspace)| operation(key.clone(), end.clone(), *keyspace)).collect();
        let hidden = ordered(&made);
        let all = |of: &[Operation]| -> Vec<(u32, Vec<u8>)> {
            let each = of.iter().flat_map(|one| {
                let end = one.end_key.clone();
                [Some(one.key.clone()), end].into_iter().flatten().map(|key| (one.keyspace, key))
            });
            each.collect()
        };
        let (before, after) = (all(&made), all(&hidden));
        for (one, hidden_one) in before.iter().zip(&after) {
            prop_assert_eq!(one.1.len(), hidden_one.1.len());
            for (other, hidden_other) in before.iter().zip(&after) {
                if one.0 == other.0 {
                    prop_assert_eq!(one.1.cmp(&other.1), hidden_one.1.cmp(&hidden_other.1));
                    prop_assert_eq!(common(&one.1, &other.1), common(&hidden_one.1, &hidden_other.1));
                }
            }
        }
        // Other bytes in the same order give the same hidden keys.
        let add = |key: &Vec<u8>| key.iter().map(|byte| byte % 3 + shift % 253).collect::<Vec<u8>>();
        let small = |key: &Vec<u8>| key.iter().map(|byte| byte % 3).collect::<Vec<u8>>();
        let with = |map: &dyn Fn(&Vec<u8>) -> Vec<u8>| -> Vec<Operation> {
            let each = keys.iter().map(|(key, end, keyspace)| operation(map(key), end.as_ref().map(map), *keyspace));
            ordered(&each.collect::<Vec<_>>())
        };
        prop_assert_eq!(with(&add), with(&small));
    }

    #[test]
    fn hashed_keys_keep_equality_and_the_class_of_lengths(keys in vec(vec(0..3_u8, 0..40), 2..40), secret: [u64; 2]) {
        let hashed = HashedKeys::new(secret);
        let hide = |key: &Vec<u8>| {
            let mut one = operation(key.clone(), Some(b"end".to_vec()), 0);
            hashed.hide(&mut one);
            assert!(one.end_key.is_none());
            one.key
        };
        for one in &keys {
            let hidden = hide(one);
            prop_assert_eq!(hidden.len(), one.len().next_multiple_of(16));
            for other in &keys {
                prop_assert_eq!(one == other, hidden == hide(other));
            }
            if !one.is_empty() {
                let mut again = operation(one.clone(), None, 0);
                HashedKeys::new([secret[0] ^ 1, secret[1]]).hide(&mut again);
                prop_assert_ne!(again.key, hidden, "another secret key");
            }
        }
    }
}

#[test]
fn bytes_are_spaced_in_order() {
    for count in 1..=256 {
        let bytes: Vec<u8> = (0..count).map(|number| spaced(number, count)).collect();
        assert!(bytes.is_sorted_by(|one, other| one < other), "{count}");
    }
}

#[test]
fn values_and_names_are_hidden_and_the_rest_stays() {
    let mut one = operation(b"key".to_vec(), None, 3);
    let before = one.clone();
    HashedKeys::new([1, 2]).hide(&mut one);
    let len = Outcome::Present {
        len: Some(6),
        hash: None,
    };
    assert_eq!((one.value.take(), one.outcome), (None, len));
    let mut expected = before;
    (expected.key, expected.value, expected.outcome) = (one.key.clone(), None, len);
    assert_eq!(one, expected);
    let mut call = Operation::new(Kind::Other, "checkpoint");
    HashedKeys::new([1, 2]).hide(&mut call);
    assert_eq!(call.key, b"checkpoint");
    let header = Header {
        one_in: 7,
        has_values: true,
        source: "the host's name".to_owned(),
        keyspaces: [(4, "customers".to_owned())].into(),
        ..Header::default()
    };
    let hidden = hide_names(&header);
    assert_eq!(hidden.keyspaces[&4], "keyspace-4");
    assert!(hidden.one_in == 7 && !hidden.has_values && hidden.source == "hidden keys");
}

#[test]
fn more_keys_than_have_room_are_refused_and_repeated_ones_are_not() {
    let add = |distinct: u32| {
        let mut gatherer = KeyGatherer::new(1 << 20);
        (0..200_000_u32).try_for_each(|number| {
            let key = (number % distinct).to_le_bytes().to_vec();
            gatherer.add(&operation(key, None, number % 2))
        })
    };
    add(10_000).unwrap();
    assert_eq!(add(200_000).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn a_key_that_was_not_gathered_is_an_error() {
    let keys = KeyGatherer::new(1 << 20).finish();
    let mut one = operation(b"key".to_vec(), None, 0);
    assert_eq!(keys.hide(&mut one).unwrap_err().kind(), ErrorKind::Damaged);
}

/// Long keys need no deep recursion.
#[test]
fn keys_of_any_length_are_hidden() {
    let longest = |last: u8| [vec![7; crate::KEY_BYTES_MAX - 1], vec![last]].concat();
    let mut made: Vec<_> = (0..40_u8)
        .map(|last| operation(longest(last), None, 0))
        .collect();
    made.extend((0..500).map(|len| operation(vec![7; len], None, 0)));
    let hidden = ordered(&made);
    let order = |of: &[Operation]| {
        let mut order: Vec<usize> = (0..of.len()).collect();
        order.sort_by(|&one, &other| of[one].key.cmp(&of[other].key));
        order
    };
    assert_eq!(order(&hidden), order(&made));
}
