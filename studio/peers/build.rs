//! Compiles and links the shim for the feature `wiredtiger`; does nothing without it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "wiredtiger")]
    wiredtiger();
}

#[cfg(feature = "wiredtiger")]
fn wiredtiger() {
    const SHIM: &str = "src/wiredtiger_shim.c";
    println!("cargo::rerun-if-changed={SHIM}");
    let built = cc::Build::new()
        .file(SHIM)
        .std("c11")
        .warnings(true)
        .warnings_into_errors(true)
        .try_compile("evendb_wiredtiger_shim");
    if let Err(why) = built {
        panic!("{why}: is libwiredtiger-dev installed? scripts/peers-install does that");
    }
    // After the shim, which calls it.
    println!("cargo::rustc-link-lib=dylib=wiredtiger");
}
