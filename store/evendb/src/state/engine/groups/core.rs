//! The state that every call and every job uses: options, whether the database may be used,
//! versions, room in memory, counters and the ledger.
//!
//! Thread safety: any thread; each part has its own rules. Not here: anything that knows of chunks
//! or files.

use crate::admission::Admission;
use crate::chunk::row_tag::RowTags;
use crate::engine::choices::KeyspaceChoices;
use crate::engine::health::Health;
use crate::funk::SearchSettings;
use crate::manifest::KeyspaceId;
use crate::memory::slab::KeepWarm;
use crate::memory::{Ledger, LedgerOwner};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::recording::Recording;
use crate::sync::Arc;
use crate::value_files::ValueFiles;
use crate::version::clock::Clock;
use evendb_storage::table::TableOptions;

/// See the module.
pub(crate) struct Core {
    pub(crate) options: Options,
    /// The keyspaces' own options.
    pub(crate) choices: KeyspaceChoices,
    pub(crate) health: Health,
    pub(crate) clock: Clock,
    pub(crate) admission: Arc<Admission>,
    pub(crate) metrics: Metrics,
    pub(crate) row_tags: Arc<RowTags>,
    pub(crate) value_files: Arc<ValueFiles>,
    /// The trace that is recorded, if there is one.
    pub(crate) recording: Recording,
    /// How the logs of chunks are searched.
    pub(crate) search_settings: SearchSettings,
    ledger: LedgerOwner,
    /// Keeps memory warm, because deltas come and go all the time.
    _warm: KeepWarm,
}

impl Core {
    /// The core of a database that is open from now on, in the directory of its value files.
    pub(crate) fn new(
        options: Options,
        clock: Clock,
        admission: Arc<Admission>,
        ledger: LedgerOwner,
        row_tags: Arc<RowTags>,
        value_files: Arc<ValueFiles>,
    ) -> Core {
        Core {
            health: Health::new(value_files.dir(), options.read_only),
            choices: KeyspaceChoices::default(),
            clock,
            admission,
            metrics: Metrics::default(),
            row_tags,
            value_files,
            recording: Recording::default(),
            search_settings: SearchSettings::of(&options, ledger.ledger()),
            ledger,
            _warm: KeepWarm::new(match options.member() {
                Some(_) => 0,
                None => options.delta_bytes_max(),
            }),
            options,
        }
    }

    /// The ledger to which its memory is charged.
    pub(crate) fn ledger(&self) -> Ledger {
        self.ledger.ledger()
    }

    /// The options with which tables of a keyspace are made.
    pub(crate) fn table_options(&self, keyspace: KeyspaceId) -> TableOptions {
        self.choices.of(keyspace).table_options(&self.options)
    }

    /// Whether there are no threads: checkpoints and jobs run inside the calls that need them.
    pub(crate) fn manual(&self) -> bool {
        self.options.workers == 0
    }
}
