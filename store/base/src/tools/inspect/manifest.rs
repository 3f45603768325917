//! The frames of a manifest, whatever state it is in: edits, and what is wrong between them.
//!
//! A manifest is a framed log whose writer syncs each edit before the next one. So it must verify
//! up to the length that `CURRENT` vouches for, and bytes that do not verify are damage if an edit
//! verifies behind them. What an edit says is the engine's business.

use super::finding::{Finding, FindingKind, Severity};
use evendb_storage::framed_log::{FrameCodec, HEADER_BYTES, Surveyed, header_id_in, survey_frames};
use evendb_storage::vfs::File;
use std::ops::Range;

/// A part of a manifest, in the order of the bytes.
pub enum ManifestPart<'a> {
    /// The header, which verifies.
    Header,
    /// A frame that verifies.
    Edit {
        /// Its place in the file.
        place: Range<u64>,
        /// The edit's bytes.
        payload: &'a [u8],
    },
    /// Something that is wrong.
    Wrong {
        /// What it is. A warning is no loss.
        finding: Finding,
        /// Edits are certainly lost by it.
        loses_edits: bool,
    },
}

/// Gives `each` the parts of manifest `id` in `file`, whose name is `name`. It must verify up to
/// byte `verified`.
pub fn survey_manifest(
    file: &dyn File,
    name: &str,
    (id, verified): (u64, u64),
    each: &mut dyn FnMut(ManifestPart<'_>),
) {
    let wrong = |kind, place, what: String, loses_edits| ManifestPart::Wrong {
        finding: Finding::new(Severity::Corruption, kind, name, place, what),
        loses_edits,
    };
    let header = Some(0..HEADER_BYTES);
    each(match header_id_in(file) {
        Ok(found) if found == id => ManifestPart::Header,
        Ok(found) => {
            let what = format!("this is the header of manifest {found}");
            wrong(FindingKind::Manifest, header, what, false)
        }
        Err(what) => wrong(FindingKind::Manifest, header, what, false),
    });
    let len = file.len().unwrap_or(0);
    let codec = FrameCodec::new(file, id);
    let survey = survey_frames(file, &codec, &mut |found| match found {
        Surveyed::Frame {
            offset,
            len,
            payload,
        } => each(ManifestPart::Edit {
            place: offset..offset + len,
            payload,
        }),
        Surveyed::Hole {
            offset,
            used,
            len: hole,
        } => {
            let place = offset..offset + hole;
            let followed = place.end < len;
            if let Some(found) = wrong_in_hole(name, place, used, followed, verified) {
                each(found);
            }
        }
    });
    if let Err(error) = survey {
        each(wrong(FindingKind::Manifest, None, error.to_string(), true));
    }
    if len < verified {
        let what = format!("cut short: it must verify up to byte {verified}");
        each(wrong(FindingKind::Length, Some(len..verified), what, true));
    }
}

/// What is wrong with the bytes in `place`, where no edit verifies. The first `used` bytes are more
/// than reserved room. `followed`: an edit verifies behind them.
fn wrong_in_hole(
    name: &str,
    place: Range<u64>,
    used: u64,
    followed: bool,
    verified: u64,
) -> Option<ManifestPart<'static>> {
    use FindingKind::{Manifest, ManifestEnd};
    let used_end = match followed {
        true => place.end,
        false => place.start + used,
    };
    let (severity, kind, end, what) = if place.start < verified {
        let end = match followed {
            true => used_end,
            false => used_end.max(verified),
        };
        let what = "an edit does not verify, or is cut short";
        (Severity::Corruption, Manifest, end, what)
    } else if followed {
        let what = "bytes that do not verify, with valid edits behind them";
        (Severity::Corruption, Manifest, place.end, what)
    } else if used > 0 {
        let what = "the last edits do not verify: opening takes this for the end that a crash in \
                    the middle of an append leaves; after a clean close or a mere end of the \
                    process it is damage";
        (Severity::Warning, ManifestEnd, used_end, what)
    } else {
        return None;
    };
    Some(ManifestPart::Wrong {
        finding: Finding::new(severity, kind, name, Some(place.start..end), what),
        loses_edits: severity == Severity::Corruption,
    })
}
