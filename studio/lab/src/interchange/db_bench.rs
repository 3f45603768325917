//! RocksDB's `db_bench`: the command lines that fill a database and run its `mixgraph`, and the
//! model that such a command line describes.
//!
//! | model | flags |
//! |---|---|
//! | pairs, operations | `--num`, `--reads` |
//! | mix | `--mix_get_ratio`, `--mix_put_ratio`, `--mix_seek_ratio` |
//! | keys | `--key_size` |
//! | values | `--value_k`, `--value_sigma`, `--value_theta`, `--mix_max_value_size` |
//! | loaded values | `--value_size` |
//! | scans | `--iter_k`, `--iter_sigma`, `--iter_theta`, `--mix_max_scan_len` |
//! | ranges | `--keyrange_num`, `--keyrange_dist_a` to `_d`: a e^(b x) + c e^(d x) |
//! | accesses | `--key_dist_a`, `--key_dist_b`: the hottest x pairs have a x^b of the accesses |
//! | rate | `--sine_mix_rate`, `--sine_a` to `_d` |
//! | compressible | `--compression_ratio` |
//!
//! With k = 0 its generalized Pareto is theta - sigma ln(u). So an exponential spread, and a
//! constant size (sigma = 0), can be said exactly. Another curve of ranges becomes the best
//! two-term exponential through its shares, and a comment says how far it is off. What cannot be
//! said is in comments: deletes, merges, hot keys of one kind, histograms of sizes, accesses by
//! rank.
//!
//! Defaults of flags that a command line does not have are those of RocksDB 7.8.

use std::collections::BTreeMap;

use evendb_model::Model;
use evendb_model::access::{Accesses, Ranges};
use evendb_model::curve::{Curve, Shape};
use evendb_model::curve_fit;
use evendb_model::model::{KEY_BYTES_MAX, KEY_BYTES_MIN, Kind, Mix, PAIRS_MAX, Rate};
use evendb_model::model::{SCAN_LENGTH_MAX, VALUE_BYTES_MAX, Values};
use evendb_model::sizes::{Sizes, Spread};

use super::comments;

/// Where a model that was read comes from.
const ABOUT: &str = "From a command line of RocksDB's db_bench; flags that it does not have count \
    with their defaults in 7.8";

/// The most ranges through which a curve is fitted.
const RANGES_FITTED: u64 = 1000;

/// The command lines as the text of a script.
#[must_use]
pub fn to_commands(model: &Model) -> String {
    let mut flags = Flags::default();
    flags.mix(model);
    flags.sizes(model);
    flags.heat(model);
    flags.rate(model);
    let key_bytes = flags.key_bytes(model);
    let loaded = flags.loaded(model);
    let ratio = 1.0 - f64::from(model.values.compressible) / 100.0;
    let mut common = vec![
        format!("--num={}", model.pairs),
        format!("--key_size={key_bytes}"),
        format!("--value_size={loaded}"),
        format!("--compression_ratio={ratio}"),
    ];
    if let Some(bytes) = model.memory_bytes {
        common.push(format!("--cache_size={bytes}"));
    }
    let about = vec![format!("{}: {}", model.name, one_line(&model.about))];
    let what = match flags.notes.is_empty() {
        true => vec!["All of the model is in the flags below.".to_owned()],
        false => vec!["What db_bench cannot say, and what it does instead:".to_owned()],
    };
    let head = comments("#", &[about, what, flags.notes].concat());
    let command = |benchmark: &str, flags: &[String]| {
        let mut lines = vec![format!("db_bench --db=\"$DB\" --benchmarks={benchmark}")];
        lines.extend(flags.iter().map(|flag| format!("    {flag}")));
        lines.join(" \\\n")
    };
    let fill = command("fillrandom", &common);
    common.push("--use_existing_db=1".to_owned());
    common.extend(flags.all);
    let run = command("mixgraph,stats", &common);
    format!(
        "#!/bin/sh\n# A load for RocksDB's db_bench, by `evendb model --to db-bench`.\n{head}DB=${{1:?a directory for the database}}\n{fill}\n{run}\n"
    )
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The flags of mixgraph, and notes about what they do not say.
#[derive(Default)]
struct Flags {
    all: Vec<String>,
    notes: Vec<String>,
}

impl Flags {
    fn set(&mut self, name: &str, value: f64) {
        self.all.push(format!("--{name}={value}"));
    }

    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(format!("* {}", text.into()));
    }

    fn mix(&mut self, model: &Model) {
        let Mix {
            get,
            put,
            delete,
            merge,
            scan,
        } = model.mix;
        self.set("reads", model.operations as f64);
        let said = get + put + scan;
        for (name, share) in [("delete", delete), ("merge", merge)] {
            if share > 0.0 {
                let percent = 100.0 * share;
                self.note(format!(
                    "{percent:.2} % of the operations are of the kind {name}. They are left out, and the other kinds have their shares."
                ));
            }
        }
        // A load of merges alone has no share that could be scaled.
        let scale = |share: f64| if said > 0.0 { share / said } else { 0.0 };
        let is_scaled = delete + merge > 0.0;
        let share = |share: f64| if is_scaled { scale(share) } else { share };
        self.set("mix_get_ratio", share(get));
        self.set("mix_put_ratio", share(put));
        self.set("mix_seek_ratio", share(scan));
        let in_thousandths = [get, put, scan].map(|one| share(one) * 1000.0);
        if in_thousandths
            .iter()
            .any(|one| (one - one.round()).abs() > 1e-6)
        {
            self.note("Shares of kinds are used in thousandths, rounded up.");
        }
    }

    fn sizes(&mut self, model: &Model) {
        self.pareto("value", &model.values.sizes, "Sizes of values");
        self.set("mix_max_value_size", model.values.sizes.most as f64);
        if let Some(scans) = model.scans.as_ref().filter(|_| model.mix.scan > 0.0) {
            self.pareto("iter", scans, "Lengths of scans");
            self.set("mix_max_scan_len", scans.most as f64);
        }
    }

    fn pareto(&mut self, name: &str, sizes: &Sizes, what: &str) {
        let (k, sigma, theta) = match sizes.spread {
            Spread::GeneralizedPareto { k, sigma, theta } => (k, sigma, theta),
            Spread::Exponential { mean } => (0.0, mean, 0.0),
            Spread::Constant(size) => (0.0, 0.0, size as f64),
            _ => {
                let mean = sizes.mean().round();
                self.note(format!(
                    "{what} have the spread {}. They are all the mean here: {mean}.",
                    sizes.spread.name()
                ));
                (0.0, 0.0, mean)
            }
        };
        let is_exact = matches!(sizes.spread, Spread::Constant(_));
        let has_formula = sigma > 0.0;
        if has_formula && !is_exact {
            self.note(format!(
                "{what} above {} are wrapped by modulo, and not drawn again; fractions are rounded up.",
                sizes.most
            ));
        }
        self.set(&format!("{name}_k"), k);
        self.set(&format!("{name}_sigma"), sigma);
        self.set(&format!("{name}_theta"), theta);
    }

    fn heat(&mut self, model: &Model) {
        if model
            .own
            .iter()
            .any(|own| own.ranges.is_some() || own.accesses.is_some())
        {
            self.note(
                "Some kinds have hot keys of their own. Here all kinds have the common ones.",
            );
        }
        match &model.ranges {
            Some(ranges) => self.ranges(ranges),
            None => {
                self.set("keyrange_num", 1.0);
                if model.accesses.is_some() {
                    self.note("The key space is one range. Without ranges, db_bench scatters hot keys over it.");
                }
            }
        }
        match model.accesses {
            Some(Accesses::Cumulative { a, b }) => {
                self.set("key_dist_a", a);
                self.set("key_dist_b", b);
            }
            Some(Accesses::ByRank { b }) => self.note(format!(
                "The x-th hottest pair is accessed in proportion to x^{b}. The keys of a range are all alike here."
            )),
            None => {}
        }
    }

    fn ranges(&mut self, ranges: &Ranges) {
        self.set("keyrange_num", ranges.count as f64);
        let p = &ranges.curve.parameters;
        let four = match ranges.curve.shape {
            Shape::TwoExponentials => [p[0], p[1], p[2], p[3]],
            Shape::Exponential => [p[0], p[1], 0.0, 0.0],
            shape => match two_exponentials(ranges) {
                Some((four, off)) => {
                    let percent = 100.0 * off;
                    self.note(format!(
                        "The heat of ranges is a curve of the form {shape}. The best two-term exponential is given; {percent:.2} % of the accesses go to another range by it."
                    ));
                    four
                }
                None => {
                    self.note(format!(
                        "The heat of ranges is a curve of the form {shape}, and no two-term exponential fits it. All ranges are alike here."
                    ));
                    [1.0, 0.0, 0.0, 0.0]
                }
            },
        };
        for (name, value) in ["a", "b", "c", "d"].iter().zip(four) {
            self.set(&format!("keyrange_dist_{name}"), value);
        }
    }

    fn rate(&mut self, model: &Model) {
        let Some(Rate { a, b, c, d }) = model.rate else {
            return;
        };
        self.all.push("--sine_mix_rate=1".to_owned());
        self.all
            .push("--sine_mix_rate_interval_milliseconds=5000".to_owned());
        for (name, value) in [("a", a), ("b", b), ("c", c), ("d", d)] {
            self.set(&format!("sine_{name}"), value);
        }
        let pair = model.keys.mean() + model.values.sizes.mean();
        self.note(format!(
            "Puts are held back by their bytes: {pair:.0} on average, db_bench's --mix_ave_kv_size in versions that have it."
        ));
    }

    fn key_bytes(&mut self, model: &Model) -> u64 {
        let mean = model.keys.mean().round().max(1.0) as u64;
        if !matches!(model.keys.spread, Spread::Constant(_)) {
            self.note(format!(
                "Keys have sizes of the spread {}. They are all the mean here: {mean}.",
                model.keys.spread.name()
            ));
        }
        mean
    }

    fn loaded(&mut self, model: &Model) -> u64 {
        let mean = model.values.loaded.mean().round() as u64;
        if !matches!(model.values.loaded.spread, Spread::Constant(_)) {
            self.note(format!(
                "Values that are loaded have sizes of the spread {}. They are all the mean here: {mean}.",
                model.values.loaded.spread.name()
            ));
        }
        mean
    }
}

/// The best two-term exponential through the shares of ranges, and the share of accesses that it
/// gives to another range.
fn two_exponentials(ranges: &Ranges) -> Option<([f64; 4], f64)> {
    let shares = ranges.shares()?;
    let step = shares.len().div_ceil(RANGES_FITTED as usize).max(1);
    let points = shares.iter().enumerate().step_by(step);
    let points: Vec<_> = points
        .map(|(number, share)| (number as f64 + 1.0, *share))
        .collect();
    let fitted = curve_fit::fit(&points, Shape::TwoExponentials).ok()?.curve;
    let own = Ranges {
        count: ranges.count,
        curve: fitted.clone(),
    };
    let off: f64 = shares
        .iter()
        .zip(own.shares()?)
        .map(|(one, other)| (one - other).abs())
        .sum();
    let p: [f64; 4] = fitted.parameters.try_into().ok()?;
    Some((p, off / 2.0))
}

/// A model that was read from a command line, and what was not understood of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The model.
    pub model: Model,
    /// What a reader of the model must know.
    pub notes: Vec<String>,
}

/// The model of the last `mixgraph` in a text of commands, as a shell reads them. Values that are
/// loaded have the size in its own flags.
///
/// # Errors
/// There is no such command, or a flag has no sensible value: its name, in words.
pub fn from_commands(text: &str) -> Result<Read, String> {
    let commands = commands(text);
    let is_mixgraph = |flags: &&BTreeMap<String, String>| {
        let benchmarks = flags.get("benchmarks");
        benchmarks.is_some_and(|all| all.split(',').any(|one| one.trim() == "mixgraph"))
    };
    let flags = commands.iter().rev().find(is_mixgraph);
    let flags = flags.ok_or("there is no command with --benchmarks=mixgraph")?;
    Reading { flags }.model()
}

/// The flags of each command in a text.
fn commands(text: &str) -> Vec<BTreeMap<String, String>> {
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(flags_of).collect()
}

fn flags_of(line: &str) -> BTreeMap<String, String> {
    let unquoted = |text: &str| text.replace(['"', '\''], "");
    let mut flags = BTreeMap::new();
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            continue;
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            // A flag of a truth value may stand alone.
            None => match words.peek().filter(|next| !next.starts_with('-')) {
                Some(next) => (flag, (*next).to_owned()),
                None => (flag, "true".to_owned()),
            },
        };
        flags.insert(unquoted(name), unquoted(&value));
    }
    flags
}

struct Reading<'a> {
    flags: &'a BTreeMap<String, String>,
}

impl Reading<'_> {
    fn number(&self, name: &str, default: f64) -> Result<f64, String> {
        match self.flags.get(name) {
            None => Ok(default),
            Some(text) => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                number.ok_or_else(|| format!("--{name}={text} is no number"))
            }
        }
    }

    fn whole(&self, name: &str, default: u64, limits: (u64, u64)) -> Result<u64, String> {
        let number = self.number(name, default as f64)?;
        let (least, most) = limits;
        match number >= least as f64 && number <= most as f64 {
            true => Ok(number as u64),
            false => Err(format!("--{name}={number} is not from {least} to {most}")),
        }
    }

    fn model(&self) -> Result<Read, String> {
        let mut notes = Vec::new();
        let pairs = self.whole("num", 1_000_000, (1, PAIRS_MAX))?;
        let operations = match self.number("reads", -1.0)? {
            reads if reads >= 1.0 => reads as u64,
            _ => pairs,
        };
        let key_bytes = self.whole("key_size", 16, (1, KEY_BYTES_MAX))?;
        if key_bytes < KEY_BYTES_MIN {
            notes.push(format!(
                "keys have {KEY_BYTES_MIN} bytes, the fewest of a model, and not {key_bytes}"
            ));
        }
        let loaded = self.whole("value_size", 100, (0, VALUE_BYTES_MAX))?;
        let (ranges, accesses) = self.heat(&mut notes)?;
        let mix = self.mix()?;
        let values = ("mix_max_value_size", 1024, VALUE_BYTES_MAX);
        let scans = ("mix_max_scan_len", 10_000, SCAN_LENGTH_MAX);
        let model = Model {
            name: "db-bench".to_owned(),
            about: ABOUT.to_owned(),
            pairs,
            operations,
            memory_bytes: self.cache_bytes(),
            mix,
            keys: Sizes::constant(key_bytes.max(KEY_BYTES_MIN)),
            values: Values {
                sizes: self.sizes("value", [0.2615, 25.45, 0.0], values)?,
                loaded: Sizes::constant(loaded),
                compressible: self.compressible()?,
            },
            scans: match mix.scan > 0.0 {
                true => Some(self.sizes("iter", [2.517, 14.236, 0.0], scans)?),
                false => None,
            },
            ranges,
            accesses,
            own: Default::default(),
            rate: self.rate()?,
        };
        notes.extend(self.unread());
        Ok(Read { model, notes })
    }

    fn cache_bytes(&self) -> Option<u64> {
        let bytes = self.flags.get("cache_size")?.parse().ok()?;
        (bytes > 0).then_some(bytes)
    }

    fn mix(&self) -> Result<Mix, String> {
        let names = [
            ("mix_get_ratio", 1.0),
            ("mix_put_ratio", 0.0),
            ("mix_seek_ratio", 0.0),
        ];
        let mut shares = [0.0; 3];
        for (share, (name, default)) in shares.iter_mut().zip(names) {
            *share = self.number(name, default)?;
            if *share < 0.0 {
                return Err(format!("--{name}={share} is below 0"));
            }
        }
        let sum: f64 = shares.iter().sum();
        if sum <= 0.0 {
            return Err(
                "all shares of --mix_get_ratio, --mix_put_ratio and --mix_seek_ratio are 0"
                    .to_owned(),
            );
        }
        // Shares that add up to 1 stay as they were written.
        let scale = if (sum - 1.0).abs() < 1e-9 { 1.0 } else { sum };
        let mut mix = Mix::default();
        for (share, kind) in shares.iter().zip([Kind::Get, Kind::Put, Kind::Scan]) {
            *mix.share_mut(kind) = share / scale;
        }
        Ok(mix)
    }

    fn sizes(
        &self,
        name: &str,
        [k, sigma, theta]: [f64; 3],
        (most_name, most, highest): (&str, u64, u64),
    ) -> Result<Sizes, String> {
        let k = self.number(&format!("{name}_k"), k)?;
        let sigma = self.number(&format!("{name}_sigma"), sigma)?;
        let theta = self.number(&format!("{name}_theta"), theta)?;
        let most = self.whole(most_name, most, (1, highest))?;
        if sigma < 0.0 {
            return Err(format!("--{name}_sigma={sigma} is below 0"));
        }
        if sigma == 0.0 {
            return Ok(Sizes::constant((theta.ceil().max(1.0) as u64).min(most)));
        }
        let spread = match (k, theta) {
            (0.0, 0.0) => Spread::Exponential { mean: sigma },
            _ => Spread::GeneralizedPareto { k, sigma, theta },
        };
        Ok(Sizes {
            spread,
            least: 1,
            most,
        })
    }

    fn heat(&self, notes: &mut Vec<String>) -> Result<(Option<Ranges>, Option<Accesses>), String> {
        let count = self.whole("keyrange_num", 1, (1, evendb_model::access::RANGES_MAX))?;
        let mut p = [0.0; 4];
        for (number, name) in p.iter_mut().zip(["a", "b", "c", "d"]) {
            *number = self.number(&format!("keyrange_dist_{name}"), 0.0)?;
        }
        let has_ranges = p.iter().any(|number| *number != 0.0);
        let curve = match p {
            [a, b, 0.0, 0.0] => Curve::new(Shape::Exponential, vec![a, b]),
            _ => Curve::new(Shape::TwoExponentials, p.to_vec()),
        };
        let ranges = curve
            .filter(|_| has_ranges)
            .map(|curve| Ranges { count, curve });
        if ranges
            .as_ref()
            .is_some_and(|ranges| ranges.shares().is_none())
        {
            return Err(format!(
                "--keyrange_dist_a to _d ({p:?}) give a range no share, or one below 0"
            ));
        }
        let (a, b) = (
            self.number("key_dist_a", 0.0)?,
            self.number("key_dist_b", 0.0)?,
        );
        let accesses = match (a != 0.0 && b != 0.0, a > 0.0 && b > 0.0 && b <= 1.0) {
            (false, _) => None,
            (true, true) => Some(Accesses::Cumulative { a, b }),
            (true, false) => {
                return Err(format!(
                    "--key_dist_a={a} and --key_dist_b={b}: a must be above 0, and b above 0 and at most 1"
                ));
            }
        };
        if accesses.is_some() && !has_ranges {
            notes.push("without ranges, db_bench scatters hot keys: mixgraph does so with --allocation all-random".to_owned());
        }
        Ok((ranges, accesses))
    }

    fn rate(&self) -> Result<Option<Rate>, String> {
        let is_on = self
            .flags
            .get("sine_mix_rate")
            .is_some_and(|text| !["0", "false", "f", "no", "n"].contains(&&text[..]));
        if !is_on {
            return Ok(None);
        }
        let (a, b) = (self.number("sine_a", 1.0)?, self.number("sine_b", 1.0)?);
        let (c, d) = (self.number("sine_c", 0.0)?, self.number("sine_d", 1.0)?);
        match d > a.abs() {
            true => Ok(Some(Rate { a, b, c, d })),
            false => Err(format!(
                "--sine_d={d} is not above --sine_a={a}: there would be times with nothing to do"
            )),
        }
    }

    fn compressible(&self) -> Result<u8, String> {
        let ratio = self.number("compression_ratio", 0.5)?;
        match (0.0..=1.0).contains(&ratio) {
            true => Ok((100.0 * (1.0 - ratio)).round() as u8),
            false => Err(format!("--compression_ratio={ratio} is not from 0 to 1")),
        }
    }

    /// Flags that change the load and have no place in a model.
    fn unread(&self) -> Option<String> {
        let known = [
            "duration",
            "threads",
            "prefix_size",
            "seek_nexts",
            "sine_mix_rate_noise",
            "value_size_distribution_type",
            "mix_accesses",
            "user_timestamp_size",
        ];
        let there: Vec<_> = known
            .iter()
            .filter(|name| self.flags.contains_key(**name))
            .collect();
        let names: Vec<_> = there.iter().map(|name| format!("--{name}")).collect();
        (!names.is_empty()).then(|| format!("not in the model: {}", names.join(", ")))
    }
}
