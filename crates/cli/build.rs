//! Sets the layout of the release binary. See `docs/decisions/0009-release-binary-layout.md`.

use std::process::Command;

/// Symbol ordering file with the functions that run. Written by `make link-order`.
const ORDER: &str = "link/order.txt";

/// First glibc version that starts static binaries with packed relative relocations.
const PACKED_RELOCATIONS_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ORDER}");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let is_release = is("PROFILE", "release");
    let is_supported_target = is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !is_release || !is_supported_target || has_custom_linker() {
        return;
    }
    if let Ok(folder) = std::env::var("CARGO_MANIFEST_DIR") {
        println!("cargo::rustc-link-arg-bins=-Wl,--symbol-ordering-file={folder}/{ORDER}");
        // An outdated symbol only costs a little memory.
        println!("cargo::rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
    }
    if glibc_version().is_some_and(|version| version >= PACKED_RELOCATIONS_SINCE) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Only lld, the default linker, is known to support these flags.
fn has_custom_linker() -> bool {
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    std::env::var_os("RUSTC_LINKER").is_some()
        || ["linker", "fuse-ld", "link-self-contained"].iter().any(|option| flags.contains(option))
}

fn glibc_version() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = version.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
