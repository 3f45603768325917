//! A load and the advice for it, in plain sentences. Each sentence stands alone.

use super::load::Load;
use crate::readable::{bytes, grouped};
use crate::replay::command::LeftOut;

/// A share in percent, for people.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent == 0.0 || percent >= 9.95 => format!("{percent:.0} %"),
        percent => format!("{percent:.1} %"),
    }
}

/// What must be known before everything else: the advice is for another load than that of the
/// trace.
#[must_use]
pub(super) fn warnings(load: &Load) -> Vec<String> {
    let mut said = Vec::new();
    let LeftOut { operations, .. } = load.left_out;
    if load.left_out.is_much() {
        said.push(format!(
            "This advises on {} of {} operations of the load; left out: {}.",
            grouped(operations - load.left_out.total()),
            grouped(operations),
            each_left_out(&load.left_out)
        ));
    }
    if !load.losses.is_nothing() {
        said.push(format!(
            "The trace is not whole, and this advises on what can be read of it: {}.",
            load.losses
        ));
    }
    let untold = load.point_reads - load.answered;
    if untold * 100 > load.point_reads {
        said.push(format!(
            "Of {} of {} lookups the trace does not tell whether they found something. Here they do: the stores have every key that is read before it is written.",
            grouped(untold),
            grouped(load.point_reads)
        ));
    }
    said
}

/// What is left out, by reason, with the remedy if there is one.
pub(super) fn each_left_out(left_out: &LeftOut) -> String {
    let each = left_out.by_why.iter().map(|(why, count)| {
        let remedy = match *why {
            LeftOut::MERGES => {
                " (give --merges counters or --merges appends, which says what they do)"
            }
            _ => "",
        };
        format!("{why} {}{remedy}", grouped(*count))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// What a load is.
#[must_use]
pub(super) fn of_load(load: &Load, memory_bytes: u64) -> Vec<String> {
    let mut said = vec![mix(load), sizes(load, memory_bytes)];
    said.extend(order(load));
    if load.has_heat() {
        said.push(heat(load));
    }
    if load.answered > 0 && load.absent_share() >= 0.01 {
        let absent = percent(load.absent_share());
        said.push(format!(
            "{absent} of the lookups ask for keys that are not there."
        ));
    }
    if let Some(compressed) = load.compressed {
        said.push(format!(
            "Its values compress to {} of their bytes (LZ4, blocks of 16 KiB).",
            percent(compressed)
        ));
    }
    if load.goes_on {
        let read = grouped(load.operations);
        let why = match load.end_is_asked {
            true => "as --operations says",
            false => "as many as the time allows that --seconds gives",
        };
        said.push(format!(
            "Only the first {read} operations were used, {why}: data that only later ones touch are not in these figures."
        ));
    }
    if load.left_out.total() > 0 && !load.left_out.is_much() {
        let each = each_left_out(&load.left_out);
        said.push(format!("Left out of the load: {each}."));
    }
    if load.one_in > 1 {
        let one_in = load.one_in;
        said.push(format!(
            "What is said of keys comes from one key in {one_in}."
        ));
    }
    said
}

fn mix(load: &Load) -> String {
    let parts = [
        ("lookups of single keys", load.point_reads),
        ("writes", load.writes),
        ("scans", load.scans),
        ("other calls", load.others),
    ];
    let some = parts
        .iter()
        .filter(|(_, count)| load.share(*count) >= 0.0005);
    let some = some.map(|(name, count)| format!("{} {name}", percent(load.share(*count))));
    let some: Vec<_> = some.collect();
    let kind = match (load.share(load.point_reads), load.share(load.writes)) {
        _ if load.scanned > 4 * (load.point_reads + load.writes) => "reads records in their order",
        (reads, _) if reads >= 0.7 => "mostly looks up single keys",
        (_, writes) if writes >= 0.7 => "mostly writes",
        _ => "is mixed",
    };
    let mut text = format!("The load {kind}: {}", some.join(", "));
    if load.scans > 0 {
        text += &match load.records_per_scan() {
            Some(records) => format!("; a scan gives {records:.1} records"),
            None => "; how many records a scan gives is not known, and a replay reads one by each"
                .to_owned(),
        };
    }
    if load.merges > 0 {
        let merges = percent(load.merges as f64 / load.writes.max(1) as f64);
        text += &format!("; {merges} of the writes are merges");
    }
    text + "."
}

fn sizes(load: &Load, memory_bytes: u64) -> String {
    if load.keys == 0 {
        return "The trace does not tell what data there is: it has no operation of a single key."
            .to_owned();
    }
    let ratio = load.data_bytes as f64 / memory_bytes.max(1) as f64;
    let beside = match ratio {
        ratio if !load.tells_data() => {
            let times = match ratio {
                ratio if ratio < 1.0 => String::new(),
                ratio => format!("{ratio:.1} times the memory, "),
            };
            format!("{times}and what scans read beside it the trace does not tell")
        }
        ratio if ratio < 0.5 => "which fits into the memory with room to spare".to_owned(),
        ratio if ratio < 1.0 => "which just fits into the memory".to_owned(),
        ratio => format!("{ratio:.1} times the memory"),
    };
    let (keys, value_bytes) = (grouped(load.keys), load.value_bytes);
    let values = match load.value_bytes_known {
        true => format!("values of {value_bytes:.0} bytes on average"),
        false => format!(
            "values whose length the trace does not tell and which are taken to have {value_bytes:.0} bytes"
        ),
    };
    let mut text = format!(
        "It touches {keys} keys of {:.0} bytes with {values}: {} of data, {beside}.",
        load.key_bytes,
        data(load)
    );
    if load.value_bytes_known && load.unknown_lengths > 0 {
        text += &format!(
            " Keys whose value is of unknown length: {}; each counts with the average.",
            grouped(load.unknown_lengths)
        );
    }
    text
}

/// How many bytes of data there are, as far as it is known.
pub(super) fn data(load: &Load) -> String {
    match (load.keys, load.tells_data()) {
        (0, _) => "not known".to_owned(),
        (_, true) => bytes(load.data_bytes),
        (_, false) => format!("at least {}", bytes(load.data_bytes)),
    }
}

fn order(load: &Load) -> Option<String> {
    let puts_matter = load.share(load.writes - load.merges) >= 0.02;
    let text = match load.appended {
        _ if !puts_matter => return None,
        appended if appended >= 0.9 => "Puts come in the order of keys, each behind the last.",
        appended if appended >= 0.2 => "Some puts come in the order of keys.",
        _ => "Puts come in no order of keys.",
    };
    Some(text.to_owned())
}

fn heat(load: &Load) -> String {
    if load.hottest_10 <= load.even_10 {
        return "No keys are preferred by the accesses to single keys.".to_owned();
    }
    let (keys, ranges) = (percent(load.hottest_10), percent(load.hottest_ranges_10));
    let one = percent(load.hottest_1);
    let even = percent(load.even_10);
    let means = match (load.is_skewed(), load.is_local()) {
        (false, _) => "no part of the keys is much hotter than the others",
        (true, true) => "hot keys lie beside each other",
        (true, false) => "hot keys are scattered among cold ones",
    };
    format!(
        "The hottest tenth of the keys takes {keys} of the accesses to single keys ({even} by chance, were none preferred; the hottest hundredth {one}), \
         and the hottest tenth of the key space {ranges}: {means}."
    )
}
