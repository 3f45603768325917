//! How much of a value compresses, and whether the store compresses: the same for all benchmarks of
//! a run and for the trace that is replayed beside them.

use evendb_model::Workload;

use super::super::Failure;
use crate::opener::Opener;
use crate::stores::evendb::TunedOpener;
use crate::stores::evendb::tuning::Tuning;

/// What is asked for.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Storing {
    /// The percentage of each value that compresses to next to nothing, instead of the model's; 78
    /// is the study's ratio of 4.5
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    compressible: Option<u8>,
    /// A setting of EvenDB, such as compression=lz4; may be given several times. docs/advice.md has
    /// the names
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

impl Storing {
    /// The workload with values that compress as was asked.
    pub(super) fn of(&self, mut workload: Workload) -> Workload {
        if let Some(percent) = self.compressible {
            for keyspace in &mut workload.keyspaces {
                keyspace.load.values.compressible = percent;
            }
        }
        workload
    }

    /// Whether a store can have the settings.
    pub(super) fn suits(&self, opener: &dyn Opener) -> bool {
        self.set.is_empty() || opener.name() == TunedOpener::NAME
    }

    /// EvenDB with the settings, if there are any.
    ///
    /// # Errors
    /// A text is no setting, or settings contradict each other.
    pub(super) fn tuned(&self) -> Result<Option<TunedOpener>, Failure> {
        let mut tuning = Tuning::new();
        for text in &self.set {
            tuning.choose(text)?;
        }
        match tuning.contradiction() {
            Some(what) => Err(what.into()),
            None if tuning.is_empty() => Ok(None),
            None => Ok(Some(TunedOpener { tuning })),
        }
    }

    /// As [`Self::tuned`], in the place of the opener of a run.
    ///
    /// # Errors
    /// The same; the store has no such settings.
    pub(super) fn instead_of(&self, opener: &dyn Opener) -> Result<Option<TunedOpener>, Failure> {
        match self.suits(opener) {
            true => self.tuned(),
            false => {
                let store = opener.name();
                Err(format!("{store} takes no settings, only evendb does").into())
            }
        }
    }

    /// The settings in the results.
    pub(super) fn settings(&self) -> &[String] {
        &self.set
    }
}
