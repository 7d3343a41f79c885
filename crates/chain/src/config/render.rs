//! Both files written anew.

use super::settings::{Files, Settings};
use super::table::{self, File};

/// Both files with these settings and nothing else: first the keys without a table, then each table after a blank line,
/// its keys indented.
#[must_use]
pub fn render(settings: &Settings) -> Files {
    Files { config: file(settings, File::Config), app: file(settings, File::App) }
}

fn file(settings: &Settings, file: File) -> String {
    let (mut text, mut within) = (String::new(), None);
    for line in table::lines(file) {
        let Some(literal) = settings.literal(&line.holds) else { continue };
        match line.path.split_once('.') {
            None => text.push_str(&format!("{} = {literal}\n", line.path)),
            Some((section, name)) => {
                if within != Some(section) {
                    within = Some(section);
                    text.push_str(&format!("\n[{section}]\n"));
                }
                text.push_str(&format!("  {name} = {literal}\n"));
            }
        }
    }
    text
}
