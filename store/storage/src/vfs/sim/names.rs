//! The names of the simulated files: visible ones, durable ones, and the changes between them.
//!
//! `durable` plus all of `pending`, in order, is `visible`. Changes that share a name, directly or
//! through a rename, form a group. A power failure keeps a prefix of each group, chosen separately
//! for each group. So unrelated names survive independently, while a rename moves both of its names
//! together and never survives without the creation of the file that it moves. Directories
//! themselves are durable as soon as they exist, as `create_dir_all` promises.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::rng::Rng;

pub(super) type InodeId = u64;
type Entries = BTreeMap<Arc<Path>, InodeId>;

#[derive(Debug, Clone)]
enum Change {
    Create(Arc<Path>, InodeId),
    Remove(Arc<Path>),
    Rename(Arc<Path>, Arc<Path>),
}

impl Change {
    fn names(&self) -> (&Arc<Path>, Option<&Arc<Path>>) {
        match self {
            Change::Create(path, _) | Change::Remove(path) => (path, None),
            Change::Rename(from, to) => (from, Some(to)),
        }
    }

    fn touches(&self, matches: impl Fn(&Path) -> bool) -> bool {
        let (first, second) = self.names();
        matches(first) || second.is_some_and(|path| matches(path))
    }

    fn apply(&self, entries: &mut Entries) {
        match self {
            Change::Create(path, inode) => {
                entries.insert(Arc::clone(path), *inode);
            }
            Change::Remove(path) => {
                entries.remove(path);
            }
            Change::Rename(from, to) => {
                if let Some(inode) = entries.remove(from) {
                    entries.insert(Arc::clone(to), inode);
                }
            }
        }
    }
}

/// All names of a simulated file system. A clone shares the parts that neither changes.
#[derive(Debug, Clone)]
pub(super) struct Names {
    directories: Arc<BTreeSet<PathBuf>>,
    visible: Arc<Entries>,
    durable: Arc<Entries>,
    pending: Vec<Change>,
}

impl Names {
    pub(super) fn new() -> Names {
        Names {
            directories: Arc::new(BTreeSet::from([PathBuf::from("/")])),
            visible: Arc::default(),
            durable: Arc::default(),
            pending: Vec::new(),
        }
    }

    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        if dir
            .ancestors()
            .any(|ancestor| self.visible.contains_key(ancestor))
        {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !self.directories.contains(dir) {
            let directories = Arc::make_mut(&mut self.directories);
            directories.extend(dir.ancestors().map(Path::to_owned));
        }
        Ok(())
    }

    /// Removes an empty directory, durably. The removal of its contents is then durable, too.
    pub(super) fn remove_dir(&mut self, dir: &Path) -> io::Result<()> {
        if !self.list(dir)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.sync_dir(dir);
        Arc::make_mut(&mut self.directories).remove(dir);
        Ok(())
    }

    pub(super) fn is_dir(&self, dir: &Path) -> bool {
        self.directories.contains(dir)
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<InodeId> {
        match self.visible.get(path) {
            Some(inode) => Ok(*inode),
            None if self.is_dir(path) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Whether `path` could be given to a new file.
    pub(super) fn check_vacant(&self, path: &Path) -> io::Result<()> {
        if self.visible.contains_key(path) || self.is_dir(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.check_parent(path)
    }

    fn check_parent(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(parent) if self.is_dir(parent) => Ok(()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn create(&mut self, path: &Path, inode: InodeId) {
        self.change(Change::Create(path.into(), inode));
    }

    pub(super) fn remove(&mut self, path: &Path) {
        self.change(Change::Remove(path.into()));
    }

    /// Moves a file; returns the one that lost its name to it.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<Option<InodeId>> {
        let moved = self.find(from)?;
        self.check_parent(to)?;
        if self.is_dir(to) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let replaced = self.visible.get(to).copied();
        if replaced == Some(moved) {
            return Ok(None);
        }
        self.change(Change::Rename(from.into(), to.into()));
        Ok(replaced)
    }

    fn change(&mut self, change: Change) {
        change.apply(Arc::make_mut(&mut self.visible));
        self.pending.push(change);
    }

    /// Makes the names in `dir` durable, with all names that a rename ties to them.
    pub(super) fn sync_dir(&mut self, dir: &Path) {
        self.sync_groups(|path| path.parent() == Some(dir));
    }

    /// Makes one name durable.
    pub(super) fn sync_name(&mut self, name: &Path) {
        self.sync_groups(|path| path == name);
    }

    fn sync_groups(&mut self, matches: impl Fn(&Path) -> bool) {
        if self.pending.is_empty() {
            return;
        }
        let groups = self.groups();
        let synced: BTreeSet<usize> = std::iter::zip(&self.pending, &groups)
            .filter(|(change, _)| change.touches(&matches))
            .map(|(_, group)| *group)
            .collect();
        let durable = Arc::make_mut(&mut self.durable);
        let pending = std::mem::take(&mut self.pending);
        for (change, group) in std::iter::zip(pending, groups) {
            if synced.contains(&group) {
                change.apply(durable);
            } else {
                self.pending.push(change);
            }
        }
    }

    /// The group of each pending change, as the number of a representative.
    fn groups(&self) -> Vec<usize> {
        let mut group_of_name: HashMap<&Path, usize> = HashMap::new();
        let mut parent: Vec<usize> = (0..self.pending.len()).collect();
        for (index, change) in self.pending.iter().enumerate() {
            let (first, second) = change.names();
            for name in std::iter::once(first).chain(second) {
                let earlier = *group_of_name.entry(name).or_insert(index);
                let root = representative(&parent, earlier);
                let own = representative(&parent, index);
                parent[own] = root;
            }
        }
        (0..parent.len())
            .map(|index| representative(&parent, index))
            .collect()
    }

    /// The names after a power failure that loses all pending changes.
    pub(super) fn lose_pending(&mut self) {
        self.visible = Arc::clone(&self.durable);
        self.pending.clear();
    }

    /// The names after a power failure that keeps all pending changes.
    pub(super) fn keep_pending(&mut self) {
        self.durable = Arc::clone(&self.visible);
        self.pending.clear();
    }

    /// Keeps a random prefix of each group.
    pub(super) fn resolve_random(&mut self, rng: &mut Rng) {
        let groups = self.groups();
        let mut left: BTreeMap<usize, u64> = BTreeMap::new();
        for group in &groups {
            *left.entry(*group).or_default() += 1;
        }
        for count in left.values_mut() {
            *count = rng.below(*count + 1);
        }
        let durable = Arc::make_mut(&mut self.durable);
        for (change, group) in std::iter::zip(&self.pending, groups) {
            let left = left.entry(group).or_default();
            if *left > 0 {
                *left -= 1;
                change.apply(durable);
            }
        }
        self.lose_pending();
    }

    /// Every file to which a name leads, now or after some crash.
    pub(super) fn reachable(&self) -> BTreeSet<InodeId> {
        let created = self.pending.iter().filter_map(|change| match change {
            Change::Create(_, inode) => Some(*inode),
            Change::Remove(_) | Change::Rename(..) => None,
        });
        let named = self.visible.values().chain(self.durable.values()).copied();
        named.chain(created).collect()
    }

    /// The files that have visible names. A file with several names comes several times.
    pub(super) fn linked(&self) -> impl Iterator<Item = InodeId> {
        self.visible.values().copied()
    }

    /// The last components of the names in `dir`, sorted.
    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<std::ffi::OsString>> {
        if !self.is_dir(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let files = self.visible.keys().map(|path| &**path);
        let directories = self.directories.iter().map(PathBuf::as_path);
        Ok(files
            .chain(directories)
            .filter(|path| path.parent() == Some(dir))
            .filter_map(|path| path.file_name().map(ToOwned::to_owned))
            .collect())
    }
}

fn representative(parent: &[usize], mut index: usize) -> usize {
    while parent[index] != index {
        index = parent[index];
    }
    index
}
