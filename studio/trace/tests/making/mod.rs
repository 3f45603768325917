//! Traces of RocksDB, made by an encoder of our own from the description of the format.

pub(crate) fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A trace of RocksDB, version 0.1 or 0.2.
pub(crate) struct RocksDb {
    pub(crate) out: Vec<u8>,
    version: u8,
    pub(crate) micros: u64,
}

impl RocksDb {
    pub(crate) fn new(version: u8) -> RocksDb {
        let mut trace = RocksDb {
            out: Vec::new(),
            version,
            micros: 1_000_000,
        };
        let text = format!(
            "feedcafedeadbeef\tTrace Version: 0.{version}\tRocksDB Version: 7.8\tFormat: Timestamp OpType Payload\n"
        );
        trace.record(1, text.as_bytes());
        trace
    }

    pub(crate) fn record(&mut self, kind: u8, payload: &[u8]) {
        self.out.extend_from_slice(&self.micros.to_le_bytes());
        self.out.push(kind);
        let len = payload.len() as u32;
        self.out.extend_from_slice(&len.to_le_bytes());
        self.out.extend_from_slice(payload);
        self.micros += 10;
    }

    fn with_map(&mut self, kind: u8, members: &[u32], payload: Vec<u8>) {
        let map: u64 = members.iter().map(|member| 1 << member).sum();
        let mut whole = match self.version {
            1 => Vec::new(),
            _ => map.to_le_bytes().to_vec(),
        };
        whole.extend_from_slice(&payload);
        self.record(kind, &whole);
    }

    pub(crate) fn get(&mut self, family: u32, key: &[u8]) {
        let mut payload = family.to_le_bytes().to_vec();
        bytes(&mut payload, key);
        self.with_map(4, &[2, 3], payload);
    }

    pub(crate) fn seek(&mut self, kind: u8, key: &[u8], upper: Option<&[u8]>) {
        let mut payload = 0_u32.to_le_bytes().to_vec();
        bytes(&mut payload, key);
        let mut members = vec![4, 5];
        if let Some(upper) = upper {
            members.push(7);
            bytes(&mut payload, upper);
        }
        self.with_map(kind, &members, payload);
    }

    pub(crate) fn write(&mut self, count: u32, records: &[u8]) {
        let mut batch = vec![0; 8];
        batch.extend_from_slice(&count.to_le_bytes());
        batch.extend_from_slice(records);
        let payload = match self.version {
            1 => batch,
            _ => {
                let mut with_length = Vec::new();
                bytes(&mut with_length, &batch);
                with_length
            }
        };
        self.with_map(3, &[1], payload);
    }

    pub(crate) fn multi_get(&mut self, keys: &[&[u8]]) {
        let mut payload = (keys.len() as u32).to_le_bytes().to_vec();
        bytes(&mut payload, &vec![0; 4 * keys.len()]);
        let mut all = Vec::new();
        keys.iter().for_each(|key| bytes(&mut all, key));
        bytes(&mut payload, &all);
        self.with_map(13, &[8, 9, 10], payload);
    }
}

/// One record of each kind.
pub(crate) fn some_trace(version: u8) -> Vec<u8> {
    let mut trace = RocksDb::new(version);
    trace.get(3, b"one");
    let mut put = vec![0x1];
    bytes(&mut put, b"two");
    bytes(&mut put, b"value");
    trace.write(1, &put);
    let mut several = Vec::new();
    several.push(0x5);
    varint(&mut several, 300);
    bytes(&mut several, b"three");
    bytes(&mut several, b"v");
    several.push(0x0);
    bytes(&mut several, b"four");
    several.push(0x3);
    bytes(&mut several, b"a blob of the log");
    several.push(0xf);
    bytes(&mut several, b"a");
    bytes(&mut several, b"b");
    several.push(0x2);
    bytes(&mut several, b"five");
    bytes(&mut several, b"operand");
    several.push(0x7);
    bytes(&mut several, b"six");
    trace.write(5, &several);
    trace.seek(5, b"seven", (version > 1).then_some(b"seven-end"));
    trace.seek(6, b"eight", None);
    if version > 1 {
        trace.multi_get(&[b"nine", b"ten"]);
    }
    trace.record(9, b"a block of the cache, which is no operation");
    trace.record(2, b"");
    trace.out
}
