//! Suggestions for misspelled names.

/// The largest number of letters that may differ.
const DISTANCE_MAX: usize = 3;

/// The most similar of some names, if one is similar enough.
pub(super) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distances = names.map(|known| (strsim::damerau_levenshtein(name, known), known));
    // A short name may differ in fewer letters.
    let near = DISTANCE_MAX.min(name.len() / 3);
    distances.filter(|(distance, _)| *distance <= near).min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_similar_name_is_suggested() {
        let names = ["listen", "storage", "apps"];
        let nearest = |name| nearest(name, names.into_iter());
        assert_eq!(nearest("listne"), Some("listen"));
        assert_eq!(nearest("storag"), Some("storage"));
        assert_eq!(nearest("app"), Some("apps"));
        assert_eq!(nearest("colour"), None);
        assert_eq!(nearest(""), None);
    }
}
