//! How a conversion hides keys: see `evendb_trace::hidden`.

use std::path::Path;

use clap::ValueEnum;
use evendb_trace::Operation;
use evendb_trace::hidden::{HashedKeys, KeyGatherer, OrderedKeys};

use crate::failure::Failure;
use crate::key_file::read_secret;

/// Keys that are hidden in order may take this number of bytes, and with their replacements twice
/// that.
const KEYS_BYTES_MAX: usize = 2 << 30;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum HiddenForm {
    /// Keyed hashes: equal keys stay equal; order and ends of ranges are lost
    Hashed,
    /// Order, common prefixes and lengths stay; the bytes are lost. Keys without gaps can be
    /// guessed
    Ordered,
}

/// How keys are hidden, if they are.
pub(super) enum Hiding {
    No,
    Hashed(HashedKeys),
    Ordered(OrderedKeys),
}

impl Hiding {
    /// For keys that are hidden in order, `gather` reads all keys of the result first.
    pub(super) fn of(
        (form, secret): (Option<HiddenForm>, Option<&Path>),
        gather: impl FnOnce(KeyGatherer) -> Result<KeyGatherer, Failure>,
    ) -> Result<Hiding, Failure> {
        match (form, secret) {
            (None, _) => Ok(Hiding::No),
            (Some(HiddenForm::Ordered), Some(_)) => Err(Failure::Usage(
                "keys that are hidden in order have no secret".to_owned(),
            )),
            (Some(HiddenForm::Hashed), path) => {
                let secret = path.map(secret_in).transpose()?;
                let secret = secret.map_or_else(random_secret, Ok)?;
                Ok(Hiding::Hashed(HashedKeys::new(secret)))
            }
            (Some(HiddenForm::Ordered), None) => {
                let gathered = gather(KeyGatherer::new(KEYS_BYTES_MAX))?;
                Ok(Hiding::Ordered(gathered.finish()))
            }
        }
    }

    pub(super) fn hide(&self, operation: &mut Operation) -> evendb_trace::Result<()> {
        match self {
            Hiding::No => Ok(()),
            Hiding::Hashed(keys) => {
                keys.hide(operation);
                Ok(())
            }
            Hiding::Ordered(keys) => keys.hide(operation),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        !matches!(self, Hiding::No)
    }
}

/// The secret key in a file. The text of an error shows nothing of the file.
fn secret_in(path: &Path) -> Result<[u64; 2], Failure> {
    let bytes = read_secret(path);
    let bytes =
        bytes.map_err(|error| Failure::new(format!("cannot read {}", path.display()), error))?;
    let digits = || {
        let digits = std::str::from_utf8(bytes.trim_ascii()).ok()?;
        let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u128::from_str_radix(digits, 16).ok())?
    };
    let raw = <[u8; 16]>::try_from(&bytes[..]).map(u128::from_le_bytes);
    let number = raw.ok().or_else(digits).ok_or_else(|| {
        let path = path.display();
        Failure::Message(format!(
            "{path}: a secret is 16 bytes, or 32 hexadecimal digits"
        ))
    })?;
    Ok([(number >> 64) as u64, number as u64])
}

/// From the randomness of the operating system.
fn random_secret() -> Result<[u64; 2], Failure> {
    let number =
        || getrandom::u64().map_err(|error| Failure::new("cannot get random numbers", error));
    Ok([number()?, number()?])
}
