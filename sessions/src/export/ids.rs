//! Ids of sessions in the formats whose tools expect UUIDs.

use uuid::Uuid;

/// The text itself if it is a UUID, else a UUID that is the same for the same text.
pub(crate) fn uuid_of(text: &str) -> String {
    let uuid = Uuid::try_parse(text).unwrap_or_else(|_| Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()));
    uuid.hyphenated().to_string()
}

#[cfg(test)]
mod tests {
    use super::uuid_of;

    #[test]
    fn a_uuid_stays_and_any_other_text_gets_one() {
        let uuid = "0195f1d2-7a4b-7c3d-8e9f-0a1b2c3d4e5f";
        assert_eq!(uuid_of(uuid), uuid);
        let made = uuid_of("t-42");
        assert_eq!((made.len(), made.as_bytes()[14], uuid_of("t-42") == made), (36, b'5', true));
        assert_ne!(uuid_of("t-43"), made);
    }
}
