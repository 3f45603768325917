//! YCSB: a parameter file of its core workload for a model.
//!
//! YCSB has no ranges, no deletes and no rate that swings. Its distributions of requests have no
//! parameters, except `hotspot`. So the one that is nearest to the model is chosen: by the largest
//! difference between the shares of accesses that the hottest part of the keys has, over parts from
//! a ten-thousandth to all. Comments have this difference for each candidate.

use evendb_model::Model;
use evendb_model::model::Mix;
use evendb_model::sizes::{Sizes, Spread};

use super::comments;
use super::popularity::Popularity;

/// The exponent of YCSB's `zipfian`.
const THETA: f64 = 0.99;
/// Parts of the keys at which distributions are compared.
const PARTS: [f64; 9] = [0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0];
/// Parts of the keys that `hotspot` may have.
const HOT: [f64; 4] = [0.001, 0.01, 0.1, 0.2];

/// A distribution of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Requests {
    Uniform,
    Zipfian,
    /// This part of the keys has this share of the requests.
    Hotspot(f64, f64),
}

impl Requests {
    /// The share of requests that the hottest part of `pairs` keys has.
    fn of_hottest(self, part: f64, pairs: u64) -> f64 {
        match self {
            Requests::Uniform => part,
            Requests::Zipfian => zeta(part * pairs as f64) / zeta(pairs as f64),
            Requests::Hotspot(data, share) if part <= data => share * part / data,
            Requests::Hotspot(data, share) => share + (1.0 - share) * (part - data) / (1.0 - data),
        }
    }

    fn name(self) -> String {
        match self {
            Requests::Uniform => "uniform".to_owned(),
            Requests::Zipfian => "zipfian".to_owned(),
            Requests::Hotspot(data, _) => format!("hotspot of {} % of the keys", 100.0 * data),
        }
    }
}

/// The sum of 1 / i^theta for i up to n: exact for the first ones, then by the integral.
fn zeta(n: f64) -> f64 {
    const EXACT: u32 = 1000;
    let whole = n.min(f64::from(EXACT));
    let mut sum: f64 = (1..=whole as u32).map(|i| f64::from(i).powf(-THETA)).sum();
    // A part of the next one, so that the curve has no steps.
    sum += (whole - whole.floor()) * (whole.floor() + 1.0).powf(-THETA);
    if n > whole {
        let power = 1.0 - THETA;
        let (from, to) = (whole + 0.5, n + 0.5);
        sum += (to.powf(power) - from.powf(power)) / power;
    }
    sum
}

/// The parameter file.
#[must_use]
pub fn to_parameters(model: &Model) -> String {
    let mut notes = Vec::new();
    let mut lines = vec![
        "workload=site.ycsb.workloads.CoreWorkload".to_owned(),
        format!("recordcount={}", model.pairs),
        format!("operationcount={}", model.operations),
    ];
    mix(model, &mut lines, &mut notes);
    requests(model, &mut lines, &mut notes);
    values(model, &mut lines, &mut notes);
    if let Some(scans) = model.scans.as_ref().filter(|_| model.mix.scan > 0.0) {
        lines.extend(scan_lengths(scans, &mut notes));
    }
    notes.push(format!(
        "* Keys have {:.0} bytes on average. YCSB's are \"user\" and a number; zeropadding makes them as long.",
        model.keys.mean()
    ));
    let digits = (model.keys.mean().round() as u64).saturating_sub(4).max(1);
    lines.push(format!("zeropadding={digits}"));
    if let Some(rate) = model.rate {
        notes.push(format!(
            "* The rate is {:.0} operations a second, with swings of {:.0} to each side. YCSB holds one rate: -target {:.0} on its command line.",
            rate.d, rate.a.abs(), rate.d
        ));
    }
    if model.values.compressible > 0 {
        notes.push(format!(
            "* {} % of a value compresses to next to nothing. YCSB's values are random text.",
            model.values.compressible
        ));
    }
    let about = model.about.split_whitespace().collect::<Vec<_>>().join(" ");
    let head = [
        vec![
            format!("{}: {about}", model.name),
            "What YCSB cannot say, and what it does instead:".to_owned(),
        ],
        notes,
    ];
    let head = comments("#", &head.concat());
    format!(
        "# A load for YCSB's core workload, by `evendb model --to ycsb`.\n{head}{}\n",
        lines.join("\n")
    )
}

fn mix(model: &Model, lines: &mut Vec<String>, notes: &mut Vec<String>) {
    let Mix {
        get,
        put,
        delete,
        merge,
        scan,
    } = model.mix;
    if delete > 0.0 {
        notes.push(format!(
            "* {:.2} % of the operations are deletes. YCSB has none; the other kinds have their shares.",
            100.0 * delete
        ));
    }
    if merge > 0.0 {
        notes.push("* Merges are read-modify-writes here: YCSB has no operation that adds without reading.".to_owned());
    }
    let rest = (1.0 - delete).max(f64::MIN_POSITIVE);
    let share = |share: f64| if delete > 0.0 { share / rest } else { share };
    for (name, of) in [
        ("readproportion", get),
        ("updateproportion", put),
        ("scanproportion", scan),
        ("readmodifywriteproportion", merge),
        ("insertproportion", 0.0),
    ] {
        lines.push(format!("{name}={}", share(of)));
    }
}

fn requests(model: &Model, lines: &mut Vec<String>, notes: &mut Vec<String>) {
    if model
        .own
        .iter()
        .any(|own| own.ranges.is_some() || own.accesses.is_some())
    {
        notes.push(
            "* Some kinds have hot keys of their own. Here all kinds have the common ones."
                .to_owned(),
        );
    }
    if model.ranges.is_some() {
        notes.push("* Hot keys lie in ranges. YCSB scatters them (zipfian) or puts them side by side (hotspot).".to_owned());
    }
    let Some(popularity) = Popularity::of(model) else {
        lines.push("requestdistribution=uniform".to_owned());
        return;
    };
    let hot = HOT
        .iter()
        .map(|part| Requests::Hotspot(*part, popularity.of_hottest(*part)));
    let candidates: Vec<_> = [Requests::Uniform, Requests::Zipfian]
        .into_iter()
        .chain(hot)
        .collect();
    let off = |requests: &Requests| {
        let differences = PARTS.iter().map(|part| {
            (popularity.of_hottest(*part) - requests.of_hottest(*part, model.pairs)).abs()
        });
        // What is off by less comes from the arithmetic, and the simpler one comes first.
        (differences.fold(0.0, f64::max) * 1e6).round() / 1e6
    };
    let mut ranked: Vec<_> = candidates.iter().map(|one| (off(one), *one)).collect();
    ranked.sort_by(|one, other| one.0.total_cmp(&other.0));
    let each: Vec<_> = ranked
        .iter()
        .map(|(off, one)| format!("{} {off:.3}", one.name()))
        .collect();
    notes.push(format!(
        "* The hottest 1 % of the pairs has {:.1} % of the accesses, the hottest 10 % has {:.1} %. Largest difference from the model: {}.",
        100.0 * popularity.of_hottest(0.01),
        100.0 * popularity.of_hottest(0.1),
        each.join(", ")
    ));
    match ranked[0].1 {
        Requests::Uniform => lines.push("requestdistribution=uniform".to_owned()),
        Requests::Zipfian => lines.push("requestdistribution=zipfian".to_owned()),
        Requests::Hotspot(data, share) => {
            lines.push("requestdistribution=hotspot".to_owned());
            lines.push(format!("hotspotdatafraction={data}"));
            lines.push(format!("hotspotopnfraction={share:.6}"));
        }
    }
}

fn values(model: &Model, lines: &mut Vec<String>, notes: &mut Vec<String>) {
    let sizes = &model.values.sizes;
    lines.push("fieldcount=1".to_owned());
    match sizes.spread {
        Spread::Uniform => {
            lines.push("fieldlengthdistribution=uniform".to_owned());
            lines.push(format!("minfieldlength={}", sizes.least));
            lines.push(format!("fieldlength={}", sizes.most));
        }
        _ => {
            lines.push("fieldlengthdistribution=constant".to_owned());
            lines.push(format!("fieldlength={:.0}", sizes.mean().round()));
        }
    }
    if !matches!(sizes.spread, Spread::Uniform | Spread::Constant(_)) {
        notes.push(format!(
            "* Values have sizes of the spread {}. They are all the mean here.",
            sizes.spread.name()
        ));
    }
}

fn scan_lengths(scans: &Sizes, notes: &mut Vec<String>) -> Vec<String> {
    // The mean of a uniform length from 1 to most is half of most + 1.
    let (least, most) = match scans.spread {
        Spread::Uniform => (scans.least, scans.most),
        Spread::Constant(length) => (length, length),
        _ => {
            let most = (2.0 * scans.mean() - 1.0).round().max(1.0) as u64;
            notes.push(format!(
                "* Scans have lengths of the spread {}. They are uniform here, with the same mean.",
                scans.spread.name()
            ));
            (1, most)
        }
    };
    vec![
        "scanlengthdistribution=uniform".to_owned(),
        format!("minscanlength={least}"),
        format!("maxscanlength={most}"),
    ]
}
