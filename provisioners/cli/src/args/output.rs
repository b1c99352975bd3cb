//! How answers about the cluster are written: one set of forms for all verbs.

use clap::{Args, ValueEnum};

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    /// Tables and sentences
    #[default]
    Text,
    /// As text, with more columns
    Wide,
    /// One JSON object
    Json,
    /// One YAML document
    Yaml,
    /// The names of the objects, a line each: <resource>/<name>
    Name,
}

/// The flag for it.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct OutputArgs {
    /// How the answer is written
    #[arg(short = 'o', long = "output", value_name = "FORM", default_value = "text")]
    pub form: OutputForm,
}
