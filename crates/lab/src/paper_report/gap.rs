//! How far each cell is from its target.
//!
//! The targets ([`targets`]) are those of the design for the whole engine, against the best peer in
//! the same cell, with memory of which the data are a half ("in RAM") or more than all ("beyond").
//! Data between half of memory and all of it are in neither column; the weaker of the two holds.
//! Targets are for the default settings: a variant (the paper's figure 12) has none.
//!
//! The measure of every goal is turned so that 1 is the target and less is missed: rates are divided
//! by the target, and for what should be small the target is divided by it.
//!
//! What is not here: the engine's parts (`parts`) and reopening (`experiment reopen`), which have
//! commands of their own.

use super::quantity::{Percentile, Quantity, figure};
use super::results::{Cell, Results};
use super::stores;

/// What a cell does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// The event log, put only.
    Ingest,
    /// P.
    Put,
    /// A and F.
    Mixed,
    /// B, C and D.
    Read,
    /// E of any length.
    Scan,
}

/// Where its operations fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locality {
    /// Zipf over the first part of a key.
    Composite,
    /// Zipf over whole keys, and the latest.
    Simple,
    /// None.
    Uniform,
}

/// The data beside the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At most half of it.
    InRam,
    /// At most all of it.
    Between,
    /// More.
    BeyondRam,
}

/// All that a target depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// What it does.
    pub workload: Workload,
    /// Where.
    pub locality: Locality,
    /// On how much.
    pub place: Place,
}

/// Whose figure is the measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// The best of all peers.
    BestPeer,
    /// The best of the LSM trees.
    BestLsm,
    /// The better of RocksDB's settings.
    RocksDb,
    /// Nobody's: the figure itself.
    Nothing,
}

/// A target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Of what.
    pub quantity: Quantity,
    /// Divided by whose.
    pub against: Against,
    /// At least or at most this, as [`Quantity::more_is_better`] says.
    pub bound: f64,
    /// Whether the bound itself is not enough ("below").
    pub strict: bool,
}

impl Place {
    /// Of data in memory.
    #[must_use]
    pub fn of(data_bytes: u64, memory_bytes: u64) -> Place {
        if data_bytes <= memory_bytes / 2 {
            Place::InRam
        } else if data_bytes <= memory_bytes {
            Place::Between
        } else {
            Place::BeyondRam
        }
    }

    /// For headings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Place::InRam => "in RAM",
            Place::Between => "between",
            Place::BeyondRam => "beyond RAM",
        }
    }
}

/// The kind of a cell; none if no target speaks of it.
#[must_use]
pub fn kind(cell: &Cell, memory_bytes: u64) -> Option<Kind> {
    if cell.variant.is_some() {
        return None;
    }
    let place = Place::of(cell.data_bytes?, memory_bytes);
    let experiment = cell.experiment.as_str();
    let mix = cell.mix.as_deref();
    if experiment.contains("ingest") || mix.is_some_and(|mix| mix.contains("ingest")) {
        return Some(Kind {
            workload: Workload::Ingest,
            locality: Locality::Composite,
            place,
        });
    }
    let workload = match mix? {
        "P" => Workload::Put,
        "A" | "F" => Workload::Mixed,
        "B" | "C" | "D" => Workload::Read,
        "E10" | "E100" | "E1000" => Workload::Scan,
        _ => return None,
    };
    let locality = match cell.distribution.as_deref()? {
        name if name.starts_with("zipf-composite") => Locality::Composite,
        "zipf-simple" | "latest" => Locality::Simple,
        "uniform" => Locality::Uniform,
        _ => return None,
    };
    Some(Kind {
        workload,
        locality,
        place,
    })
}

/// The targets of a kind of cell.
#[must_use]
pub fn targets(kind: Kind) -> Vec<Target> {
    let target = |quantity, against, bound| Target {
        quantity,
        against,
        bound,
        strict: false,
    };
    let mut targets = Vec::new();
    if let Some(bound) = rate_target(kind) {
        targets.push(target(Quantity::Throughput, Against::BestPeer, bound));
    }
    let written = |against, bound| target(Quantity::WriteAmplification, against, bound);
    match (kind.workload, kind.place) {
        (Workload::Ingest, Place::BeyondRam) => {
            targets.push(written(Against::BestPeer, 1.0 / 3.0));
        }
        (Workload::Put, Place::InRam) => targets.push(written(Against::Nothing, 1.0)),
        (Workload::Put, place) => {
            if kind.locality == Locality::Composite {
                targets.push(written(Against::Nothing, 1.3));
            }
            if place == Place::BeyondRam {
                targets.push(written(Against::BestLsm, 0.5));
            }
        }
        _ => {}
    }
    for operation in ["get", "put"] {
        targets.push(Target {
            strict: true,
            ..target(
                Quantity::Latency(operation, Percentile::P999),
                Against::RocksDb,
                1.0,
            )
        });
    }
    targets.push(target(Quantity::Space, Against::Nothing, 1.2));
    targets
}

/// Throughput by the best peer's. No target speaks of uniform mixes, nor of uniform reads beyond RAM.
fn rate_target(kind: Kind) -> Option<f64> {
    let by_locality = |composite, simple, uniform| match kind.locality {
        Locality::Composite => Some(composite),
        Locality::Simple => Some(simple),
        Locality::Uniform => uniform,
    };
    let (in_ram, beyond_ram) = match kind.workload {
        Workload::Ingest => (Some(4.0), Some(4.0)),
        Workload::Put => (Some(3.0), by_locality(3.0, 2.0, Some(2.0))),
        Workload::Mixed => (by_locality(2.0, 2.0, None), by_locality(2.0, 1.2, None)),
        Workload::Read => (Some(1.0), by_locality(1.5, 1.2, None)),
        Workload::Scan => (Some(1.0), by_locality(2.0, 1.2, None)),
    };
    match kind.place {
        Place::InRam => in_ram,
        Place::Between => Some(in_ram?.min(beyond_ram?)),
        Place::BeyondRam => beyond_ram,
    }
}

/// One target beside what was measured.
#[derive(Clone, Debug)]
pub struct Gap<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// The target.
    pub target: Target,
    /// EvenDB's own figure.
    pub own: f64,
    /// Whose figure it was divided by, and that.
    pub against: Option<(&'a str, f64)>,
    /// The ratio, or the figure itself where nothing divides it.
    pub measured: f64,
    /// 1 is the target, less is missed.
    pub reached: f64,
}

impl Gap<'_> {
    /// Whether the target is reached.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        let (measured, bound) = (self.measured, self.target.bound);
        match (self.target.quantity.more_is_better(), self.target.strict) {
            (true, false) => measured >= bound,
            (true, true) => measured > bound,
            (false, false) => measured <= bound,
            (false, true) => measured < bound,
        }
    }
}

impl Target {
    /// In words: `at least 3.00 times the best peer's`.
    #[must_use]
    pub fn words(&self) -> String {
        let bound = figure(self.bound);
        let how = match (self.quantity.more_is_better(), self.strict) {
            (true, _) => "at least",
            (false, false) => "at most",
            (false, true) => "below",
        };
        match self.against {
            Against::Nothing => format!("{how} {bound}"),
            Against::RocksDb if self.strict => format!("{how} RocksDB's"),
            Against::BestPeer => format!("{how} {bound}x the best peer's"),
            Against::BestLsm => format!("{how} {bound}x the best LSM tree's"),
            Against::RocksDb => format!("{how} {bound}x RocksDB's"),
        }
    }
}

/// Every target that can be judged, the worst missed first.
#[must_use]
pub fn gaps(results: &Results) -> Vec<Gap<'_>> {
    let memory = results.memory_bytes();
    let mut gaps: Vec<Gap<'_>> = results
        .cells
        .iter()
        .filter_map(|cell| Some((cell, kind(cell, memory)?)))
        .flat_map(|(cell, kind)| {
            let targets = targets(kind).into_iter();
            targets.filter_map(|target| gap(cell, target))
        })
        .collect();
    gaps.sort_by(|a, b| a.reached.total_cmp(&b.reached));
    gaps
}

fn gap(cell: &Cell, target: Target) -> Option<Gap<'_>> {
    let own = cell.spread(stores::OWN, target.quantity)?.median;
    let wanted: fn(&str) -> bool = match target.against {
        Against::BestPeer => stores::is_peer,
        Against::BestLsm => stores::is_lsm,
        Against::RocksDb => stores::is_rocksdb,
        Against::Nothing => |_| false,
    };
    let best = cell.best(target.quantity, wanted);
    let against = best.map(|(store, spread)| (store, spread.median));
    let measured = match (target.against, against) {
        (Against::Nothing, _) => own,
        (_, Some((_, peer))) if peer > 0.0 => own / peer,
        _ => return None,
    };
    let reached = match target.quantity.more_is_better() {
        true => measured / target.bound,
        false => target.bound / measured.max(f64::MIN_POSITIVE),
    };
    Some(Gap {
        cell,
        target,
        own,
        against,
        measured,
        reached,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The design's table of targets for rates, line by line: in RAM, beyond RAM.
    #[test]
    fn targets_are_those_of_the_design() {
        use Locality::{Composite, Simple, Uniform};
        use Workload::{Ingest, Mixed, Put, Read, Scan};
        let table = [
            (Ingest, Composite, Some(4.0), Some(4.0)),
            (Put, Composite, Some(3.0), Some(3.0)),
            (Put, Simple, Some(3.0), Some(2.0)),
            (Put, Uniform, Some(3.0), Some(2.0)),
            (Mixed, Composite, Some(2.0), Some(2.0)),
            (Mixed, Simple, Some(2.0), Some(1.2)),
            (Mixed, Uniform, None, None),
            (Read, Composite, Some(1.0), Some(1.5)),
            (Read, Simple, Some(1.0), Some(1.2)),
            (Read, Uniform, Some(1.0), None),
            (Scan, Composite, Some(1.0), Some(2.0)),
            (Scan, Simple, Some(1.0), Some(1.2)),
        ];
        for (workload, locality, in_ram, beyond) in table {
            for (place, bound) in [(Place::InRam, in_ram), (Place::BeyondRam, beyond)] {
                let kind = Kind {
                    workload,
                    locality,
                    place,
                };
                let rate = targets(kind)
                    .into_iter()
                    .find(|target| target.quantity == Quantity::Throughput);
                assert_eq!(rate.map(|target| target.bound), bound, "{kind:?}");
                let tails = targets(kind)
                    .into_iter()
                    .filter(|target| target.against == Against::RocksDb && target.strict);
                assert_eq!(tails.count(), 2, "gets' and puts' tails");
                let space = targets(kind)
                    .into_iter()
                    .find(|target| target.quantity == Quantity::Space);
                assert_eq!(space.map(|target| target.bound), Some(1.2));
            }
        }
    }

    #[test]
    fn write_amplification_targets_are_those_of_the_design() {
        let written = |workload, locality, place| -> Vec<(Against, f64)> {
            let kind = Kind {
                workload,
                locality,
                place,
            };
            let all = targets(kind).into_iter();
            all.filter(|target| target.quantity == Quantity::WriteAmplification)
                .map(|target| (target.against, target.bound))
                .collect()
        };
        use Locality::{Composite, Uniform};
        let own = Against::Nothing;
        assert_eq!(written(Workload::Put, Uniform, Place::InRam), [(own, 1.0)]);
        assert_eq!(
            written(Workload::Put, Composite, Place::BeyondRam),
            [(own, 1.3), (Against::BestLsm, 0.5)]
        );
        assert_eq!(
            written(Workload::Put, Uniform, Place::BeyondRam),
            [(Against::BestLsm, 0.5)]
        );
        assert_eq!(
            written(Workload::Ingest, Composite, Place::BeyondRam),
            [(Against::BestPeer, 1.0 / 3.0)]
        );
        assert!(written(Workload::Mixed, Composite, Place::BeyondRam).is_empty());
    }

    #[test]
    fn cells_have_the_kind_that_their_names_say() {
        let cell = |mix: &str, distribution: &str, data_bytes| Cell {
            mix: Some(mix.to_owned()),
            distribution: Some(distribution.to_owned()),
            data_bytes: Some(data_bytes),
            ..Cell::default()
        };
        let gib = 1 << 30;
        let of = |mix, distribution, bytes| {
            let kind = kind(&cell(mix, distribution, bytes), gib)?;
            Some((kind.workload, kind.locality, kind.place))
        };
        assert_eq!(
            of("D", "latest", gib / 2),
            Some((Workload::Read, Locality::Simple, Place::InRam))
        );
        assert_eq!(
            of("E1000", "zipf-composite-suffix", gib),
            Some((Workload::Scan, Locality::Composite, Place::Between))
        );
        assert_eq!(
            of("P", "uniform", gib + 1),
            Some((Workload::Put, Locality::Uniform, Place::BeyondRam))
        );
        assert_eq!(of("Z", "uniform", gib), None);
        assert_eq!(of("P", "moon", gib), None);
        let variant = Cell {
            variant: Some("log 4 MiB".to_owned()),
            ..cell("A", "zipf-simple", gib)
        };
        assert_eq!(kind(&variant, gib), None);
    }
}
