//! The sum of the manifest's edits: the database's structure, without its data.
//!
//! [`ManifestState::apply`] is the only way in which it changes, at run time and at recovery alike;
//! it refuses an edit that contradicts the state, which at recovery is corruption.

use super::edit::{Change, ChunkRecord, CoverRecord, EpochRecord, Part};
use super::{ChunkId, GuardKey, GuardSet, KeyspaceId};
use crate::commit_log::{self, Lsn};
use crate::files::CONTAINER_MAX;
use crate::version::clock::CHECKPOINT_MAX;
use evendb_storage::{NUMBER_MAX, TableId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The largest number of epochs that are kept for readers of changes: a database that is opened
/// often and hardly written has many in one lap of its log.
const EPOCHS_MAX: usize = 64;

/// The last epoch. It is one half of other numbers, whose other half counts within the epoch.
pub(crate) const EPOCH_MAX: u64 = u32::MAX as u64;

/// The greatest id that is accepted from a file, so that a next one exists.
const KEYSPACE_MAX: KeyspaceId = KeyspaceId(1 << 31);

/// The properties of a keyspace, beside its records.
pub(crate) type Properties = BTreeMap<String, Vec<u8>>;

/// The structure of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ManifestState {
    pub(crate) ring_bytes: u64,
    /// The container to which new runs go; the ones before it are read only.
    pub(crate) container: u64,
    /// Epochs whose commit-log records may still be replayed or read back, and one more before
    /// them; oldest first.
    pub(crate) epochs: VecDeque<EpochRecord>,
    /// The last completed checkpoint, and the position where replay starts.
    pub(crate) completed: u64,
    pub(crate) replay_from: Lsn,
    pub(crate) keyspaces: BTreeMap<KeyspaceId, String>,
    /// No entry is empty.
    pub(crate) properties: BTreeMap<KeyspaceId, Properties>,
    /// All ids below these were given out once.
    pub(crate) next_keyspace: u32,
    pub(crate) chunks: BTreeMap<ChunkId, ChunkRecord>,
}

impl ManifestState {
    /// Applies one change; the error is the contradiction with the state. A change that names many
    /// tables takes much memory, which moves into the state.
    pub(crate) fn apply(&mut self, change: Change) -> Result<(), &'static str> {
        check_numbers(&change)?;
        match change {
            Change::Format { ring_bytes } => self.ring_bytes = ring_bytes,
            Change::Epoch(epoch) => self.begin_epoch(epoch)?,
            Change::CreateKeyspace { id, name } => self.create_keyspace(id, name)?,
            Change::DropKeyspace { id } => {
                let dropped = self.keyspaces.remove(&id);
                dropped.ok_or("unknown keyspace dropped")?;
                self.next_keyspace = self.next_keyspace.max(id.0.saturating_add(1));
                self.properties.remove(&id);
                self.chunks.retain(|_, chunk| chunk.keyspace != id);
            }
            Change::RenameKeyspace { id, name } => {
                let known = self.keyspaces.get_mut(&id);
                *known.ok_or("unknown keyspace renamed")? = name;
            }
            Change::SetProperty {
                keyspace,
                name,
                value,
            } => self.set_property(keyspace, name, value)?,
            Change::SetChunk(chunk) => {
                if !self.keyspaces.contains_key(&chunk.keyspace) {
                    return Err("chunk of an unknown keyspace");
                }
                self.chunks.insert(chunk.id, chunk);
            }
            Change::RemoveChunk { id } => {
                self.chunks.remove(&id).ok_or("unknown chunk removed")?;
            }
            Change::AddParts { id, parts } => {
                let chunk = self.chunks.get_mut(&id);
                let chunk = chunk.ok_or("parts for an unknown chunk")?;
                chunk.parts.extend(parts);
            }
            Change::EditFragments {
                id,
                gone,
                parts,
                guards,
            } => {
                let chunk = self.chunks.get_mut(&id);
                let chunk = chunk.ok_or("tables of an unknown chunk")?;
                edit_fragments(chunk, &gone, parts, guards)?;
            }
            Change::AddCovers { id, covers } => {
                let chunk = self.chunks.get_mut(&id);
                let chunk = chunk.ok_or("range deletions for an unknown chunk")?;
                add_covers(&mut chunk.covers, covers);
            }
            Change::Checkpoint {
                number,
                replay_from,
            } => self.complete(number, replay_from)?,
            Change::Container { number } => {
                if number <= self.container {
                    return Err("containers out of order");
                }
                self.container = number;
            }
        }
        Ok(())
    }

    fn create_keyspace(&mut self, id: KeyspaceId, name: String) -> Result<(), &'static str> {
        if self.keyspaces.insert(id, name).is_some() {
            return Err("keyspace created twice");
        }
        self.next_keyspace = self.next_keyspace.max(id.0.saturating_add(1));
        Ok(())
    }

    fn begin_epoch(&mut self, epoch: EpochRecord) -> Result<(), &'static str> {
        let mut last = self.epochs.back().into_iter();
        if last.any(|last| last.epoch >= epoch.epoch) {
            return Err("epochs out of order");
        }
        self.epochs.push_back(epoch);
        Ok(())
    }

    fn complete(&mut self, number: u64, replay_from: Lsn) -> Result<(), &'static str> {
        if number < self.completed {
            return Err("checkpoints out of order");
        }
        self.completed = number;
        self.replay_from = replay_from;
        self.forget_closed_epochs();
        Ok(())
    }

    /// Whether all these changes can be applied, one after the other. The error is the
    /// contradiction with the state.
    pub(crate) fn check_changes<'c>(
        &self,
        changes: impl Iterator<Item = &'c Change> + Clone,
    ) -> Result<(), String> {
        let mut outline = self.outline(changes.clone());
        for change in changes {
            let applied = outline.apply(change.clone());
            applied.map_err(|what| format!("{what}: {change:?}"))?;
        }
        Ok(())
    }

    /// The part of the state that decides whether these changes can be applied: keyspaces and
    /// chunks that they name, without their tables and range deletions.
    fn outline<'c>(&self, changes: impl Iterator<Item = &'c Change>) -> ManifestState {
        let mut outline = ManifestState {
            epochs: self.epochs.back().cloned().into_iter().collect(),
            completed: self.completed,
            container: self.container,
            ..ManifestState::default()
        };
        for change in changes {
            match change {
                Change::CreateKeyspace { id, .. }
                | Change::DropKeyspace { id }
                | Change::RenameKeyspace { id, .. }
                | Change::SetProperty { keyspace: id, .. }
                | Change::SetChunk(ChunkRecord { keyspace: id, .. }) => {
                    let name = self.keyspaces.get(id).map(|_| (*id, String::new()));
                    outline.keyspaces.extend(name);
                    let properties = self.properties.get(id).cloned();
                    let properties =
                        properties.filter(|_| matches!(change, Change::SetProperty { .. }));
                    outline.properties.extend(properties.map(|own| (*id, own)));
                }
                Change::RemoveChunk { id }
                | Change::AddParts { id, .. }
                | Change::AddCovers { id, .. }
                | Change::EditFragments { id, .. } => {
                    let bare = self.chunks.get(id).map(|chunk| ChunkRecord {
                        id: *id,
                        keyspace: chunk.keyspace,
                        low: Vec::new(),
                        parts: Vec::new(),
                        covers: Vec::new(),
                        guards: chunk.guards.as_ref().map(|own| GuardSet {
                            seed: own.seed,
                            keys: Vec::new(),
                        }),
                    });
                    outline.chunks.extend(bare.map(|chunk| (*id, chunk)));
                }
                Change::Format { .. }
                | Change::Epoch(_)
                | Change::Checkpoint { .. }
                | Change::Container { .. } => {}
            }
        }
        outline
    }

    fn set_property(
        &mut self,
        keyspace: KeyspaceId,
        name: String,
        value: Option<Vec<u8>>,
    ) -> Result<(), &'static str> {
        if !self.keyspaces.contains_key(&keyspace) {
            return Err("property of an unknown keyspace");
        }
        let properties = self.properties.entry(keyspace).or_default();
        let known = match value {
            Some(value) => {
                properties.insert(name, value);
                true
            }
            None => properties.remove(&name).is_some(),
        };
        if properties.is_empty() {
            self.properties.remove(&keyspace);
        }
        known.then_some(()).ok_or("unknown property taken away")
    }

    /// Drops epochs whose records lie wholly a lap before the replay position, where they are
    /// overwritten. Of the epochs whose records are all in a checkpoint, at most [`EPOCHS_MAX`]
    /// stay.
    fn forget_closed_epochs(&mut self) {
        while let Some(next) = self.epochs.get(1)
            && next.start <= self.replay_from
            && (next.start.0.saturating_add(self.ring_bytes) <= self.replay_from.0
                || self.epochs.len() > EPOCHS_MAX)
        {
            self.epochs.pop_front();
        }
    }

    /// The changes that rebuild this state from nothing, for a new manifest file.
    pub(crate) fn to_changes(&self) -> Vec<Change> {
        let mut changes = vec![Change::Format {
            ring_bytes: self.ring_bytes,
        }];
        let number = self.container;
        changes.extend((number > 0).then_some(Change::Container { number }));
        changes.extend(self.epochs.iter().cloned().map(Change::Epoch));
        // A dropped last keyspace must stay known as given out: its id seeds replay's skipping.
        if let Some(last) = self.next_keyspace.checked_sub(1)
            && !self.keyspaces.contains_key(&KeyspaceId(last))
        {
            let id = KeyspaceId(last);
            changes.push(Change::CreateKeyspace {
                id,
                name: String::new(),
            });
            changes.push(Change::DropKeyspace { id });
        }
        for (id, name) in &self.keyspaces {
            changes.push(Change::CreateKeyspace {
                id: *id,
                name: name.clone(),
            });
        }
        for (id, properties) in &self.properties {
            changes.extend(properties.iter().map(|(name, value)| Change::SetProperty {
                keyspace: *id,
                name: name.clone(),
                value: Some(value.clone()),
            }));
        }
        changes.extend(self.chunks.values().cloned().map(Change::SetChunk));
        changes.push(Change::Checkpoint {
            number: self.completed,
            replay_from: self.replay_from,
        });
        changes
    }

    /// Whether every keyspace has a name of its own, and its chunks cover the whole key space, each
    /// low key once.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let mut lows: BTreeMap<(KeyspaceId, &[u8]), ()> = BTreeMap::new();
        for chunk in self.chunks.values() {
            if lows.insert((chunk.keyspace, &chunk.low), ()).is_some() {
                return Err("two chunks begin at one key");
            }
        }
        let names: BTreeSet<&String> = self.keyspaces.values().collect();
        if names.len() < self.keyspaces.len() {
            return Err("two keyspaces have one name");
        }
        for id in self.keyspaces.keys() {
            if !lows.contains_key(&(*id, &[][..])) {
                return Err("a keyspace has no first chunk");
            }
        }
        Ok(())
    }
}

/// Refuses numbers that no database reaches.
fn check_numbers(change: &Change) -> Result<(), &'static str> {
    match change {
        Change::Format { ring_bytes }
            if *ring_bytes > 0 && !commit_log::is_capacity(*ring_bytes) =>
        {
            Err("a commit log of a size that none has")
        }
        Change::Epoch(epoch)
            if epoch.epoch > EPOCH_MAX
                || epoch.start.0.max(epoch.previous_closed_at.0) > NUMBER_MAX =>
        {
            Err("an epoch that no database reaches")
        }
        Change::Container { number } if *number > CONTAINER_MAX => {
            Err("a container that no database reaches")
        }
        Change::CreateKeyspace { id, .. } if *id > KEYSPACE_MAX => {
            Err("a keyspace that no database reaches")
        }
        Change::Checkpoint { number, .. } if *number > CHECKPOINT_MAX => {
            Err("a checkpoint number that no database reaches")
        }
        Change::Checkpoint { replay_from, .. } if !commit_log::is_position(*replay_from) => {
            Err("a position of the commit log that none has")
        }
        _ => Ok(()),
    }
}

/// Changes the tables and guards of a chunk.
fn edit_fragments(
    chunk: &mut ChunkRecord,
    gone: &[TableId],
    parts: Vec<Part>,
    guards: Vec<GuardKey>,
) -> Result<(), &'static str> {
    let known = chunk.guards.as_mut();
    let known = known.ok_or("guards of a chunk without guards")?;
    add_guards(&mut known.keys, guards);
    let gone: BTreeSet<TableId> = gone.iter().copied().collect();
    chunk.parts.retain(|part| !gone.contains(&part.table));
    chunk.parts.extend(parts);
    Ok(())
}

/// Adds guards, and raises those that were guards of a deeper level. The list stays sorted by key.
fn add_guards(known: &mut Vec<GuardKey>, new: Vec<GuardKey>) {
    for guard in new {
        match known.binary_search_by(|own| own.key.cmp(&guard.key)) {
            Ok(at) => known[at].level = known[at].level.min(guard.level),
            Err(at) => known.insert(at, guard),
        }
    }
}

/// Adds range deletions, which are newer. Existing ones within one of them are dropped.
fn add_covers(covers: &mut Vec<CoverRecord>, new: Vec<CoverRecord>) {
    let is_within = |old: &CoverRecord| {
        let behind = new.partition_point(|new| new.low <= old.low);
        let before = behind.checked_sub(1).map(|at| &new[at]);
        before.is_some_and(|new| match (&old.high, &new.high) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(old), Some(new)) => old <= new,
        })
    };
    covers.retain(|old| !is_within(old));
    covers.extend(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::edit::tests::{guard_samples, renaming_samples, samples};

    #[test]
    fn a_rewritten_state_is_the_same_state() {
        let mut state = ManifestState::default();
        for change in guard_samples() {
            state.apply(change).expect("samples are consistent");
        }
        let with_guards = &state.chunks[&ChunkId(10)];
        let tables: Vec<u64> = with_guards.parts.iter().map(|part| part.table.0).collect();
        assert_eq!(tables, [5, 7], "table 5 has moved, 6 is gone");
        let guards = with_guards.guards.as_ref().expect("it has guards");
        let guards: Vec<_> = guards
            .keys
            .iter()
            .map(|own| (&own.key[..], own.level.0))
            .collect();
        assert_eq!(guards, [(&b"c"[..], 6), (b"m", 4)]);
        for change in samples().iter().take(8) {
            state.apply(change.clone()).expect("samples are consistent");
        }
        for full in [false, true] {
            if full {
                for change in samples().iter().skip(8) {
                    state.apply(change.clone()).expect("samples are consistent");
                }
            }
            let mut copy = ManifestState::default();
            for change in state.to_changes() {
                copy.apply(change).expect("a state's own changes apply");
            }
            assert_eq!(copy, state);
        }
    }

    /// Any runs of the samples in any order: the check gives the same result as applying them.
    #[test]
    fn a_check_of_changes_says_what_applying_them_says() {
        let all = [samples(), guard_samples(), renaming_samples()].concat();
        let mut states = vec![ManifestState::default()];
        for change in &all {
            let mut next = states.last().expect("the first").clone();
            next.apply(change.clone()).expect("samples are consistent");
            states.push(next);
        }
        let (mut applied, mut refused) = (0, 0);
        for state in &states {
            for seed in 0..5_000_usize {
                let picks = [seed, seed / 13, seed / 169].map(|pick| &all[pick % all.len()]);
                let mut whole = state.clone();
                let outcome = picks
                    .iter()
                    .try_for_each(|&change| whole.apply(change.clone()));
                let checked = state.check_changes(picks.into_iter());
                assert_eq!(outcome.is_ok(), checked.is_ok(), "{picks:?}: {checked:?}");
                applied += usize::from(outcome.is_ok());
                refused += usize::from(outcome.is_err());
            }
        }
        assert!(applied > 1_000 && refused > 1_000, "{applied}, {refused}");
    }

    #[test]
    fn names_are_exchanged_and_no_name_is_there_twice() {
        let mut state = ManifestState::default();
        for (number, change) in renaming_samples().into_iter().enumerate() {
            state.apply(change).expect("samples are consistent");
            // The state between two changes of an edit is nobody's.
            let whole = number != 2;
            let twice = state.check() == Err("two keyspaces have one name");
            assert_eq!(twice, !whole, "{number}");
        }
        let named: Vec<(u32, &str)> = state
            .keyspaces
            .iter()
            .map(|(id, name)| (id.0, &**name))
            .collect();
        assert_eq!(named, [(3, "next"), (4, "events")]);
        let mut copy = ManifestState::default();
        for change in state.to_changes() {
            copy.apply(change).expect("a state's own changes apply");
        }
        assert_eq!(copy, state);
        let rename = Change::RenameKeyspace {
            id: KeyspaceId(9),
            name: "x".into(),
        };
        assert_eq!(state.apply(rename), Err("unknown keyspace renamed"));
    }

    #[test]
    fn contradictions_are_refused() {
        let mut state = ManifestState::default();
        let checkpoint = |number| Change::Checkpoint {
            number,
            replay_from: Lsn(0),
        };
        assert!(state.clone().apply(checkpoint(CHECKPOINT_MAX)).is_ok());
        assert!(state.apply(checkpoint(CHECKPOINT_MAX + 1)).is_err());
        assert!(state.apply(Change::RemoveChunk { id: ChunkId(1) }).is_err());
        assert!(
            state
                .apply(Change::DropKeyspace { id: KeyspaceId(1) })
                .is_err()
        );
        assert!(
            state
                .apply(Change::AddParts {
                    id: ChunkId(1),
                    parts: vec![]
                })
                .is_err()
        );
        let set = |value| Change::SetProperty {
            keyspace: KeyspaceId(1),
            name: "merge".into(),
            value,
        };
        assert!(state.apply(set(Some(b"add".to_vec()))).is_err());
        let create = Change::CreateKeyspace {
            id: KeyspaceId(1),
            name: "events".into(),
        };
        state.apply(create.clone()).expect("it is new");
        assert!(state.apply(create).is_err());
        assert!(state.apply(set(None)).is_err());
        assert!(state.properties.is_empty());
        for (number, is_possible) in [(1, true), (1, false), (CONTAINER_MAX + 1, false), (2, true)]
        {
            let applied = state.apply(Change::Container { number });
            assert_eq!(applied.is_ok(), is_possible, "container {number}");
        }
        // Numbers that count up: a checkpoint may come twice, and a life may not.
        state.apply(checkpoint(7)).expect("a later one");
        assert!(state.clone().apply(checkpoint(7)).is_ok());
        assert!(state.apply(checkpoint(6)).is_err());
        let life = |epoch| {
            Change::Epoch(EpochRecord {
                epoch,
                seed: 1,
                start: Lsn(0),
                previous_closed_at: Lsn(0),
                completed_before: 0,
                boot: None,
            })
        };
        state.apply(life(2)).expect("the first");
        assert!(state.apply(life(2)).is_err());
        assert!(state.apply(life(1)).is_err());
        assert_eq!((state.completed, state.epochs.len()), (7, 1));
    }
}
