//! Pieces of HTML. Every text that comes from outside goes through [`text`].

use std::fmt::Write;

use crate::plain::one_line;

/// Most characters of a name in a table; the whole of it is in the data of the page.
const NAME: usize = 160;
/// Most characters of any other text.
const TEXT: usize = 100_000;

/// A text as the page's scripts have it: they set it as text, so that only what changes the direction of reading, and other
/// characters that are obeyed instead of shown, are written out. It is what [`text`] escapes.
pub(super) fn plain(text: &str) -> String {
    one_line(text, TEXT)
}

/// Escapes a text: markup in it is shown as text, and nothing in it changes the direction of reading.
pub(super) fn text(plain: &str) -> String {
    escaped(&self::plain(plain))
}

/// A name, shortened where it is very long.
pub(super) fn name(plain: &str) -> String {
    escaped(&one_line(plain, NAME))
}

/// A task that a click selects.
pub(super) fn task(name: &str) -> String {
    format!("<button type=button class=link data-task=\"{0}\">{0}</button>", text(name))
}

/// A text in which what stands between two backquotes is code.
pub(super) fn with_code(plain: &str) -> String {
    let whole = plain.matches('`').count() / 2 * 2;
    let mut html = String::with_capacity(plain.len());
    for (at, part) in plain.splitn(whole + 1, '`').enumerate() {
        let part = text(part);
        html += &if at % 2 == 1 { format!("<code>{part}</code>") } else { part };
    }
    html
}

fn escaped(plain: &str) -> String {
    let mut safe = String::with_capacity(plain.len());
    for c in plain.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// JSON that may stand inside a script element: no text in it can end that element or open a comment.
pub(super) fn json_inside_script(value: &impl serde::Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string(value)?
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029"))
}

/// A whole number with commas.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Bytes as people read them, or a plain count.
pub(super) fn amount(number: u64, resource: &str) -> String {
    if resource != "heap" {
        return count(number);
    }
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value.fract() == 0.0 {
        format!("{value} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// A table of text and number cells.
pub(super) struct HtmlTable {
    html: String,
}

/// A cell of a table.
pub(super) enum TableCell {
    /// HTML, flush left.
    Text(String),
    /// What is shown, flush right, and the exact value that the command's JSON has.
    Number(String, f64),
    /// The cell has no bar.
    None,
}

impl HtmlTable {
    /// A table with these heads; those that begin with `#` stand over numbers. What follows a `|` is said when a pointer rests on one.
    pub(super) fn new(id: &str, heads: &[&str]) -> Self {
        let mut html = format!("<div class=scroll><table id={id}><thead><tr>");
        for head in heads {
            let (class, head) = head.strip_prefix('#').map_or(("", *head), |head| (" class=n", head));
            let (head, title) = head.split_once('|').unwrap_or((head, ""));
            let title = if title.is_empty() { String::new() } else { format!(" title=\"{title}\"") };
            let _ = write!(html, "<th scope=col{class}{title}>{head}</th>");
        }
        html.push_str("</tr></thead><tbody>");
        Self { html }
    }

    /// Adds a row; `attributes` go onto its element.
    pub(super) fn row(&mut self, attributes: &str, cells: &[TableCell]) {
        let _ = write!(self.html, "<tr{attributes}>");
        for cell in cells {
            let _ = match cell {
                TableCell::Text(html) => write!(self.html, "<td>{html}</td>"),
                TableCell::Number(shown, exact) => write!(self.html, "<td class=n data-v=\"{exact}\">{shown}</td>"),
                TableCell::None => write!(self.html, "<td></td>"),
            };
        }
        self.html.push_str("</tr>\n");
    }

    pub(super) fn finish(mut self) -> String {
        self.html.push_str("</tbody></table></div>");
        self.html
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_stays_text() {
        assert_eq!(text("<img src=x onerror='a'>&\u{202e}"), "&lt;img src=x onerror=&#39;a&#39;&gt;&amp;\\u202e");
        let json = json_inside_script(&"</script><!--\u{2028}").expect("a string");
        assert_eq!(json, "\"\\u003c/script>\\u003c!--\\u2028\"");
    }

    #[test]
    fn what_stands_between_backquotes_is_code() {
        assert_eq!(with_code("run `a <b>` and `c`."), "run <code>a &lt;b&gt;</code> and <code>c</code>.");
        assert_eq!(with_code("a `lone <mark"), "a `lone &lt;mark");
    }

    #[test]
    fn numbers_have_commas_and_bytes_units() {
        assert_eq!((count(7).as_str(), count(1_234_567).as_str()), ("7", "1,234,567"));
        assert_eq!((amount(64 << 20, "heap").as_str(), amount(1500, "heap").as_str()), ("64 MiB", "1.5 KiB"));
        assert_eq!(amount(1500, "task_window"), "1,500");
    }
}
