//! What somebody may have meant.

/// Letters that may differ.
const DISTANCE_MAX: usize = 3;

/// The nearest of some names, if one is near.
pub(super) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distances = names.map(|known| (strsim::damerau_levenshtein(name, known), known));
    // In a short word three letters are everything.
    let near = DISTANCE_MAX.min(name.len() / 3);
    distances.filter(|(distance, _)| *distance <= near).min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_suggested() {
        let names = ["listen", "storage", "apps"];
        let nearest = |name| nearest(name, names.into_iter());
        assert_eq!(nearest("listne"), Some("listen"));
        assert_eq!(nearest("storag"), Some("storage"));
        assert_eq!(nearest("app"), Some("apps"));
        assert_eq!(nearest("colour"), None);
        assert_eq!(nearest(""), None);
    }
}
