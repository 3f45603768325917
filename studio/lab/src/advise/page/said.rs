//! The advice in sentences: settings, the other layout, memory, other stores.

use super::base;
use crate::advise::Advice;
use crate::advise::beside::{self, Beside, Ratio, miss_ratio};
use crate::advise::words::percent;
use crate::readable::bytes;
use evendb::Layout;

/// A speed that is higher by less than this counts as alike, whatever the number of runs.
const FASTER_MIN: f64 = 0.05;
/// Memory that certainly makes things faster by less than this is said to bring nothing.
const ALIKE_MAX: f64 = 0.10;
/// A larger cache has fewer misses if it has fewer by this share of the accesses.
const MISSES_MIN: f64 = 0.01;

/// What is advised, in sentences.
pub(in crate::advise) fn sentences(advice: &Advice) -> Vec<String> {
    let mut said = vec![settings_said(advice)];
    if advice.allowed_bytes > advice.memory_bytes {
        said.push(format!(
            "The data needs no larger budget: {} were allowed, and all was measured with {}.",
            bytes(advice.allowed_bytes),
            bytes(advice.memory_bytes)
        ));
    }
    said.extend(layout_said(advice));
    if !advice.untried.is_empty() {
        let names: Vec<_> = advice.untried.iter().map(|one| one.name()).collect();
        let names = names.join(", ");
        said.push(format!(
            "There was no time for these, which may serve the load too: {names}."
        ));
    }
    if advice.age_bytes == 0 && advice.load.age_bytes() > 0 {
        said.push(
            "There was no time to make the stores as old as they will be: settings that matter when much has been written over are judged too early."
                .to_owned(),
        );
    }
    if !advice.load.has_values {
        said.push(
            "The trace has lengths of values only, so what compression would bring cannot be said."
                .to_owned(),
        );
    }
    said.extend(memory_said(advice));
    said.push(peers_said(advice));
    said
}

fn settings_said(advice: &Advice) -> String {
    let memory = bytes(advice.tuning().budget(advice.memory_bytes));
    let noise = percent(advice.noise());
    let tried = advice.candidates.len() - 1;
    let standing = advice.standing(advice.winner);
    match (advice.winner, standing) {
        (0, _) if tried == 0 => format!(
            "Open EvenDB with a budget of {memory} and its defaults: no other settings were tried."
        ),
        (0, None) => format!(
            "Open EvenDB with a budget of {memory} and its defaults: the time did not suffice to compare other settings."
        ),
        (0, Some(_)) => format!(
            "Open EvenDB with a budget of {memory} and its defaults: of {tried} other settings that were tried none was faster by more than the noise of {noise}."
        ),
        (winner, standing) => {
            let by = standing.map_or(1.0, |(_, standing)| standing.score());
            let settings = &advice.candidates[winner].tuning;
            format!(
                "Open EvenDB with a budget of {memory} and {settings}: it does {by:.2} times as many operations a second as with its defaults, at a noise of {noise}."
            )
        }
    }
}

/// The speed of the layout that is not advised beside the one that is. None if only one was
/// measured.
fn layout_said(advice: &Advice) -> Option<String> {
    let layout_of = |number: usize| {
        let both = advice.fixed.and(&advice.candidates[number].tuning);
        both.unwrap_or_default().layout()
    };
    let advised = layout_of(advice.winner);
    let speed = |number: usize| match number {
        0 => Some(1.0),
        number => advice
            .standing(number)
            .map(|(_, standing)| standing.score()),
    };
    let others = (0..advice.candidates.len()).filter(|number| layout_of(*number) != advised);
    let others = others.filter_map(|number| Some((number, speed(number)?)));
    // A store that failed has no speed.
    let others = others.filter(|(_, speed)| *speed > 0.0);
    let (other, other_speed) = others.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let by = other_speed / speed(advice.winner)?;
    let name = match other {
        0 => "its defaults".to_owned(),
        number => advice.candidates[number].name(),
    };
    Some(match advised {
        Layout::Guards => format!(
            "Guards, a fragmented log-structured merge tree, serve this load better: with chunks and {name} it does {by:.2} times as many operations a second as with what is advised."
        ),
        _ => format!(
            "With guards, a fragmented log-structured merge tree ({name}), it does {by:.2} times as many operations a second as with what is advised."
        ),
    })
}

/// What a cache with more memory would find, as far as it is known without a run.
#[derive(Clone, Copy, PartialEq)]
enum Curve {
    Unknown,
    /// Fewer accesses miss.
    Fewer,
    /// The same number of accesses miss: each of them asks for its data for the first time, or all
    /// data is in memory.
    Same,
}

/// Compares the misses of caches of the given size and of four times the size, by the analysis.
/// Without an analysis: whether all data fits in half of the memory.
fn curve(advice: &Advice) -> Curve {
    let at =
        |grain: &str, factor: u64| miss_ratio(&advice.misses, grain, advice.memory_bytes * factor);
    let grains = ["row", "block", "chunk"];
    let falls = grains
        .iter()
        .filter_map(|grain| Some(at(grain, 1)? - at(grain, 4)?));
    match falls.reduce(f64::max) {
        Some(fall) if fall >= MISSES_MIN => Curve::Fewer,
        Some(_) => Curve::Same,
        None => {
            let load = &advice.load;
            let fits =
                load.tells_data() && !load.goes_on && load.data_bytes <= advice.memory_bytes / 2;
            if fits { Curve::Same } else { Curve::Unknown }
        }
    }
}

/// Whether more memory helps, by the runs and by the curve of misses. Empty if only the given
/// memory was measured.
fn means(advice: &Advice, base: &Beside) -> &'static str {
    let spread = beside::spread(&advice.budgets);
    let larger = advice
        .budgets
        .iter()
        .filter(|one| one.memory_bytes > advice.memory_bytes);
    let larger: Vec<Ratio> = larger
        .filter_map(|one| Ratio::of(one, base, spread))
        .collect();
    if larger.is_empty() {
        return "more was not measured";
    }
    let faster = larger.iter().any(|ratio| ratio.is_above(1.0 + FASTER_MIN));
    let alike = larger.iter().all(|ratio| ratio.is_below(1.0 + ALIKE_MAX));
    match (faster, alike, curve(advice)) {
        (true, _, Curve::Fewer | Curve::Unknown) => "more memory helps",
        (true, _, Curve::Same) => {
            "with more memory the runs were faster, but a larger cache would miss as many accesses as this one: what else made them faster is not known"
        }
        (_, true, _) => "more memory does not help",
        (_, _, Curve::Same) => {
            "whether more memory helps cannot be said, because runs of the same differ by more than that; a larger cache would miss as many accesses as this one"
        }
        (_, _, Curve::Fewer) => {
            "whether more memory helps cannot be said, because runs of the same differ by more than that; a larger cache would miss fewer accesses"
        }
        (_, _, Curve::Unknown) => {
            "whether more memory helps cannot be said, because runs of the same differ by more than that"
        }
    }
}

fn memory_said(advice: &Advice) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(base) = base(advice) {
        let spread = beside::spread(&advice.budgets);
        let changes = advice.budgets.iter().filter_map(|one| {
            let Ratio { by, off } = Ratio::of(one, base, spread)?;
            let is_other = one.memory_bytes != advice.memory_bytes;
            is_other.then(|| format!("{by:.2} (+-{off:.2}) with {}", bytes(one.memory_bytes)))
        });
        let changes: Vec<_> = changes.collect();
        if !changes.is_empty() {
            said.push(format!(
                "Operations a second with other memory, as multiples of those with {}: {}; {}.",
                bytes(advice.memory_bytes),
                changes.join(", "),
                means(advice, base)
            ));
        }
    }
    let at = |grain: &str, factor: u64| {
        miss_ratio(&advice.misses, grain, advice.memory_bytes * factor).map(percent)
    };
    for grain in ["row", "block", "chunk"] {
        if let (Some(now), Some(twice), Some(four)) = (at(grain, 1), at(grain, 2), at(grain, 4)) {
            said.push(format!(
                "By the analysis, a cache of {grain}s of the given size that drops what was used longest ago misses {now} of the accesses, one of twice the size {twice}, of four times {four}."
            ));
        }
    }
    said
}

fn peers_said(advice: &Advice) -> String {
    if !advice.peers_were_asked {
        return "Other stores were not measured: --peers takes the command `experiments` of studio/peers, which `cargo build --release --manifest-path studio/peers/Cargo.toml --features rocksdb,fjall --bin experiments` builds."
            .to_owned();
    }
    let Some(base) = base(advice) else {
        return "Other stores cannot be compared: EvenDB was not measured beside them.".to_owned();
    };
    let spread = beside::spread(&[&advice.peers[..], std::slice::from_ref(base)].concat());
    let speeds = advice.peers.iter().filter_map(|peer| {
        let ratio = Ratio::of(peer, base, spread)?;
        Some((peer.name.as_str(), ratio))
    });
    let speeds: Vec<(&str, Ratio)> = speeds.collect();
    let failed = advice.peers.iter().filter(|peer| peer.failed.is_some());
    let failed: Vec<_> = failed.map(|peer| peer.name.as_str()).collect();
    let faster = speeds
        .iter()
        .filter(|(_, ratio)| ratio.is_above(1.0 + FASTER_MIN));
    let mut faster: Vec<_> = faster.collect();
    faster.sort_by(|one, other| other.1.by.total_cmp(&one.1.by));
    let told =
        |(name, Ratio { by, off }): &(&str, Ratio)| format!("{name} {by:.2} times (+-{off:.2})");
    let mut text = match (faster.is_empty(), speeds.is_empty()) {
        (_, true) => "No other store could be measured.".to_owned(),
        (true, false) => {
            let all: Vec<_> = speeds.iter().map(told).collect();
            let all = all.join(", ");
            format!(
                "With the same memory no other store that was measured is faster with this load beyond what runs of the same differ by: by EvenDB's speed {all}."
            )
        }
        (false, false) => {
            let all: Vec<_> = faster.into_iter().map(told).collect();
            let all = all.join(", ");
            format!(
                "Another store serves this load faster: by EvenDB's speed with the advised settings {all}. See its own documents for what it promises."
            )
        }
    };
    if !failed.is_empty() {
        text += &format!(" These could not be measured: {}.", failed.join(", "));
    }
    text
}
