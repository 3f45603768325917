//! The part of a trace that a conversion takes, and the mending of its times.

use std::time::{Duration, SystemTime};

use evendb_trace::{Cut, Header, Kind, MendedTimes, Window};

use crate::escapes::unescape;
use crate::failure::Failure;
use crate::time_text::{read_duration, read_time};

/// Options that choose a part of a trace.
#[derive(clap::Args)]
pub(super) struct PartArguments {
    /// Only operations that began then or later: a time since the beginning of the trace (90, 90s,
    /// 5m, 1h30m, 2d), or of the wall clock (2026-01-31T12:00:00Z). The result begins at this time
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    from: Option<Moment>,
    /// Only operations that began before this time, in the same forms
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    until: Option<Moment>,
    /// Only operations of this keyspace; may be given several times. Calls without a key are left
    /// out
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    keyspace: Vec<String>,
    /// Only operations of these kinds, as get,put. Ends of batches and transactions come with their
    /// parts
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_parser = parse_kind)]
    kind: Vec<Kind>,
    /// Only keys that begin so; may be given several times. Bytes that are no text as \xff.
    /// Deletions of ranges are cut down to these keys; a scan has the key at which it begins
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true, value_parser = parse_prefix)]
    prefix: Vec<Prefix>,
    /// Cut jumps of the clock: a gap of more than this length becomes this long, and a time that is
    /// further back goes on where the trace was (as 10s, 5m)
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    gaps_max: Option<Duration>,
}

/// The beginning of a key.
#[derive(Clone, Debug)]
struct Prefix(Vec<u8>);

/// A time of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Since(Duration),
    WallClock(SystemTime),
}

fn parse_moment(text: &str) -> Result<Moment, String> {
    // A date has its first hyphen behind the year.
    if text.as_bytes().get(4) == Some(&b'-') {
        let time = read_time(text.as_bytes());
        let why = "a time of the wall clock is 2026-01-31T12:00:00Z, or with a zone";
        return time.map(Moment::WallClock).ok_or_else(|| why.to_owned());
    }
    parse_length(text).map(Moment::Since)
}

/// A length of time: numbers with a unit each, or seconds alone.
fn parse_length(text: &str) -> Result<Duration, String> {
    let why = || "a length of time is seconds, or as 90s, 5m, 1h30m, 2d, 250ms".to_owned();
    if let Some(seconds) = read_duration(text.as_bytes()) {
        return Ok(seconds);
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| c.is_ascii_alphabetic())
            .ok_or_else(why)?;
        let (number, after) = rest.split_at(digits);
        let end = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let number = read_duration(number.as_bytes()).ok_or_else(why)?;
        let one = match unit {
            "ms" => number / 1000,
            "s" => number,
            "m" => number.checked_mul(60).ok_or_else(why)?,
            "h" => number.checked_mul(3600).ok_or_else(why)?,
            "d" => number.checked_mul(86_400).ok_or_else(why)?,
            _ => return Err(why()),
        };
        sum = sum.checked_add(one).ok_or_else(why)?;
        rest = after;
    }
    match text.is_empty() {
        true => Err(why()),
        false => Ok(sum),
    }
}

fn parse_kind(text: &str) -> Result<Kind, String> {
    let found = Kind::ALL
        .into_iter()
        .find(|kind| kind.name() == text.trim());
    found.ok_or_else(|| {
        let names = Kind::ALL.map(Kind::name).join(", ");
        format!("a kind is one of {names}")
    })
}

fn parse_prefix(text: &str) -> Result<Prefix, String> {
    unescape(text.as_bytes()).map(|bytes| Prefix(bytes.into_owned()))
}

impl PartArguments {
    /// The part of a trace with this header.
    pub(super) fn cut(&self, header: &Header) -> Result<Cut, Failure> {
        let from = self.from.map(|from| nanos(from, header)).transpose()?;
        let until = self.until.map(|until| nanos(until, header)).transpose()?;
        let mut cut = Cut::default();
        cut.window = Window {
            from: from.unwrap_or(0),
            until,
        };
        if until.is_some_and(|until| until <= cut.window.from) {
            return Err(Failure::Usage("--until is not after --from".to_owned()));
        }
        cut.keyspaces = self.keyspace.iter().cloned().collect();
        cut.kinds = self.kind.iter().copied().collect();
        cut.prefixes = self.prefix.iter().map(|prefix| prefix.0.clone()).collect();
        Ok(cut)
    }

    /// The header of the part: the wall clock at its beginning.
    pub(super) fn header(cut: &Cut, mut header: Header) -> Header {
        if header.wall_clock_millis > 0 {
            let later = cut.window.from / 1_000_000;
            header.wall_clock_millis = header.wall_clock_millis.saturating_add(later);
        }
        header
    }

    pub(super) fn mended(&self) -> Option<MendedTimes> {
        let gap = self.gaps_max?;
        Some(MendedTimes::new(
            u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX),
        ))
    }
}

/// Nanoseconds since the beginning of the trace. A time before it is its beginning.
fn nanos(moment: Moment, header: &Header) -> Result<u64, Failure> {
    let since = match moment {
        Moment::Since(since) => since,
        Moment::WallClock(_) if header.wall_clock_millis == 0 => {
            let why = "the trace does not say when it began: give a time since its beginning, as 90s or 1h30m";
            return Err(Failure::Message(why.to_owned()));
        }
        Moment::WallClock(time) => {
            let began = Duration::from_millis(header.wall_clock_millis);
            let since_1970 = time
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default();
            since_1970.saturating_sub(began)
        }
    };
    Ok(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::{Moment, nanos, parse_length, parse_moment};
    use evendb_trace::Header;
    use std::time::Duration;

    #[test]
    fn lengths_of_time_have_units() {
        let seconds = |text: &str| parse_length(text).map(|length| length.as_secs_f64());
        for (text, expected) in [
            ("90", 90.0),
            ("1.5", 1.5),
            ("90s", 90.0),
            ("5m", 300.0),
            ("1h30m", 5400.0),
            ("2d", 172_800.0),
            ("250ms", 0.25),
            ("0", 0.0),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "h", "5x", "-5", "1h30", "m5", "99999999999999999999d"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_wall_clock_counts_from_that_of_the_trace() {
        let header = Header {
            // 2026-01-31T12:00:00Z
            wall_clock_millis: 1_769_860_800_000,
            ..Header::default()
        };
        let of = |text: &str| nanos(parse_moment(text).unwrap(), &header).unwrap();
        assert_eq!(of("2026-01-31T12:00:01.5Z"), 1_500_000_000);
        assert_eq!(of("2026-01-31T13:00:02+01:00"), 2_000_000_000);
        assert_eq!(of("2026-01-30"), 0);
        assert_eq!(of("3"), 3_000_000_000);
        let since = Moment::Since(Duration::from_secs(1));
        assert_eq!(nanos(since, &Header::default()).unwrap(), 1_000_000_000);
        let wall_clock = parse_moment("2026-01-31").unwrap();
        assert!(nanos(wall_clock, &Header::default()).is_err());
        assert!(parse_moment("2026-13-31").is_err());
    }
}
