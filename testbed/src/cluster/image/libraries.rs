//! Shared libraries of programs of this machine, for images that contain nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::File;
use crate::error::{Error, IoContext, Result};

/// Library directories that keep their path in the image. Other libraries are put into `/lib`.
const SYSTEM: [&str; 3] = ["/lib/", "/lib64/", "/usr/lib/"];

/// Returns the shared libraries of programs.
pub(super) fn required_by(programs: &[PathBuf]) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for program in programs {
        files.extend(parse_ldd(&ldd(program)?));
    }
    Ok(files)
}

/// Returns the output of ldd.
fn ldd(program: &Path) -> Result<String> {
    let output =
        Command::new("ldd").arg(program).output().context(|| format!("running ldd {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let missing = text.lines().find(|line| line.contains("not found"));
    match missing {
        Some(line) => Err(Error::Other(format!("{}: {}", program.display(), line.trim()))),
        None if !output.status.success() => {
            Err(Error::Other(format!("ldd {}: {}", program.display(), output.status)))
        }
        None => Ok(text),
    }
}

fn parse_ldd(text: &str) -> Vec<File> {
    let paths = text.lines().filter_map(|line| {
        let path = line.split_once("=> ").map_or(line, |(_, path)| path).trim();
        let path = path.split(" (").next().unwrap_or_default();
        path.starts_with('/').then(|| PathBuf::from(path))
    });
    paths
        .map(|from| {
            let is_system = SYSTEM.iter().any(|dir| from.starts_with(dir));
            let to = if is_system {
                from.clone()
            } else {
                Path::new("/lib").join(from.file_name().unwrap_or_default())
            };
            File { to: to.display().to_string().trim_start_matches('/').to_owned(), from }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_libraries_keep_their_path_and_others_move_to_lib() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibw.so => /go/mod/w@1/libw.so (0x00007f)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found: Vec<(String, String)> =
            parse_ldd(text).into_iter().map(|file| (file.from.display().to_string(), file.to)).collect();
        let expected = [
            ("/go/mod/w@1/libw.so", "lib/libw.so"),
            ("/lib/x86_64-linux-gnu/libc.so.6", "lib/x86_64-linux-gnu/libc.so.6"),
            ("/lib64/ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2"),
        ];
        assert_eq!(found, expected.map(|(from, to)| (from.to_owned(), to.to_owned())));
    }
}
