//! `rukpakctl catalog show`: the bundle that the manager would take, by the code that it takes it by.

mod answer;
mod dependencies;
mod upgrades;

use rukpak_catalog::check::{self, Refusal};
use rukpak_catalog::choose::{self, Choice, Request};
use rukpak_catalog::{Bundle, Package, Range, registry};

use self::answer::Answer;
use self::upgrades::Start;
use super::open::Opened;
use super::{missing, package, warn_of_faults};
use crate::answer::print_either;
use crate::args::ShowArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::chain;
use crate::table::count;

struct Selection<'a> {
    request: Request,
    choice: Choice<'a>,
    /// Why it is this one.
    why: String,
    /// What `--from` names.
    from: Option<Start>,
}

pub(super) async fn run(arguments: &ShowArgs) -> Result<Exit, Failure> {
    let opened = Opened::new(&arguments.place, Some(&arguments.package)).await?;
    let package = match package(&opened, &arguments.package) {
        Ok(package) => package,
        Err(why) => return Ok(refused(&opened, arguments, &why)),
    };
    warn_of_faults(package);
    let found = match found(package, arguments) {
        Ok(found) => found,
        Err(why) => return Ok(refused(&opened, arguments, &why)),
    };
    let answer = answer(&opened, package, arguments, found).await;
    let answer = answer.map_err(|error| Failure::unknown(chain(&error)))?;
    let exit = if answer.installable { Exit::Yes } else { Exit::No };
    Ok(print_either(arguments.output, &answer, |out| answer.write(out), exit))
}

fn refused(opened: &Opened, arguments: &ShowArgs, why: &str) -> Exit {
    let exit = missing(opened, &arguments.place, &arguments.package, why).report();
    print_either(arguments.output, &Answer::none(&arguments.package, why), |_| Ok(()), exit)
}

fn found<'a>(package: &'a Package, arguments: &ShowArgs) -> Result<Selection<'a>, String> {
    let request = request(package, arguments)?;
    let (choice, why) = chosen(package, arguments, &request)?;
    let from = arguments.from.as_deref().map(|from| Start::new(package, from, arguments.from_version.as_ref()));
    Ok(Selection { request, choice, why, from: from.transpose()? })
}

/// What spec.package of a PlatformOperator asks for.
fn request(package: &Package, arguments: &ShowArgs) -> Result<Request, String> {
    let range = match &arguments.bundle {
        Some(text) if !package.bundles.contains_key(text) => Some(Range::parse(text).map_err(|error| {
            format!("package {:?} has no bundle {text:?}, and it is no version: {}", package.name, chain(&error))
        })?),
        _ => arguments.range.clone(),
    };
    Ok(Request { channel: arguments.channel.clone(), range })
}

/// The bundle and why it is this one.
fn chosen<'a>(package: &'a Package, arguments: &ShowArgs, request: &Request) -> Result<(Choice<'a>, String), String> {
    let choice = choose::choose(package, request);
    let Some(bundle) = arguments.bundle.as_ref().and_then(|name| package.bundles.get(name)) else {
        return choice.map(|choice| (choice, reason(package, request))).map_err(|error| chain(&error));
    };
    let named = named(package, bundle, request.channel.as_deref())?;
    let why = match &choice {
        Ok(choice) if choice.bundle.name == bundle.name => reason(package, request),
        Ok(choice) => {
            format!("it was named; without that it is {}, {}", choice.bundle.name, reason(package, request))
        }
        Err(error) => format!("it was named; without that there is none: {error}"),
    };
    Ok((named, why))
}

/// The bundle as if it had been chosen.
fn named<'a>(package: &'a Package, bundle: &Bundle, channel: Option<&str>) -> Result<Choice<'a>, String> {
    let channels: Vec<&str> = package.channels_of(&bundle.name).map(|channel| channel.name.as_str()).collect();
    let missing = |channel: &str| {
        let others = if channels.is_empty() { String::new() } else { format!("; it is in {}", channels.join(", ")) };
        format!("bundle {:?} is not in channel {channel:?}{others}", bundle.name)
    };
    match channel.filter(|channel| !channels.contains(channel)) {
        Some(channel) => Err(missing(channel)),
        None => choose::described(package, &bundle.name, channel).ok_or_else(|| missing("")),
    }
}

/// The rule of [`choose::choose`], in words.
fn reason(package: &Package, request: &Request) -> String {
    let of = |channel: &Option<String>| channel.as_ref().map_or(String::new(), |name| format!(" in channel {name:?}"));
    match (&request.channel, &request.range) {
        (Some(channel), None) => format!("the head of channel {channel:?}"),
        (None, None) => format!("the highest version of {}", count(package.bundles.len(), "bundle")),
        (channel, Some(range)) => {
            format!("the highest version in {:?}{}, deprecated ones last", range.as_str(), of(channel))
        }
    }
}

async fn answer<'a>(
    opened: &'a Opened,
    package: &'a Package,
    arguments: &ShowArgs,
    found: Selection<'a>,
) -> Result<Answer, registry::Error> {
    let Selection { request, choice, why, from } = found;
    let facts = opened.facts(package, choice.bundle, choice.channel).await?;
    let bundle = Bundle { facts, ..choice.bundle.clone() };
    let refusal = refusal(&bundle, arguments);
    let upgrades = match from {
        Some(from) => Some(upgrades::of(opened, package, arguments, &request, from).await?),
        None => None,
    };
    let dependencies = dependencies::of(&opened.catalog, package, &choice, &bundle.facts);
    Ok(Answer::new(package, &choice, bundle, why, refusal, dependencies, upgrades))
}

/// Why the manager would not install it.
fn refusal(bundle: &Bundle, arguments: &ShowArgs) -> Option<String> {
    if bundle.image.is_none() {
        return Some("it has no image: its manifests lie in the catalog, and only images can be installed".to_owned());
    }
    match check::check(bundle) {
        Err(Refusal::Dependency { .. }) if arguments.ignore_dependencies => None,
        checked => checked.err().map(|refusal| refusal.to_string()),
    }
}
