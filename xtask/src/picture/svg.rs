//! Draws lines of terminal output as an SVG file: one monospaced text per line, a few words in colour.
//!
//! The file refers to no font, script or image outside of it, so that every viewer of a README shows it.

use std::fmt::Write as _;

/// Size of one character cell in pixels, for a font of [`FONT_SIZE`].
const CELL_WIDTH: f32 = 8.4;
const LINE_HEIGHT: usize = 19;
const FONT_SIZE: usize = 14;

/// Space around the text, and above it for the title bar.
const MARGIN: usize = 16;
const TITLE_HEIGHT: usize = 34;

/// Longer lines are cut: a picture has no scroll bar.
const COLUMNS_MAX: usize = 116;

const BACKGROUND: &str = "#1e2127";
const TITLE_BAR: &str = "#2c313a";
const PLAIN: &str = "#c8ccd4";
const DIM: &str = "#8b929e";
const HEADING: &str = "#61afef";
const REMOVED: &str = "#e06c75";
const KEPT: &str = "#98c379";

/// One piece of a line in one colour.
#[derive(Debug, PartialEq, Eq)]
struct TextSpan<'a> {
    text: &'a str,
    colour: &'static str,
}

/// The SVG document that shows these lines in a window with this title.
pub(super) fn render(title: &str, lines: &[&str]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| cut(line)).collect();
    let columns = lines.iter().map(|line| line.chars().count()).max();
    let columns = u16::try_from(columns.unwrap_or(0)).unwrap_or(u16::MAX);
    let width = f32::from(columns) * CELL_WIDTH + 2.0 * MARGIN as f32;
    let height = TITLE_HEIGHT + lines.len() * LINE_HEIGHT + 2 * MARGIN;
    let title = escaped(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height}\" \
         viewBox=\"0 0 {width:.0} {height}\" role=\"img\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <path d=\"M0 {TITLE_HEIGHT}V8a8 8 0 0 1 8-8H{:.0}a8 8 0 0 1 8 8V{TITLE_HEIGHT}z\" fill=\"{TITLE_BAR}\"/>\n\
         <g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,monospace\" font-size=\"{FONT_SIZE}\">\n\
         <text x=\"{MARGIN}\" y=\"22\" fill=\"{DIM}\">$ {title}</text>\n",
        width - 8.0
    );
    for (number, line) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
    {
        let y = TITLE_HEIGHT + MARGIN + (number + 1) * LINE_HEIGHT - 5;
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\">"
        );
        for TextSpan { text, colour } in spans(line) {
            let _ = write!(svg, "<tspan fill=\"{colour}\">{}</tspan>", escaped(text));
        }
        svg.push_str("</text>\n");
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Headings and commands stand out, and so does what happened to an object.
fn spans(line: &str) -> Vec<TextSpan<'_>> {
    let whole = |colour| vec![TextSpan { text: line, colour }];
    if line.starts_with("Chapter ") || line.starts_with("$ ") {
        return whole(HEADING);
    }
    for (word, colour) in [(" gone ", REMOVED), (" kept ", KEPT), (" made ", KEPT)] {
        let is_step = line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        if let Some(at) = line.find(word).filter(|_| is_step) {
            let (before, rest) = line.split_at(at);
            let (marked, after) = rest.split_at(word.len());
            let parts = [(before, DIM), (marked, colour), (after, PLAIN)];
            return parts.map(|(text, colour)| TextSpan { text, colour }).into();
        }
    }
    whole(PLAIN)
}

fn cut(line: &str) -> String {
    if line.chars().count() <= COLUMNS_MAX {
        return line.to_owned();
    }
    let kept: String = line.chars().take(COLUMNS_MAX - 1).collect();
    kept + "…"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn_and_markup_is_escaped() {
        let svg = render("a & b", &["x < y", "", "z"]);
        assert!(svg.contains("<title>a &amp; b</title>"), "{svg}");
        assert!(svg.contains("x &lt; y</tspan>"), "{svg}");
        assert_eq!(
            svg.matches("xml:space").count(),
            2,
            "an empty line needs no text"
        );
        assert!(svg.ends_with("</svg>\n"));
    }

    #[test]
    fn a_step_shows_in_colour_what_happened() {
        let found = spans("  1. gone  Pod a");
        let parts: Vec<(&str, &str)> = found.iter().map(|span| (span.text, span.colour)).collect();
        assert_eq!(
            parts,
            [("  1.", DIM), (" gone ", REMOVED), (" Pod a", PLAIN)]
        );
        assert_eq!(spans("the Pod is gone now").len(), 1);
        assert_eq!(spans("Chapter 1: x")[0].colour, HEADING);
    }

    #[test]
    fn a_long_line_is_cut() {
        let line = "ä".repeat(COLUMNS_MAX + 1);
        let found = cut(&line);
        assert_eq!(found.chars().count(), COLUMNS_MAX);
        assert!(found.ends_with('…'));
        assert_eq!(cut("short"), "short");
    }
}
