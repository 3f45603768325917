//! A line that is a JSON object: its members become key, value and time of expiry.

use super::{PairReader, expiry_of, no_such_type};
use crate::json_text::{Json, Kind};
use crate::keys::{self, ColumnType, KeyEncoder};

impl PairReader {
    pub(super) fn pair_of_object(&mut self) -> Result<(), String> {
        let object = Json::parse(&self.raw)?;
        if object.kind() != Kind::Object {
            return Err("this is no JSON object".to_owned());
        }
        let mut encoder = KeyEncoder::new(&mut self.key, self.types.len());
        for (name, kind) in self.key_names.iter().zip(&self.types) {
            let found = member(object, name)?;
            match found.kind() {
                Kind::Text => keys::push(&mut encoder, kind, found.string()?.as_bytes())?,
                Kind::Number if keys::takes_number(kind) => {
                    keys::push(&mut encoder, kind, found.text().as_bytes())?;
                }
                Kind::Boolean if *keys::text_type(kind) == ColumnType::Bool => {
                    keys::push(&mut encoder, kind, found.text().as_bytes())?;
                }
                other => {
                    let other = other.name();
                    return Err(format!(
                        "member `{name}` is {other}, which is no key of {kind}"
                    ));
                }
            }
        }
        self.expires = match &self.expires_name {
            Some(name) => {
                let found = member(object, name)?;
                match found.kind() {
                    Kind::Text => expiry_of(found.string()?.as_bytes())?,
                    Kind::Null => None,
                    _ => expiry_of(found.text().as_bytes())?,
                }
            }
            None => None,
        };
        self.value.clear();
        match &self.value_name {
            Some(name) => {
                let found = member(object, name)?;
                match found.kind() {
                    Kind::Text => self.value.extend_from_slice(found.string()?.as_bytes()),
                    _ => self.value.extend_from_slice(found.text().as_bytes()),
                }
            }
            None => self.value.extend_from_slice(object.text().as_bytes()),
        }
        Ok(())
    }
}

/// The single member of this name.
fn member<'a>(object: Json<'a>, wanted: &str) -> Result<Json<'a>, String> {
    let mut found = None;
    for (name, value) in object.members() {
        if name.string()? == wanted && found.replace(value).is_some() {
            return Err(format!("member `{wanted}` is there twice"));
        }
    }
    found.ok_or_else(|| match no_such_type(wanted) {
        Some(why) => format!("there is no member `{wanted}`; {why}"),
        None => format!("there is no member `{wanted}`"),
    })
}
