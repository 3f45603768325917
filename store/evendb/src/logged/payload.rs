//! The body of a commit-log record: the operations of one batch, or the name of the value extent
//! that holds them. Format in docs/format.md.
//!
//! ```text
//! operation: kind u8 | keyspace u32 | key length u32 | value length u32 | key | value
//!            kind 2 is a range deletion: its value is the first key behind the range, or empty if
//!            there is none; every other kind is a record's kind, as in tables
//! extent:    0xff u8 | file id u64 | length u64 | checksum u32     synced before this was written
//!            0xfe u8 | ...                                         not synced before
//! ```

use crate::manifest::KeyspaceId;
use crate::op::{KEY_BYTES_MAX, Op, OpKind, Totals};
use crate::value_files::Bytes;
use evendb_storage::codec::{get_u32, get_u64};
use evendb_storage::{Apart, Kind};
use smallvec::SmallVec;

pub(crate) const OP_HEADER_BYTES: usize = 13;
const EXTENT_SYNCED: u8 = 0xff;
const EXTENT_UNSYNCED: u8 = 0xfe;
pub(crate) const EXTENT_BYTES: usize = 21;

/// The bytes of the payload of records with these totals.
pub(crate) fn bytes(totals: &Totals) -> u64 {
    totals.data_bytes + OP_HEADER_BYTES as u64 * totals.records
}

/// The kind byte of a range deletion. No kind of record has it.
const RANGE_DELETE: u8 = 2;

fn kind_byte(kind: OpKind) -> u8 {
    match kind {
        OpKind::One(kind) => kind as u8,
        OpKind::RangeDelete => RANGE_DELETE,
    }
}

fn kind_of(byte: u8) -> Option<OpKind> {
    match byte {
        RANGE_DELETE => Some(OpKind::RangeDelete),
        _ => Kind::from_byte(byte).map(OpKind::One),
    }
}

fn op_header(op: &Op<'_>) -> [u8; OP_HEADER_BYTES] {
    let mut header = [0; OP_HEADER_BYTES];
    header[0] = kind_byte(op.kind());
    header[1..5].copy_from_slice(&op.keyspace.id.0.to_le_bytes());
    header[5..9].copy_from_slice(&(op.record.key().len() as u32).to_le_bytes());
    header[9..13].copy_from_slice(&(op.record.value().len() as u32).to_le_bytes());
    header
}

/// A value extent is written in pieces of about this number of bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Passes `ops` to `show` as a payload, piece by piece: small records are gathered into few pieces,
/// a value that fills a piece is passed as it is.
pub(crate) fn in_pieces<E>(
    ops: &[Op<'_>],
    show: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut gathered = Vec::with_capacity(PIECE_BYTES);
    for op in ops {
        let record = &op.record;
        gathered.extend_from_slice(&op_header(op));
        gathered.extend_from_slice(record.key());
        let long = record.value().len() >= PIECE_BYTES;
        if !long {
            gathered.extend_from_slice(record.value());
        }
        if long || gathered.len() >= PIECE_BYTES {
            show(&gathered)?;
            gathered.clear();
        }
        if long {
            show(record.value())?;
        }
    }
    match gathered.is_empty() {
        true => Ok(()),
        false => show(&gathered),
    }
}

/// The buffer that gathers the operations of a batch; a small batch needs no allocation.
pub(crate) type Gathered = SmallVec<[u8; 512]>;

/// The bytes that a write copies into the commit log, ready before anything is latched.
pub(crate) enum Encoded<'a> {
    /// One operation: its header, and the length of the payload; key and value are in the record.
    One([u8; OP_HEADER_BYTES], usize),
    /// Several operations, or none, as they lie in the log.
    Body(&'a [u8]),
    /// A value extent's name.
    Extent([u8; EXTENT_BYTES]),
}

impl<'a> Encoded<'a> {
    /// The payload without a commit log: no bytes.
    pub(crate) fn empty() -> Encoded<'a> {
        Encoded::Body(&[])
    }

    /// `len` is the length of the payload.
    pub(crate) fn inline(ops: &[Op<'_>], len: usize, body: &'a mut Gathered) -> Encoded<'a> {
        if let [op] = ops {
            return Encoded::One(op_header(op), len);
        }
        // One copied piece: three slices for each operation would take more memory than most
        // bodies.
        body.reserve_exact(len);
        for op in ops {
            body.extend_from_slice(&op_header(op));
            body.extend_from_slice(op.record.key());
            body.extend_from_slice(op.record.value());
        }
        Encoded::Body(body)
    }

    pub(crate) fn extent(name: ExtentName) -> Encoded<'a> {
        let ExtentName {
            id,
            len,
            checksum,
            is_synced,
        } = name;
        let mut body = [0; EXTENT_BYTES];
        body[0] = match is_synced {
            true => EXTENT_SYNCED,
            false => EXTENT_UNSYNCED,
        };
        body[1..9].copy_from_slice(&id.to_le_bytes());
        body[9..17].copy_from_slice(&len.to_le_bytes());
        body[17..21].copy_from_slice(&checksum.to_le_bytes());
        Encoded::Extent(body)
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Encoded::One(_, len) => *len,
            Encoded::Body(body) => body.len(),
            Encoded::Extent(body) => body.len(),
        }
    }

    /// The extent, if it is one.
    pub(crate) fn extent_name(&self) -> Option<ExtentName> {
        match self {
            Encoded::One(..) | Encoded::Body(_) => None,
            Encoded::Extent(body) => decode_extent(body),
        }
    }

    pub(crate) fn parts<'s>(&'s self, ops: &'s [Op<'_>]) -> SmallVec<[&'s [u8]; 3]> {
        match self {
            Encoded::One(header, _) => ops
                .iter()
                .flat_map(|op| [&header[..], op.record.key(), op.record.value()])
                .collect(),
            Encoded::Body(body) => SmallVec::from_slice(&[*body]),
            Encoded::Extent(body) => SmallVec::from_slice(&[&body[..]]),
        }
    }
}

/// One operation read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecodedOp<'a> {
    pub(crate) kind: OpKind,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// A payload read back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded<'a> {
    Inline(Vec<DecodedOp<'a>>),
    Extent(ExtentName),
}

/// The name of a value extent in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentName {
    pub(crate) id: u64,
    /// The length of the file, in bytes.
    pub(crate) len: u64,
    pub(crate) checksum: u32,
    /// The extent and its file name were synced before the record was written.
    pub(crate) is_synced: bool,
}

/// The operations of an inline payload or of a value extent's contents; `None` if they make no
/// sense.
pub(crate) fn decode_ops(input: &[u8]) -> Option<Vec<DecodedOp<'_>>> {
    each_op(input).collect()
}

/// The operations one by one; `None`, as the last item, if the rest makes no sense.
pub(crate) fn each_op(mut input: &[u8]) -> impl Iterator<Item = Option<DecodedOp<'_>>> {
    std::iter::from_fn(move || {
        if input.is_empty() {
            return None;
        }
        let op = sensible_op(&mut input);
        if op.is_none() {
            input = &[];
        }
        Some(op)
    })
}

fn sensible_op<'a>(input: &mut &'a [u8]) -> Option<DecodedOp<'a>> {
    let (kind, keyspace, key, value) = decode_op(input)?;
    let kind = kind_of(kind)?;
    let makes_sense = match kind {
        OpKind::One(Kind::Put | Kind::Delete) => true,
        OpKind::One(kind) => kind.takes(value),
        OpKind::RangeDelete => value.len() <= KEY_BYTES_MAX,
    };
    makes_sense.then_some(DecodedOp {
        kind,
        keyspace,
        key,
        value,
    })
}

/// Appends an operation; its value is given in two parts.
pub(crate) fn push_op(out: &mut Vec<u8>, op: &DecodedOp<'_>, rest: &[u8]) {
    let value_len = op.value.len() + rest.len();
    out.push(kind_byte(op.kind));
    out.extend_from_slice(&op.keyspace.0.to_le_bytes());
    out.extend_from_slice(&(op.key.len() as u32).to_le_bytes());
    out.extend_from_slice(&(value_len as u32).to_le_bytes());
    out.extend_from_slice(op.key);
    out.extend_from_slice(op.value);
    out.extend_from_slice(rest);
}

/// The next operation of any kind: the kind's byte, keyspace, key and value.
fn decode_op<'a>(input: &mut &'a [u8]) -> Option<(u8, KeyspaceId, &'a [u8], &'a [u8])> {
    let (&kind, mut rest) = input.split_first()?;
    let keyspace = KeyspaceId(get_u32(&mut rest)?);
    let key_len = get_u32(&mut rest)? as usize;
    let value_len = get_u32(&mut rest)? as usize;
    let (key, rest) = rest.split_at_checked(key_len)?;
    let (value, rest) = rest.split_at_checked(value_len)?;
    if key_len > KEY_BYTES_MAX {
        return None;
    }
    *input = rest;
    Some((kind, keyspace, key, value))
}

/// For operations that make no sense: whether all of them are whole, and some have a kind that this
/// build does not know. Then a later version wrote them.
pub(crate) fn has_later_kind(mut input: &[u8]) -> bool {
    let mut later = false;
    while !input.is_empty() {
        match decode_op(&mut input) {
            Some((kind, ..)) => later |= kind_of(kind).is_none(),
            None => return false,
        }
    }
    later
}

/// A commit-log record's payload; `None` if it makes no sense.
pub(crate) fn decode(input: &[u8]) -> Option<Decoded<'_>> {
    match *input.first()? {
        EXTENT_SYNCED | EXTENT_UNSYNCED => decode_extent(input).map(Decoded::Extent),
        _ => decode_ops(input).map(Decoded::Inline),
    }
}

/// The result of replacing values that lie apart.
pub(crate) enum WithValues {
    /// No value lies apart.
    AsItIs,
    /// The operations with all values in place.
    Read(Vec<u8>),
    /// The file of a value is gone.
    Gone,
}

/// Puts values that lie apart into the operations of an inline payload or of a value extent's
/// contents; `read` reads one value. Operations that make no sense stay unchanged.
pub(crate) fn with_values<E>(
    payload: &[u8],
    read: &dyn Fn(&Apart) -> Result<Option<Bytes>, E>,
) -> Result<WithValues, E> {
    let ops = decode_ops(payload).unwrap_or_default();
    let place_of = |op: &DecodedOp<'_>| match op.kind {
        OpKind::One(kind) => Apart::of(kind, op.value),
        OpKind::RangeDelete => None,
    };
    if !ops.iter().any(|op| place_of(op).is_some()) {
        return Ok(WithValues::AsItIs);
    }
    let mut out = Vec::with_capacity(payload.len());
    for op in &ops {
        let (OpKind::One(own), Some(place)) = (op.kind, place_of(op)) else {
            push_op(&mut out, op, &[]);
            continue;
        };
        let Some(bytes) = read(&place)? else {
            return Ok(WithValues::Gone);
        };
        let in_place = DecodedOp {
            kind: OpKind::One(own.in_place()),
            value: &op.value[..own.prefix_bytes()],
            ..*op
        };
        push_op(&mut out, &in_place, &bytes);
    }
    Ok(WithValues::Read(out))
}

/// The value extent that a payload names, if it names one.
pub(crate) fn extent_of(payload: &[u8]) -> Option<ExtentName> {
    match payload.first()? {
        &(EXTENT_SYNCED | EXTENT_UNSYNCED) => decode_extent(payload),
        _ => None,
    }
}

fn decode_extent(input: &[u8]) -> Option<ExtentName> {
    let (&first, mut rest) = input.split_first()?;
    let name = ExtentName {
        id: get_u64(&mut rest)?,
        len: get_u64(&mut rest)?,
        checksum: get_u32(&mut rest)?,
        is_synced: first == EXTENT_SYNCED,
    };
    rest.is_empty().then_some(name)
}
