//! Paths in JSON: as text where they are text, else as their bytes, since a path may be any.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

/// Writes a path.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    match path.to_str() {
        Some(text) => serializer.serialize_str(text),
        None => path.as_os_str().as_bytes().serialize(serializer),
    }
}

/// Reads a path.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(PathBuf),
        Bytes(Vec<u8>),
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::Text(path) => path,
        Written::Bytes(bytes) => OsString::from_vec(bytes).into(),
    })
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Place {
        #[serde(with = "super")]
        path: PathBuf,
    }

    #[test]
    fn any_path_is_read_as_it_was_written() {
        let text = r#"{"path":"/a/é"}"#;
        let place: Place = serde_json::from_str(text).expect("a path");
        assert_eq!(place.path, Path::new("/a/é"));
        assert_eq!(serde_json::to_string(&place).expect("a path"), text);
        let path = OsString::from_vec(b"/a/\xff\"\n".to_vec()).into();
        let place = Place { path };
        let written = serde_json::to_string(&place).expect("a path");
        assert_eq!(serde_json::from_str::<Place>(&written).expect("a path"), place);
    }
}
