//! Names as a terminal may show them. They come from outside, and JSON has them whole; a table does not.

use std::fmt::Write;

/// The most characters of a program's name in a line of its own.
pub const PROGRAM_NAME: usize = 200;

/// Whether a terminal acts on the character instead of showing it: moves the cursor, changes colours, turns the direction
/// of reading. Line ends and tabs are ours.
pub fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() && !matches!(c, '\n' | '\t')
}

/// One line of at most `most` characters: what a terminal would obey is escaped as JSON escapes it, and of a longer text
/// the middle is left out, because paths differ at their ends and names at their beginnings.
pub fn one_line(text: &str, most: usize) -> String {
    let mut plain = String::with_capacity(text.len().min(4 * most));
    for c in text.chars() {
        if is_obeyed(c) || matches!(c, '\n' | '\t') {
            let _ = write!(plain, "\\u{:04x}", u32::from(c));
        } else {
            plain.push(c);
        }
    }
    let length = plain.chars().count();
    if length <= most {
        return plain;
    }
    let (head, tail) = (most / 2, most - most / 2 - 1);
    plain.chars().take(head).chain(['…']).chain(plain.chars().skip(length - tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_instead() {
        assert_eq!(one_line("a\u{1b}[31m\u{9b}\r\n\u{202e}µ", 80), "a\\u001b[31m\\u009b\\u000d\\u000a\\u202eµ");
    }

    #[test]
    fn the_middle_of_a_long_text_is_left_out() {
        assert_eq!(one_line("abcdefghij", 10), "abcdefghij");
        assert_eq!(one_line("abcdefghijk", 10), "abcde…hijk");
        assert_eq!(one_line(&"µ".repeat(10_000), 48).chars().count(), 48);
    }
}
