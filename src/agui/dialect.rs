//! The two dialects in the field. May not know what is said in them.

/// How a reader speaks AG-UI. The older clients fail on what they don't know, so each reader gets only what it declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Before 1.0: no cancelled outcome, tool results as strings only, no `file` sources.
    Legacy,
    /// AG-UI 1.0.
    V1,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 2] = [Self::Legacy, Self::V1];

    /// Its number, from 0: the slot of its renderings.
    pub fn index(self) -> usize {
        match self {
            Self::Legacy => 0,
            Self::V1 => 1,
        }
    }

    /// The dialect of a caller that declares `protocolVersion`; older callers declare none.
    pub fn of_version(version: Option<&str>) -> Self {
        let major = version.and_then(|version| version.split('.').next()).and_then(|major| major.parse::<u32>().ok());
        match major {
            Some(1..) => Self::V1,
            Some(0) | None => Self::Legacy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_one_or_later_is_v1_and_everything_else_is_legacy() {
        for (version, dialect) in [
            (Some("1.0"), Dialect::V1),
            (Some("1"), Dialect::V1),
            (Some("1.7"), Dialect::V1),
            (Some("2.0"), Dialect::V1),
            (Some("10.0"), Dialect::V1),
            (Some("0.9"), Dialect::Legacy),
            (Some(""), Dialect::Legacy),
            (Some("next"), Dialect::Legacy),
            (Some("-1.0"), Dialect::Legacy),
            (None, Dialect::Legacy),
        ] {
            assert_eq!(Dialect::of_version(version), dialect, "{version:?}");
        }
    }

    #[test]
    fn each_dialect_has_a_slot_of_its_own() {
        assert_eq!(Dialect::ALL.map(Dialect::index), [0, 1]);
    }
}
