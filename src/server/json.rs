//! JSON, read so that it means one thing only: a key that stands twice in an object is refused, at any depth.
//!
//! serde_json keeps the last of two equal keys, others the first, so a reader before relay and relay itself may see
//! different messages (<https://www.rfc-editor.org/rfc/rfc8259#section-4>). Knows nothing of JSON-RPC.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::engine::shown;

/// Says that a key stands twice.
fn twice<E: Error>(key: &str) -> E {
    E::custom(format_args!(
        "the key {:?} is given twice; accepted: each key once",
        shown(key)
    ))
}

/// Reads an object into the members of the given names, each as it was written. Other members are passed over, with no key
/// twice in them; who reads what was written sees to that himself.
pub(super) struct Members<const N: usize>(pub [&'static str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Members<N> {
    type Value = [Option<&'de RawValue>; N];

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Members<N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = [None; N];
        let mut keys = Keys::new(self.0);
        while let Some(key) = map.next_key_seed(&mut keys)? {
            match key {
                Some(at) => members[at] = Some(map.next_value()?),
                None => map.next_value_seed(PassedOver)?,
            }
        }
        Ok(members)
    }
}

/// The keys of one object, each of which may come once.
pub(super) struct Keys<'de, const N: usize> {
    names: [&'static str; N],
    named: [bool; N],
    /// Takes no memory while there are none.
    others: BTreeSet<Cow<'de, str>>,
}

impl<const N: usize> Keys<'_, N> {
    /// Begins an object; `names` are those that matter.
    pub fn new(names: [&'static str; N]) -> Self {
        Self {
            names,
            named: [false; N],
            others: BTreeSet::new(),
        }
    }

    /// Takes note of a key if it is one of the names, and returns which.
    fn name<E: Error>(&mut self, key: &str) -> Result<Option<usize>, E> {
        let Some(at) = self.names.iter().position(|name| *name == key) else {
            return Ok(None);
        };
        if std::mem::replace(&mut self.named[at], true) {
            return Err(twice(key));
        }
        Ok(Some(at))
    }

    fn other<E: Error>(&mut self, key: &str, noted: bool) -> Result<Option<usize>, E> {
        if noted { Ok(None) } else { Err(twice(key)) }
    }
}

impl<'de, const N: usize> DeserializeSeed<'de> for &mut Keys<'de, N> {
    /// Which of the names it is, if any.
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for &mut Keys<'de, N> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
        match self.name(key)? {
            Some(at) => Ok(Some(at)),
            None => {
                let noted = self.others.insert(Cow::Borrowed(key));
                self.other(key, noted)
            }
        }
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        match self.name(key)? {
            Some(at) => Ok(Some(at)),
            None => {
                let noted = self.others.insert(Cow::Owned(key.to_owned()));
                self.other(key, noted)
            }
        }
    }
}

/// Reads any value.
pub(super) struct Any;

/// Reads an object.
pub(super) struct Object;

impl<'de> DeserializeSeed<'de> for Any {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> DeserializeSeed<'de> for Object {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            match object.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(map.next_value_seed(Any)?);
                }
                Entry::Occupied(entry) => return Err(twice(entry.key())),
            }
        }
        Ok(object)
    }
}

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(value) = seq.next_element_seed(Any)? {
            array.push(value);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        Object.visit_map(map).map(Value::Object)
    }
}

/// Reads any value, keeps nothing of it, and makes sure that no key stands twice in it.
pub(super) struct PassedOver;

impl<'de> DeserializeSeed<'de> for PassedOver {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PassedOver {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = Keys::new([]);
        while map.next_key_seed(&mut keys)?.is_some() {
            map.next_value_seed(Self)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(json: &str) -> Result<Value, String> {
        let mut reader = serde_json::Deserializer::from_str(json);
        Any.deserialize(&mut reader).map_err(|error| error.to_string())
    }

    fn is_passed_over(json: &str) -> bool {
        let mut reader = serde_json::Deserializer::from_str(json);
        PassedOver.deserialize(&mut reader).is_ok() && reader.end().is_ok()
    }

    fn members(json: &str) -> Result<[Option<String>; 2], String> {
        let mut reader = serde_json::Deserializer::from_str(json);
        match Members(["a", "b"]).deserialize(&mut reader) {
            Ok(members) => Ok(members.map(|member| member.map(|raw| raw.get().to_owned()))),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_value_without_equal_keys_is_read_as_serde_json_reads_it() {
        for json in [
            "null",
            "true",
            "-5",
            "18446744073709551615",
            "1.5e-3",
            r#""a\u00e9\n""#,
            r#"[1,[],{"a":{"b":[{}]}},"x"]"#,
            r#"{"a":1,"A":2,"":3,"b":{"a":null}}"#,
        ] {
            let plain: Value = serde_json::from_str(json).expect("JSON");
            assert_eq!(any(json), Ok(plain), "{json}");
            assert!(is_passed_over(json), "{json}");
        }
    }

    #[test]
    fn two_equal_keys_are_refused_at_any_depth_however_they_are_written() {
        for (json, key) in [
            (r#"{"a":1,"a":1}"#, "a"),
            (r#"{"a":1,"b":2,"\u0061":3}"#, "a"),
            (r#"[{"x":[{"y":{"é":1,"é":2}}]}]"#, "é"),
            (r#"{"":1,"":2}"#, ""),
        ] {
            let error = any(json).expect_err("a key stands twice");
            let reason = format!("the key {key:?} is given twice; accepted: each key once");
            assert!(error.starts_with(&reason), "{error}");
            assert!(!is_passed_over(json), "{json}");
        }
    }

    #[test]
    fn members_are_as_written_and_others_passed_over() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(members("{}"), Ok([None, None]));
        assert_eq!(
            members(r#"{"c":{},"b" : [1, 2],"\u0061":null,"d":1}"#),
            Ok([text("null"), text("[1, 2]")])
        );
    }

    #[test]
    fn a_member_that_stands_twice_is_refused_even_if_it_is_passed_over() {
        for (json, key) in [
            (r#"{"a":1,"b":2,"a":3}"#, "a"),
            (r#"{"a":null,"a":null}"#, "a"),
            (r#"{"c":1,"a":2,"c":1}"#, "c"),
            (r#"{"c":1,"\u0063":1}"#, "c"),
            (r#"{"c":[{"d":1,"d":1}]}"#, "d"),
        ] {
            let error = members(json).expect_err("a key stands twice");
            assert!(
                error.starts_with(&format!("the key {key:?} is given twice")),
                "{error}"
            );
        }
    }
}
