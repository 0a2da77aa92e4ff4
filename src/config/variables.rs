//! Variables that look like configuration and aren't: with an underscore too few they would set nothing, in silence.

use super::auth::AuthOptions;
use super::document::known_keys;
use super::error::Wrong;
use crate::runtime::Limits;
use crate::{telemetry, web};

/// Every variable of Headwater's begins so.
const PREFIX: &str = "HEADWATER_";

/// Refuses `HEADWATER_SERVER_LISTEN`, which means `HEADWATER__SERVER__LISTEN`. Names under `[llm]` and `[agent]` are people's own,
/// so that a variable that looks like one may well be something else.
pub(super) fn expect_two_underscores<'n>(names: impl Iterator<Item = &'n str>) -> Result<(), Wrong> {
    let right = settable();
    for name in names.filter(|name| name.starts_with(PREFIX)) {
        let meant = right.iter().find(|right| *right != name && single(right) == single(name));
        if let Some(meant) = meant {
            let help = Some(format!("did you mean `{meant}`? Sections and keys stand between two underscores"));
            return Err(Wrong { place: None, what: format!("the variable `{name}` sets nothing"), help });
        }
    }
    Ok(())
}

/// The name with single underscores.
fn single(name: &str) -> String {
    name.replace("__", "_")
}

/// The variables of the sections with keys of our own.
fn settable() -> Vec<String> {
    let server = known_keys::<web::Options>().into_iter().chain(Limits::KEYS.iter().map(|&key| key.to_owned())).collect();
    let store = ["kind", "path"].map(str::to_owned).to_vec();
    let sections =
        [("server", server), ("auth", known_keys::<AuthOptions>()), ("store", store), ("log", known_keys::<telemetry::Options>())];
    let variable = |section: &str, key: &str| format!("{PREFIX}_{section}__{key}").to_ascii_uppercase();
    sections.iter().flat_map(|(section, keys)| keys.iter().map(move |key| variable(section, key))).collect()
}
