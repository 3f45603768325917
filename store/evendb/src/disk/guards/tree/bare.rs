//! Tables with known properties only, for tests: their files do not exist.

use super::Fragment;
use crate::manifest::Age;
use crate::manifest::edit::{Part, Place, Role};
use crate::memory::Ledger;
use crate::sync::Arc;
use crate::tables::container::Container;
use crate::tables::extents::Extents;
use crate::tables::{TableHandle, Tables};
use crate::value_files::ValueFiles;
use evendb_storage::TableId;
use evendb_storage::table::TableMeta;
use evendb_storage::vfs::{SimVfs, Vfs};
use std::path::Path;

/// Makes tables.
pub(crate) struct BareTables(Tables);

impl BareTables {
    pub(crate) fn new() -> BareTables {
        let (vfs, dir): (Arc<dyn Vfs>, _) = (Arc::new(SimVfs::new(1)), Path::new("/db"));
        vfs.create_dir_all(dir).expect("a directory");
        let file = vfs.create(&dir.join("CHUNK-LOGS")).expect("a new file");
        let container = Arc::new(Container::new(file, Extents::new(0), 0));
        let values = Arc::new(ValueFiles::new(vfs.clone(), dir, 64 << 20, 0));
        let ledger = Ledger::SHARED;
        BareTables(Tables::new(vfs, dir, container, values, ledger, 100))
    }

    /// A table of this id, which no other living table has, and which no checkpoint wrote.
    pub(crate) fn table(&self, id: u64, place: Place, meta: TableMeta) -> Arc<TableHandle> {
        self.acquire(id, place, 0, meta)
    }

    /// A table of a run that this checkpoint wrote.
    pub(crate) fn of_checkpoint(
        &self,
        id: u64,
        checkpoint: u64,
        meta: TableMeta,
    ) -> Arc<TableHandle> {
        self.acquire(id, Place::Extent { offset: 0 }, checkpoint, meta)
    }

    fn acquire(&self, id: u64, place: Place, checkpoint: u64, meta: TableMeta) -> Arc<TableHandle> {
        self.0.acquire(&Part {
            table: TableId(id),
            place,
            role: Role::Base,
            epoch: 1,
            checkpoint,
            meta: Arc::new(meta),
        })
    }
}

/// The properties of a table of two records and 100 bytes.
pub(crate) fn meta(min: &str, max: &str) -> TableMeta {
    TableMeta {
        len: 100,
        entries: 2,
        min_key: min.into(),
        max_key: max.into(),
        ..TableMeta::default()
    }
}

/// A fragment of two records and 100 bytes, which lies in a file.
pub(crate) fn bare(id: u64, age: u64, min: &str, max: &str) -> Fragment {
    Fragment {
        age: Age(age),
        table: BareTables::new().table(id, Place::File, meta(min, max)),
    }
}
