//! Which names are allowed.

use super::limits::NAME_CHARACTERS_MAX;

/// Names with this prefix are reserved for Seriatim.
const RESERVED_PREFIX: &str = "sys.";

/// What is wrong with a name; `None` if nothing is.
pub(super) fn problem(name: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > NAME_CHARACTERS_MAX || !name.bytes().all(allowed) {
        let problem = format!("a name has 1 to {NAME_CHARACTERS_MAX} of the characters A-Z a-z 0-9 . _ -");
        return Some(problem);
    }
    let reserved = name.starts_with(RESERVED_PREFIX);
    reserved.then(|| format!("names that begin with {RESERVED_PREFIX} are reserved: choose another name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_plain_and_not_reserved() {
        let longest = "x".repeat(100);
        for good in ["a", "Invoice-2.line_3", "sys", "system.x", "0", &longest] {
            assert_eq!(problem(good), None, "{good}");
        }
        let longer = "x".repeat(101);
        for bad in ["", " ", "a b", "Grüße", "a/b", &longer] {
            assert_eq!(
                problem(bad).unwrap(),
                "a name has 1 to 100 of the characters A-Z a-z 0-9 . _ -",
                "{bad}"
            );
        }
        assert_eq!(
            problem("sys.Change").unwrap(),
            "names that begin with sys. are reserved: choose another name"
        );
    }
}
