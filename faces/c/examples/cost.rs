//! What the border to C costs: gets and scans by the C interface and by the Rust one, in turn, on two
//! databases with the same records.
//!
//! ```text
//! scripts/c-install /tmp/evendb
//! cargo run --release -p evendb-c --example cost -- /tmp/evendb/lib/libevendb.so.1
//! ```
//! The library is loaded as a program in C loads it, so the compiler sees through no call.
#![expect(unsafe_code, reason = "it calls a library that it loads")]

use evendb::{Db, Options};
use std::error::Error;
use std::ffi::{CString, c_char, c_void};
use std::hint::black_box;
use std::mem::transmute_copy;
use std::ptr::{null, null_mut};
use std::time::Instant;

const RECORDS: u64 = 1_000_000;
const GETS: u64 = 2_000_000;
const ROUNDS: usize = 5;
const MEMORY: u64 = 1 << 30;
const BUFFER: usize = 64 << 10;

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Handle = *mut c_void;

/// The functions that are measured.
struct Library {
    options_create: unsafe extern "C" fn(*mut Handle, *mut Handle) -> i32,
    options_set: unsafe extern "C" fn(Handle, *const c_char, *const c_char, *mut Handle) -> i32,
    open: unsafe extern "C" fn(*const c_char, Handle, *mut Handle, *mut Handle) -> i32,
    default_keyspace: unsafe extern "C" fn(Handle, *mut Handle, *mut Handle) -> i32,
    put: unsafe extern "C" fn(Handle, *const u8, usize, *const u8, usize, *mut Handle) -> i32,
    get: unsafe extern "C" fn(Handle, *const u8, usize, *mut Handle, *mut Handle) -> i32,
    get_into: unsafe extern "C" fn(
        Handle,
        *const u8,
        usize,
        *mut u8,
        usize,
        *mut usize,
        *mut i32,
        *mut Handle,
    ) -> i32,
    value_size: unsafe extern "C" fn(Handle) -> usize,
    value_free: unsafe extern "C" fn(Handle),
    cursor_open: unsafe extern "C" fn(
        Handle,
        i32,
        *const u8,
        usize,
        *const u8,
        usize,
        u32,
        *mut Handle,
        *mut Handle,
    ) -> i32,
    cursor_next: unsafe extern "C" fn(
        Handle,
        *mut *const u8,
        *mut usize,
        *mut *const u8,
        *mut usize,
        *mut Handle,
    ) -> i32,
    cursor_fill:
        unsafe extern "C" fn(Handle, *mut u8, usize, *mut usize, *mut usize, *mut Handle) -> i32,
    cursor_free: unsafe extern "C" fn(Handle),
    settle_debt: unsafe extern "C" fn(Handle, *mut Handle) -> i32,
}

impl Library {
    fn load(path: &str) -> Result<Library> {
        let path = CString::new(path)?;
        // SAFETY: a path that ends with a 0.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err("the library cannot be loaded".into());
        }
        let symbol = |name: &str| {
            let name = CString::new(name)?;
            // SAFETY: a library that is loaded, and a name that ends with a 0.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            match symbol.is_null() {
                true => Err(Box::<dyn Error>::from(format!("{name:?} is not there"))),
                false => Ok(symbol),
            }
        };
        macro_rules! functions {
            ($($field:ident = $name:literal),*) => {
                Library {
                    // SAFETY: the header gives each function this type.
                    $($field: unsafe { transmute_copy(&symbol($name)?) },)*
                }
            };
        }
        Ok(functions! {
            options_create = "evendb_options_create",
            options_set = "evendb_options_set",
            open = "evendb_open",
            default_keyspace = "evendb_default_keyspace",
            put = "evendb_put",
            get = "evendb_get",
            get_into = "evendb_get_into",
            value_size = "evendb_value_size",
            value_free = "evendb_value_free",
            cursor_open = "evendb_cursor_open",
            cursor_next = "evendb_cursor_next",
            cursor_fill = "evendb_cursor_fill",
            cursor_free = "evendb_cursor_free",
            settle_debt = "evendb_settle_debt"
        })
    }
}

fn key_of(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Numbers that jump about.
fn jump(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % RECORDS
}

/// Nanoseconds of each of `count` things.
fn timed(count: u64, body: impl FnOnce()) -> f64 {
    let began = Instant::now();
    body();
    began.elapsed().as_nanos() as f64 / count as f64
}

fn fill_by_rust(db: &Db) -> Result<()> {
    for number in 0..RECORDS {
        db.put(key_of(number), [7; 100])?;
    }
    Ok(db.settle_debt()?)
}

fn gets_by_rust(db: &Db) -> f64 {
    timed(GETS, || {
        for number in 0..GETS {
            let value = db.get(key_of(jump(number)));
            black_box(value.is_ok_and(|value| value.is_some()));
        }
    })
}

fn scan_by_rust(db: &Db) -> f64 {
    timed(RECORDS, || {
        let mut cursor = db.cursor::<&[u8]>(..);
        while let Ok(Some(record)) = cursor.next() {
            black_box(record);
        }
    })
}

/// The scan in Rust that does what a fill does: it copies each record.
fn copying_scan_by_rust(db: &Db) -> f64 {
    timed(RECORDS, || {
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut cursor = db.cursor::<&[u8]>(..);
        while let Ok(Some((key, value))) = cursor.next() {
            if buffer.len() + 8 + key.len() + value.len() > BUFFER {
                black_box(&buffer);
                buffer.clear();
            }
            buffer.extend_from_slice(&(key.len() as u32).to_le_bytes());
            buffer.extend_from_slice(&(value.len() as u32).to_le_bytes());
            buffer.extend_from_slice(key);
            buffer.extend_from_slice(value);
        }
    })
}

/// The database behind the C interface.
struct ByC {
    library: Library,
    keyspace: Handle,
}

impl ByC {
    fn open(library: Library, path: &str) -> Result<ByC> {
        let path = CString::new(path)?;
        let memory = CString::new(MEMORY.to_string())?;
        let (mut options, mut db, mut keyspace) = (null_mut(), null_mut(), null_mut());
        // SAFETY: handles that the library made, and places for its answers.
        unsafe {
            (library.options_create)(&raw mut options, null_mut());
            let name = c"memory_budget".as_ptr();
            (library.options_set)(options, name, memory.as_ptr(), null_mut());
            if (library.open)(path.as_ptr(), options, &raw mut db, null_mut()) != 0 {
                return Err("the database does not open".into());
            }
            (library.default_keyspace)(db, &raw mut keyspace, null_mut());
            for number in 0..RECORDS {
                let (key, value) = (key_of(number), [7_u8; 100]);
                let put = library.put;
                put(keyspace, key.as_ptr(), 16, value.as_ptr(), 100, null_mut());
            }
            (library.settle_debt)(db, null_mut());
        }
        Ok(ByC { library, keyspace })
    }

    fn gets(&self) -> f64 {
        timed(GETS, || {
            for number in 0..GETS {
                let (key, mut value, mut error) = (key_of(jump(number)), null_mut(), null_mut());
                // SAFETY: a handle of the library, a key, and places for its answers.
                unsafe {
                    let get = self.library.get;
                    get(
                        self.keyspace,
                        key.as_ptr(),
                        16,
                        &raw mut value,
                        &raw mut error,
                    );
                    black_box((self.library.value_size)(value));
                    (self.library.value_free)(value);
                }
            }
        })
    }

    fn gets_into(&self) -> f64 {
        let mut buffer = [0_u8; 128];
        timed(GETS, || {
            for number in 0..GETS {
                let (key, mut size, mut found) = (key_of(jump(number)), 0, 0);
                // SAFETY: a handle of the library, a key, a buffer, and places for its answers.
                unsafe {
                    (self.library.get_into)(
                        self.keyspace,
                        key.as_ptr(),
                        16,
                        buffer.as_mut_ptr(),
                        buffer.len(),
                        &raw mut size,
                        &raw mut found,
                        null_mut(),
                    );
                }
                black_box((size, found, &buffer));
            }
        })
    }

    fn cursor(&self) -> Handle {
        let mut cursor = null_mut();
        // SAFETY: a handle of the library, no bytes, and a place for its answer.
        unsafe {
            let open = self.library.cursor_open;
            let keyspace = self.keyspace;
            open(
                keyspace,
                0,
                null(),
                0,
                null(),
                0,
                0,
                &raw mut cursor,
                null_mut(),
            );
        }
        cursor
    }

    fn scan_by_next(&self) -> f64 {
        timed(RECORDS, || {
            let cursor = self.cursor();
            let (mut key, mut key_size) = (null(), 0);
            let (mut value, mut value_size) = (null(), 0);
            loop {
                // SAFETY: a cursor of the library, and places for its answers.
                unsafe {
                    (self.library.cursor_next)(
                        cursor,
                        &raw mut key,
                        &raw mut key_size,
                        &raw mut value,
                        &raw mut value_size,
                        null_mut(),
                    );
                }
                if key.is_null() {
                    break;
                }
                black_box((key, value));
            }
            // SAFETY: a cursor of the library, which nobody uses any more.
            unsafe { (self.library.cursor_free)(cursor) };
        })
    }

    fn scan_by_fill(&self) -> f64 {
        let mut buffer = vec![0_u8; BUFFER];
        timed(RECORDS, || {
            let cursor = self.cursor();
            let (mut used, mut records) = (0, 1);
            while records > 0 {
                // SAFETY: a cursor of the library, a buffer, and places for its answers.
                unsafe {
                    (self.library.cursor_fill)(
                        cursor,
                        buffer.as_mut_ptr(),
                        buffer.len(),
                        &raw mut used,
                        &raw mut records,
                        null_mut(),
                    );
                }
                black_box(&buffer);
            }
            // SAFETY: a cursor of the library, which nobody uses any more.
            unsafe { (self.library.cursor_free)(cursor) };
        })
    }
}

/// The least of some measurements, taken in turn with the others.
fn least(rows: &[[f64; 7]], column: usize) -> f64 {
    rows.iter().map(|row| row[column]).fold(f64::MAX, f64::min)
}

fn main() -> Result<()> {
    let path = std::env::args()
        .nth(1)
        .ok_or("the path of libevendb.so.1 is missing")?;
    let dir = tempfile::tempdir()?;
    let db = Options::new()
        .memory_budget(MEMORY)
        .open(dir.path().join("rust"))?;
    fill_by_rust(&db)?;
    let place = dir.path().join("c");
    let by_c = ByC::open(
        Library::load(&path)?,
        place.to_str().ok_or("a path in UTF-8")?,
    )?;
    let measure = || {
        [
            gets_by_rust(&db),
            by_c.gets(),
            by_c.gets_into(),
            scan_by_rust(&db),
            copying_scan_by_rust(&db),
            by_c.scan_by_next(),
            by_c.scan_by_fill(),
        ]
    };
    measure();
    let rows: Vec<_> = (0..ROUNDS).map(|_| measure()).collect();
    let names = [
        "get, Rust",
        "get, C (evendb_get)",
        "get, C (evendb_get_into)",
        "scan, Rust, each record",
        "scan, Rust, each record copied",
        "scan, C (evendb_cursor_next)",
        "scan, C (evendb_cursor_fill)",
    ];
    println!(
        "nanoseconds of a get of {RECORDS} records of 116 bytes, of a record of a scan; least of {ROUNDS}"
    );
    for (column, name) in names.iter().enumerate() {
        println!("{name:32} {:7.1}", least(&rows, column));
    }
    Ok(())
}
