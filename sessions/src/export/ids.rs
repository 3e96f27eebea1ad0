//! Ids of threads in the forms that tools, file systems and shells accept.

use uuid::Uuid;

/// Returns an id as a UUID: the id itself if it is one, else a UUID that is always the same for the same id.
pub(crate) fn uuid_of(id: &str) -> String {
    // The other forms that the parser accepts, such as one in braces, are not those that tools write.
    let uuid = Uuid::try_parse(id).ok().filter(|_| id.len() == uuid::fmt::Hyphenated::LENGTH);
    uuid.map_or_else(|| Uuid::new_v5(&Uuid::NAMESPACE_OID, id.as_bytes()).to_string(), |_| id.to_owned())
}

/// Returns an id as a part of the name of a file: characters that lead to another folder, or that a file system does
/// not accept, are replaced.
pub(crate) fn file_name_part(id: &str) -> String {
    id.replace(|c: char| c.is_control() || "/\\:*?\"<>|".contains(c), "-")
}

/// The text as one word of a shell command.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@,=".contains(c));
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::{shell_word, uuid_of};

    #[test]
    fn a_text_is_one_word_of_a_command() {
        assert_eq!(shell_word("/a/--b--/c.jsonl"), "/a/--b--/c.jsonl");
        assert_eq!(shell_word("/it's here"), "'/it'\\''s here'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn a_uuid_is_kept_and_any_other_id_always_gets_the_same_uuid() {
        let uuid = "019b9b00-0000-7000-8000-0000000000C0";
        assert_eq!(uuid_of(uuid), uuid);
        assert_eq!(uuid_of("work"), uuid_of("work"));
        assert_ne!(uuid_of("work"), uuid_of("work-2"));
        for id in ["work", "{019b9b00-0000-7000-8000-0000000000c0}", "019b9b0000007000800000000000000c0", ""] {
            assert_eq!(uuid_of(&uuid_of(id)), uuid_of(id), "{id}");
            assert_ne!(uuid_of(id), id);
        }
    }
}
