//! How answers are written: one set of forms for all verbs about the cluster, one for the others.

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

/// How an answer that is not about the cluster is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnswerForm {
    /// Lines for people
    Text,
    /// One JSON object
    Json,
}

/// The flag for answers about the cluster.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct OutputArgs {
    /// How the answer is written
    #[arg(short = 'o', long = "output", value_name = "FORM", default_value = "text")]
    pub form: OutputForm,
}
