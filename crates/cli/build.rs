//! How the released program is laid out; `docs/decisions/0009-release-binary-layout.md` says why.

use std::process::Command;

/// Functions that run, in the order in which they are to stand. Written by `make link-order`.
const ORDER: &str = "link/order.txt";

/// The C library that can start a static program whose relocations are packed.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ORDER}");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let released = is("PROFILE", "release");
    let known = is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !released || !known || has_another_linker() {
        return;
    }
    if let Ok(folder) = std::env::var("CARGO_MANIFEST_DIR") {
        println!("cargo::rustc-link-arg-bins=-Wl,--symbol-ordering-file={folder}/{ORDER}");
        // A name that is no more costs a little memory, and nothing else.
        println!("cargo::rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
    }
    if c_library().is_some_and(|version| version >= PACKED_SINCE) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The compiler's own linker, lld, knows these flags; others need not.
fn has_another_linker() -> bool {
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    std::env::var_os("RUSTC_LINKER").is_some()
        || ["linker", "fuse-ld", "link-self-contained"].iter().any(|word| flags.contains(word))
}

fn c_library() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
