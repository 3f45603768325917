//! C interfaces of libraries that are loaded at run time. A machine without such a library builds
//! and runs everything else, and says what it left out.
//!
//! A library is loaded when it is first asked for, and never unloaded: C++ libraries with threads
//! and thread-local state cannot be unloaded safely.

#![expect(unsafe_code, reason = "a C interface that is loaded at run time")]

use std::ffi::{OsString, c_void};

use libloading::Library;

/// An object of a library. Only the library looks into it.
pub(crate) type Handle = *mut c_void;

/// A library that a store needs.
pub(crate) struct Wanted {
    /// The store's name in messages.
    pub(crate) store: &'static str,
    /// The environment variable that names the file.
    pub(crate) variable: &'static str,
    /// The files that are tried if the variable is not set.
    pub(crate) usual_names: &'static [&'static str],
    /// What helps if it is not here.
    pub(crate) remedy: &'static str,
}

impl Wanted {
    /// Loads the library, and finds its functions. Returns them with the name of the file.
    ///
    /// # Errors
    /// Why that failed, and what helps.
    pub(crate) fn load<T>(
        &self,
        find: impl FnOnce(&Library) -> Result<T, libloading::Error>,
    ) -> Result<(T, String), String> {
        let named = std::env::var_os(self.variable);
        let usual = || self.usual_names.iter().map(OsString::from).collect();
        let names: Vec<OsString> = named.map_or_else(usual, |name| vec![name]);
        let mut why = String::new();
        for name in names {
            // SAFETY: the file that the user names, or that the distribution installed under this
            // name, is trusted to be that library; its initialisers need nothing from us.
            match unsafe { Library::new(&name) } {
                Ok(library) => {
                    let name = name.to_string_lossy().into_owned();
                    let found = find(&library);
                    std::mem::forget(library);
                    return match found {
                        Ok(calls) => Ok((calls, name)),
                        Err(error) => Err(format!("{name} lacks a function: {error}")),
                    };
                }
                Err(error) => why = format!("{why}{error}; "),
            }
        }
        Err(format!(
            "the library of {} is not here ({}): {}",
            self.store,
            why.trim_end_matches("; "),
            self.remedy
        ))
    }
}

/// Declares `Calls`: one pointer for each function, by its name in the library.
macro_rules! calls {
    ($($field:ident = $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the C interface that are used here. All take what the interface's
        /// header says. A returned bare pointer to characters is freed by `free`.
        struct Calls {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Calls {
            fn find(library: &libloading::Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of the interface's header, which the library has kept
                // through all versions that are used here.
                unsafe { Ok(Self { $($field: *library.get($symbol)?,)* }) }
            }
        }
    };
}
pub(crate) use calls;

/// A handle that is destroyed when this is dropped, even after a panic in the caller's closure.
pub(crate) struct Owned {
    pub(crate) handle: Handle,
    pub(crate) destroy: unsafe extern "C" fn(Handle),
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by the function that belongs to `destroy`, and destroyed once.
        unsafe { (self.destroy)(self.handle) }
    }
}

/// Bytes of a library. An empty slice may have any pointer.
///
/// # Safety
/// `bytes` points to `length` bytes that live and stay unchanged while the result is used.
pub(crate) unsafe fn slice<'a>(bytes: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: of the caller.
    unsafe { std::slice::from_raw_parts(bytes, length) }
}
