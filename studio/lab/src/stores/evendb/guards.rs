//! EvenDB with the layout [`Layout::Guards`]: a fragmented log-structured merge tree.

use std::path::Path;

use evendb::{Layout, Options};

use super::{EvenDbOpener, EvenDbStore, options, purposes};
use crate::opener::{Opener, Purpose, Settings, Variant};
use crate::store::{Store, StoreResult};

/// Opens it with its defaults, or with one choice made otherwise.
pub struct GuardsOpener {
    name: &'static str,
    choose: fn(Options) -> Options,
}

/// This number of files in a guard.
fn files(options: Options, files: usize) -> Options {
    options.advanced(|all| all.guards(|guards| guards.max_files_per_guard(files)))
}

impl GuardsOpener {
    /// With its defaults.
    pub const DEFAULT: GuardsOpener = GuardsOpener {
        name: "guards",
        choose: |options| options,
    };
    /// All of them: the defaults; other numbers of files, where one makes it a leveled tree, and
    /// more write less and search more; and each optimization of reads switched off alone.
    pub const ALL: [GuardsOpener; 7] = [
        Self::DEFAULT,
        GuardsOpener {
            name: "guards-1",
            choose: |options| files(options, 1),
        },
        GuardsOpener {
            name: "guards-4",
            choose: |options| files(options, 4),
        },
        GuardsOpener {
            name: "guards-8",
            choose: |options| files(options, 8),
        },
        GuardsOpener {
            name: "guards-no-filters",
            choose: |options| options.advanced(|all| all.filter_bits_per_key(0)),
        },
        GuardsOpener {
            name: "guards-no-seek-compaction",
            choose: |options| {
                options.advanced(|all| all.guards(|guards| guards.compaction_by_seeks(false)))
            },
        },
        GuardsOpener {
            name: "guards-no-parallel-seeks",
            choose: |options| {
                options.advanced(|all| all.guards(|guards| guards.parallel_seeks(false)))
            },
        },
    ];

    /// All of them, as a list of the command has them.
    #[must_use]
    pub fn all() -> Vec<Box<dyn Opener>> {
        let boxed = |opener| -> Box<dyn Opener> { Box::new(opener) };
        Self::ALL.into_iter().map(boxed).collect()
    }

    fn options(&self, settings: &Settings) -> Options {
        (self.choose)(options(settings).layout(Layout::Guards))
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

    /// Its options as text, where they are not those of the defaults.
    fn choices(opener: &GuardsOpener) -> Vec<String> {
        let lines = |opener: &GuardsOpener| format!("{:#?}", opener.options(&SETTINGS));
        let (own, usual) = (lines(opener), lines(&GuardsOpener::DEFAULT));
        let pairs = own.lines().zip(usual.lines());
        let other = pairs.filter(|(own, usual)| own != usual);
        other.map(|(own, _)| own.trim().to_owned()).collect()
    }

    #[test]
    fn each_makes_guards_and_differs_by_one_choice() {
        let choice = [
            "",
            "max_files_per_guard: 1,",
            "max_files_per_guard: 4,",
            "max_files_per_guard: 8,",
            "filter_bits_per_key: Some(",
            "compaction_by_seeks: false,",
            "parallel_seeks: false,",
        ];
        for (opener, choice) in GuardsOpener::ALL.iter().zip(choice) {
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
            match choice {
                "" => assert!(choices(opener).is_empty()),
                _ => assert!(choices(opener).contains(&choice.to_owned()), "{choice}"),
            }
        }
    }

    #[test]
    fn takes_a_write_buffer_and_no_option_of_other_stores() {
        let directory = tempfile::tempdir().unwrap();
        let [_, _, four, ..] = GuardsOpener::ALL;
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
