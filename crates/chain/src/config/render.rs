//! Rendering of complete files.

use super::settings::{Files, Settings};
use super::table::{self, File};

/// Renders both files from scratch: top-level keys first, then each table after a blank line with indented keys.
#[must_use]
pub fn render(settings: &Settings) -> Files {
    Files { config: render_file(settings, File::Config), app: render_file(settings, File::App) }
}

fn render_file(settings: &Settings, file: File) -> String {
    let (mut text, mut current_section) = (String::new(), None);
    for line in table::lines(file) {
        let Some(literal) = settings.literal(&line.content) else { continue };
        match line.path.split_once('.') {
            None => text.push_str(&format!("{} = {literal}\n", line.path)),
            Some((section, name)) => {
                if current_section != Some(section) {
                    current_section = Some(section);
                    text.push_str(&format!("\n[{section}]\n"));
                }
                text.push_str(&format!("  {name} = {literal}\n"));
            }
        }
    }
    text
}
