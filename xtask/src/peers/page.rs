//! Puts the tables into `docs/performance.md`, between the markers, and leaves the rest of the page alone.

use anyhow::{Context, Result};

use crate::workspace::Workspace;

const PAGE: &str = "docs/performance.md";
const BEGIN: &str = "<!-- peers:begin -->";
const END: &str = "<!-- peers:end -->";

pub(crate) fn write(workspace: &Workspace, tables: &str) -> Result<()> {
    let path = workspace.root.join(PAGE);
    let page = std::fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    let page =
        replaced(&page, tables).with_context(|| format!("{PAGE} has no line `{BEGIN}` with `{END}` after it"))?;
    std::fs::write(&path, page)?;
    eprintln!("wrote {PAGE}");
    Ok(())
}

fn replaced(page: &str, tables: &str) -> Option<String> {
    let begin = page.find(BEGIN)? + BEGIN.len();
    let end = begin + page[begin..].find(END)?;
    Some(format!("{}\n{}\n{}", &page[..begin], tables.trim_end(), &page[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_region_is_replaced() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = format!("a\n{BEGIN}\nnew\n{END}\nb\n");
        assert_eq!(replaced(&page, "new\n"), Some(new.clone()));
        assert_eq!(replaced(&new, "new\n"), Some(new));
        assert_eq!(replaced("a\n", "new"), None);
    }
}
