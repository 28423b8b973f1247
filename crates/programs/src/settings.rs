//! The sizes of a program: defaults, changed by `--set key=value`.

use std::collections::BTreeMap;

/// One thing that `--set` can change.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSetting {
    /// Its key.
    pub key: &'static str,
    /// Its value if nothing is said.
    pub default: u64,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// What the values are called, if they are words.
    pub words: &'static [&'static str],
}

impl ProgramSetting {
    /// A parameter.
    pub const fn new(key: &'static str, default: u64, min: u64, max: u64, about: &'static str) -> Self {
        Self { key, default, about, min, max, words: &[] }
    }

    /// A parameter whose values are words, of which the first is the default. Programs get the number of a word.
    pub const fn choice(key: &'static str, words: &'static [&'static str], about: &'static str) -> Self {
        Self { key, default: 0, about, min: 0, max: words.len() as u64 - 1, words }
    }

    /// A value as people write it.
    pub fn text(&self, value: u64) -> String {
        self.words.get(value as usize).map_or_else(|| value.to_string(), |word| (*word).to_string())
    }

    /// The value that a text stands for.
    fn value(&self, text: &str) -> Result<u64, String> {
        if self.words.is_empty() {
            return plimsoll_runtime::parse_bytes(text).map_err(|error| error.to_string());
        }
        let number = self.words.iter().position(|word| *word == text.trim());
        number.map(|number| number as u64).ok_or_else(|| format!("it is one of {}", self.words.join(", ")))
    }
}

/// The values of a program's parameters.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    values: BTreeMap<&'static str, u64>,
}

/// A setting that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingsError(String);

impl std::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingsError {}

impl Settings {
    /// The defaults, changed by `key=value` texts.
    ///
    /// # Errors
    /// If a text is not of the form `key=value`, names no setting of the program, or has a value that is no number or out of range.
    pub fn new<'a>(params: &[ProgramSetting], sets: impl IntoIterator<Item = &'a str>) -> Result<Self, SettingsError> {
        let mut out = Self { values: params.iter().map(|p| (p.key, p.default)).collect() };
        for set in sets {
            let Some((key, text)) = set.split_once('=') else {
                return Err(SettingsError(format!(
                    "--set {set} is not of the form key=value. Write for example --set n=64."
                )));
            };
            let Some(param) = params.iter().find(|p| p.key == key.trim()) else {
                let keys: Vec<&str> = params.iter().map(|p| p.key).collect();
                return Err(SettingsError(format!(
                    "There is no setting {key:?} here. The program knows {}. Use one of them.",
                    keys.join(", ")
                )));
            };
            let value = param.value(text).map_err(|error| SettingsError(format!("--set {set}: {error}.")))?;
            if value < param.min || value > param.max {
                return Err(SettingsError(format!(
                    "--set {key}={value} is out of range. {key} ({}) goes from {} to {}. Choose a value between them.",
                    param.about, param.min, param.max
                )));
            }
            out.values.insert(param.key, value);
        }
        Ok(out)
    }

    /// The value of a parameter that the program declares.
    pub fn get(&self, key: &str) -> usize {
        let value = self.values.get(key);
        debug_assert!(value.is_some(), "the program does not declare {key}");
        value.copied().unwrap_or_default() as usize
    }
}
