//! Settings from a file: `--config FILE`, below flags and environment variables, above the defaults.
//!
//! A TOML file whose keys are the long flags of the command (`port = 26257`, `wan = "azure6"`,
//! `regions = ["us", "eu"]`). Its values become the flags' defaults, so one parser checks all three.

use anyhow::{Context, anyhow, bail};
use clap::{Arg, ArgMatches, Command};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Commands that take a file.
const CONFIGURED: [&str; 2] = ["demo", "start"];

/// Parses arguments, with the file that they name. Errors: a file that cannot be read, is no TOML, or
/// has keys that are no flags; a bad value is reported as the flag's, with the file's name.
pub fn parse(mut command: Command, arguments: &[OsString]) -> anyhow::Result<ArgMatches> {
    for name in CONFIGURED {
        command = command.mut_subcommand(name, |c| c.arg(config_flag()));
    }
    let Some(path) = file_of(arguments) else {
        return Ok(command.get_matches_from(arguments));
    };
    let Some(name) = arguments.get(1).and_then(|a| a.to_str()).filter(|n| CONFIGURED.contains(n)) else {
        return Ok(command.get_matches_from(arguments));
    };
    let values = read(&path)?;
    let known = command.find_subcommand(name).map(settable).unwrap_or_default();
    for (key, value) in values {
        // Rules stay in the file, which is read again when they change.
        let (key, value) = match key.as_str() {
            "hba" => ("hba-file".to_string(), toml::Value::String(path.display().to_string())),
            _ => (key, value),
        };
        let flag = key.replace('_', "-");
        let Some(id) = known.iter().find(|(long, _)| *long == flag).map(|(_, id)| id.clone()) else {
            let names: Vec<&str> = known.iter().map(|(long, _)| long.as_str()).collect();
            bail!("{}: unknown key \"{key}\"; meridian {name} knows {}", path.display(), names.join(", "));
        };
        let value = text_of(&value).with_context(|| format!("{}: {key}", path.display()))?;
        command = command.mut_subcommand(name, |c| c.mut_arg(id, |a| a.default_value(value)));
    }
    command.try_get_matches_from(arguments).map_err(|error| {
        use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
        if matches!(error.kind(), DisplayHelp | DisplayVersion) {
            error.exit();
        }
        let text = error.render().to_string();
        anyhow!("{}\n(values not given as flags come from {})", text.trim_end(), path.display())
    })
}

fn config_flag() -> Arg {
    Arg::new("config")
        .long("config")
        .env("MERIDIAN_CONFIG")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help("Read flags from a TOML file, e.g. port = 26257; flags given here go before it")
}

/// The file that the arguments or the environment name.
fn file_of(arguments: &[OsString]) -> Option<PathBuf> {
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--config" {
            return rest.next().map(PathBuf::from);
        }
        if let Some(path) = argument.to_str().and_then(|a| a.strip_prefix("--config=")) {
            return Some(path.into());
        }
    }
    std::env::var_os("MERIDIAN_CONFIG").map(PathBuf::from)
}

/// Long flags that a file may set, with their ids.
fn settable(command: &Command) -> Vec<(String, clap::Id)> {
    let own = command.get_arguments().filter(|a| !["config", "help"].contains(&a.get_id().as_str()));
    own.filter_map(|a| a.get_long().map(|long| (long.to_string(), a.get_id().clone()))).collect()
}

fn read(path: &Path) -> anyhow::Result<toml::Table> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().map_err(|e: toml::de::Error| anyhow!("{}: {}", path.display(), e.to_string().trim_end()))
}

fn text_of(value: &toml::Value) -> anyhow::Result<String> {
    Ok(match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(n) => n.to_string(),
        toml::Value::Float(n) => n.to_string(),
        toml::Value::Boolean(b) => b.to_string(),
        toml::Value::Array(items) => items.iter().map(text_of).collect::<anyhow::Result<Vec<_>>>()?.join(","),
        other => bail!("a {} is no value for a flag", other.type_str()),
    })
}
