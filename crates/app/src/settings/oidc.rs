//! How people sign in to a hub of this machine, as the settings have it.

use std::time::Duration;

use everdict_contracts::WorkspaceId;
use everdict_hub::{OidcConfig, Role};
use reqwest::Url;

use super::schema::Values;
use crate::hub_url;

/// Reads the table; without an issuer nobody signs in.
pub(super) fn from_values(values: &Values) -> Option<OidcConfig> {
    let issuer = values.text("oidc.issuer");
    if issuer.is_empty() {
        return None;
    }
    let named = |key: &str| Some(values.text(key)).filter(|text| !text.is_empty());
    let mut config = OidcConfig::new(issuer, values.text("oidc.client_id"));
    config.workspace = WorkspaceId::from(values.text("oidc.workspace"));
    config.role = role(&values.text("oidc.role"));
    config.role_claim = named("oidc.role_claim");
    config.roles = values
        .list("oidc.roles")
        .iter()
        .filter_map(|text| parse_role(text))
        .collect();
    config.workspace_claim = named("oidc.workspace_claim");
    config.key_ttl = Duration::from_secs(values.int("oidc.key_ttl_s"));
    Some(config)
}

/// Reads `value=role`; the value may hold `=` itself.
pub(super) fn parse_role(text: &str) -> Option<(String, Role)> {
    let (value, name) = text.rsplit_once('=')?;
    (!value.is_empty()).then_some((value.to_owned(), role(name)?))
}

/// Whether a provider may live there: where nobody on the way can read or change what it says.
pub(super) fn is_issuer(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else {
        return false;
    };
    let safe = url.scheme() == "https" || url.scheme() == "http" && hub_url::is_loopback(&url);
    safe && url.query().is_none() && url.fragment().is_none()
}

fn role(name: &str) -> Option<Role> {
    [Role::Viewer, Role::Member, Role::Admin]
        .into_iter()
        .find(|role| role.as_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    #[test]
    fn nobody_signs_in_by_default_and_the_table_is_read_in_its_terms() {
        assert_eq!(Settings::parse("settings.toml", "").unwrap().oidc, None);
        let text = "[oidc]\nissuer = \"https://id.example/r/\"\nclient_id = \"app\"\nrole = \"none\"\n\
                    role_claim = \"groups\"\nroles = [\"cn=ops,dc=x=admin\", \"staff=member\"]\n";
        let config = Settings::parse("settings.toml", text).unwrap().oidc.unwrap();
        assert_eq!(
            (config.issuer.as_str(), config.role),
            ("https://id.example/r/", None)
        );
        assert_eq!(
            config.roles,
            [
                ("cn=ops,dc=x".to_owned(), Role::Admin),
                ("staff".to_owned(), Role::Member)
            ]
        );
        assert_eq!(
            (config.workspace_claim, config.key_ttl),
            (None, Duration::from_secs(600))
        );
    }

    #[test]
    fn a_bad_value_names_its_line_and_what_is_allowed() {
        for (line, word) in [
            ("issuer = \"http://id.example\"", "an https:// address"),
            ("issuer = \"https://id.example?x=1\"", "an https:// address"),
            ("role = \"owner\"", "\"none\", \"viewer\""),
            ("roles = [\"staff\"]", "staff=member"),
            ("roles = [\"staff=owner\"]", "staff=member"),
            ("key_ttl_s = 5", "from 60 to 3600"),
        ] {
            let problem = Settings::parse("settings.toml", &format!("[oidc]\n{line}\n")).unwrap_err();
            let text = problem.to_string();
            assert!(
                text.starts_with("settings.toml:2: oidc.") && text.contains(word),
                "{text}"
            );
        }
    }
}
