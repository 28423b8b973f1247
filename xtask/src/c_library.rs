//! `cargo xtask c-library`: builds the library for C and C++ and installs it where compilers find it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use crate::workspace::{Workspace, shown, succeed};

#[derive(Args)]
pub(crate) struct CLibraryOptions {
    /// Where to install it: `include`, `lib`, `lib/pkgconfig` and `lib/cmake` are made in it.
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// Build without optimisation across crates, with all of the workspace, as tests do.
    #[arg(long)]
    dev: bool,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn run(options: &CLibraryOptions) -> Result<()> {
    let workspace = Workspace::find()?;
    install(&workspace, &options.prefix, options.dev)?;
    println!("installed in {}", options.prefix.display());
    println!("next: PKG_CONFIG_PATH={}/lib/pkgconfig pkg-config --cflags --libs plimsoll", options.prefix.display());
    Ok(())
}

/// Builds and installs the library.
pub(crate) fn install(workspace: &Workspace, prefix: &Path, dev: bool) -> Result<()> {
    // The whole workspace in a test, because that is what the tests before it have built.
    let mut build = match dev {
        true => workspace.cargo(["build", "--workspace"]),
        false => workspace.cargo(["build", "--release", "--package", "plimsoll-capi"]),
    };
    println!("$ {}", shown(&build));
    succeed(&mut build)?;
    fs::create_dir_all(prefix)?;
    let prefix = prefix.canonicalize()?;
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    for dir in [&include, &lib.join("pkgconfig"), &lib.join("cmake/plimsoll")] {
        fs::create_dir_all(dir)?;
    }
    let headers = workspace.root.join("crates/capi/include");
    for header in ["plimsoll.h", "plimsoll.hpp", "plimsoll_plugin.h"] {
        fs::copy(headers.join(header), include.join(header))?;
    }
    let built = workspace.target.join(if dev { "debug" } else { "release" }).join("libplimsoll_capi.so");
    let major = VERSION.split('.').next().unwrap_or("0");
    let (full, soname) = (format!("libplimsoll.so.{VERSION}"), format!("libplimsoll.so.{major}"));
    fs::copy(&built, lib.join(&full)).with_context(|| format!("{} cannot be copied", built.display()))?;
    link(&full, &lib.join(&soname))?;
    link(&soname, &lib.join("libplimsoll.so"))?;
    fs::write(lib.join("pkgconfig/plimsoll.pc"), pkg_config())?;
    fs::write(lib.join("cmake/plimsoll/plimsoll-config.cmake"), CMAKE_CONFIG)?;
    fs::write(lib.join("cmake/plimsoll/plimsoll-config-version.cmake"), cmake_version())?;
    Ok(())
}

fn link(to: &str, at: &Path) -> Result<()> {
    if at.symlink_metadata().is_ok() {
        fs::remove_file(at)?;
    }
    symlink(to, at).with_context(|| format!("{} cannot be made", at.display()))
}

/// The paths follow from where the file lies, so that the directory may be moved.
fn pkg_config() -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\nincludedir=${{prefix}}/include\nlibdir=${{prefix}}/lib\n\n\
         Name: plimsoll\nDescription: a dataflow task runtime for tensors with a lossless flight recorder\n\
         Version: {VERSION}\nCflags: -I${{includedir}}\nLibs: -L${{libdir}} -lplimsoll\n"
    )
}

const CMAKE_CONFIG: &str = r#"# find_package(plimsoll) gives the target plimsoll::plimsoll.
get_filename_component(_plimsoll_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET plimsoll::plimsoll)
  add_library(plimsoll::plimsoll SHARED IMPORTED)
  set_target_properties(plimsoll::plimsoll PROPERTIES
    IMPORTED_LOCATION "${_plimsoll_prefix}/lib/libplimsoll.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_plimsoll_prefix}/include")
endif()
unset(_plimsoll_prefix)
"#;

/// Before 1.0 a minor version may change the interface.
fn cmake_version() -> String {
    let minor = VERSION.rsplit_once('.').map_or(VERSION, |(minor, _)| minor);
    format!(
        "set(PACKAGE_VERSION \"{VERSION}\")\nif(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION OR NOT \
         PACKAGE_FIND_VERSION MATCHES \"^({minor}|$)\")\n  set(PACKAGE_VERSION_COMPATIBLE FALSE)\nelse()\n  \
         set(PACKAGE_VERSION_COMPATIBLE TRUE)\nendif()\n"
    )
}
