//! Puts keys that files list. So the store has all keys of the store that was traced, and not only
//! the keys that the trace names.
//!
//! A file has the form that [`ListedKeys`] reads: the output of `evendb scan DB --keys-only
//! --output hex`, of one keyspace, or lines with the keyspace before the key. If the trace has
//! several keyspaces, keys are put as a replay names them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use evendb_trace::ListedKeys;

use super::plan::key_in_store;
use super::work::Bytes;
use super::worker::value_of;
use crate::recorder::RunError;
use crate::store::Store;

/// Puts each key with a value of the bytes that `sizes` gives for its keyspace, with the percentage
/// of them that compresses to next to nothing. Returns the number of keys. Keys have the number of
/// their keyspace before them if `with_keyspaces`. The store is not settled: more may be put.
///
/// # Errors
/// `Input` with the number of a line that has no key; the store's.
pub fn put_keys(
    mut list: ListedKeys<impl BufRead>,
    store: &dyn Store,
    (with_keyspaces, sizes): (bool, &dyn Fn(u32) -> (usize, u8)),
    stop: &AtomicBool,
) -> Result<u64, RunError> {
    let (mut put, mut value) = (0, Vec::new());
    while let Some((keyspace, key)) = list.next_key()? {
        let key = key_in_store(with_keyspaces, keyspace, key.to_vec());
        let (bytes, compressible) = sizes(keyspace);
        let bytes = Bytes::Len(bytes);
        store.put(&key, value_of(&mut value, &key, &bytes, compressible))?;
        put += 1;
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(put)
}

/// Puts the keys of all of these files, each with the keyspace of the whole file if it is said to
/// be of one, and settles. Returns the number of keys.
///
/// # Errors
/// `Input` if a file or the trace cannot be read, or a line has no key; the store's.
pub fn put_key_files(
    files: &[(&Path, Option<&str>)],
    trace: &Path,
    store: &dyn Store,
    sizes: &dyn Fn(&str) -> (usize, u8),
    stop: &AtomicBool,
) -> Result<u64, RunError> {
    let keyspaces = super::command::keyspaces_in(trace)?;
    let sizes = |number: u32| sizes(keyspaces.get(&number).map_or("", String::as_str));
    let mut put = 0;
    for (path, of) in files {
        let list = list_in(path, &keyspaces, *of)?;
        let several = keyspaces.len() > 1;
        let listed = put_keys(list, store, (several, &sizes), stop);
        put += listed.map_err(|error| error.of_file(path))?;
    }
    store.settle_debt()?;
    Ok(put)
}

/// The list in a file, for a trace with these keyspaces. `of` is the keyspace of the whole list, if
/// it is said to be of one.
///
/// # Errors
/// `Input` if the file cannot be read, or the trace has no keyspace `of`.
pub(crate) fn list_in(
    path: &Path,
    keyspaces: &BTreeMap<u32, String>,
    of: Option<&str>,
) -> Result<ListedKeys<BufReader<File>>, RunError> {
    let named = |error: RunError| error.of_file(path);
    let file = File::open(path).map_err(|error| named(RunError::Input(error.to_string())))?;
    let list = ListedKeys::new(BufReader::with_capacity(256 << 10, file), keyspaces, of);
    list.map_err(|error| named(error.into()))
}

/// Lists with the keyspaces that they are said to be of: none, or one for each list.
///
/// # Errors
/// `Input` if there are as many of the one as of the other neither.
pub fn paired<'a>(
    files: &'a [PathBuf],
    of: &'a [String],
) -> Result<Vec<(&'a Path, Option<&'a str>)>, RunError> {
    if !of.is_empty() && of.len() != files.len() {
        let message = format!(
            "there are {} lists of keys and {} names of keyspaces: either each list has one, or no list",
            files.len(),
            of.len()
        );
        return Err(RunError::Input(message));
    }
    let names = of.iter().map(|name| Some(&**name));
    let names = names.chain(std::iter::repeat(None));
    Ok(files.iter().map(PathBuf::as_path).zip(names).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::keyspaces::prefix;
    use crate::stores::memory::MemoryStore;

    fn list<'t>(text: &'t [u8], names: &[&str]) -> ListedKeys<&'t [u8]> {
        let names = names.iter().map(|name| (*name).to_owned());
        let keyspaces: BTreeMap<u32, String> = (0..).zip(names).collect();
        ListedKeys::new(text, &keyspaces, None).unwrap()
    }

    #[test]
    fn each_line_is_put() {
        let (store, never) = (MemoryStore::new(), AtomicBool::new(false));
        let one = list(b"00ff\n6162\r\n\n", &[]);
        let put = put_keys(one, &store, (false, &|_| (7, 0)), &never);
        assert_eq!(put.unwrap(), 3);
        for key in [&[0, 255][..], b"ab", b""] {
            let mut length = 0;
            assert!(store.get(key, &mut |value| length = value.len()).unwrap());
            assert_eq!(length, 7);
        }
        let error = put_keys(list(b"00\n0\n", &[]), &store, (false, &|_| (7, 0)), &never);
        let error = error.unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn keys_of_several_keyspaces_lie_where_a_replay_looks_for_them() {
        let (store, never) = (MemoryStore::new(), AtomicBool::new(false));
        let two = list(b"b\t61\na\t61\nb\t62\n", &["a", "b"]);
        let bytes = |number: u32| (number as usize * 10 + 5, 0);
        let put = put_keys(two, &store, (true, &bytes), &never).unwrap();
        assert_eq!(put, 3);
        let mut found = Vec::new();
        let mut each = |key: &[u8], value: &[u8]| {
            found.push((key.to_vec(), value.len()));
            true
        };
        store.scan(b"", 9, &mut each).unwrap();
        let key = |number: u32, key: &[u8]| [&prefix(number)[..], key].concat();
        let right = [(key(0, b"a"), 5), (key(1, b"a"), 15), (key(1, b"b"), 15)];
        assert_eq!(found, right);
        // A key without its keyspace is refused, with its line.
        let error = put_keys(list(b"61", &["a", "b"]), &store, (true, &bytes), &never);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("line 1: a key without its keyspace"),
            "{error}"
        );
    }

    #[test]
    fn each_list_has_a_keyspace_or_none_has() {
        let files = [PathBuf::from("x"), PathBuf::from("y")];
        let [a, b] = ["a", "b"].map(str::to_owned);
        let (x, y) = (Path::new("x"), Path::new("y"));
        assert_eq!(paired(&files, &[]).unwrap(), [(x, None), (y, None)]);
        let both = [a.clone(), b];
        let right = [(x, Some("a")), (y, Some("b"))];
        assert_eq!(paired(&files, &both).unwrap(), right);
        let told = paired(&files, &[a]).unwrap_err().to_string();
        assert!(told.contains("2 lists of keys and 1 names"), "{told}");
    }
}
