//! EvenDB with the layout [`Layout::Guards`]: a fragmented log-structured merge tree.

use std::path::Path;

use evendb::{Layout, Options};

use super::{EvenDbOpener, EvenDbStore, options, purposes};
use crate::opener::{Opener, Purpose, Settings, Variant};
use crate::store::{Store, StoreResult};

/// Opens it with its defaults, except the number of files in a guard.
pub struct GuardsOpener {
    name: &'static str,
    /// EvenDB's own number, if none is given.
    files: Option<usize>,
}

impl GuardsOpener {
    /// With its defaults.
    pub const DEFAULT: GuardsOpener = GuardsOpener {
        name: "guards",
        files: None,
    };
    /// One file in each guard makes it a leveled tree.
    pub const ONE: GuardsOpener = GuardsOpener {
        name: "guards-1",
        files: Some(1),
    };
    /// Four files write less than the default's two, and more files must be searched.
    pub const FOUR: GuardsOpener = GuardsOpener {
        name: "guards-4",
        files: Some(4),
    };
    /// Eight files go further in that direction.
    pub const EIGHT: GuardsOpener = GuardsOpener {
        name: "guards-8",
        files: Some(8),
    };

    fn options(&self, settings: &Settings) -> Options {
        let options = options(settings).layout(Layout::Guards);
        match self.files {
            Some(files) => options
                .advanced(|advanced| advanced.guards(|guards| guards.max_files_per_guard(files))),
            None => options,
        }
    }

    /// Options with a write buffer of this size: a checkpoint, which flushes it, is due when the
    /// commit log is half full.
    fn buffered(&self, settings: &Settings, bytes: u64) -> Options {
        let log_bytes = bytes.saturating_mul(2).max(64 << 10);
        let options = self.options(settings);
        options.advanced(|advanced| advanced.commit_log_bytes(log_bytes))
    }
}

impl Opener for GuardsOpener {
    fn name(&self) -> &'static str {
        self.name
    }

    fn only_if_named(&self) -> bool {
        true
    }

    fn has_transactions(&self) -> bool {
        true
    }

    fn has_range_deletions(&self) -> bool {
        true
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let store = EvenDbStore::open(directory, self.options(settings), "")?;
        Ok(store.called(self.name.to_owned()))
    }

    fn open_variant(
        &self,
        directory: &Path,
        settings: &Settings,
        variant: Variant,
    ) -> StoreResult<Box<dyn Store>> {
        let options = self.buffered(settings, variant.write_buffer(self.name)?);
        let store = EvenDbStore::open(directory, options, "")?;
        Ok(store.called(format!("{} ({variant})", self.name)))
    }

    fn serves(&self, purpose: Purpose) -> bool {
        EvenDbOpener.serves(purpose)
    }

    fn open_for(
        &self,
        directory: &Path,
        settings: &Settings,
        purpose: Purpose,
    ) -> StoreResult<Box<dyn Store>> {
        let store = purposes::open(directory, self.options(settings), purpose)?;
        Ok(store.called(self.name.to_owned()))
    }

    fn memory_within(&self, limit_bytes: u64) -> u64 {
        EvenDbOpener.memory_within(limit_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opener::Durability;

    const SETTINGS: Settings = Settings {
        memory_bytes: 8 << 20,
        durability: Durability::Process,
    };

    /// The options that the default keyspace remembers.
    fn remembered(directory: &Path) -> Vec<(&'static str, String)> {
        let database = evendb::Db::open(directory).unwrap();
        let options = database.default_keyspace().options().unwrap();
        options.chosen().collect()
    }

    #[test]
    fn each_makes_guards_with_its_number_of_files() {
        for (opener, files) in [
            (GuardsOpener::DEFAULT, 2),
            (GuardsOpener::ONE, 1),
            (GuardsOpener::FOUR, 4),
            (GuardsOpener::EIGHT, 8),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let store = opener.open(directory.path(), &SETTINGS).unwrap();
            assert_eq!(store.name(), opener.name());
            store.put(b"a", b"1").unwrap();
            assert!(
                store
                    .get(b"a", &mut |value| assert_eq!(value, b"1"))
                    .unwrap()
            );
            store.close().unwrap();
            assert_eq!(
                remembered(directory.path()),
                [("layout", "guards".to_owned())]
            );
            let options = format!("{:?}", opener.options(&SETTINGS));
            assert!(options.contains(&format!("max_files_per_guard: {files},")));
        }
    }

    #[test]
    fn takes_a_write_buffer_and_no_option_of_other_stores() {
        let directory = tempfile::tempdir().unwrap();
        let four = GuardsOpener::FOUR;
        let open = |variant| four.open_variant(directory.path(), &SETTINGS, variant);
        let refused = open(Variant::BloomSplit(2)).err().unwrap();
        assert!(refused.to_string().contains("guards-4 has no option"));
        let store = open(Variant::WriteBufferBytes(64 << 10)).unwrap();
        assert_eq!(store.name(), "guards-4 (write buffer 64.00 KiB)");
        store.close().unwrap();
        let options = format!("{:?}", four.buffered(&SETTINGS, 64 << 10));
        assert!(options.contains("commit_log_bytes: Some(131072)"));
    }
}
