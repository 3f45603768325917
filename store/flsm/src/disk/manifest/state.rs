//! [`State`]: the sum of a manifest's edits, with the trees. [`Edit`]: one change of it.
//!
//! An edit is first checked and prepared, then written, then installed. So a state never has
//! anything that is not durable. Reading a manifest does the same without writing.
//!
//! A state belongs to one thread at a time; readers share the trees in it.

use super::change::{AddTable, Change, ENGINE, FORMAT_VERSION};
use crate::files::FileName;
use crate::tables::{TableDir, TableFile};
use crate::tree::{GuardChange, Moved, Tree, TreeEdit};
use crate::types::{FileNumber, KeyspaceId, Level};
use evendb_storage::{TableId, Version};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A change of the state. It is made as a whole.
#[derive(Clone, Default, Debug)]
pub(crate) struct Edit {
    pub(crate) created: Vec<(KeyspaceId, String)>,
    pub(crate) dropped: Vec<KeyspaceId>,
    /// At most one for each keyspace, and none for a dropped keyspace.
    pub(crate) trees: Vec<(KeyspaceId, TreeEdit)>,
    /// Numbers of files from this one on are free. The writer of the manifest sets it.
    pub(crate) next_file: Option<FileNumber>,
    /// Ids of keyspaces from this one on are free.
    pub(crate) next_keyspace: Option<KeyspaceId>,
    /// No record in a table has a greater version.
    pub(crate) last_version: Option<Version>,
    /// Logs with a lower number are not needed.
    pub(crate) log_number: Option<FileNumber>,
    /// A database gets one secret, and keeps it.
    pub(crate) guard_secret: Option<u64>,
}

/// A keyspace.
#[derive(Clone, Debug)]
pub(crate) struct Keyspace {
    pub(crate) name: String,
    pub(crate) tree: Arc<Tree>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct State {
    place: Arc<TableDir>,
    /// Whether an edit has named the format.
    has_format: bool,
    keyspaces: BTreeMap<KeyspaceId, Keyspace>,
    /// The place of each table.
    tables: HashMap<TableId, (KeyspaceId, Level, Arc<TableFile>)>,
    pub(crate) next_file: FileNumber,
    pub(crate) next_keyspace: KeyspaceId,
    pub(crate) last_version: Version,
    pub(crate) log_number: FileNumber,
    /// The secret of the choice of guards. Only a manifest in force that an older build wrote has
    /// none.
    pub(crate) guard_secret: Option<u64>,
}

/// An edit that does not contradict the state, and the trees that it makes.
pub(super) struct Prepared {
    edit: Edit,
    trees: Vec<(KeyspaceId, Arc<Tree>)>,
}

/// The error says what contradicts the state.
type Checked<T> = Result<T, &'static str>;

const SECOND_SECRET: &str = "a second secret of the guards";

impl State {
    /// An empty state, with tables in `place`.
    pub(crate) fn new(place: Arc<TableDir>) -> State {
        State {
            place,
            has_format: false,
            keyspaces: BTreeMap::new(),
            tables: HashMap::new(),
            next_file: FileNumber(1),
            next_keyspace: KeyspaceId(0),
            last_version: Version::ZERO,
            log_number: FileNumber(0),
            guard_secret: None,
        }
    }

    /// All keyspaces, by their ids.
    pub(crate) fn keyspaces(&self) -> &BTreeMap<KeyspaceId, Keyspace> {
        &self.keyspaces
    }

    /// The place where tables lie.
    pub(crate) fn place(&self) -> &Arc<TableDir> {
        &self.place
    }

    /// Whether a tree has this table.
    pub(crate) fn has_table(&self, number: TableId) -> bool {
        self.tables.contains_key(&number)
    }

    /// The greatest number of tables that a keyspace has in level 0.
    pub(crate) fn level0_tables_max(&self) -> usize {
        let tables = self.keyspaces.values();
        let tables = tables.map(|keyspace| keyspace.tree.level0().len());
        tables.max().unwrap_or(0)
    }

    /// Whether a file of this name may be needed while `manifest` is in force.
    pub(crate) fn needs(&self, name: FileName, manifest: FileNumber) -> bool {
        match name {
            FileName::Current | FileName::Lock | FileName::Ballast => true,
            FileName::CurrentUnfinished => false,
            FileName::Manifest(number) => number == manifest,
            FileName::Log(number) => number >= self.log_number,
            FileName::Table(number) => self.has_table(number),
        }
    }

    /// Checks an edit, and makes the trees that it leads to.
    pub(super) fn prepare(&self, edit: Edit) -> Checked<Prepared> {
        self.check_keyspaces(&edit)?;
        self.check_tables(&edit)?;
        let goes_back = edit.next_file.is_some_and(|to| to < self.next_file)
            || edit.next_keyspace.is_some_and(|to| to < self.next_keyspace)
            || edit.last_version.is_some_and(|to| to < self.last_version)
            || edit.log_number.is_some_and(|to| to < self.log_number);
        if goes_back {
            return Err("a number that goes back");
        }
        if edit.guard_secret.is_some() && self.guard_secret.is_some() {
            return Err(SECOND_SECRET);
        }
        let trees = edit.trees.iter().map(|(id, change)| {
            let known = self.keyspaces.get(id);
            let mut tree = known.map_or_else(Tree::default, |known| (*known.tree).clone());
            tree.apply(change)?;
            Ok((*id, Arc::new(tree)))
        });
        let trees = trees.collect::<Checked<_>>()?;
        Ok(Prepared { edit, trees })
    }

    fn check_keyspaces(&self, edit: &Edit) -> Checked<()> {
        let mut created = HashSet::new();
        for (id, _) in &edit.created {
            if *id < self.next_keyspace || !created.insert(*id) {
                return Err("a keyspace created twice");
            }
        }
        let mut dropped = HashSet::new();
        for id in &edit.dropped {
            if !self.keyspaces.contains_key(id) || !dropped.insert(*id) {
                return Err("a keyspace dropped that there is not");
            }
        }
        let mut changed = HashSet::new();
        for (id, _) in &edit.trees {
            let exists = self.keyspaces.contains_key(id) || created.contains(id);
            if !exists || dropped.contains(id) || !changed.insert(*id) {
                return Err("a tree changed of no keyspace, or twice");
            }
        }
        Ok(())
    }

    /// Checks what no tree knows alone. Each tree refuses to remove or move tables that it does not
    /// have ([`Tree::apply`]).
    fn check_tables(&self, edit: &Edit) -> Checked<()> {
        let mut moved = edit.trees.iter().flat_map(|(_, change)| &change.moved);
        if moved.any(|moved| moved.new.number != moved.old.number) {
            return Err("a table moved that becomes another one");
        }
        let mut added = HashSet::new();
        for table in edit.new_tables() {
            if self.tables.contains_key(&table.number) || !added.insert(table.number) {
                return Err("a table added that is there");
            }
        }
        Ok(())
    }

    /// Makes the change. Returns the tables that no tree has any more.
    pub(super) fn install(&mut self, prepared: Prepared) -> Vec<Arc<TableFile>> {
        let Prepared { edit, trees } = prepared;
        self.has_format = true;
        for (id, name) in edit.created {
            let tree = Arc::default();
            self.keyspaces.insert(id, Keyspace { name, tree });
            self.next_keyspace.0 = self.next_keyspace.0.max(id.0.saturating_add(1));
        }
        let mut gone = Vec::new();
        for id in edit.dropped {
            if let Some(keyspace) = self.keyspaces.remove(&id) {
                gone.extend(keyspace.tree.tables().map(|(_, table)| table.clone()));
            }
        }
        for (id, change) in edit.trees {
            gone.extend(change.removed.into_iter().map(|(_, table)| table));
            for moved in change.moved {
                let place = (id, moved.to, moved.new);
                self.tables.insert(moved.old.number, place);
            }
            for (level, table) in change.added {
                self.next_file.0 = self.next_file.0.max(table.number.0.saturating_add(1));
                self.tables.insert(table.number, (id, level, table));
            }
        }
        for table in &gone {
            self.tables.remove(&table.number);
        }
        for (id, tree) in trees {
            if let Some(keyspace) = self.keyspaces.get_mut(&id) {
                keyspace.tree = tree;
            }
        }
        self.next_file = edit.next_file.unwrap_or(self.next_file).max(self.next_file);
        let next_keyspace = edit.next_keyspace.unwrap_or(self.next_keyspace);
        self.next_keyspace = next_keyspace.max(self.next_keyspace);
        self.last_version = edit.last_version.unwrap_or(self.last_version);
        self.log_number = edit.log_number.unwrap_or(self.log_number);
        self.guard_secret = edit.guard_secret.or(self.guard_secret);
        gone
    }

    /// The changes that lead from nothing to this state, for a new manifest.
    pub(crate) fn to_changes(&self) -> Vec<Change> {
        let mut edit = Edit {
            next_file: Some(self.next_file),
            next_keyspace: Some(self.next_keyspace),
            last_version: Some(self.last_version),
            log_number: Some(self.log_number),
            guard_secret: self.guard_secret,
            ..Edit::default()
        };
        for (&id, keyspace) in &self.keyspaces {
            edit.created.push((id, keyspace.name.clone()));
            let tree = &keyspace.tree;
            let guards = tree.guard_keys().into_iter();
            let change = TreeEdit {
                removed: Vec::new(),
                moved: Vec::new(),
                added: tree
                    .tables()
                    .map(|(level, table)| (level, table.clone()))
                    .collect(),
                guards: guards
                    .map(|(key, from)| GuardChange {
                        key,
                        from: Some(from),
                    })
                    .collect(),
            };
            edit.trees.push((id, change));
        }
        let format = Change::Format {
            engine: ENGINE.to_owned(),
            version: FORMAT_VERSION,
        };
        [vec![format], edit.to_changes()].concat()
    }
}

/// An edit that is read from a manifest, change by change.
#[derive(Default)]
pub(super) struct EditDraft {
    edit: Edit,
    trees: BTreeMap<KeyspaceId, TreeEdit>,
    /// The tables that it removes or moves. Each of them exists, and none occurs twice, whatever
    /// the bytes say.
    touched: HashSet<TableId>,
    changes: usize,
}

impl EditDraft {
    /// Takes the next change of an edit of `state`.
    pub(super) fn take(&mut self, state: &State, change: Change) -> Checked<()> {
        let is_first = self.changes == 0;
        self.changes += 1;
        let edit = &mut self.edit;
        match change {
            Change::Format { .. } if !is_first || state.has_format => {
                return Err("a format in the midst of a manifest");
            }
            Change::Format { .. } => {}
            _ if is_first && !state.has_format => return Err("a manifest without a format"),
            Change::CreateKeyspace { id, name } => edit.created.push((id, name)),
            Change::DropKeyspace { id } => edit.dropped.push(id),
            Change::NextFile(number) => edit.next_file = Some(number),
            Change::NextKeyspace(id) => edit.next_keyspace = Some(id),
            Change::LastVersion(version) => edit.last_version = Some(version),
            Change::LogNumber(number) => edit.log_number = Some(number),
            Change::GuardSecret(secret) => {
                let earlier = edit.guard_secret.replace(secret);
                earlier.map_or(Ok(()), |_| Err(SECOND_SECRET))?;
            }
            Change::AddTable(added) => {
                let table = TableFile::new(&state.place, added.number, added.age, added.meta);
                let tree = self.trees.entry(added.keyspace).or_default();
                tree.added.push((added.level, table));
            }
            Change::RemoveTable { keyspace, number } => {
                let known = state.tables.get(&number);
                let (_, level, table) = known.ok_or("a table removed that is not there")?;
                self.touch(number)?;
                let tree = self.trees.entry(keyspace).or_default();
                tree.removed.push((*level, table.clone()));
            }
            Change::MoveTable {
                keyspace,
                number,
                to,
                age,
            } => {
                let known = state.tables.get(&number);
                let (_, from, old) = known.ok_or("a table moved that is not there")?;
                self.touch(number)?;
                let tree = self.trees.entry(keyspace).or_default();
                tree.moved.push(Moved {
                    from: *from,
                    to,
                    old: old.clone(),
                    new: old.with_age(age),
                });
            }
            Change::SetGuard {
                keyspace,
                from,
                key,
            } => {
                let key = key.into();
                let tree = self.trees.entry(keyspace).or_default();
                tree.guards.push(GuardChange { key, from });
            }
        }
        Ok(())
    }

    fn touch(&mut self, number: TableId) -> Checked<()> {
        let is_new = self.touched.insert(number);
        is_new.then_some(()).ok_or("a table removed or moved twice")
    }

    /// The edit of all changes that were taken.
    pub(super) fn finish(mut self) -> Checked<Edit> {
        if self.changes == 0 {
            return Err("an empty edit");
        }
        self.edit.trees = self.trees.into_iter().collect();
        Ok(self.edit)
    }
}

impl Edit {
    /// The tables that it adds.
    pub(super) fn new_tables(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        let all = self.trees.iter().flat_map(|(_, change)| &change.added);
        all.map(|(_, table)| table)
    }

    pub(super) fn to_changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (id, name) in &self.created {
            let (id, name) = (*id, name.clone());
            changes.push(Change::CreateKeyspace { id, name });
        }
        let dropped = self.dropped.iter().map(|&id| Change::DropKeyspace { id });
        changes.extend(dropped);
        changes.extend(self.next_file.map(Change::NextFile));
        changes.extend(self.next_keyspace.map(Change::NextKeyspace));
        changes.extend(self.last_version.map(Change::LastVersion));
        changes.extend(self.log_number.map(Change::LogNumber));
        changes.extend(self.guard_secret.map(Change::GuardSecret));
        for (keyspace, change) in &self.trees {
            push_tree_changes(&mut changes, *keyspace, change);
        }
        changes
    }
}

fn push_tree_changes(changes: &mut Vec<Change>, keyspace: KeyspaceId, edit: &TreeEdit) {
    for (_, table) in &edit.removed {
        let number = table.number;
        changes.push(Change::RemoveTable { keyspace, number });
    }
    for (level, table) in &edit.added {
        changes.push(Change::AddTable(Box::new(AddTable {
            keyspace,
            level: *level,
            number: table.number,
            age: table.age,
            meta: (*table.meta).clone(),
        })));
    }
    for moved in &edit.moved {
        changes.push(Change::MoveTable {
            keyspace,
            number: moved.new.number,
            to: moved.to,
            age: moved.new.age,
        });
    }
    for guard in &edit.guards {
        changes.push(Change::SetGuard {
            keyspace,
            from: guard.from,
            key: guard.key.to_vec(),
        });
    }
}
