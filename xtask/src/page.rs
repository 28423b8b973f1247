//! The report's page: its scripts under Node, the page in a browser, and pictures of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::stages::StageOutcome;
use crate::workspace::{Workspace, is_installed, shown, succeed};

/// Where the pictures of the main views are kept.
const PICTURES: &str = "target/screenshots";

#[derive(Args)]
pub(crate) struct PageOptions {
    /// Where the pictures go.
    #[arg(default_value = PICTURES)]
    folder: PathBuf,
    /// A run of the reference to show; a small file of its form if left out.
    #[arg(long, value_name = "FILE_OR_DIR")]
    reference: Option<PathBuf>,
}

/// What installs a browser, Node's packages and what else is missing.
const INSTALL: &str = ".ci/setup";

/// Stage `page`: what needs Node alone runs wherever Node is; what needs the browser says what to install. It leaves pictures of the
/// main views to look at.
pub(crate) fn check(workspace: &Workspace) -> Result<StageOutcome> {
    if !is_installed("node") {
        return Ok(StageOutcome::Skipped(format!("there is no node; `{INSTALL}` installs it")));
    }
    run(workspace, node(&["--test", "crates/report/page/test/"]))?;
    let Some(driver) = driver(workspace) else {
        return Ok(StageOutcome::Skipped(format!("there is no browser or no driver of it; `{INSTALL}` installs both")));
    };
    run(
        workspace,
        node(&[&format!("{}/node_modules/typescript/bin/tsc", driver.display()), "-p", "crates/report/page"]),
    )?;
    // One file after the other: they print times.
    let tests = ["page", "use", "marks"].map(|name| format!("crates/report/page/browser/{name}.test.js"));
    let mut test = node(&["--test", "--test-concurrency=1", &tests[0], &tests[1], &tests[2]]);
    let command = command(workspace)?;
    test.env("PLIMSOLL", &command);
    run(workspace, test)?;
    let pictures = PageOptions { folder: PathBuf::from(PICTURES), reference: None };
    take_pictures(workspace, &pictures, &command)?;
    Ok(StageOutcome::Passed)
}

/// `cargo xtask screenshots`: pictures of the main views, from real runs.
pub(crate) fn screenshots(options: &PageOptions) -> Result<()> {
    let workspace = Workspace::find()?;
    if driver(&workspace).is_none() {
        bail!("There is no browser, or no driver of it. Pictures are taken with both. Run {INSTALL} first.");
    }
    take_pictures(&workspace, options, &command(&workspace)?)?;
    // The README shows this one.
    std::fs::copy(workspace.root.join(&options.folder).join("a2a3.png"), workspace.root.join("docs/report.png"))?;
    Ok(())
}

fn take_pictures(workspace: &Workspace, options: &PageOptions, command: &Path) -> Result<()> {
    let mut taken = node(&["crates/report/page/browser/screenshots.js"]);
    taken.arg(&options.folder).args(&options.reference).env("PLIMSOLL", command);
    run(workspace, taken)
}

/// The folder with the driver's packages, if those and a browser are there.
fn driver(workspace: &Workspace) -> Option<PathBuf> {
    let folder = workspace.root.join("crates/report/page/browser");
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().any(is_installed);
    let named = std::env::var_os("PLIMSOLL_BROWSER").is_some();
    ((browser || named) && folder.join("node_modules/playwright-core").is_dir()).then_some(folder)
}

fn node(words: &[&str]) -> Command {
    let mut command = Command::new("node");
    command.args(words);
    command
}

fn run(workspace: &Workspace, mut command: Command) -> Result<()> {
    command.current_dir(&workspace.root);
    println!("$ {}", shown(&command));
    succeed(&mut command)
}

/// Builds the command and gives its path.
fn command(workspace: &Workspace) -> Result<PathBuf> {
    let mut build = workspace.cargo(["build", "--release", "--package", "plimsoll-cli"]);
    println!("$ {}", shown(&build));
    succeed(&mut build)?;
    Ok(workspace.release("plimsoll"))
}
