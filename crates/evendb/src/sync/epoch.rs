//! Epoch-based reclamation and the one cell that readers enter the store's structures by.
//!
//! [`ArcCell`] holds an `Arc<T>` that is replaced, never edited. A reader pins and loads a plain
//! reference (wait-free: one atomic load); one that must outlive its pin takes a counted reference
//! (`load_full`). Replacing hands the old `Arc` to a graveyard once no pin can see it; a worker
//! empties the graveyard, so no reader ever runs a destructor.
