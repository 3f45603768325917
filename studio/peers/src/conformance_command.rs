//! The command `experiments conformance`: checks each store in a process of its own, so that a
//! crash is a fault of that store alone.

use std::path::PathBuf;
use std::process::Command;

use evendb_lab::experiments::Failure;
use evendb_lab::opener::Opener;

use crate::conformance::check_levels;
use crate::wrong::{WrongOpener, Wrongness};

/// What is checked.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// The stores; all that were built in if not given
    #[arg(long, value_delimiter = ',')]
    stores: Vec<String>,
    /// The seed of the operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the stores are made, and removed at the end
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Make each store wrong in this way first: the check must then find it
    #[arg(long)]
    wrong: Option<Wrongness>,
    /// Only for the processes that this one starts: check this store
    #[arg(long, hide = true)]
    child: Option<String>,
}

impl Arguments {
    /// Checks all stores and prints the outcome of each.
    ///
    /// # Errors
    /// A store is unknown, or none can be opened, or some are wrong: which ones.
    pub fn run(&self, openers: &[Box<dyn Opener>]) -> Result<(), Failure> {
        if let Some(name) = &self.child {
            return self.check(find(openers, name)?);
        }
        for name in &self.stores {
            find(openers, name)?;
        }
        let (mut checked, mut wrong) = (0, Vec::new());
        for opener in openers {
            let name = opener.name();
            if !self.stores.is_empty() && !self.stores.iter().any(|store| store == name) {
                continue;
            }
            if let Some(why) = opener.unavailable() {
                println!("{name}: left out: {why}");
                continue;
            }
            checked += 1;
            let status = Command::new(std::env::current_exe()?)
                .args(std::env::args_os().skip(1))
                .arg(format!("--child={name}"))
                .status()?;
            if !status.success() {
                println!("{name}: WRONG ({status})");
                wrong.push(name);
            }
        }
        if checked == 0 {
            return Err("none of the stores can be opened here".into());
        }
        if !wrong.is_empty() {
            return Err(format!("not as the trait says: {}", wrong.join(", ")).into());
        }
        Ok(())
    }

    fn check(&self, opener: &dyn Opener) -> Result<(), Failure> {
        let mut place = tempfile::Builder::new();
        let place = place.prefix("evendb-conformance-");
        let place = match &self.dir {
            Some(parent) => place.tempdir_in(parent)?,
            None => place.tempdir()?,
        };
        let told = match self.wrong {
            None => check_levels(opener, place.path(), self.seed)?,
            Some(wrongness) => {
                let wrong = WrongOpener {
                    inner: opener,
                    wrongness,
                };
                check_levels(&wrong, place.path(), self.seed)?
            }
        };
        for line in told.lines() {
            println!("{}: {line}", opener.name());
        }
        Ok(())
    }
}

fn find<'a>(openers: &'a [Box<dyn Opener>], name: &str) -> Result<&'a dyn Opener, Failure> {
    let found = openers.iter().find(|opener| opener.name() == name);
    let none = || {
        let names: Vec<_> = openers.iter().map(|opener| opener.name()).collect();
        format!("no store `{name}` here; there are {}", names.join(", "))
    };
    Ok(&**found.ok_or_else(none)?)
}
