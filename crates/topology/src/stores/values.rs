//! The connection of a store as services get it: conventional variables and the fields of `inject` templates.

use everdict_contracts::StoreKind;

use super::{MINIO_SECRET, PASSWORD, USER};

/// The connection of a store, as services see it: what `inject` templates may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreValues {
    pub kind: StoreKind,
    /// The store's network alias.
    pub host: String,
    pub port: u16,
}

/// A name in a template that no store has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown field {{{field}}}, expected one of {}", .known.join(", "))]
pub struct UnknownField {
    field: String,
    known: &'static [&'static str],
}

impl StoreValues {
    /// Returns `host:port`.
    pub fn endpoint(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Returns a field's value: empty when it is known but this store has none, `None` when it isn't known.
    pub fn field(&self, name: &str) -> Option<String> {
        if !self.kind.inject_fields().contains(&name) {
            return None;
        }
        let value = match (self.kind, name) {
            (_, "host") => self.host.clone(),
            (_, "port") => self.port.to_string(),
            (_, "endpoint") => self.endpoint(),
            (StoreKind::Postgres, "url") => {
                format!("postgresql://{USER}:{PASSWORD}@{}/{USER}", self.endpoint())
            }
            (StoreKind::Redis, "url") => format!("redis://{}", self.endpoint()),
            (StoreKind::Minio, "url") => format!("http://{}", self.endpoint()),
            (StoreKind::Postgres, "user" | "database") | (StoreKind::Minio, "accessKey") => USER.to_owned(),
            (StoreKind::Postgres, "password") => PASSWORD.to_owned(),
            (StoreKind::Postgres, "userinfo") => format!("{USER}:{PASSWORD}@"),
            (StoreKind::Minio, "secretKey") => MINIO_SECRET.to_owned(),
            _ => String::new(),
        };
        Some(value)
    }

    /// Fills the `{field}` places of a template in one pass, so that a value is never taken for a place.
    ///
    /// # Errors
    /// When a place names no field of this kind of store.
    pub fn render(&self, template: &str) -> Result<String, UnknownField> {
        let mut text = String::with_capacity(template.len());
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            text.push_str(&rest[..open]);
            rest = &rest[open..];
            let letters = rest[1..]
                .find(|c: char| !c.is_ascii_alphabetic())
                .unwrap_or(rest.len() - 1);
            let name = &rest[1..=letters];
            if name.is_empty() || !rest[1 + letters..].starts_with('}') {
                text.push('{');
                rest = &rest[1..];
                continue;
            }
            let value = self.field(name).ok_or_else(|| UnknownField {
                field: name.to_owned(),
                known: self.kind.inject_fields(),
            })?;
            text.push_str(&value);
            rest = &rest[letters + 2..];
        }
        text.push_str(rest);
        Ok(text)
    }

    /// Returns the variables that every service gets, whatever it needs.
    pub fn conventional_env(&self) -> Vec<(&'static str, String)> {
        let url = self.field("url").expect("BUG: every store has a url");
        match self.kind {
            StoreKind::Postgres => vec![("DATABASE_URL", url)],
            StoreKind::Redis => vec![("REDIS_URL", url.clone()), ("REDIS_URI", url)],
            StoreKind::Minio => vec![
                ("AWS_S3_ENDPOINT", url.clone()),
                ("MINIO_ENDPOINT", url),
                ("AWS_ACCESS_KEY_ID", USER.to_owned()),
                ("AWS_SECRET_ACCESS_KEY", MINIO_SECRET.to_owned()),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(kind: StoreKind) -> StoreValues {
        StoreValues {
            kind,
            host: "bu-store".to_owned(),
            port: 7000,
        }
    }

    #[test]
    fn every_field_that_the_schema_allows_has_a_value_or_is_empty() {
        for kind in [StoreKind::Postgres, StoreKind::Redis, StoreKind::Minio] {
            for field in kind.inject_fields() {
                assert!(values(kind).field(field).is_some(), "{kind:?} {field}");
            }
        }
        assert_eq!(values(StoreKind::Redis).field("password").as_deref(), Some(""));
        assert_eq!(values(StoreKind::Minio).field("bucket").as_deref(), Some(""));
    }

    #[test]
    fn templates_are_filled() {
        let render = |kind, template: &str| values(kind).render(template).unwrap();
        assert_eq!(
            render(StoreKind::Postgres, "{url}"),
            "postgresql://everdict:everdict@bu-store:7000/everdict"
        );
        assert_eq!(
            render(
                StoreKind::Postgres,
                "pg://{userinfo}{endpoint}/{database}?u={user}"
            ),
            "pg://everdict:everdict@bu-store:7000/everdict?u=everdict"
        );
        assert_eq!(
            render(StoreKind::Redis, "redis://{userinfo}{host}:{port}/1"),
            "redis://bu-store:7000/1"
        );
        assert_eq!(
            render(StoreKind::Minio, "{accessKey}/{secretKey}"),
            "everdict/everdictsecret"
        );
    }

    #[test]
    fn braces_that_are_no_place_stay() {
        let render = |template: &str| values(StoreKind::Redis).render(template).unwrap();
        assert_eq!(render(r#"{"a":{"b":1}}"#), r#"{"a":{"b":1}}"#);
        assert_eq!(render("{"), "{");
        assert_eq!(render("{host"), "{host");
        assert_eq!(render("{{host}}"), "{bu-store}");
        assert_eq!(render("{ü}{}"), "{ü}{}");
    }

    #[test]
    fn an_unknown_field_is_an_error_that_names_the_known_ones() {
        let error = values(StoreKind::Redis)
            .render("{database}")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("unknown field {database}, expected one of host, port"),
            "{error}"
        );
    }

    #[test]
    fn services_get_the_conventional_variables() {
        let names = |kind| {
            values(kind)
                .conventional_env()
                .into_iter()
                .map(|(name, _)| name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(StoreKind::Postgres), ["DATABASE_URL"]);
        assert_eq!(names(StoreKind::Redis), ["REDIS_URL", "REDIS_URI"]);
        assert_eq!(
            names(StoreKind::Minio),
            [
                "AWS_S3_ENDPOINT",
                "MINIO_ENDPOINT",
                "AWS_ACCESS_KEY_ID",
                "AWS_SECRET_ACCESS_KEY"
            ]
        );
    }
}
