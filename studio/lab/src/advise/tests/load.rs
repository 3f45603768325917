//! Loads of small traces with known answers, what is said of them, and drawn traces.

use super::*;

#[test]
fn kinds_sizes_and_data_are_counted() {
    let load = load_of(
        &[
            put("aa", 10),
            put("bb", 20),
            put("cc", 30),
            get("aa", Some(10)),
            get("xx", None),
            get("dd", Some(40)),
            delete("bb"),
            put("cc", 50),
            scan("a", 7),
            scan("b", 3),
        ],
        3,
    );
    assert_eq!((load.read, load.loading, load.operations), (10, 3, 7));
    assert_eq!((load.point_reads, load.answered, load.absent), (3, 3, 1));
    assert_eq!((load.writes, load.scans, load.scanned), (2, 2, 10));
    assert_eq!(load.records_per_scan(), Some(5.0));
    // aa: 12, cc: 52, dd: 42; bb is deleted, xx was never there.
    assert_eq!((load.data_bytes, load.keys), (106, 5));
    assert_eq!((load.key_bytes, load.one_in), (2.0, 1));
    // 10, 40 and 50 bytes; the lengths of the filling do not count.
    assert!((load.value_bytes - 100.0 / 3.0).abs() < 0.5, "{load:?}");
    assert!(!load.has_values && !load.goes_on);
}

#[test]
fn what_is_written_over_is_told_from_what_is_new() {
    let load = load_of(
        &[
            put("aa", 8),
            get("bb", Some(8)),
            put("aa", 8),
            put("bb", 8),
            put("cc", 8),
            put("cc", 8),
            delete("cc"),
            put("cc", 8),
        ],
        1,
    );
    // Three of six writes: aa, bb and cc once each. The record of cc is made, removed and made
    // again.
    assert_eq!((load.writes, load.overwrites), (6, 0.5));
    assert!(!load.repeats());
    assert_eq!(load.age_bytes(), load.data_bytes / 2);
    let in_order = load_of(&[put("a", 1), put("b", 1)], 0);
    assert!(!in_order.repeats() && in_order.age_bytes() == 0);
    let only_read = load_of(&[get("a", Some(1)), get("b", None)], 0);
    assert!(only_read.repeats() && only_read.age_bytes() == 0);
    let only_over = load_of(&[put("a", 1), put("a", 1), put("a", 2)], 1);
    assert!(only_over.repeats() && only_over.age_bytes() == 1);
}

/// A read whose outcome the trace does not tell.
fn asked(key: impl Into<Vec<u8>>) -> Operation {
    Operation::new(Kind::Get, key)
}

#[test]
fn a_read_of_unknown_outcome_leaves_the_length_of_the_value_known() {
    let mut operations: Vec<_> = (0..1000u32)
        .map(|at| put(format!("{at:04}"), 100_000))
        .collect();
    let all_known = load_of(&operations, 0);
    operations.extend((0..1000u32).map(|at| asked(format!("{at:04}"))));
    let load = load_of(&operations, 0);
    assert_eq!(load.data_bytes, 1000 * 100_004);
    assert_eq!(load.data_bytes, all_known.data_bytes);
    assert_eq!((load.value_bytes, load.unknown_lengths), (100_000.0, 0));
    let said = of_load(&load, 64 << 20).join(" ");
    assert!(said.contains("95.37 MiB of data, 1.5 times"), "{said}");
    // A lookup that found the key without its value does not tell the length, and a put without a
    // length does not.
    let mut found = Operation::new(Kind::Contains, "0001");
    found.outcome = Outcome::Present {
        len: None,
        hash: None,
    };
    let mut unknown_put = put("0002", 0);
    unknown_put.value_len = None;
    operations.extend([found, unknown_put]);
    assert_eq!(load_of(&operations, 0).data_bytes, all_known.data_bytes);
}

#[test]
fn what_was_deleted_or_found_absent_counts_for_nothing_whatever_was_known_of_it() {
    let load = load_of(
        &[
            put("aa", 10),
            asked("aa"),
            delete("aa"),
            put("bb", 20),
            get("bb", None),
            put("cc", 30),
            delete("cc"),
            put("cc", 5),
        ],
        0,
    );
    assert_eq!((load.data_bytes, load.keys), (7, 3));
    // Deleted, then put again: nothing was written over.
    assert_eq!(load.overwrites, 0.0);
}

#[test]
fn a_length_that_nobody_knows_is_taken_from_the_others_or_from_the_option_and_this_is_said() {
    let some = load_of(&[put("aa", 10), put("bb", 30), asked("cc")], 0);
    // 12 and 32 bytes, and 2 + 20 for the key that was asked for and never put.
    assert_eq!((some.data_bytes, some.unknown_lengths), (66, 1));
    assert!(some.makes_up_values && some.value_bytes_known);
    let said = of_load(&some, 1 << 20).join(" ");
    assert!(said.contains("of unknown length: 1;"), "{said}");
    let none = load_of(&[asked("aa"), asked("bb"), asked("aa")], 0);
    assert_eq!((none.data_bytes, none.value_bytes), (204, 100.0));
    assert!(!none.value_bytes_known);
    let said = of_load(&none, 1 << 20).join(" ");
    assert!(said.contains("taken to have 100 bytes"), "{said}");
    // For a load of lookups, the phase that filled the store tells the lengths.
    let filled = load_of(&[put("aa", 40), put("bb", 40), asked("aa"), asked("cc")], 2);
    assert_eq!((filled.value_bytes, filled.data_bytes), (40.0, 126));
    let all = load_of(&[put("aa", 10), get("bb", Some(4)), get("cc", None)], 0);
    assert!(!all.makes_up_values && !all.has_merges);
    let put_before = load_of(&[put("aa", 10), asked("aa")], 1);
    assert!(!put_before.makes_up_values);
    let mut unknown_put = put("aa", 0);
    unknown_put.value_len = None;
    assert!(load_of(&[unknown_put], 0).makes_up_values);
}

#[test]
fn what_a_trace_of_scans_does_not_tell_is_said_to_be_unknown() {
    let untold = |key: &str| Operation::new(Kind::Scan, key);
    let load = load_of(&[untold("a"), untold("b")], 0);
    assert_eq!((load.scans, load.scans_untold, load.keys), (2, 2, 0));
    let said = of_load(&load, 64 << 20).join(" ");
    for wanted in [
        "how many records a scan gives is not known",
        "does not tell what data there is",
    ] {
        assert!(said.contains(wanted), "{said}");
    }
    assert!(!said.contains("fits") && !said.contains(" 0 "), "{said}");
    // No budget is made smaller for data that nobody knows.
    assert_eq!(load.budget_within(64 << 20), 64 << 20);
    // The mean is over the scans that tell it.
    let some = load_of(&[untold("a"), scan("b", 6), get("a", Some(9))], 0);
    assert_eq!(some.records_per_scan(), Some(6.0));
    let said = of_load(&some, 64 << 20).join(" ");
    assert!(
        said.contains("at least 10 B of data") && !said.contains("fits"),
        "{said}"
    );
    // What fills the store is all that there is.
    let filled = load_of(&[put("a", 9), scan("a", 1)], 1);
    let said = of_load(&filled, 64 << 20).join(" ");
    assert!(said.contains("10 B of data, which fits"), "{said}");
}

#[test]
fn what_is_left_out_or_lost_is_said_before_everything_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace");
    let mut operations = vec![put("a", 8), get("a", Some(8))];
    operations.extend((0..97).map(|_| Operation::new(Kind::Merge, "a")));
    let mut elsewhere = put("b", 8);
    elsewhere.keyspace = 7;
    operations.push(elsewhere);
    let mut trace = written(&operations);
    std::fs::write(&path, &trace).unwrap();
    let left_out = |merges, load| {
        let settings = ReplaySettings {
            merges,
            part: Part {
                load,
                ..Part::default()
            },
            ..ReplaySettings::default()
        };
        LeftOut::of(&path, &settings).unwrap()
    };
    let of_all = left_out(None, 0);
    assert_eq!((of_all.operations, of_all.total()), (100, 98));
    assert_eq!(left_out(None, 2).operations, 98);
    let only = left_out(Some(Merges::Appends), 0);
    assert_eq!((only.total(), only.is_much()), (1, false));

    let mut advice = advised("", &[]);
    advice.load.left_out = of_all;
    let verdict = page::document(&advice, Vec::new()).summary.verdict;
    assert!(
        verdict.starts_with(
            "This advises on 2 of 100 operations of the load; left out: merges 97 (give --merges "
        ) && verdict.contains("does not name 1. Open EvenDB"),
        "{verdict}"
    );
    advice.load.left_out = only;
    assert!(warnings(&advice.load).is_empty());
    let said = of_load(&advice.load, 1 << 20).join(" ");
    assert!(
        said.contains("Left out of the load: of a keyspace"),
        "{said}"
    );

    trace.truncate(trace.len() - 10);
    let torn = observe(Reader::new(&trace[..]).unwrap(), (0, u64::MAX), 100).unwrap();
    assert!(!torn.losses.is_nothing());
    let said = warnings(&torn);
    assert!(said[0].starts_with("The trace is not whole"), "{said:?}");
    assert!(warnings(&load_of(&operations, 0)).is_empty());
}

#[test]
fn large_values_are_as_large_as_they_are() {
    let each: Vec<_> = (0..100u32)
        .map(|at| put(format!("{at}"), if at < 80 { 400 } else { 100_000 }))
        .collect();
    let load = load_of(&each, 0);
    let off = load.value_bytes / 20_320.0;
    assert!((0.99..1.01).contains(&off), "{load:?}");
    let off = load.value_bytes_p90 as f64 / 100_000.0;
    assert!((0.99..1.01).contains(&off), "{load:?}");
}

#[test]
fn an_empty_trace_and_a_single_operation_are_loads_too() {
    let nothing = load_of(&[], 0);
    assert_eq!(
        (nothing.operations, nothing.keys, nothing.hottest_10),
        (0, 0, 0.0)
    );
    assert!(!of_load(&nothing, 1).is_empty());
    let one = load_of(&[get("k", Some(5))], 0);
    assert_eq!((one.operations, one.keys, one.hottest_1), (1, 1, 1.0));
    assert!(
        of_load(&one, 1 << 20)[0].contains("mostly looks up"),
        "{:?}",
        of_load(&one, 1)
    );
}

#[test]
fn order_of_puts_is_seen() {
    let in_order: Vec<_> = (0..1000u32).map(|at| put(format!("{at:04}"), 9)).collect();
    let in_order = load_of(&in_order, 0);
    assert_eq!(in_order.appended, 1.0);
    // Each key once: more even than chance would have it.
    let said = of_load(&in_order, 1 << 20).join(" ");
    assert!(said.contains("No keys are preferred"), "{said}");
    let mut random = Random::new(3, 0);
    let scattered: Vec<_> = (0..1000)
        .map(|_| put(format!("{:020}", random.next_u64()), 9))
        .collect();
    assert!(load_of(&scattered, 0).appended < 0.05);
}

/// Lookups of 10,000 keys. 1,000 of them, for which `is_hot` holds, take nine tenths.
fn hot(is_hot: impl Fn(u64) -> bool) -> Load {
    let hot: Vec<u64> = (0..10_000).filter(|key| is_hot(*key)).collect();
    assert_eq!(hot.len(), 1000);
    let mut random = Random::new(5, 0);
    let mut pick = |_| {
        let key = match random.below(10) {
            0 => random.below(10_000),
            _ => hot[random.below(1000) as usize],
        };
        get(format!("{key:05}"), Some(8))
    };
    let mut operations: Vec<_> = (0..10_000).map(|key| put(format!("{key:05}"), 8)).collect();
    operations.extend((0..100_000).map(&mut pick));
    load_of(&operations, 10_000)
}

#[test]
fn hot_keys_are_neighbours_or_scattered() {
    let together = hot(|key| (3000..4000).contains(&key));
    assert!(together.is_skewed() && together.is_local(), "{together:?}");
    assert!((together.hottest_10 - 0.91).abs() < 0.02, "{together:?}");
    let scattered = hot(|key| key % 10 == 7);
    assert!(
        scattered.is_skewed() && !scattered.is_local(),
        "{scattered:?}"
    );
    let said = of_load(&scattered, 1 << 20).join(" ");
    assert!(said.contains("scattered among cold ones"), "{said}");
}

#[test]
fn few_accesses_to_many_keys_are_no_heat() {
    let mut random = Random::new(9, 0);
    let mut operations: Vec<_> = (0..50_000).map(|key| put(format!("{key:05}"), 8)).collect();
    let even = (0..10_000).map(|_| get(format!("{:05}", random.below(50_000)), Some(8)));
    operations.extend(even);
    let load = load_of(&operations, 50_000);
    assert!((load.hottest_10 - 0.594).abs() < 0.02, "{load:?}");
    assert!((load.even_10 - 0.594).abs() < 0.01, "{load:?}");
    assert!(!load.is_skewed());
}

#[test]
fn more_keys_than_are_kept_are_estimated() {
    let each: Vec<_> = (0..400_000u64)
        .map(|key| put(format!("{key:08}"), 92))
        .collect();
    let load = load_of(&each, 0);
    assert!(load.one_in >= 2);
    let off = load.keys as f64 / 400_000.0;
    assert!((0.98..1.02).contains(&off), "{}", load.keys);
    let off = load.data_bytes as f64 / 40_000_000.0;
    assert!((0.98..1.02).contains(&off), "{}", load.data_bytes);
}

#[test]
fn a_bound_on_operations_is_said() {
    let trace = written(&[put("a", 1), put("b", 1), put("c", 1), put("d", 1)]);
    let load = observe(Reader::new(&trace[..]).unwrap(), (1, 2), 100).unwrap();
    assert_eq!((load.read, load.operations, load.goes_on), (3, 2, true));
    assert!(
        of_load(&load, 1 << 20)
            .iter()
            .any(|said| said.contains("first 2 operations") && said.contains("the time allows"))
    );
    let asked = Load {
        end_is_asked: true,
        ..load
    };
    let said = of_load(&asked, 1 << 20).join(" ");
    assert!(
        said.contains("as --operations says") && !said.contains("time"),
        "{said}"
    );
}

#[test]
fn of_a_model_a_trace_is_drawn_that_fills_the_store_first() {
    let directory = tempfile::tempdir().unwrap();
    let drawn = Drawn {
        scale: 0.0001,
        operations_max: 2000,
        seed: 1,
    };
    let drawn_of_up2x = source("up2x", drawn, directory.path()).unwrap();
    assert!(drawn_of_up2x.merges.is_some());
    let loading = drawn_of_up2x.loading;
    let trace = reader_of(&drawn_of_up2x.trace).unwrap();
    let load = observe(trace, (loading, u64::MAX), 100).unwrap();
    assert_eq!((load.loading, load.operations), (loading, 2000));
    assert!(load.merges > 1500 && load.absent == 0, "{load:?}");
    let error = source("no-such-model", drawn, directory.path()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("no-such-model") && text.contains("zippydb"),
        "{text}"
    );
}

/// Trouble of others, line 1: nobody knows what these reads found. The stores have what is
/// read first, and the first sentence says so.
#[test]
fn reads_whose_result_the_trace_does_not_tell_are_told_first() {
    let unknown = |key: &str| Operation {
        outcome: Outcome::Unknown,
        ..get(key, None)
    };
    let operations = [put("a", 9), get("a", Some(9)), unknown("b"), unknown("c")];
    let load = load_of(&operations, 0);
    let said = warnings(&load);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("Of 2 of 3 lookups the trace does not tell"),
        "{said:?}"
    );
    assert!(warnings(&load_of(&operations[..2], 0)).is_empty());
}

#[test]
fn how_far_values_compress_is_said_where_the_trace_has_them() {
    let valued = |number: u64| {
        let noise = (0..50_u64)
            .map(|word| evendb_trace::value_hash(&[number, word].map(u64::to_le_bytes).concat()));
        let noise: Vec<u8> = noise.flat_map(u64::to_le_bytes).collect();
        let mut put = put(format!("{number}"), 800);
        put.value = Some([noise, vec![0; 400]].concat());
        put
    };
    let load = load_of(&(0..200).map(valued).collect::<Vec<_>>(), 0);
    let compressed = load.compressed.unwrap();
    assert!((compressed - 0.5).abs() < 0.03, "{compressed}");
    let said = of_load(&load, 1 << 20).join(" ");
    assert!(said.contains(" % of their bytes (LZ4"), "{said}");
    assert_eq!(load_of(&[put("a", 9)], 0).compressed, None);
}
